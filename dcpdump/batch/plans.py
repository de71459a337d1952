"""Define plans: layouts that decode a frame from its own bytes alone; and find the plan of a frame.

A plan covers requests that expect no response, with fields at fixed offsets, whose bytes fit the layout exactly and
whose values all have names: nearly all frames of a capture. Any other frame (responses, lists, FlatBuffers, JSON of the
control plane) is left to ``wire.decode``, which shares the protocol table and nothing more.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dcpdump.big_endian import be16, be32
from dcpdump.spec import MESSAGES
from dcpdump.spec.field import MAY, MUST, NEVER, Bits, EnumValue, Field, Layout, Message
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    CLIENT_REQUEST,
    HEADER_LENGTH,
    STREAM_ID_LENGTH,
    STREAM_ID_NOT_COUNTED,
    STREAM_ID_TAG,
)
from dcpdump.spec.names import ACKNOWLEDGE, MOST_DATATYPE, OWN_SEQNO
from dcpdump.wire.session import COLLECTION_MESSAGES
from dcpdump.wire.value import RESERVED_IDS

if TYPE_CHECKING:
    from mypy_extensions import i64

#: Whether a key or a value must be present.
_ABSENT: Final = 0
_PRESENT: Final = 1
_EITHER: Final = 2
#: For a value that consists of fields: this plus their size in bytes.
_FIELDS: Final = 3
_RULES: Final = {NEVER: _ABSENT, MUST: _PRESENT, MAY: _EITHER}
_LONGEST_ID: Final = 5  #: bytes of a 32-bit collection id
_MOST_ID: Final = 0xFFFFFFFF
_FIRST_RESERVED: Final = RESERVED_IDS.start
_LAST_RESERVED: Final = RESERVED_IDS.stop - 1


class Named:
    """A field whose values must have names."""

    def __init__(self, at: int, width: int, unnamed: int, values: frozenset[int] | None = None) -> None:
        self.at: i64 = at  #: in the extras, or in the value
        self.width: i64 = width
        self.unnamed: i64 = unnamed  #: bits without a name
        self.values = values  #: values with a name; None: any

    def accepts(self, data: bytes, start: "i64") -> bool:
        """Return whether the field's value has a name; the extras, or the value, begin at ``start``."""
        at = start + self.at
        value: i64 = data[at]
        if self.width != 1:
            value = be16(data, at) if self.width == 2 else be32(data, at)
        return not value & self.unnamed and (self.values is None or value in self.values)


class Plan:
    """One layout of one message, and its conditions on a frame beside opcode and length of extras."""

    def __init__(self, number: int, message: Message, layout: Layout) -> None:
        self.message = message
        self.layout = layout
        #: The fields of extras and value, in the order of their bytes.
        self.fields = tuple(part for part in (*layout.extras, *layout.parts) if isinstance(part, Field))
        self.value_fields = tuple(part for part in layout.parts if isinstance(part, Field))
        #: The name of the field with the message's own seqno; None where it has none.
        self.own_seqno = next((name for name in OWN_SEQNO if self.has(name)), None)

        self.number: i64 = number
        self.dcp = message.dcp
        self.streamed = message.streamed
        self.document = message.document
        self.keyed = message.collection_key
        #: Only a connection with collections has such a frame.
        self.needs_collections = message.opcode in COLLECTION_MESSAGES or layout.version.startswith("2.2")
        offsets = field_offsets(layout.extras)
        self.seqno_at: i64 = offsets.get("by_seqno", -1)  #: in the extras; -1: nowhere
        self.most_datatype: i64 = MOST_DATATYPE if message.document else 0
        self.tail_at: i64 = offsets[layout.tail] if layout.tail else -1
        self.key: i64 = _RULES[layout.key]
        self.value: i64 = _FIELDS + sum(field.width for field in self.value_fields)
        if not isinstance(layout.value, tuple):
            self.value = _RULES[layout.value]
        self.value_length: i64 = layout.when.get("value_length", -1)  #: -1: any
        self._when = [
            Named(offsets[field.name], field.width, 0, frozenset([layout.when[field.name]]))
            for field in self.fields
            if field.name in offsets and field.name in layout.when
        ]
        self._named = _named(layout.extras)
        self._named_in_value = _named(self.value_fields)

    def has(self, name: str) -> bool:
        """Return whether the layout has a field."""
        return any(field.name == name for field in self.fields)

    def chooses(self, data: bytes, extras: "i64", value_length: "i64") -> bool:
        """Return whether a frame has this layout among those with the same length of extras."""
        if self.value_length >= 0 and self.value_length != value_length:
            return False
        for each in self._when:  # noqa: SIM110 - a generator would take most of the time
            if not each.accepts(data, extras):
                return False
        return True

    def accepts(self, data: bytes, extras: "i64", key: "i64", value: "i64", stop: "i64") -> bool:
        """Return whether key, value and metadata are present as the layout requires, and every value has a name.

        The numbers are offsets in ``data``: of the extras, the key, the value, and the frame's end.
        """
        if (key < value) != (self.key == _PRESENT) and self.key != _EITHER:
            return False
        rule, length = self.value, stop - value
        if rule >= _FIELDS:
            if length != rule - _FIELDS:
                return False
        elif (length > 0) != (rule == _PRESENT) and rule != _EITHER:
            return False
        if self.tail_at >= 0 and be16(data, extras + self.tail_at) > length:
            return False
        for each in self._named:
            if not each.accepts(data, extras):
                return False
        for each in self._named_in_value:  # noqa: SIM110
            if not each.accepts(data, value):
                return False
        return True


def field_offsets(fields: Sequence[Field]) -> dict[str, int]:
    """Return the offsets of fields that lie end to end."""
    return {field.name: sum(before.width for before in fields[:number]) for number, field in enumerate(fields)}


def _named(fields: Sequence[Field]) -> list[Named]:
    """Return those of some fields, which lie end to end, whose values have names."""
    offsets, found = field_offsets(fields), list[Named]()
    for field in fields:
        if isinstance(field.names, Bits):
            named = sum(field.names.names)
            if field.name == "snapshot_type":
                named &= ~ACKNOWLEDGE  # requests with responses are kept in the session
            found.append(Named(offsets[field.name], field.width, (1 << 8 * field.width) - 1 & ~named))
        elif isinstance(field.names, EnumValue) and not field.names.otherwise:
            found.append(Named(offsets[field.name], field.width, 0, frozenset(field.names.names)))
    return found


def _fixed(layout: Layout) -> bool:
    """Return whether the fields have fixed offsets, and nothing in the layout depends on a frame."""
    # The length of a preview's collection name, and the ids of an event, are checked together with the key or with one
    # another.
    parts = (*layout.extras, *layout.parts)
    return all(isinstance(part, Field) and part.name not in ("clen", "event") for part in parts)


def _plans() -> list[Plan]:
    found: list[Plan] = []
    for message in MESSAGES.values():
        if message.replies or message.json or message.secret or not message.known:
            continue
        for length in dict.fromkeys(layout.extras_length for layout in message.request):
            layouts = [layout for layout in message.request if layout.extras_length == length]
            if all(_fixed(layout) and not layout.old for layout in layouts):
                found += [Plan(len(found) + number, message, layout) for number, layout in enumerate(layouts)]
    return found


#: All plans, by number.
PLANS: Final = _plans()


def _candidates() -> list[list[Plan] | None]:
    table: list[list[Plan] | None] = [None] * (256 * 256)
    for plan in PLANS:
        key = plan.message.opcode << 8 | plan.layout.extras_length
        table[key] = [*(table[key] or ()), plan]
    return table


#: By opcode and length of extras: the plans, at most one of which chooses a frame.
_CANDIDATES: Final = _candidates()
#: By the same: messages that some servers write with a stream id, but with a framing length of 0.
_NOT_COUNTED: Final = frozenset(opcode << 8 | length for opcode, length in STREAM_ID_NOT_COUNTED)


def plan_of(data: bytes, start: "i64") -> "i64":
    """Return the number of the plan of the complete frame at ``start``; -1 without one."""
    shape: i64 = data[start + 1] << 8 | data[start + 4]
    candidates = _CANDIDATES[shape]
    if candidates is None:
        return -1
    extras = start + HEADER_LENGTH
    key_length: i64 = 0
    if data[start] == CLIENT_REQUEST:
        key_length = be16(data, start + 2)
    elif data[start] != ALT_CLIENT_REQUEST:
        return -1
    else:
        key_length = data[start + 3]
        if data[start + 2]:
            if data[start + 2] != STREAM_ID_LENGTH or data[extras] != STREAM_ID_TAG:
                return -1
            extras += STREAM_ID_LENGTH
        elif shape in _NOT_COUNTED:
            return -1
    key = extras + data[start + 4]
    value = key + key_length
    stop = start + HEADER_LENGTH + be32(data, start + 8)
    if value > stop:
        return -1
    for plan in candidates:
        if plan.chooses(data, extras, stop - value):
            fits = data[start + 5] <= plan.most_datatype and plan.accepts(data, extras, key, value, stop)
            return plan.number if fits else -1
    return -1


def body_of(data: bytes, start: "i64") -> "i64":
    """Return the offset of a message's extras; its only framing extra may be a stream id."""
    return start + HEADER_LENGTH + (data[start + 2] if data[start] == ALT_CLIENT_REQUEST else 0)


def stream_id(data: bytes, start: "i64") -> "i64":
    """Return the stream id of such a message; 0 without one."""
    tagged = data[start] == ALT_CLIENT_REQUEST and data[start + 2] > 0
    return be16(data, start + HEADER_LENGTH + 1) if tagged else 0


def key_length(data: bytes, start: "i64") -> "i64":
    """Return the length of a request's key."""
    return data[start + 3] if data[start] == ALT_CLIENT_REQUEST else be16(data, start + 2)


def id_length(data: bytes, at: "i64", end: "i64") -> "i64":
    """Return the length of the LEB128 collection id at the start of a key; 0 where it is none of documents."""
    collection: i64 = 0
    size: i64 = 0
    while at + size < end and size < _LONGEST_ID:
        byte: i64 = data[at + size]
        collection |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            if (size > 1 and not byte) or at + size == end or collection > _MOST_ID:
                return 0
            return 0 if _FIRST_RESERVED <= collection <= _LAST_RESERVED else size
    return 0
