"""Copy the records of a capture, with other packets of the same length in them.

Times, lengths and the numbers of blocks are copied byte for byte. Texts of a pcapng (comments, names of hosts, TLS
secrets, custom blocks) may hold anything: they are left out and counted.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import pack, unpack_from

from dcpdump.capture.file import Capture, FollowedFile, T
from dcpdump.capture.pcap import CARVED, DISORDER, HEADER_SIZE, MAGICS, ORDER, ORDERS, PCAPNG_MAGIC, Pcap, PcapHeader
from dcpdump.capture.pcapng import FIXED, INTERFACE, OLD_PACKET, PACKET, SECTION, SIMPLE_PACKET, STATISTICS, Pcapng
from dcpdump.capture.source import CHUNK, ByteSource, SourceWindow

_PACKETS = frozenset((PACKET, OLD_PACKET, SIMPLE_PACKET))
_VERSIONS = ((2, 4), (2, 3))
#: Options that are numbers, with the width of each, by block; and options that name hardware, operating system,
#: application and interface. An interface's description and filter are free text, and not among them.
_NUMBERS: dict[int, dict[int, int]] = {
    SECTION: {},
    INTERFACE: {8: 8, 9: 1, 10: 4, 13: 1, 14: 8},
    PACKET: {2: 4, 4: 8, 5: 8, 6: 4},
    OLD_PACKET: {2: 4},
    STATISTICS: dict.fromkeys((2, 3, 4, 5, 6, 7, 8), 8),
}
_WORDS = {SECTION: frozenset((2, 3, 4)), INTERFACE: frozenset((2, 12, 15))}
_NAMES = {
    4: "name resolution blocks",
    10: "decryption secrets blocks",
    9: "journal blocks",
    0xBAD: "custom blocks",
    0x40000BAD: "custom blocks",
}
_FCS = 4


class Rewriter:
    """A copier that is fed the entries of RawRecords. ``words``: keep the names of interfaces and machines too."""

    def __init__(self, *, words: bool) -> None:
        self.left_out: Counter[str] = Counter()
        self._words = words
        self._pcap: PcapHeader | None = None
        self._order = "<"
        self._begun = False

    def record(self, raw: bytes, data: bytes) -> bytes:
        """Return a packet's record with ``data`` as the packet, and the blocks before it."""
        head, at = self._before(raw, len(raw))
        if self._pcap is not None:
            end = at + self._pcap.record_size
            return head + raw[at:end] + data + _check_sequence(raw[end:], data)
        return head + self._packet(raw[at:], data)

    def rest(self, raw: bytes) -> bytes:
        """Return the blocks after the last packet."""
        head, _ = self._before(raw, len(raw) + 1)
        return head

    def _before(self, raw: bytes, end: int) -> tuple[bytes, int]:
        """Copy the blocks before the one that ends at ``end``; return them, and the offset of that one."""
        out: list[bytes] = []
        at = 0
        while at < len(raw):
            if raw[at : at + 4] in MAGICS and (not self._begun or _is_pcap(raw[at : at + HEADER_SIZE])):
                self._pcap = PcapHeader.read(raw[at : at + HEADER_SIZE])
                out.append(raw[at : at + HEADER_SIZE])
                at += HEADER_SIZE
                self._begun = True
                continue
            self._begun = True
            if raw[at : at + 4] == PCAPNG_MAGIC and raw[at + 8 : at + 12] in ORDERS:
                self._order = ORDERS[raw[at + 8 : at + 12]]
                self._pcap = None
            if self._pcap is not None or at + 12 > len(raw):
                break
            kind, length = unpack_from(self._order + "II", raw, at)
            if length < 12 or at + length >= end or at + length > len(raw):
                break
            out.append(self._block(kind, raw[at + 8 : at + length - 4]))
            at += length
        return b"".join(out), at

    def _block(self, kind: int, body: bytes) -> bytes:
        if kind not in (SECTION, INTERFACE, STATISTICS):
            self.left_out["packets that cannot be read" if kind in _PACKETS else _NAMES.get(kind, "other blocks")] += 1
            return b""
        fixed = body[: FIXED[kind]]
        if kind == SECTION:  # the section's length changes with blocks left out: it is set to "unknown"
            fixed = fixed[:8] + b"\xff" * 8
        return self._framed(kind, fixed + self._options(kind, body[len(fixed) :]))

    def _packet(self, block: bytes, data: bytes) -> bytes:
        kind, length = unpack_from(self._order + "II", block)
        start = 8 + FIXED[kind]
        complete = length <= len(block)
        available = len(block) - start - (4 if complete else 0)
        if kind == SIMPLE_PACKET:
            captured = len(data)
        else:
            (captured,) = unpack_from(self._order + "I", block, start - 8)
        captured = min(captured, available)
        body = data + _check_sequence(block[start : start + captured], data)
        if not complete:
            return block[:start] + body
        body += bytes(-len(body) % 4)
        after = start + len(body)
        body = body[: length - 4 - start]
        options = self._options(kind, block[after:-4]) if kind in _NUMBERS else b""
        return self._framed(kind, block[8:start] + body + options)

    def _framed(self, kind: int, body: bytes) -> bytes:
        length = pack(self._order + "I", 12 + len(body))
        return pack(self._order + "I", kind) + length + body + length

    def _options(self, kind: int, raw: bytes) -> bytes:
        """Return the options to keep. A number of the wrong length may hold anything, and is not kept."""
        words = _WORDS.get(kind, frozenset[int]()) if self._words else frozenset[int]()
        out, at = b"", 0
        while at + 4 <= len(raw):
            code, length = unpack_from(self._order + "HH", raw, at)
            end = at + 4 + length + -length % 4
            if code == 0 or end > len(raw):
                break
            if code == 1 and (said := _carved(raw[at + 4 : at + 4 + length])):
                out += pack(self._order + "HH", 1, len(said)) + said + bytes(-len(said) % 4)
            elif code in words or _NUMBERS[kind].get(code) == length:
                out += raw[at : at + 4 + length] + bytes(-length % 4)
            else:
                self.left_out["comments" if code == 1 else "options"] += 1
            at = end
        return out + bytes(4) if out else b""


def _carved(comment: bytes) -> bytes:
    """Return the part of a carved capture's comment to keep, without other names; nothing of other comments."""
    if not comment.startswith(CARVED.encode()):
        return b""
    return f"{CARVED}: {DISORDER if comment.endswith(DISORDER.encode()) else ORDER}".encode()


def _is_pcap(raw: bytes) -> bool:
    order = MAGICS[raw[:4]][0]
    return len(raw) == HEADER_SIZE and unpack_from(order + "HH", raw, 4) in _VERSIONS


def _check_sequence(captured: bytes, data: bytes) -> bytes:
    """Return the bytes after the packet in its record: a frame check sequence, right if it was right, or zeros."""
    behind = captured[len(data) :]
    if len(behind) == _FCS and zlib.crc32(captured[:-_FCS]).to_bytes(4, "little") == behind:
        return zlib.crc32(data).to_bytes(4, "little")
    return bytes(len(behind))


# -- raw records: packets together with the bytes that hold them --------------------------------------
# Packets come from the usual readers; the bytes that these consume are kept until they are taken.


class _KeptWindow(SourceWindow):
    """A window over another that keeps the bytes read until they are taken, except those skipped as damage."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        self._kept = bytearray()
        self._before = 0  # bytes that were taken or skipped
        self._skipped: int | None = None  # up to where damage was skipped

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Forget the bytes that are skipped inside."""
        self._skipped = self.offset
        try:
            yield
        finally:
            self._forget()
            self._skipped = None

    def pop_bytes(self) -> bytes:
        """Return and forget the bytes that were consumed since the last call."""
        count = self.offset - self._before
        taken = bytes(memoryview(self._kept)[:count])
        del self._kept[:count]
        self._before = self.offset
        return taken

    def _more(self, size: int = CHUNK) -> bytes:
        self._forget()
        piece = super()._more(size)
        self._kept += piece
        return piece

    def _forget(self) -> None:
        if self._skipped is not None:
            start, end = self._skipped - self._before, self.offset - self._before
            del self._kept[start:end]
            self._before += end - start
            self._skipped = self.offset


class RawRecords(Capture):
    """An ordinary file. ``entries`` yields each packet with all bytes since the packet before."""

    def __init__(self, path: str, *, salvage: bool = False) -> None:
        self._kept: _KeptWindow | None = None
        self.rest = b""  #: the bytes after the last packet, once all packets were yielded
        super().__init__(path, salvage=salvage)

    def _packets(self, read: Callable[[Pcap | Pcapng], Iterator[T]]) -> Iterator[T]:
        yield from super()._packets(read)
        self.rest = self.pop_bytes()

    def pop_bytes(self) -> bytes:
        """Return the bytes since the last call, up to the end of the packet yielded last."""
        return self._kept.pop_bytes() if self._kept is not None else b""

    def _open(self, followed: FollowedFile | None = None) -> None:
        super()._open(followed)
        if self._window is not None:
            self._window = self._kept = _KeptWindow(self._window)
