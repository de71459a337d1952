"""Hold what each row that a query can use has in some columns, as ranges of numbers.

It is a hint: rows outside of the ranges are not needed, rows inside may be.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from dcpdump.filter.ranges import U64
from dcpdump.spec import find

#: Inclusive ranges of numbers.
Spans = tuple[tuple[int, int], ...]
#: By column, what its numbers are within. A column that is missing may have any, or none.
Hint = Mapping[str, Spans]

#: Columns whose numbers can be looked for before rows are made.
NUMBERS = frozenset({"frame", "connection", "opcode", "vbucket", "opaque", "by_seqno", "time_ns"})
#: The words of the column ``kind``, by the numbers that stand for them in a hint.
KINDS: Sequence[str] = ("request", "response")
#: Columns of words → the columns that have numbers for them.
NUMBERED: Mapping[str, str] = {"name": "opcode", "kind": "kind"}
#: Times may be before 1970.
_LEAST = -(1 << 63)
ALL: Spans = ((_LEAST, U64),)


def both(one: Hint, other: Hint) -> Hint:
    """Return what holds where both hold."""
    names = {**one, **other}
    return {name: _common(one.get(name, ALL), other.get(name, ALL)) for name in names}


def either(one: Hint, other: Hint) -> Hint:
    """Return what holds where one of them holds."""
    return {name: (*spans, *other[name]) for name, spans in one.items() if name in other}


def compared(operator: str, number: int) -> Spans | None:
    """Return the numbers that are so to a number; None for an operator that is not known."""
    above = {"COMPARE_GREATERTHAN": number + 1, "COMPARE_GREATERTHANOREQUALTO": number}
    below = {"COMPARE_LESSTHAN": number - 1, "COMPARE_LESSTHANOREQUALTO": number}
    if operator in above:
        return _common(((above[operator], U64),), ALL)
    if operator in below:
        return _common(((_LEAST, below[operator]),), ALL)
    return _common(((number, number),), ALL) if operator == "COMPARE_EQUAL" else None


def _common(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> Spans:
    found = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((low, high) for low, high in found if low <= high)


def numbers_of(column: str, word: str) -> Spans:
    """Return the numbers of a word."""
    if column == "kind":
        return tuple((at, at) for at, kind in enumerate(KINDS) if kind == word)
    return tuple((opcode, opcode) for opcode in sorted(_opcodes().get(word, ())))


@cache
def _opcodes() -> Mapping[str, frozenset[int]]:
    """Return the opcodes of each name; a name may have several, as an opcode may have two names."""
    names: dict[str, set[int]] = {}
    for opcode in range(256):
        for server in (False, True):
            names.setdefault(find(opcode, server=server).name, set()).add(opcode)
    return {name: frozenset(opcodes) for name, opcodes in names.items()}
