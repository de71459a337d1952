"""Open a file, a FIFO or standard input as a Capture, an iterable of Packets, and several as one timeline.

Captures are recognised here, their layers stacked (source, compression, format), and growing files followed. What pcap
and pcapng look like inside is not known here.
"""

import heapq
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dcpdump.capture.damage import Damage, Health
from dcpdump.capture.pcap import HEADER_SIZE, MAGICS, ORDERS, PCAPNG_MAGIC, Pcap, PcapHeader, PcapState, SectionState
from dcpdump.capture.pcapng import HEADER_SIZE as SECTION_HEADER_SIZE
from dcpdump.capture.pcapng import Pcapng, gather
from dcpdump.capture.plain_pcap import PlainRun
from dcpdump.capture.source import ByteSource, SourceWindow, is_regular, open_source, unreadable
from dcpdump.errors import CaptureError
from dcpdump.net.packet import Packet
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted
from dcpdump.tls.secrets import Secrets

if TYPE_CHECKING:
    from dcpdump.capture.compression import Compression


# -- files that are still being written, and those that their writer continues with -------------------
# A followed file has ended when another replaced it: a new file with the same name, the same file truncated, or the
# next of a numbered or dated series. The writer of a ring may delete any of them at any time: an open one is read to
# its end.

#: Seconds between two attempts to read more of a file.
_PAUSE = 0.1

_DUMPCAP = lazy_pattern(r"^(?P<series>.*)_(?P<number>\d{5,})_\d{14}(?P<suffix>\..*)?$")
_NUMBERED = lazy_pattern(r"^(?P<series>.*\D)?(?P<number>\d*)$")
_DATE_DIGITS = 8
_DIGITS = lazy_pattern(r"\d+")


class FollowedFile:
    """A file that may still grow: ``read`` waits for more bytes until the writer goes on elsewhere.

    ``successor`` is then the file to continue with, opened. ``note`` is called when a file was deleted.
    """

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        self.failure = ""
        self.path = path
        self.successor: FollowedFile | None = None
        self.final = False  #: read no more than the present content
        self._note = note
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise unreadable(path, error) from error

    def read(self, size: int, /) -> bytes:
        while True:
            piece = self._file.read(size)
            if piece or self.final or self.successor is not None:
                return piece
            self.successor = self._find_successor()
            if self.successor is None:  # else: read once more, for what was written just before
                time.sleep(_PAUSE)

    def ready(self, seconds: float) -> bool:
        """Wait up to some seconds, and return whether ``read`` would not block."""
        if os.fstat(self._file.fileno()).st_size > self._file.tell() or self.final or self.successor is not None:
            return True
        self.successor = self._find_successor()
        if self.successor is None:
            time.sleep(seconds)
        return self.successor is not None

    def close(self) -> None:
        self._file.close()
        if self.successor is not None:
            self.successor.close()

    def missed(self) -> int:
        """Return how many files of dumpcap's ring were between this one and its successor, and are deleted."""
        names = [os.path.basename(each.path) for each in (self, self.successor) if each is not None]
        numbers = [int(found["number"]) for found in map(_DUMPCAP.match, names) if found]
        return max(0, numbers[1] - numbers[0] - 1) if len(numbers) == 2 else 0

    def _find_successor(self) -> "FollowedFile | None":
        """Return the file with which the writer continues, opened; None while it still writes this one."""
        mine = os.fstat(self._file.fileno())
        if not mine.st_nlink:
            self._note(f"{self.path} was deleted while it was read, and was read to its end")
        candidates = self._next_of_series(mine)
        with suppress(FileNotFoundError, NotADirectoryError):  # moved away or deleted; a new one will come
            now = os.stat(self.path)
            if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < self._file.tell():
                candidates.insert(0, self.path)
        return next(filter(None, map(self._opened, candidates)), None)

    def _opened(self, path: str) -> "FollowedFile | None":
        """Open another file; return None where it was deleted meanwhile."""
        try:
            return FollowedFile(path, self._note)
        except CaptureError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def _next_of_series(self, mine: os.stat_result) -> list[str]:
        """Return the files of the same series that were written to after this one, the earliest first."""
        folder, name = os.path.split(self.path)
        newer = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name == name or not same_series(name, entry.name) or not entry.is_file():
                    continue
                with suppress(FileNotFoundError):  # deleted meanwhile
                    key = (entry.stat().st_mtime_ns, natural_key(entry.name))
                    if key > (mine.st_mtime_ns, natural_key(name)) and entry.stat().st_size:
                        newer.append((*key, entry.path))
        return [each[-1] for each in sorted(newer)]


def same_series(one: str, other: str) -> bool:
    """Return whether two names differ only as one writer's rotated files do.

    These differences are dumpcap's ``_00001_20250101120000``, the number that tcpdump -C appends, or a date.
    """
    ours, theirs = _DUMPCAP.match(one), _DUMPCAP.match(other)
    if ours and theirs:
        return ours.group("series", "suffix") == theirs.group("series", "suffix")
    if len("".join(_DIGITS.findall(one))) >= _DATE_DIGITS and _DIGITS.sub("#", one) == _DIGITS.sub("#", other):
        return True
    ours, theirs = _NUMBERED.match(one), _NUMBERED.match(other)
    return bool(ours and theirs and ours["series"] and ours["series"] == theirs["series"])


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key by which file2 comes before file10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


# -- what a file is that is no capture, by its first bytes, and what to do with it --------------------
# A wrong guess makes a wrong hint, never wrong data.

_HINT_HEX = "dcpdump explain -i FILE"
_HINT_CONVERT = "editcap -F pcapng FILE converted.pcapng"

#: first bytes → what it is, what to try
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x7fELF", "an ELF program", ""),
    (b"MZ", "a Windows program", ""),
    (b"PK\x03\x04", "a ZIP archive", "unzip it, and name the captures inside"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, and name the captures inside"),
    (b"\x1f\x8b", "gzip data", "unpack it, and name the capture inside"),
    (b"\xfd7zXZ\0", "xz data", "unpack it, and name the capture inside"),
    (b"BZh", "bzip2 data", "unpack it, and name the capture inside"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it, and name the capture inside"),
    (b"\x04\x22\x4d\x18", "lz4 data", "unpack it, and name the capture inside"),
    (b"\x02\x21\x4c\x18", "lz4 data in its legacy form", "lz4 -dc FILE | dcpdump read -"),
    (b"snoop\0\0\0", "a snoop capture", _HINT_CONVERT),
    (b"GMBU", "a Network Monitor capture", _HINT_CONVERT),
    (b"RTSS", "a Network Monitor capture", _HINT_CONVERT),
    (b"iptrace ", "an iptrace capture", _HINT_CONVERT),
    (b"btsnoop\0", "a Bluetooth capture", ""),
    (b"%PDF", "a PDF", ""),
    (b"\x89PNG", "a PNG image", ""),
    (b"PAR1", "a Parquet file", ""),
    (b"SQLite format 3\0", "an SQLite database", ""),
    (b"\x80", "raw memcached-binary bytes", _HINT_HEX),
    (b"\x81", "raw memcached-binary bytes", _HINT_HEX),
)

#: The first record of a NetScaler's trace: version 1.0, and later ones.
_NETSCALER = lazy_pattern(rb"netscaler (?:v\d+ )?performance data", re.IGNORECASE)
_HEX_DIGITS = lazy_pattern(rb"(?:0x)?[0-9a-f]{2}(?:[\s:,\-]*(?:0x)?[0-9a-f]{2}){7}", re.IGNORECASE)


def describe(head: bytes) -> tuple[str, str]:
    """Return the name of the kind of file that begins with ``head``, and a hint; both may be ""."""
    for magic, name, hint in _SIGNATURES:
        if head.startswith(magic):
            return name, hint
    if _NETSCALER.search(head):
        return "an nstrace capture", _HINT_CONVERT
    if head[257:262] == b"ustar":
        return "a tar archive", "unpack it, and name the captures inside"
    if not head.strip(b"\0"):
        return "zero bytes", ""
    if not _is_text(head):
        return "unknown bytes, " + " ".join(f"{byte:02x}" for byte in head[:8]), ""
    if _HEX_DIGITS.search(head):
        return "text with hexadecimal bytes", f"did you mean `{_HINT_HEX}`?"
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON text", ""
    return "text", ""


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(head) < 4:  # a character may be cut at the end
            return False
    return not any((byte < 0x20 and byte not in b"\t\n\r\f") or byte == 0x7F for byte in head)


T = TypeVar("T")

_HEAD = 512  #: bytes by which other kinds of files are recognised
_IDLE_S = 0.1  #: seconds of each wait for an idle input


# -- captures -----------------------------------------------------------------------------------------


class CapturePosition(NamedTuple):
    """A position between two packets of a file, from which it can be read on."""

    path: str
    salvage: bool
    offset: int = 0  #: after decompression
    packets: int = 0  #: before it
    reader: PcapState | SectionState | None = None  #: the reader's state; None where a file header follows


class Capture:
    """One capture: iterate over it for its packets; its ``health`` may be read at any time.

    An ordinary file is opened when its packets are requested, so any number of captures can be held; a pipe is open
    from the start, and can be read once. In a ``with`` it is closed at the end.

    ``-`` is standard input. With ``salvage``, reading continues after damage, at the next plausible record. With
    ``follow``, more bytes are awaited at the end of a file, and its writer's next file continues it. ``source`` opens
    the bytes at an offset, where ``path`` is not a path on this machine. The capture's own secrets are added to
    ``secrets``. Raises CaptureError, which names what it is instead of a capture.
    """

    def __init__(
        self,
        path: str,
        *,
        salvage: bool = False,
        follow: bool = False,
        source: Callable[[int], ByteSource] | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self.name = path
        self.health = Health(path)
        self.moved_ns = 0  #: added to its times where it is read in blocks, so that clocks agree
        self._salvage = salvage
        self._follow = follow
        self._source = source
        self._secrets = secrets
        #: Whether it is an ordinary file, which can be read again.
        self.rereadable = not follow and (source is not None or _is_regular(path))
        self._window: SourceWindow | None = None
        self._reader: Pcap | Pcapng | None = None
        self.packed = False  #: it is compressed: to continue at a position, everything before is decompressed
        self._followed: FollowedFile | None = None
        self._state: PcapState | SectionState | None = None  # the state to continue reading from; None: a header
        self._open()
        if secrets is not None and self._window is not None and self._window.peek(4) == PCAPNG_MAGIC:
            if self.rereadable:
                secrets.add_source(self._gather)
            else:
                secrets.growing = True  # a block of secrets may follow the packets that need it
        if self.rereadable:
            self.close()

    @property
    def damage(self) -> list[Damage]:
        """Return the faults found so far, the first thousand of them."""
        return self.health.damage

    @property
    def drops(self) -> int:
        """Return how many packets the capture itself reports as lost while it was taken."""
        return self.health.drops

    def first_time(self) -> int | None:
        """Return the time (ns) of the first packet of an ordinary file; None where there is none."""
        with suppress(CaptureError), Capture(self.name, salvage=self._salvage, source=self._source) as probe:
            return next((packet.ts_ns for packet in probe), None)
        return None

    def __iter__(self) -> Iterator[Packet]:
        self._begin()
        return self.remaining()

    @property
    def arrives_plain(self) -> bool:
        """Return whether it is a plain pcap whose source can tell whether more bytes have come."""
        window = self._window
        header = None if window is None else PcapHeader.of(window.peek(HEADER_SIZE))
        return window is not None and window.arrives and header is not None and header.plain

    def arriving(self, size: int) -> Iterator[PlainRun | None]:
        """Yield runs of a pipe's plain pcap as they arrive, up to a packet that is not plain; None if nothing came.

        ``size``: the most bytes of a run. ``remaining`` yields the packets after them.
        """
        window = self._window
        if window is None or not self.arrives_plain:
            return
        reader, want, sound = Pcap(window, self.health, self._salvage), size, True
        while sound:
            window.gather(want)  # at first there may be records after the header that was read
            run = reader.plain_run()
            self._state = reader.state
            sound = run is not None and run.sound
            if run:
                yield run
            # The next record may be larger than a block; no more than it needs is requested, since it may come slowly.
            want = size if run else len(window.data) + size
            if sound and not window.ready(0):
                yield None
                while not window.ready(_IDLE_S):
                    yield None

    def enter(self, position: CapturePosition) -> None:
        """Continue at a position: ``remaining`` and ``runs`` then yield from there. A pipe goes on where it is."""
        self._begin()
        if not self.rereadable or not position.offset:
            return
        if self.packed and self._window is not None:
            self._window.skip(position.offset)
        else:
            self.close()
            source = self._source(position.offset) if self._source else open_source(self.name, position.offset)
            self._window = SourceWindow(source, position.offset)
        self.health.packets, self._state = position.packets, position.reader

    def remaining(self) -> Iterator[Packet]:
        """Yield the packets not read yet."""
        return self._remaining(lambda reader: reader.packets())

    def runs(self) -> Iterator[Packet | PlainRun]:
        """Yield the packets not read yet, in runs where many were read at once."""
        return self._remaining(lambda reader: reader.runs())

    def read_ahead(self, size: int) -> None:
        """Read blocks of this many bytes from now on, if they are there: a run of packets has no more."""
        if self._window is not None:
            self._window.ahead = size

    def _remaining(self, read: Callable[[Pcap | Pcapng], Iterator[T]]) -> Iterator[T]:
        while True:
            yield from self._packets(read)
            successor = None if self._followed is None else self._leave(self._followed)
            self.close()
            if successor is None:
                break
            self._open(successor)
        if not self.health.packets and not self.health.damage_count:
            self.health.note("the capture holds no packets")

    def _leave(self, followed: FollowedFile) -> FollowedFile | None:
        """Return the file that follows one read to its end, and note files missing between them."""
        successor, missed = followed.successor, followed.missed()
        if successor is not None:
            if missed:
                where = f"between {followed.path} and {successor.path}"
                self.health.hurt(0, 0, f"deleted before being read: {counted(missed, 'file')} {where}")
            self.health.note(f"went on with {successor.path}")
        followed.successor = None
        return successor

    def _begin(self) -> None:
        """Go back to the first packet, where the file can be read again. Changes to the file since then are damage."""
        if self.rereadable:
            self.close()
            self._state = None
            self.health = Health(self.name)
            try:
                self._open()
            except CaptureError as error:
                self.health.hurt(0, 0, f"this capture is not what it was: {error.what}", "all of it")

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Iterating over an ordinary one opens it again."""
        if self._window is not None:
            self._window.close()
            self._window = self._reader = None

    @property
    def enterable(self) -> bool:
        """Return whether it is an ordinary file of this machine that can be entered anywhere: it is not compressed."""
        return self.rereadable and not self.packed and self._source is None

    @property
    def position(self) -> CapturePosition | None:
        """Return the position after the last packet yielded; None at the end, or before the beginning."""
        if self._window is None:
            return None
        state = self._state if self._reader is None else self._reader.state
        return CapturePosition(self.name, self._salvage, self._window.offset, self.health.packets, state)

    def _packets(self, read: Callable[[Pcap | Pcapng], Iterator[T]]) -> Iterator[T]:
        """Yield the packets of the open file: usually of one pcap or pcapng, sometimes of several."""
        window, health = self._window, self.health
        if window is None:
            return
        while True:
            state, self._state = self._state, None
            self._reader = reader = _reader(window, health, self._salvage, self._secrets, state)
            yield from read(reader)
            if not reader.appended:
                break
            if fault := _header_fault(window):
                health.hurt(window.offset, health.packets + 1, fault, "any packet after it")
                break
        if window.failure:
            health.hurt(window.offset, health.packets, window.failure, "everything after it")

    def comments_on(self, packet: Packet) -> tuple[str, tuple[bytes, ...]]:
        """Return the name of a packet's interface, and the packet's comments; of the packet yielded last."""
        reader = self._reader
        return (reader.interface_name(packet.interface), reader.comments) if isinstance(reader, Pcapng) else ("", ())

    def _gather(self) -> None:
        """Collect the secrets of the complete file, wherever they are in it."""
        if self._secrets is not None:
            with suppress(CaptureError), Capture(self.name, salvage=self._salvage, source=self._source) as other:
                if other._window is None:
                    other._open()
                if other._window is not None:
                    gather(other._window, self.name, self._secrets)

    def _open(self, followed: FollowedFile | None = None) -> None:
        """Open the file at its first header. Raises CaptureError, which names what it is instead of a capture."""
        path = self.name if followed is None else followed.path
        if followed is None and self._follow and self._source is None and _is_regular(path):
            followed = FollowedFile(path, self.health.note)
        self._followed = followed
        first = _HEAD if self.rereadable else 0  # a run of packets has no more than what is read
        self._window = SourceWindow(
            self._followed or (self._source(0) if self._source else open_source(path)), ahead=first
        )
        try:
            form = _compression_of(self._window.peek(6))
            self.packed = form is not None
            if form is not None:
                if self._followed is not None:
                    self.health.note(f"{form.name} data is read as it is now, not followed")
                    self._followed.final = True
                    self._followed = None
                self._window.ahead = 0
                self._window = SourceWindow(form.unpack(self._window), ahead=first)
            _refuse_unusable(path, self._window, form.name if form else "")
            self._window.ahead = 0
        except CaptureError:
            self.close()
            raise


def _compression_of(head: bytes) -> "Compression | None":
    """Return the compression of a file with these first bytes."""
    if head[:4] in MAGICS or head[:4] == PCAPNG_MAGIC:
        return None
    from dcpdump.capture.compression import compression_of  # here, as it imports all decompressors

    return compression_of(head)


def looks_like_capture(path: str) -> bool:
    """Return whether a file begins like a capture, compressed or not."""
    try:
        Capture(path).close()
    except CaptureError:
        return False
    return True


def _is_regular(path: str) -> bool:
    try:
        return is_regular(path)
    except OSError as error:
        raise unreadable(path, error) from error


def _reader(
    window: SourceWindow,
    health: Health,
    salvage: bool,
    secrets: Secrets | None,
    state: PcapState | SectionState | None = None,
) -> Pcap | Pcapng:
    """Return the reader for the header at the window, which was checked before, or for the bytes after a ``state``."""
    if isinstance(state, PcapState):
        return Pcap(window, health, salvage, state)
    if state is not None:
        return Pcapng(window, health, salvage, secrets, state)
    if window.peek(4) in MAGICS:
        return Pcap(window, health, salvage)
    return Pcapng(window, health, salvage, secrets)


def _header_fault(window: SourceWindow) -> str:
    """Return the fault of a header whose first four bytes are right; "" without one."""
    size = HEADER_SIZE if window.peek(4) in MAGICS else SECTION_HEADER_SIZE
    if (have := window.need(size)) < size:
        return f"the capture's header is cut short: it has {size} bytes, {have} are there"
    if window.peek(4) == PCAPNG_MAGIC and window.peek(12)[8:] not in ORDERS:
        return "the capture's header says pcapng, but not in which byte order"
    return ""


def _refuse_unusable(path: str, window: SourceWindow, packed: str) -> None:
    """Raise CaptureError unless a capture's header is at the window."""
    magic = window.peek(4)
    if magic in MAGICS or magic == PCAPNG_MAGIC:
        fault, hint = _header_fault(window), ""
    elif magic and any(known.startswith(magic) for known in (*MAGICS, PCAPNG_MAGIC)):
        fault, hint = f"the capture's header is cut short: {len(magic)} bytes are there", ""
    elif not magic and window.failure:
        fault, hint = f"nothing of this {packed} data can be decompressed" if packed else "nothing can be read here", ""
    elif not magic:
        fault, hint = (f"{packed} data with nothing inside" if packed else "this file is empty"), ""
    else:
        what, hint = describe(window.peek(_HEAD))
        if packed:
            what = f"{packed} of {what}"
        fault = f"this is not a capture; it looks like {what}"
    if fault:
        if window.failure:
            fault = f"{fault}; {window.failure}"
        raise CaptureError(fault, path, hint.replace("FILE", path))


# -- one timeline of several captures -----------------------------------------------------------------
# Rotated files follow one another, and concurrent ones overlap; the order within each file is kept. A file is opened
# when the timeline reaches its first packet, and one packet of each open file is held.

#: How many files may be read at the same time; some bytes of each are held. Rotated sets need two. More files that
#: overlap have to be merged before.
OPEN_LIMIT = 1024


def timeline(captures: Sequence[Capture], open_limit: int = OPEN_LIMIT) -> Iterator[Packet]:
    """Yield the packets of all captures in order of (time, file, number), each file in its own order.

    A packet without a time follows the one before it in its file. The captures are closed at the end, or at an error.
    """
    try:
        if len(captures) == 1:
            yield from captures[0]
            return
        opened = set[Capture]()
        each = [_with_keys(capture, opened, open_limit) for capture in captures]
        yield from (packet for _, packet in heapq.merge(*each, key=itemgetter(0)) if packet is not None)
    finally:
        for capture in captures:
            capture.close()


def begin(capture: Capture) -> tuple[int, str]:
    """Return the sort key of a capture in the timeline: its first time (-1 if unknown), and its name."""
    first = capture.first_time() if capture.rereadable else None
    return -1 if first is None else first + capture.moved_ns, capture.name


def too_many_overlap(name: str, open_limit: int) -> CaptureError:
    """Return the error where a file is to be opened and too many are open."""
    what = f"more than {open_limit} captures overlap in time"
    return CaptureError(what, name, "mergecap -w merged.pcapng FILES, and read that")


def _with_keys(
    capture: Capture, opened: set[Capture], open_limit: int
) -> Iterator[tuple[tuple[int, str, int], Packet | None]]:
    """Yield the packets of a capture with their sort keys; before the first, its key alone: then it is opened."""
    key = (*begin(capture), 0)
    yield key, None
    if len(opened) == open_limit:
        raise too_many_overlap(capture.name, open_limit)
    opened.add(capture)
    for packet in capture:
        key = key[0] if packet.ts_ns is None else packet.ts_ns, capture.name, packet.number
        yield key, packet
    capture.close()
    opened.discard(capture)
