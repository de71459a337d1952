"""Define a frame cut out of a stream (RawFrame), and a decoded frame with its fields and problems (Frame)."""

import struct
from bisect import bisect_left
from enum import Enum
from typing import NamedTuple

from dcpdump.spec.field import Blob, Field, FlatTable, Layout, Message
from dcpdump.spec.header import HEADER_LENGTH, MAGICS, Magic
from dcpdump.startup import dataclass, field

_CLASSIC = struct.Struct(">BBHBBHIIQ")
_FLEXIBLE = frozenset(magic.value for magic in MAGICS.values() if magic.flexible)


def magic_of(value: int) -> Magic:
    """Return what a first byte means; an unknown byte is treated as the magic of a classic request without a name."""
    return MAGICS.get(value) or Magic(value, "")


class Span(NamedTuple):
    """Bytes start … end-1 of a frame."""

    start: int
    end: int


class Where(NamedTuple):
    """Where a frame's last byte was captured: the file, the packet's number in it, and the time."""

    packet: int = 0
    ts_ns: int | None = None
    file: str = ""


NOWHERE = Where()


class Header(NamedTuple):
    """The 24 bytes before every body, unpacked."""

    magic: int
    opcode: int
    framing_length: int
    key_length: int
    extras_length: int
    datatype: int
    vbucket_or_status: int  #: of a request its vbucket, of a response its status
    body_length: int
    opaque: int
    cas: int

    @property
    def value_length(self) -> int:
        """Return how many bytes the header's lengths leave for the value; negative where they contradict each other."""
        return self.body_length - self.framing_length - self.extras_length - self.key_length

    @property
    def key_at(self) -> int:
        """Return where in the frame the key begins."""
        return HEADER_LENGTH + self.framing_length + self.extras_length

    @property
    def frame_length(self) -> int:
        """Return the length of the whole frame, as the header says."""
        return HEADER_LENGTH + self.body_length


def unpack_header(data: bytes | bytearray | memoryview, at: int = 0) -> Header:
    """Return the header at ``data[at:at+24]``. The magic may be any byte; raises struct.error when short."""
    magic, opcode, key, extras, datatype, vbucket_or_status, body, opaque, cas = _CLASSIC.unpack_from(data, at)
    if magic in _FLEXIBLE:
        return Header(magic, opcode, key >> 8, key & 0xFF, extras, datatype, vbucket_or_status, body, opaque, cas)
    return Header(magic, opcode, 0, key, extras, datatype, vbucket_or_status, body, opaque, cas)


def pack_header(header: Header) -> bytes:
    """Return the 24 bytes of a header; the inverse of unpack_header."""
    key = header.key_length
    h = header
    if magic_of(h.magic).flexible:
        key |= h.framing_length << 8
    return _CLASSIC.pack(
        h.magic, h.opcode, key, h.extras_length, h.datatype, h.vbucket_or_status, h.body_length, h.opaque, h.cas
    )


@dataclass(frozen=True, slots=True)
class RawFrame:
    """The bytes of one frame, with its decoded header and where it was captured.

    ``data`` may be shorter than the length in the header (the capture ends inside the frame), and may have holes: spans
    of lost bytes, for which zeros stand. ``offset`` counts from the first byte of the direction.
    """

    data: bytes
    header: Header
    offset: int = 0
    where: Where = NOWHERE
    gap_before: int = 0
    holes: tuple[Span, ...] = ()
    confidence: str = ""  #: "low" where a frame after a gap was found on weak evidence

    @classmethod
    def of(cls, data: bytes) -> "RawFrame":
        """Take bytes as one frame, up to the length in its header; fewer than 24 bytes are one too."""
        header = unpack_header(data if len(data) >= HEADER_LENGTH else data.ljust(HEADER_LENGTH, b"\0"))
        return cls(data[: header.frame_length], header)

    @property
    def length(self) -> int:
        """Return the frame's length, as the header says."""
        return self.header.frame_length

    def lost(self, start: int, end: int) -> bool:
        """Return whether any byte of a span is missing."""
        if end > len(self.data) or not self.holes:
            return end > len(self.data)
        # Of the holes that begin before the end, only the last can reach into the span.
        before = bisect_left(self.holes, (end,))
        return before > 0 and start < self.holes[before - 1].end


class Section(Enum):
    """The parts of a frame, in order."""

    HEADER = "header"
    FRAMING = "framing extras"
    EXTRAS = "extras"
    KEY = "key"
    VALUE = "value"
    TAIL = "metadata"
    REST = "unexplained"


class FieldValue(NamedTuple):
    """One field of one frame: its definition, which bytes it covers, its value (None where bytes were lost)."""

    field: Field | Blob
    start: int
    end: int
    value: int | bytes | None
    section: Section
    group: str = ""  #: the Repeat that it belongs to
    item: int = 0  #: which item of that


class Fault(Enum):
    """Kinds of problems of a frame. Code decides by them, and machine output has them."""

    UNKNOWN_MAGIC = "unknown_magic"
    UNKNOWN_OPCODE = "unknown_opcode"
    UNKNOWN_DATATYPE = "unknown_datatype"  #: the datatype has bits without a name
    UNKNOWN_FRAME_INFO = "unknown_frame_info"
    UNKNOWN_VALUE = "unknown_value"  #: a field's number, or bits of it, without a name
    UNKNOWN_LAYOUT = "unknown_layout"  #: lengths and leading extras that no layout of the message has
    LENGTHS_CONTRADICT = "lengths_contradict"  #: in the header: a section is longer than total body allows
    TOO_LARGE = "too_large"  #: more than a server accepts
    MUST_BE_EMPTY = "must_be_empty"
    MUST_BE_PRESENT = "must_be_present"
    WRONG_LENGTH = "wrong_length"  #: in the body: a part has another length than it needs
    LEFT_OVER = "left_over"  #: bytes after everything that the layout explains
    STREAM_ID_NOT_COUNTED = "stream_id_not_counted"  #: a known bug of servers, read as meant
    CUT = "cut"  #: bytes missing at the end, by the length in the header
    LOST = "lost"  #: bytes inside that were not captured
    COLLECTION_ID = "collection_id"  #: a key that does not begin with a proper one
    NOT_SNAPPY = "not_snappy"
    NOT_XATTRS = "not_xattrs"
    NOT_JSON = "not_json"
    NOT_FLATBUFFERS = "not_flatbuffers"


class Problem(NamedTuple):
    """A range of a frame's bytes that contradicts the specification or other bytes, and by how much."""

    code: Fault
    text: str  #: for people; nothing is decided by it
    start: int
    end: int
    needs: int | None = None
    has: int | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame: its message, the layout that it follows, and fields that tile it exactly."""

    raw: RawFrame
    magic: Magic
    message: Message
    layout: Layout
    fields: tuple[FieldValue, ...]
    problems: tuple[Problem, ...] = ()
    hints: tuple[str, ...] = ()
    key: bytes | None = None  #: the key section as it is on the wire, None where the frame has none
    value: bytes | None = None  #: the value section without metadata; of a secret, asterisks
    stream_id: int | None = None
    lookup: dict[str, int] = field(default_factory=dict)  #: extras and fixed value fields by name

    @property
    def header(self) -> Header:
        """Return the frame's header."""
        return self.raw.header

    def get(self, name: str) -> int | None:
        """Return a field of the extras or of a fixed value by name; None where the frame has no such field."""
        return self.lookup.get(name)

    @property
    def unsent(self) -> list[Field]:
        """Return the fields of a FlatBuffers table that have no bytes, because writers leave zeros out."""
        tables = [part for part in self.layout.parts if isinstance(part, FlatTable)]
        sent = {field.field.name for field in self.fields if field.group == "flat"} if tables else set()
        fields = [field for table in tables for field in table.fields if isinstance(field, Field)]
        return [field for field in fields if field.name in self.lookup and field.name not in sent]

    @property
    def masked(self) -> bool:
        """Return whether the value is a credential, or may be one, that was replaced by asterisks."""
        return any(field.group == "secret" for field in self.fields)

    @property
    def value_length(self) -> int:
        """Return how many bytes of value the frame has, metadata excluded."""
        length = self.header.value_length
        if self.layout.tail:
            length -= self.lookup.get(self.layout.tail, 0)
        for problem in self.problems:
            if problem.code is Fault.STREAM_ID_NOT_COUNTED:
                length -= problem.needs or 0
        return max(0, length)
