"""Columns of headers, and of the fields of what plans take, in NumPy's types."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from dcpdump.batch.gather import Array, records_at
from dcpdump.batch.plans import PLANS, Plan
from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH, MAGICS

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


@cache
def dtype_of(fields: tuple[Field, ...]) -> np.dtype[Any]:
    """Compile fields that lie end to end to a big-endian type."""
    return np.dtype([(field.name, f">u{field.width}") for field in fields])


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


def groups_of(plan: Array, data: Array, start: Array, header: Headers) -> list[Group]:
    """Return the frames of each plan, given the number of each frame's; -1: none takes it."""
    groups: list[Group] = []
    for number in np.flatnonzero(np.bincount(plan + 1))[1 if (plan < 0).any() else 0 :].tolist():
        rows, this = np.flatnonzero(plan == number - 1), PLANS[number - 1]
        at = start[rows] + HEADER_LENGTH + header.framing[rows]
        extras = records_at(data, dtype_of(this.layout.extras), at) if this.layout.extras else np.zeros(len(rows), "V0")
        value = None
        if this.value_fields:
            value = records_at(data, dtype_of(this.value_fields), at + header.extras[rows] + header.key[rows])
        groups.append(Group(this, rows, extras, value))
    return groups
