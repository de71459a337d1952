"""Cut the bytes of a direction into TLS records, and read messages of handshakes. Knows no keys; never raises."""

import re
from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final, NamedTuple

from dcpdump.net.event import Seen
from dcpdump.startup import dataclass, field

# -- records of one direction -------------------------------------------------------------------------
# A hole inside a record's body damages that record alone. After a lost header, a header is searched whose record is
# followed by another header; a key then proves it.

#: The types of records.
CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKES: Final = 22
DATA: Final = 23
_TYPES: Final = frozenset(range(20, 25))
HEAD: Final = 5
#: The longest legal body.
LONGEST: Final = (1 << 14) + 2_048
_HEADER: Final = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")
_NOWHERE: Final = Seen(0, None)
#: About how many bytes of memory the entry of a packet takes.
_MARK: Final = 256


class TlsRecord(NamedTuple):
    """A TLS record as captured; zeros stand for lost bytes of its body, which are listed in ``holes``."""

    offset: int  #: of its header, in its direction
    head: bytes
    body: bytes
    holes: tuple[tuple[int, int], ...]  #: in the body
    seen: Seen
    cut: bool = False  #: the input ends in it

    @property
    def end(self) -> int:
        """Return the offset of its end in its direction."""
        return self.offset + HEAD + len(self.body)

    @property
    def kind(self) -> int:
        """Return the type in its header."""
        return self.head[0]

    @property
    def there(self) -> int:
        """Return how many of its bytes were captured."""
        return HEAD + len(self.body) - sum(end - start for start, end in self.holes)


def plausible(data: bytes | bytearray, at: int) -> bool:
    """Return whether a record's header may begin at ``at``, judged by the bytes that are there."""
    if len(data) - at < HEAD:
        return len(data) <= at or (data[at] in _TYPES and data[at + 1 : at + 2] in (b"", b"\3"))
    length = data[at + 3] << 8 | data[at + 4]
    return data[at] in _TYPES and data[at + 1] == 3 and data[at + 2] <= 4 and length <= LONGEST


def is_hello(data: bytes) -> bool:
    """Return whether bytes begin with the hello of a client or a server."""
    return len(data) >= HEAD + 1 and data[0] == HANDSHAKES and plausible(data, 0) and data[HEAD] in (1, 2)


class RecordCutter:
    """A cutter that is fed bytes and gaps; ``next`` returns records, ``skipped`` counts bytes of none."""

    __slots__ = ("_at", "_data", "_final", "_holes", "_marks", "_tried", "chained", "offset", "searching", "skipped")

    def __init__(self, offset: int = 0, *, searching: bool = False) -> None:
        self.offset = offset  #: of the first held byte
        self._data = bytearray()
        self._at = 0  # how many of the held bytes are in records returned already
        self._holes: list[tuple[int, int]] = []  # in the data
        self._marks: list[tuple[int, Seen]] = []  # the packet that brought the bytes up to an offset
        self._tried = 0  # the offset in the data at which the search continues
        self._final = False
        self.searching = searching
        self.skipped = 0
        self.chained = 0  #: records cut in sequence since the last search

    @property
    def held(self) -> int:
        """Return how many bytes wait for the rest of a record, lost ones included."""
        return len(self._data) - self._at

    @property
    def weight(self) -> int:
        """Return how many bytes of memory they take."""
        return self.held + _MARK * len(self._marks) if self.held else 0

    @property
    def steady(self) -> bool:
        """Return whether the held bytes are the beginning of a record, without a hole."""
        return not (self.searching or self._holes)

    def feed(self, data: bytes, seen: Seen) -> None:
        """Take the next bytes."""
        if self._at:
            self._tidy()
        self._data += data
        self._marks.append((self.offset + len(self._data), seen))

    def pop_pending(self) -> bytes:
        """Return the held bytes of a ``steady`` cutter, for the caller to read; the rest returns by ``give_back``."""
        held = bytes(memoryview(self._data)[self._at :])
        self.offset += self._at + len(held)
        self._data, self._at = bytearray(), 0
        self._marks.clear()
        return held

    def give_back(self, offset: int, rest: bytes, seen: Seen, passed: int) -> None:
        """Continue at an offset with ``rest``; ``passed``: how many records the caller has cut before it."""
        self.offset, self._data, self._at = offset, bytearray(rest), 0
        self._marks = [(offset + len(rest), seen)] if rest else []
        self.chained += passed

    def gap(self, length: int | None, seen: Seen) -> TlsRecord | None:
        """Note a loss; return the record whose end it takes. Call it when ``next`` returns None.

        After a loss of unknown length the offsets continue as if it were 0.
        """
        self._tidy()
        have = len(self._data)
        if self.searching or have < HEAD:
            self._lose(length or 0, at_boundary=not have and length == 0)
            return None
        end = HEAD + (self._data[3] << 8 | self._data[4])
        if length is not None and have + length < end:
            self._holes.append((have, have + length))
            self._data += bytes(length)
            self._marks.append((self.offset + len(self._data), seen))
            return None
        self._holes.append((have, end))
        self._data += bytes(end - have)
        self._marks.append((self.offset + end, seen))
        record = self._record(0, end, cut=length is None)
        rest = 0 if length is None else have + length - end
        if rest or length is None:
            self._lose(rest, at_boundary=False)
            if length is None:
                self.offset -= end - have
        return record

    def close(self) -> None:
        """End the input: ``next`` returns an incomplete record with a hole up to its end."""
        self._final = True

    def last_found(self) -> TlsRecord | None:
        """Return a record that ends with the held bytes, while a header is searched and a loss follows."""
        if not self.searching:
            return None
        self._final = True
        found = self.next()
        self._final = False
        return found

    def next(self) -> TlsRecord | None:
        """Return the next record; None if more bytes are needed."""
        data = self._data
        while True:
            if self.searching and not self._find():
                return None
            have = len(data) - self._at
            if have < HEAD:
                if self._final and have:
                    self._skip(have)
                return None
            if not plausible(data, self._at):
                self._skip(1)
                self._begin_search()
                continue
            end = HEAD + (data[self._at + 3] << 8 | data[self._at + 4])
            if have < end:
                return self._last(have, end) if self._final else None
            return self._record(self._at, self._at + end)

    def give_up(self) -> None:
        """Release the memory: skip the held bytes."""
        if self.held:
            self._lose(0, at_boundary=False)

    # -- the pieces -------------------------------------------------------------------------------------

    def _record(self, start: int, stop: int, *, cut: bool = False) -> TlsRecord:
        data, offset = self._data, self.offset + start
        body = bytes(memoryview(data)[start + HEAD : stop])
        holes: tuple[tuple[int, int], ...] = ()
        if self._holes:
            body_at = start + HEAD
            holes = tuple((a - body_at, b - body_at) for a, b in self._holes if b <= stop)
            self._holes = [hole for hole in self._holes if hole[1] > stop]
        record = TlsRecord(offset, bytes(data[start : start + HEAD]), body, holes, self._where(self.offset + stop), cut)
        self._at = stop
        self.chained += 1
        return record

    def _last(self, have: int, end: int) -> TlsRecord:
        """Return the incomplete record at the end of the input."""
        self._holes.append((self._at + have, self._at + end))
        self._data += bytes(end - have)
        return self._record(self._at, self._at + end, cut=True)

    def _where(self, offset: int) -> Seen:
        marks = self._marks
        if len(marks) > 1:
            del marks[: min(bisect_left(marks, offset, key=itemgetter(0)), len(marks) - 1)]
        return marks[0][1] if marks else _NOWHERE

    def _tidy(self) -> None:
        """Forget the bytes of records that were returned."""
        at = self._at
        if at:
            del self._data[:at]
            self.offset += at
            self._tried = max(self._tried - at, 0)
            self._holes = [(start - at, end - at) for start, end in self._holes if end > at]
            del self._marks[: bisect_right(self._marks, self.offset, key=itemgetter(0))]
            self._at = 0

    def _skip(self, count: int) -> None:
        lost = sum(max(0, min(end, self._at + count) - max(start, self._at)) for start, end in self._holes)
        self.skipped += count - lost
        self._at += count

    def _lose(self, length: int, *, at_boundary: bool) -> None:
        self._skip(self.held)
        self._tidy()
        self.offset += length
        self._holes.clear()
        self._marks.clear()
        if not at_boundary:
            self._begin_search()

    def _begin_search(self) -> None:
        self.searching = True
        self.chained = 0
        self._tried = self._at

    def _find(self) -> bool:
        """Move to a header whose record is followed by another, or by the end of the input."""
        data = self._data
        while True:
            found = _HEADER.search(data, max(self._tried, self._at))
            if found is None:
                keep = 0 if self._final else min(2, len(data) - self._at)
                self._skip(len(data) - keep - self._at)
                self._tried = self._at
                return False
            at = found.start()
            self._skip(at - self._at)
            self._tried = at
            if len(data) - at < HEAD and not self._final:
                return False
            if len(data) - at >= HEAD and plausible(data, at):
                stop = at + HEAD + (data[at + 3] << 8 | data[at + 4])
                if len(data) < stop + 3 and not (self._final and len(data) == stop):
                    if not self._final:
                        return False
                elif plausible(data, stop):
                    self.searching = False
                    return True
            self._tried = at + 1
            if self._final and len(data) - at < HEAD:
                self._skip(len(data) - at)
                return False


# -- messages of a handshake, as far as records and names need them -----------------------------------

CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
NEW_SESSION_TICKET: Final = 4
END_OF_EARLY_DATA: Final = 5
ENCRYPTED_EXTENSIONS: Final = 8
TLS_1_3: Final = 0x0304
#: The random of a server hello that requests another client hello.
RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

_SERVER_NAME, _ENCRYPT_THEN_MAC, _TICKET, _EARLY_DATA, _VERSIONS = 0, 22, 35, 42, 43
#: A longer message is not needed, and not kept.
_LONGEST: Final = 64 * 1024


@dataclass(slots=True)
class ClientHello:
    """The content of a client hello."""

    random: bytes
    session: bytes
    ticket: bytes = b""
    early: bool = False  #: early data follows before the server's answer
    server_name: str = ""


@dataclass(slots=True)
class ServerHello:
    """The content of a server hello."""

    random: bytes
    session: bytes
    suite: int
    version: int
    etm: bool = False  #: the MAC is outside the encryption

    @property
    def retry(self) -> bool:
        """Return whether it requests another client hello."""
        return self.random == RETRY


@dataclass(slots=True)
class HandshakeMessages:
    """An assembler of handshake messages, which may span records. A loss drops the message in progress."""

    held: bytes = b""
    passing: int = field(default=0)  #: bytes left of a message that is not kept

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Add the text of a record, and return the messages that it completes: type and body."""
        if self.passing:
            passed = min(self.passing, len(data))
            self.passing -= passed
            data = data[passed:]
        data = self.held + data
        found, at = [], 0
        while len(data) - at >= 4:
            length = int.from_bytes(data[at + 1 : at + 4], "big")
            end = at + 4 + length
            if end > len(data) and length > _LONGEST:
                self.passing = end - len(data)
                at = len(data)
                break
            if end > len(data):
                break
            found.append((data[at], data[at + 4 : end]))
            at = end
        self.held = data[at:]
        return found

    def lose(self) -> None:
        """Note that bytes were lost: assume that the next record begins a message."""
        self.held, self.passing = b"", 0


class _Reader:
    """A reader of numbers and vectors; missing ones are 0, or empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def read(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.read(size), "big")

    def vector(self, size: int) -> bytes:
        return self.read(self.number(size))

    def extensions(self) -> dict[int, bytes]:
        inner, found = _Reader(self.vector(2)), {}
        while inner:
            kind = inner.number(2)
            found[kind] = inner.vector(2)
        return found


def client_hello(body: bytes) -> ClientHello | None:
    """Read a client hello; None if it is too short."""
    if len(body) < 35:
        return None
    reader = _Reader(body[2:])
    random, session = reader.read(32), reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    extensions = reader.extensions()
    names = _Reader(_Reader(extensions.get(_SERVER_NAME, b"")).vector(2))
    name = names.vector(2) if names.number(1) == 0 else b""
    return ClientHello(
        random, session, extensions.get(_TICKET, b""), _EARLY_DATA in extensions, name.decode("ascii", "replace")
    )


def server_hello(body: bytes) -> ServerHello | None:
    """Read a server hello; None if it is too short."""
    if len(body) < 37:
        return None
    reader = _Reader(body)
    legacy, random, session, suite = reader.number(2), reader.read(32), reader.vector(1), reader.number(2)
    reader.read(1)
    extensions = reader.extensions()
    chosen = extensions.get(_VERSIONS, b"")
    version = int.from_bytes(chosen, "big") if len(chosen) == 2 else legacy
    return ServerHello(random, session, suite, version, _ENCRYPT_THEN_MAC in extensions)


def accepts_early_data(body: bytes) -> bool:
    """Return whether the server accepts the client's early data, by its encrypted extensions."""
    return _EARLY_DATA in _Reader(body).extensions()


def ticket_of(body: bytes) -> bytes:
    """Return the session ticket of a server of TLS 1.2."""
    return _Reader(body[4:]).vector(2)
