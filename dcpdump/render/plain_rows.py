"""Read frames one after another as plain values, for those who write many.

A plain frame is whole, a plan took it, and its key and value mean just what they say: nearly all of a capture is. All
others go through the writers for one record. This is for the compiler, and asks NumPy for nothing.
"""

from binascii import hexlify
from typing import TYPE_CHECKING, Final

from dcpdump.batch.ends import Ends
from dcpdump.batch.plans import Plan
from dcpdump.big_endian import be16, be32
from dcpdump.compiled import is_compiled
from dcpdump.iso_time import iso_time
from dcpdump.render.plain_text import shown
from dcpdump.spec.field import Field
from dcpdump.spec.header import ALT_CLIENT_REQUEST, CLIENT_REQUEST, HEADER_LENGTH, STREAM_ID_LENGTH
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.body import DEEP, may_be_deep, open_value
from dcpdump.wire.collection_names import ConnectionNames
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_scan import IS_PLAIN_JSON, judge
from dcpdump.wire.json_text import doubtful_fault, json_fault
from dcpdump.wire.key_prefix import RESERVED_IDS

if TYPE_CHECKING:
    from mypy_extensions import i64

_SECOND_NS: Final = 1_000_000_000
_EXTRAS_LENGTH_AT: Final = 4
_DATATYPE_AT: Final = 5
_VBUCKET_AT: Final = 6
_OPAQUE_AT: Final = 12
_MOST_HIGH: Final = 0x3FFFFFFF  #: the upper half of what a native number holds
_MORE: Final = 0x80  #: in a byte of a collection id: another follows
_LONGEST_ID: Final = 5  #: bytes
_HIGHEST_ID: Final = 0xFFFFFFFF
_FIRST_RESERVED: Final[int] = RESERVED_IDS.start
_FIRST_FREE: Final[int] = RESERVED_IDS.stop
_COMPILED: Final = is_compiled()
#: Bytes that nearly all fields stand in. All digits of so many are written at once, see plain_table.
_USUAL: Final = 64


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
        self.reach = max(at, _USUAL)  #: its fields end there, or before


_LAYOUTS: Final[dict[Plan, tuple[PlainLayout, PlainLayout]]] = {}


def layouts_of(plan: Plan) -> tuple[PlainLayout, PlainLayout]:
    """Return the layouts of a plan: of frames without a stream id, and of those with one."""
    if plan not in _LAYOUTS:
        _LAYOUTS[plan] = (PlainLayout(plan, False), PlainLayout(plan, True))
    return _LAYOUTS[plan]


class PartColumns:
    """A part as lists, with an entry for each of the frames that are wanted, and what all have in common."""

    def __init__(self) -> None:
        self.data = b""
        self.first = 0  #: the number of row 0
        self.plans: list[Plan] = []
        self.files: list[str] = []
        self.places: list[Ends] = []
        self.names: dict[int, ConnectionNames] = {}  #: of collections, by connection
        self.group: list[int] = []  #: which of the plans took it; -1: none, or it is not plain
        self.row: list[int] = []
        self.start: list[int] = []
        self.length: list[int] = []
        self.offset: list[int] = []
        self.gap: list[int] = []
        self.packet: list[int] = []
        self.ts_ns: list[int] = []
        self.file: list[int] = []
        self.place: list[int] = []
        self.split: list[bool] = []  #: whether its key begins with a collection id, where keys do
        self.inferred: list[bool] = []
        self.underlying: list[bool] = []


class PlainRows:
    """Frames of a part, one at a time: what ``load`` found of one stands in the attributes until the next."""

    def __init__(self, columns: PartColumns) -> None:
        self.count = len(columns.row)
        self.places = columns.places
        self._data = columns.data
        self._columns = columns
        self._layouts = [layout for plan in columns.plans for layout in layouts_of(plan)]
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
        self.place = 0
        self.offset = 0
        self.length = 0
        self.gap = 0
        self.layout: PlainLayout = None  # type: ignore[assignment]  # nothing is loaded yet
        self.digits = b""  #: the bytes up to the key in hexadecimal, and perhaps more
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
        columns = self._columns
        self.row = columns.row[at]
        group = columns.group[at]
        if group < 0:
            return False
        data = self._data
        start: i64 = columns.start[at]
        key_length: i64
        if data[start] == CLIENT_REQUEST:
            layout = self._layouts[2 * group]
            key_length = be16(data, start + 2)
        elif data[start + 2] == STREAM_ID_LENGTH:
            layout = self._layouts[2 * group + 1]
            key_length = data[start + 3]
        else:
            return False
        length: i64 = columns.length[at]
        key_at: i64 = HEADER_LENGTH + layout.framing_length + data[start + _EXTRAS_LENGTH_AT]
        self._start = start
        self.layout = layout
        self.key_at = key_at
        self.key_end = key_at + key_length
        self.length = length
        self.value_length = length - self.key_end
        self.datatype = data[start + _DATATYPE_AT]
        self.collection = -1
        self._logical = start + key_at
        self.fault = ""
        self.is_plain = False
        if layout.keyed and columns.split[at] and not self._split_key(start + key_at, key_length):
            return False
        if layout.document and self.value_length:
            if not self._judge_document(columns.underlying[at]):
                return False
        elif layout.has_value:
            self.value = data[start + self.key_end : start + length]
        self.whole_length = len(self.value) if layout.document and self.value_length else self.value_length
        self.digits = hexlify(data[start : start + layout.reach])
        self._take(at)
        return True

    def _take(self, at: "i64") -> None:
        """Take what is known of a frame besides its bytes."""
        columns = self._columns
        self.number = columns.first + self.row
        self.packet = columns.packet[at]
        self.ts_ns = columns.ts_ns[at]
        self.file = columns.files[columns.file[at]]
        self.place = columns.place[at]
        self.offset = columns.offset[at]
        self.gap = columns.gap[at]
        self.inferred = columns.inferred[at]

    def _split_key(self, at: "i64", length: "i64") -> bool:
        """Split the collection id, as LEB128, off the key; return False where it is none that a key has.

        By the rules of ``read_prefix``, without an object for each frame: that is a twentieth of the time of a table.
        """
        data = self._data
        number: i64 = 0
        size: i64 = 0
        byte: i64 = _MORE
        while byte >= _MORE:
            if size in (length, _LONGEST_ID):
                return False
            byte = data[at + size]
            number |= (byte & ~_MORE) << (7 * size)
            size += 1
        if size > 1 and (not byte or number > _HIGHEST_ID):  # a last byte of zero adds nothing: not the shortest form
            return False
        self.collection = number
        self._logical = at + size
        return size < length and not _FIRST_RESERVED <= number < _FIRST_FREE

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
        if self.collection < 0 or not self._columns.names:
            return ""
        names = self._columns.names.get(self.places[self.place].connection)
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
