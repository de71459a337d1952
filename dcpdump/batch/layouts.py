"""Plans: layouts of the protocol table compiled to NumPy types, and which frames they can take.

A plan takes requests that expect no answer and have fields at fixed places: what nearly all of a capture
is. Everything else (responses, lists, FlatBuffers, JSON of the control plane) is left to the decoder for
one frame, which shares the table and nothing more.
"""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from dcpdump.batch.gather import Array, records_at
from dcpdump.quick_dataclass import dataclass
from dcpdump.spec import MESSAGES
from dcpdump.spec.field import MUST, NEVER, Bits, EnumValue, Field, Layout, Message
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    CLIENT_REQUEST,
    HEADER_LENGTH,
    MAGICS,
    STREAM_ID_LENGTH,
    STREAM_ID_NOT_COUNTED,
    STREAM_ID_TAG,
)
from dcpdump.spec.names import ACKNOWLEDGE, OWN_SEQNO

HEADER = np.dtype(
    [
        ("magic", "u1"),
        ("opcode", "u1"),
        ("key", ">u2"),
        ("extras", "u1"),
        ("datatype", "u1"),
        ("word", ">u2"),
        ("body", ">u4"),
        ("opaque", ">u4"),
        ("cas", ">u8"),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One layout of one message: the types of its extras and of its value, where that has fields."""

    message: Message
    layout: Layout
    extras: np.dtype[Any]
    value: np.dtype[Any] | None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of extras and value, in the order of their bytes."""
        return tuple(part for part in (*self.layout.extras, *self.layout.parts) if isinstance(part, Field))

    def has(self, name: str) -> bool:
        """Return whether the layout has a field."""
        return any(field.name == name for field in self.fields)

    @property
    def own_seqno(self) -> str | None:
        """The name of the field with the message's own seqno; None where it has none."""
        return next((name for name in OWN_SEQNO if self.has(name)), None)


@cache
def dtype_of(fields: tuple[Field, ...]) -> np.dtype[Any]:
    """Compile fields that lie end to end to a big-endian type."""
    return np.dtype([(field.name, f">u{field.width}") for field in fields])


def _fixed(layout: Layout) -> bool:
    """Return whether fields have fixed places, and nothing in the layout depends on a frame."""
    # The length of a preview's collection name, and the ids of an event, are judged together with the key or
    # with one another.
    parts = (*layout.extras, *layout.parts)
    return all(isinstance(part, Field) and part.name not in ("clen", "event") for part in parts)


def _plan(message: Message, layout: Layout) -> Plan:
    places = tuple(part for part in layout.parts if isinstance(part, Field))
    return Plan(message, layout, dtype_of(layout.extras), dtype_of(places) if places else None)


@cache
def plans() -> dict[tuple[int, int], tuple[Plan, ...]]:
    """Return the plans by opcode and length of extras; those of one place differ in their ``when``."""
    found: dict[tuple[int, int], tuple[Plan, ...]] = {}
    for message in MESSAGES.values():
        if message.replies or message.json or message.secret or not message.known:
            continue
        for length in {layout.extras_length for layout in message.request}:
            layouts = [layout for layout in message.request if layout.extras_length == length]
            if all(_fixed(layout) and not layout.old for layout in layouts):
                found[message.opcode, length] = tuple(_plan(message, layout) for layout in layouts)
    return found


@cache
def all_plans() -> tuple[Plan, ...]:
    """Return all plans; a frame's plan is its place in here."""
    return tuple(plan for group in plans().values() for plan in group)


@cache
def _planned() -> Array:
    """By opcode and length of extras: whether there are plans."""
    table = np.zeros((256, 256), bool)
    for place in plans():
        table[place] = True
    return table


@cache
def _datatypes() -> Array:
    """By opcode: the highest datatype that there are plans for."""
    table = np.zeros(256, np.uint8)
    for opcode, message in MESSAGES.items():
        table[opcode] = 7 if message.document else 0
    return table


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of many frames, as columns, their key lengths read as their magic says."""

    magic: Array
    opcode: Array
    framing: Array
    key: Array
    extras: Array
    datatype: Array
    word: Array
    body: Array
    opaque: Array
    cas: Array

    @property
    def key_at(self) -> Array:
        """Where in each frame its key begins."""
        return HEADER_LENGTH + self.framing + self.extras

    @property
    def value(self) -> Array:
        """The bytes that each header leaves for the value; negative where lengths contradict each other."""
        return self.body - self.framing - self.extras - self.key

    @property
    def status(self) -> Array:
        """The statuses of responses, which stand where requests have their vbucket."""
        return self.word

    @property
    def response(self) -> Array:
        """Which frames are responses, by their magic."""
        return responses(self.magic)

    @property
    def server(self) -> Array:
        """Which frames have the magic of the server's own requests and their answers: opcodes of another space."""
        found: Array = _SERVER[self.magic]
        return found

    def taken(self, rows: Array) -> "Headers":
        """Return the headers of some rows."""
        return Headers(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def joined(cls, parts: "Sequence[Headers]") -> "Headers":
        """Concatenate columns."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @classmethod
    def of(cls, raw: Array) -> "Headers":
        """Split gathered headers into columns."""
        return cls(
            raw["magic"],
            raw["opcode"],
            *_lengths(raw),
            raw["datatype"],
            raw["word"].astype(np.uint16),
            raw["body"].astype(np.int64),
            raw["opaque"].astype(np.uint32),
            raw["cas"].astype(np.uint64),
        )


def _table(*values: int) -> Array:
    table = np.zeros(256, bool)
    table[list(values)] = True
    return table


_FLEXIBLE = _table(*(each.value for each in MAGICS.values() if each.flexible))
_RESPONSE = _table(*(each.value for each in MAGICS.values() if each.response))
_SERVER = _table(*(each.value for each in MAGICS.values() if each.server))
_REQUESTS = _table(CLIENT_REQUEST, ALT_CLIENT_REQUEST)


def responses(magic: Array) -> Array:
    """Return which magics are those of responses."""
    found: Array = _RESPONSE[magic]
    return found


def _lengths(raw: Array) -> tuple[Array, Array, Array]:
    """Return the lengths of framing extras, key and extras."""
    key, flexible = raw["key"].astype(np.int64), _FLEXIBLE[raw["magic"]]
    framing = np.where(flexible, key >> 8, 0)
    return framing, np.where(flexible, key & 0xFF, key), raw["extras"].astype(np.int64)


@dataclass(frozen=True, slots=True)
class Group:
    """Frames that one plan takes: which they are, and their fields."""

    plan: Plan
    rows: Array
    extras: Array
    value: Array | None

    def column(self, name: str) -> Array:
        """Return one field of all the frames, in the machine's own byte order."""
        source = self.extras if name in (self.extras.dtype.names or ()) else self.value
        if source is None:
            raise KeyError(name)
        column: Array = source[name]
        return column.astype(column.dtype.newbyteorder("="))


def place(data: Array, starts: Array, whole: Array, header: Headers) -> list[Group]:
    """Find the frames that plans take, among those that are ``whole``; the others are in no group."""
    ok = whole & _REQUESTS[header.magic] & _planned()[header.opcode, header.extras]
    ok &= (header.datatype <= _datatypes()[header.opcode]) & (header.value >= 0)
    flexible = np.flatnonzero(ok & (header.magic == ALT_CLIENT_REQUEST))
    if len(flexible):
        ok[flexible] = _framing_is_plain(data, starts[flexible], header, flexible)
    rows = np.flatnonzero(ok)
    codes = header.opcode[rows].astype(np.int64) << 8 | header.extras[rows]
    groups: list[Group] = []
    for code in np.flatnonzero(np.bincount(codes)) if len(codes) else ():
        mine = rows[codes == code]
        groups += _placed(plans()[int(code) >> 8, int(code) & 0xFF], data, starts, mine, header)
    return groups


def _framing_is_plain(data: Array, starts: Array, header: Headers, rows: Array) -> Array:
    """Flexible frames with a stream id or nothing, and not those of the server that writes an id of length 0."""
    framing, opcode, extras = header.framing[rows], header.opcode[rows], header.extras[rows]
    tagged = (framing == STREAM_ID_LENGTH) & (data[starts + HEADER_LENGTH] == STREAM_ID_TAG) if len(data) else framing
    buggy = np.zeros(len(rows), bool)
    for number, length in STREAM_ID_NOT_COUNTED:
        buggy |= (opcode == number) & (extras == length)
    plain: Array = tagged | ((framing == 0) & ~buggy)
    return plain


def _placed(candidates: tuple[Plan, ...], data: Array, starts: Array, rows: Array, header: Headers) -> list[Group]:
    at = starts[rows] + HEADER_LENGTH + header.framing[rows]
    extras = records_at(data, candidates[0].extras, at) if candidates[0].extras.itemsize else np.zeros(len(rows), "V0")
    value_length, key_length = header.value[rows], header.key[rows]
    groups: list[Group] = []
    left = np.ones(len(rows), bool)
    for plan in candidates:
        fits = left.copy()
        for name, wanted in plan.layout.when.items():
            if name == "value_length":
                fits &= value_length == wanted
            elif name in (extras.dtype.names or ()):
                fits &= extras[name] == wanted
        left &= ~fits
        fits &= _presence(plan, key_length, value_length, extras)
        values = None
        if plan.value is not None:
            fits &= value_length == plan.value.itemsize
            taken = np.flatnonzero(fits)
            values = records_at(data, plan.value, (at + header.extras[rows] + key_length)[taken])
        else:
            taken = np.flatnonzero(fits)
        group = Group(plan, rows[taken], extras[taken] if len(taken) < len(rows) else extras, values)
        groups.append(_without_oddities(group))
    return [group for group in groups if len(group.rows)]


def _presence(plan: Plan, key_length: Array, value_length: Array, extras: Array) -> Array:
    """Whether key, value and metadata are there, or not, as the layout has it."""
    layout = plan.layout
    fits = np.ones(len(key_length), bool)
    for rule, length in ((layout.key, key_length), (layout.value, value_length)):
        if not isinstance(rule, tuple):
            if rule is NEVER:
                fits &= length == 0
            elif rule is MUST:
                fits &= length > 0
    if layout.tail:
        fits &= extras[layout.tail] <= value_length
    return fits


def _without_oddities(group: Group) -> Group:
    """Leave out frames with values that have no name, and markers that want an answer."""
    good = np.ones(len(group.rows), bool)
    for field in group.plan.fields:
        if isinstance(field.names, (Bits, EnumValue)):
            column = group.column(field.name)
            if isinstance(field.names, Bits):
                good &= (column & ~np.array(sum(field.names.names), column.dtype)) == 0
            elif not field.names.otherwise:
                good &= np.isin(column, np.array(sorted(field.names.names), column.dtype))
        if field.name == "snapshot_type":
            good &= (group.column(field.name) & ACKNOWLEDGE) == 0
    if good.all():
        return group
    value = None if group.value is None else group.value[good]
    return Group(group.plan, group.rows[good], group.extras[good], value)
