"""Lay the fields of one frame over its bytes, and note what does not fit. Knows no layout."""

from functools import cache
from struct import Struct

from dcpdump.spec.field import Blob, Field
from dcpdump.spec.statuses import APPLICATION_STATUS, STATUS
from dcpdump.wire.frame import Fault, FieldValue, Problem, RawFrame, Section

VALUE = Blob("value", "Value")
REST = Blob("unexplained", "Unexplained")

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a field.
new_field = tuple.__new__

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@cache
def packed(fields: tuple[Field, ...]) -> Struct:
    """Return the big-endian struct that reads these fields at once."""
    return Struct(">" + "".join(_FORMATS[field.width] for field in fields))


class Tiles:
    """The fields laid so far: end to end, so that in the end every byte of the frame is in exactly one field.

    ``data`` are the bytes to show, in which credentials may be asterisks. ``lookup`` has the numbers by name.
    """

    __slots__ = ("data", "fields", "lookup", "problems", "raw")

    def __init__(self, raw: RawFrame) -> None:
        self.raw = raw
        self.data = raw.data
        self.fields: list[FieldValue] = []
        self.problems: list[Problem] = []
        self.lookup: dict[str, int] = {}

    def blob(self, blob: Blob, start: int, end: int, section: Section) -> None:
        """Lay one field over bytes as they are; it has no value where some of them were lost."""
        value = None if self.raw.lost(start, end) else self.data[start:end]
        self.fields.append(FieldValue(blob, start, end, value, section))

    def fixed(self, fields: tuple[Field, ...], at: int, end: int, section: Section) -> int:
        """Lay fields end to end as far as there are bytes; a field cut or lost has no value. Return where they end."""
        for field in fields:
            stop = at + field.width
            if at >= end:
                break
            if stop > end or self.raw.lost(at, stop):
                self.fields.append(FieldValue(field, at, min(stop, end), None, section))
            else:
                number = int.from_bytes(self.data[at:stop], "big")
                self.fields.append(FieldValue(field, at, stop, number, section))
                self.lookup[field.name] = number
                self.check_name(field, number, at)
            at = min(stop, end)
        return at

    def check_name(self, field: Field, number: int, at: int) -> None:
        """Note a number, or bits of it, that has no name although the field has names."""
        problem = without_name(field, number, at)
        if problem is not None:
            self.problems.append(problem)


def without_name(field: Field, number: int, at: int) -> Problem | None:
    """Return what is said of a number, or bits of it, that has no name although the field has names."""
    if field.names is None:
        return None
    odd = field.names.unknown(number)
    if odd < 0 or (field.names is STATUS and number >= APPLICATION_STATUS):
        return None
    text = f"{field.label} 0x{odd:0{2 * field.width}x} has no name"
    return Problem(Fault.UNKNOWN_VALUE, text, at, at + field.width)
