"""Find the slots of a FlatBuffers root table inside a value. Every step is bound-checked.

The format is little-endian: a root offset leads to the table, the table's first word leads back to its vtable, whose
16-bit entries hold each slot's place within the table; 0 or a missing entry means the default. Text is behind one more
offset, with its length before it.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

from dcpdump.spec.field import Blob, Field, FlatTable

_U16, _I32, _U32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")


class Placed(NamedTuple):
    """A slot that is present: its field, the range of its bytes in the value, and its value."""

    field: Field | Blob
    start: int
    end: int
    value: int | bytes


class FlatError(Exception):
    """The bytes are no FlatBuffers table; the text names the step that left the value."""


def place_slots(value: bytes, table: FlatTable) -> list[Placed]:
    """Return the slots of a root table that are present, in the order of their bytes. Raises FlatError."""
    root = _read(_U32, value, 0, "root offset")
    vtable = root - _read(_I32, value, root, "table")
    size = _read(_U16, value, vtable, "vtable")
    if size < 4 or vtable + size > len(value):
        raise FlatError(f"vtable of {size} bytes at {vtable} does not fit")
    found: list[Placed] = []
    for slot, field in enumerate(table.fields):
        entry = 4 + 2 * slot
        if entry + 2 > size:
            continue
        inside = _read(_U16, value, vtable + entry, "vtable entry")
        if inside:
            found.append(_place(value, root + inside, field))
    found.sort(key=lambda placed: placed.start)
    for before, after in pairwise(found):
        if before.end > after.start:
            raise FlatError(f"{before.field.name} and {after.field.name} overlap")
    return found


def structure(value: bytes, table: FlatTable) -> list[tuple[int, int]]:
    """Return the ranges of a table's own bookkeeping: its offsets, its vtable, the lengths of texts.

    Vtable entries for slots that are not in our table are left out, since the content of such slots is unknown.
    """
    root = _read(_U32, value, 0, "root offset")
    vtable = root - _read(_I32, value, root, "table")
    size = min(_read(_U16, value, vtable, "vtable"), 4 + 2 * len(table.fields))
    words = [(0, 4), (vtable, vtable + size), (root, root + 4)]
    for slot, field in enumerate(table.fields):
        entry = 4 + 2 * slot
        inside = _read(_U16, value, vtable + entry, "vtable entry") if entry + 2 <= size else 0
        if inside and not isinstance(field, Field):
            at = root + inside
            text = at + _read(_U32, value, at, field.name)
            words += [(at, at + 4), (text, text + 4)]
    return words


def _place(value: bytes, at: int, field: Field | Blob) -> Placed:
    if isinstance(field, Field):
        if at + field.width > len(value):
            raise FlatError(f"{field.name} lies outside, at {at}")
        return Placed(field, at, at + field.width, int.from_bytes(value[at : at + field.width], "little"))
    text = at + _read(_U32, value, at, field.name)
    length = _read(_U32, value, text, field.name)
    start = text + 4
    if start + length > len(value):
        raise FlatError(f"{field.name} of {length} bytes lies outside, at {start}")
    return Placed(field, start, start + length, value[start : start + length])


def _read(word: struct.Struct, value: bytes, at: int, what: str) -> int:
    if at < 0 or at + word.size > len(value):
        raise FlatError(f"{what} lies outside, at {at}")
    number: int = word.unpack_from(value, at)[0]
    return number
