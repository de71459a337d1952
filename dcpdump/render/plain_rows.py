"""Read frames one after another as plain values, for those who write many.

A plain frame is whole, a plan took it, and its key and value mean just what they say: nearly all of a capture is. All
others go through the writers for one record. This is for the compiler, and asks NumPy for nothing.
"""

from abc import ABC, abstractmethod
from binascii import hexlify
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from dcpdump.batch.plans import PLANS, Plan, key_length
from dcpdump.batch.scan import ID_BITS, ID_MASK, INFERRED, PLAN_BITS, SPLIT, START_BITS, UNDERLYING
from dcpdump.big_endian import be16, be32
from dcpdump.escape import safe
from dcpdump.net.packet import NO_TIME
from dcpdump.spec.field import Field
from dcpdump.spec.header import ALT_CLIENT_REQUEST, CLIENT_REQUEST, HEADER_LENGTH, STREAM_ID_LENGTH
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.startup import is_compiled
from dcpdump.text import iso_time
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_scan import IS_PLAIN_JSON, judge
from dcpdump.wire.json_text import doubtful_fault, json_fault
from dcpdump.wire.value import DEEP, may_be_deep, open_value

if TYPE_CHECKING:
    from mypy_extensions import i64

    from dcpdump.batch.frame_batch import FrameBatch


# -- wire text that is safe to show, as ``escape`` makes it, where nearly all of it is plain ----------

#: What of ASCII can be printed. To delete it and see whether anything is left takes a third of the time of isprintable.
_PLAIN: Final = bytes(range(0x20, 0x7F))
#: How a byte is shown that is a character by itself, or is part of none.
_SHOWN: Final = [safe(bytes([byte])).encode() for byte in range(256)]
#: First bytes of characters of two, three and four bytes.
_FIRST_LEAD: Final = 0xC2
_LEAD_OF_3: Final = 0xE0
_LEAD_OF_4: Final = 0xF0
#: The upper two bits of all other bytes of a character.
_MASK: Final = 0xC0
_FOLLOWS: Final = 0x80


def shown(wire: bytes) -> bytes:
    """Return bytes as text that is safe to show, in UTF-8: as they are, where they are plain."""
    if not wire.translate(None, _PLAIN):
        return wire
    out: list[bytes] = []
    size: i64 = len(wire)
    at: i64 = 0
    while at < size:
        byte: i64 = wire[at]
        if byte >= _FIRST_LEAD:
            char = _character(wire, at, at + (2 if byte < _LEAD_OF_3 else 3 if byte < _LEAD_OF_4 else 4))
            if char:
                out.append(safe(char).encode())
                at += len(char)
                continue
        out.append(_SHOWN[byte])
        at += 1
    return b"".join(out)


def _character(wire: bytes, at: "i64", end: "i64") -> bytes:
    """Return the bytes of the character that is at a place, of more than one; nothing where there is none."""
    # In binary data, the next byte and the last nearly always say that there is none; decoding takes longer.
    if end > len(wire) or wire[at + 1] & _MASK != _FOLLOWS or wire[end - 1] & _MASK != _FOLLOWS:
        return b""
    char = wire[at:end]
    return char if len(char.decode("utf-8", "surrogateescape")) == 1 else b""


def shown_text(wire: bytes) -> str:
    """Return bytes as text that is safe to show."""
    return shown(wire).decode("utf-8")


_SECOND_NS: Final = 1_000_000_000
_EXTRAS_LENGTH_AT: Final = 4
_DATATYPE_AT: Final = 5
_VBUCKET_AT: Final = 6
_OPAQUE_AT: Final = 12
_MOST_HIGH: Final = 0x3FFFFFFF  #: the upper half of what a native number holds
_COMPILED: Final = is_compiled()


class PlainField:
    """A field of a layout, and where it stands: the bytes ``at`` … ``end``-1 of a frame."""

    def __init__(self, field: Field, at: int) -> None:
        self.field = field
        self.width: i64 = field.width
        self.at: i64 = at
        self.end: i64 = at + field.width


class PlainLayout:
    """What plain frames of a plan have in common, all with a stream id (``framed``), or all without."""

    def __init__(self, plan: Plan, framed: bool) -> None:
        self.plan = plan
        self.message = plan.message
        self.framed = framed
        self.magic = ALT_CLIENT_REQUEST if framed else CLIENT_REQUEST
        self.framing_length = STREAM_ID_LENGTH if framed else 0
        self.keyed = plan.message.collection_key
        self.document = plan.message.document
        self.has_value = not plan.value_fields  #: what follows the key is a value, rather than fields
        self.slots: list[PlainField] = []
        at = HEADER_LENGTH + self.framing_length
        for field in plan.fields:  # those of a value too: then there is no key
            self.slots.append(PlainField(field, at))
            at += field.width
        self.reach = at  #: where its fields end
        #: Where the length of what follows the value stands; -1: nothing does.
        self.tail_at: i64 = HEADER_LENGTH + self.framing_length + plan.tail_at if plan.tail_at >= 0 else -1


#: Of each plan the layouts: of frames without a stream id, and of those with one.
_LAYOUTS: Final = [PlainLayout(plan, framed) for plan in PLANS for framed in (False, True)]


class PlainRows:
    """Frames of a batch, one at a time: what ``load`` found of one stands in the attributes until the next."""

    def __init__(self, batch: "FrameBatch", wanted: Sequence[int]) -> None:
        self.count = len(wanted)
        self.directions = batch.directions
        self._data = batch.data
        self._first = batch.first
        self._names = batch.names
        self._files = [safe(file) for file in batch.files]
        # Of each of the frames that are wanted:
        self._wanted = wanted
        names = ("row", "length", "offset", "gap_before", "packet", "ts_ns", "file", "direction", "weak")
        columns: list[list[int]] = batch.lists(names, wanted)
        self._rows, self._lengths, self._offsets, self._gaps = columns[:4]
        self._packets, self._times, self._file_of, self._direction_of, self._weak = columns[4:]
        self._second: int | None = None  # which _clock is the text of
        self._clock = ""
        self._time_ns: int | None = None  # which _time is the text of
        self._time = ""
        self._start = 0
        self._logical = 0  # where the key begins, without its collection id
        self.row = 0
        self.number = 0
        self.packet = 0
        self.ts_ns = 0
        self.file = ""
        self.direction = 0
        self.offset = 0
        self.length = 0
        self.gap = 0
        self.layout: PlainLayout = None  # type: ignore[assignment]  # nothing is loaded yet
        self.digits = b""  #: the bytes of its fields in hexadecimal
        self.datatype = 0
        self.key_at = 0  #: where in the frame its key begins, and ends: there its value begins
        self.key_end = 0
        self.collection = -1  #: -1: none
        self.inferred = False
        self.value_length = 0
        self.whole_length = 0  #: of the value, decompressed
        self.value = b""  #: decompressed
        self.is_plain = False  #: the value is known to be shown as it is
        self.fault = ""  #: why a value that is marked JSON is not

    def load(self, at: "i64") -> bool:
        """Find the values of a frame; return False where it is not plain: then only ``row`` is known."""
        self.row = self._wanted[at]
        row: i64 = self._rows[at]
        plan: i64 = (row >> START_BITS & (1 << PLAN_BITS) - 1) - 1
        if plan < 0 or self._weak[at] or self._times[at] == NO_TIME:
            return False
        data = self._data
        start: i64 = row & (1 << START_BITS) - 1
        framed: i64 = data[start] != CLIENT_REQUEST
        if framed and data[start + 2] != STREAM_ID_LENGTH:
            return False
        layout = _LAYOUTS[2 * plan + framed]
        key_at: i64 = HEADER_LENGTH + layout.framing_length + data[start + _EXTRAS_LENGTH_AT]
        key_end: i64 = key_at + key_length(data, start)
        length: i64 = self._lengths[at]
        if layout.tail_at >= 0 and be16(data, start + layout.tail_at):
            return False
        self._start = start
        self.layout = layout
        self.key_at = key_at
        self.key_end = key_end
        self.length = length
        self.value_length = length - key_end
        self.datatype = data[start + _DATATYPE_AT]
        self.collection = -1
        self._logical = start + key_at
        self.fault = ""
        self.is_plain = False
        if layout.keyed and row & SPLIT and key_end > key_at:
            size: i64 = row >> ID_BITS & ID_MASK
            if not size:
                return False
            collection: i64 = 0
            for number in range(size):
                collection |= (data[start + key_at + number] & 0x7F) << (7 * number)
            self.collection = collection
            self._logical += size
        if layout.document and self.value_length:
            if not self._judge_document(row & UNDERLYING > 0):
                return False
        elif layout.has_value:
            self.value = data[start + key_end : start + length]
        self.whole_length = len(self.value) if layout.document and self.value_length else self.value_length
        self.digits = hexlify(data[start : start + layout.reach])
        self.number = self._first + self.row
        self.packet = self._packets[at]
        self.ts_ns = self._times[at]
        self.file = self._files[self._file_of[at]]
        self.direction = self._direction_of[at]
        self.offset = self._offsets[at]
        self.gap = self._gaps[at]
        self.inferred = row & INFERRED > 0
        return True

    def _judge_document(self, underlying: bool) -> bool:
        """Find the document of a value, and whether it is the JSON that it is marked as.

        Return False where the datatype says more of it, or less. ``underlying``: it may be about bytes that are not
        there.
        """
        begin: i64 = self._start + self.key_end
        end: i64 = self._start + self.length
        datatype = self.datatype
        if datatype & XATTR:
            return False
        value = self._data[begin:end]
        self.value = value
        if datatype & SNAPPY:
            body = open_value(value, datatype)
            self.value = body.value
            for code, fault in body.faults:
                self.fault = fault
                if code is not Fault.NOT_JSON:
                    return False
        elif datatype & JSON and not _COMPILED:
            self.fault = json_fault(value)
        elif datatype & JSON:
            judgement = judge(value)
            self.is_plain = judgement == IS_PLAIN_JSON
            if not judgement:
                self.fault = doubtful_fault(value)
        if datatype & JSON and len(self.value) > DEEP and may_be_deep(self.value):
            return False
        return not (self.fault and underlying)

    @property
    def vbucket(self) -> int:
        """Return the vbucket of the frame."""
        return be16(self._data, self._start + _VBUCKET_AT)

    @property
    def opaque(self) -> int:
        """Return its opaque."""
        return be32(self._data, self._start + _OPAQUE_AT)

    @property
    def stream_id(self) -> int:
        """Return its stream id, where the layout has one."""
        return be16(self._data, self._start + HEADER_LENGTH + 1)

    def wire(self, at: "i64", end: "i64") -> bytes:
        """Return the bytes ``at`` … ``end``-1 of the frame."""
        return self._data[self._start + at : self._start + end]

    @property
    def wire_key(self) -> bytes:
        """Return its key as it was sent."""
        return self.wire(self.key_at, self.key_end)

    def hex_text(self, at: "i64", end: "i64") -> str:
        """Return the bytes ``at`` … ``end``-1 in hexadecimal."""
        return self.digits[2 * at : 2 * end].decode("ascii")

    def field(self, slot: PlainField) -> int:
        """Return the value of a field."""
        data = self._data
        at: i64 = self._start + slot.at
        if slot.width == 4:
            return be32(data, at)
        if slot.width == 8:
            high = be32(data, at)
            if high > _MOST_HIGH:
                return int.from_bytes(data[at : at + 8], "big")
            return high << 32 | be32(data, at + 4)
        return be16(data, at) if slot.width == 2 else data[at]

    def shown_of_value(self, head: bytes) -> bytes:
        """Return the beginning of the value, or all of it, as text that is safe to show, in UTF-8."""
        return head if self.is_plain else shown(head)

    @property
    def key(self) -> bytes:
        """Return its key without a collection id."""
        return self._data[self._logical : self._start + self.key_end]

    def collection_name(self) -> str:
        """Return the name of its collection as known at this frame; empty where it is not."""
        if self.collection < 0 or not self._names:
            return ""
        names = self._names.get(self.directions[self.direction].connection)
        return "" if names is None else names.path(self.collection, self.number) or ""

    def time_text(self) -> str:
        """Return the time as ISO 8601 has it. Frames that follow one another are often of one packet, or one second."""
        ts_ns = self.ts_ns
        if ts_ns != self._time_ns:
            self._time_ns, self._time = ts_ns, self._new_time(ts_ns)
        return self._time

    def _new_time(self, ts_ns: int) -> str:
        second = ts_ns // _SECOND_NS
        if second != self._second:
            self._clock, point, _ = iso_time(second * _SECOND_NS).partition(".")
            if not point:  # no date that a calendar has
                return iso_time(ts_ns)
            self._second = second
        ns = ts_ns - second * _SECOND_NS
        return f"{self._clock}.{_with_zeros(ns, 9) if ns % 1000 else _with_zeros(ns // 1000, 6)}Z"


def _with_zeros(number: int, digits: int) -> str:
    """Return a number with zeros before it."""
    text = str(number)
    return text if len(text) == digits else text.zfill(digits)


# -- writers of the frames of a batch, plain or not ----------------------------------------------------

#: Pieces that are joined at once: no more than the processor's cache still has.
_MOST_PIECES: Final = 1_024


class PlainWriter(ABC):
    """Writes plain frames in one format."""

    def text(self, frames: PlainRows, other: Callable[[int], bytes]) -> bytes:
        """Return the text of frames as UTF-8. ``other`` returns that of a row that is no plain frame."""
        self.begin(frames)
        texts: list[bytes] = []
        out: list[bytes] = []
        for at in range(frames.count):
            if frames.load(at):
                self.write(frames, out)
            else:
                out.append(other(frames.row))
            if len(out) >= _MOST_PIECES:
                texts.append(b"".join(out))
                out = []
        texts.append(b"".join(out))
        return b"".join(texts)

    def begin(self, frames: PlainRows) -> None:  # noqa: B027 - some have nothing to prepare
        """Prepare for the frames of a batch."""

    @abstractmethod
    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the text of the frame that is loaded, as UTF-8, in as many pieces as is fast."""


# -- text of fields that is kept for frames with the same bytes, as those of flags and times often are

_WIDEST: Final = 8  #: bytes of a number that is seldom the same twice: a seqno, an identity
_MOST: Final = 1_024


class FieldTexts(ABC):
    """The text of fields that stand side by side, in one format. ``begins``: what stands before the value of each."""

    def __init__(self, slots: list[PlainField], begins: list[str]) -> None:
        self._at = slots[0].at
        self._end = slots[-1].end
        self._slots = list(zip(slots, begins, strict=True))
        self._keeps = slots[0].width != _WIDEST
        self._wire = b""  # of the frame before, which often has the same
        self._text = b""
        self._known: dict[bytes, bytes] = {}

    def text(self, frames: PlainRows) -> bytes:
        """Return the text of the fields of the frame that is loaded, as UTF-8."""
        wire = frames.wire(self._at, self._end)
        if wire != self._wire:
            self._wire, self._text = wire, self._kept(frames, wire) if self._keeps else self._made(frames)
        return self._text

    def _kept(self, frames: PlainRows, wire: bytes) -> bytes:
        """Return the text of these bytes of the frame that is loaded, made once."""
        known = self._known.get(wire)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[wire] = self._made(frames)
        return known

    def _made(self, frames: PlainRows) -> bytes:
        return "".join([self.made(begin, slot.field, frames.field(slot)) for slot, begin in self._slots]).encode()

    @abstractmethod
    def made(self, begin: str, field: Field, number: int) -> str:
        """Make the text of a number of a field."""


def side_by_side(slots: list[PlainField]) -> list[list[PlainField]]:
    """Return fields in groups whose text is cached together; a field that seldom repeats has its own group."""
    groups: list[list[PlainField]] = []
    for slot in slots:
        if groups and slot.width != _WIDEST and groups[-1][0].width != _WIDEST:
            groups[-1].append(slot)
        else:
            groups.append([slot])
    return groups
