"""Read conditions of a query, parsed by DuckDB, as hints. A condition that is not understood gives no hint.

DuckDB evaluates every condition again on the rows that it gets, so a hint may let more rows pass than its condition,
never fewer. A value that no frame can have is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.errors import FilterError
from dcpdump.filter import Instant, TimeWindow
from dcpdump.filter.choices import U64
from dcpdump.record import protocol_parts
from dcpdump.spec import find
from dcpdump.spec.field import EnumValue, Field
from dcpdump.spec.statuses import STATUS
from dcpdump.text import nearest

# -- spans: what each row that a query can use has in some columns, as ranges of numbers --------------
# A hint: rows outside of the ranges are not needed, rows inside may be.

#: Inclusive ranges of numbers.
Spans = tuple[tuple[int, int], ...]
#: The ranges of each column's numbers. A missing column may have any number, or null.
Hint = Mapping[str, Spans]

#: Columns by whose numbers frames are chosen before rows are made.
NUMBERS = frozenset({"frame", "connection", "opcode", "vbucket", "opaque", "by_seqno", "time_ns"})
#: The words of the column ``kind``, by their numbers in a hint.
KINDS: Sequence[str] = ("request", "response")
#: Columns of words → the columns with their numbers.
NUMBERED: Mapping[str, str] = {"name": "opcode", "kind": "kind"}
#: Times may be before 1970.
_LEAST = -(1 << 63)
ALL: Spans = ((_LEAST, U64),)


def both(one: Hint, other: Hint) -> Hint:
    """Return the hint for "both conditions"."""
    names = {**one, **other}
    return {name: _common(one.get(name, ALL), other.get(name, ALL)) for name in names}


def either(one: Hint, other: Hint) -> Hint:
    """Return the hint for "one of the conditions"."""
    return {name: (*spans, *other[name]) for name, spans in one.items() if name in other}


def compared(operator: str, number: int) -> Spans | None:
    """Return the numbers for which a comparison holds; None for an unknown operator."""
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


Node = Mapping[str, Any]

_NS = 1000  #: ns in a µs, the resolution of the column time
_FLIPPED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}
_INTEGERS = frozenset({"INTEGER", "BIGINT", "UBIGINT", "UINTEGER", "SMALLINT", "TINYINT"})
_STRINGS = frozenset({"STRING", "VARCHAR"})
_MOMENTS = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE", "DATE"})
#: Returns the time (µs) of a text in a type; None if it is no time.
Moment = Callable[[str, str], "int | None"]


class ColumnNames(NamedTuple):
    """The names that a condition may use for columns of ``frames``, and a parser of its times."""

    alias: str
    plain: frozenset[str]  #: columns that may be named without their table
    moment: Moment

    def column(self, node: Node) -> str | None:
        """Return the column of frames that an expression names; None for other expressions."""
        if node.get("class") != "COLUMN_REF":
            return None
        *tables, name = [str(each).lower() for each in node["column_names"]]
        if not tables:
            return name if name in self.plain else None
        return name if tables == [self.alias] else None

    def hint(self, node: Node | None) -> Hint:
        """Return the hint of a condition."""
        if node is None:
            return {}
        kind = node.get("type")
        if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            first, *others = [self.hint(each) for each in node["children"]]
            for each in others:
                first = both(first, each) if kind == "CONJUNCTION_AND" else either(first, each)
            return first
        if kind == "COMPARE_IN":
            return self._within(node["children"][0], node["children"][1:])
        if kind == "COMPARE_BETWEEN":
            low = self._compared(node["input"], "COMPARE_GREATERTHANOREQUALTO", node["lower"])
            return both(low, self._compared(node["input"], "COMPARE_LESSTHANOREQUALTO", node["upper"]))
        if kind in _FLIPPED:
            found = self._compared(node["left"], kind, node["right"])
            return found or self._compared(node["right"], _FLIPPED[kind], node["left"])
        return {}

    def _within(self, column: Node, values: list[Node]) -> Hint:
        found: Hint | None = None
        for value in values:
            each = self._compared(column, "COMPARE_EQUAL", value)
            found = each if found is None else either(found, each)
        return found or {}

    def _compared(self, left: Node, operator: str, right: Node) -> Hint:
        name, number, word = self.column(left), integer(right), _text(right)
        value = number if word is None else word
        if name is not None and value is not None and operator == "COMPARE_EQUAL":
            _check(name, value)
        if name in NUMBERS:
            spans = None if number is None else compared(operator, number)
            return {} if spans is None else {str(name): spans}
        if name in NUMBERED and operator == "COMPARE_EQUAL":
            return {} if word is None else {NUMBERED[str(name)]: numbers_of(str(name), word)}
        if name == "time":
            spans = self._times(operator, right)
            return {} if spans is None else {"time_ns": spans}
        return {}

    def _times(self, operator: str, right: Node) -> Spans | None:
        """Return the times (ns) for which a comparison in µs holds."""
        kind, text = "TIMESTAMPTZ", _text(right)
        if right.get("type") == "OPERATOR_CAST":
            kind, text = _type_name(right), _text(right["child"])
        if text is None or kind not in _MOMENTS:
            return None
        us = self.moment(text, kind)
        spans = None if us is None else compared(operator, us)
        return None if spans is None else tuple((low * _NS, high * _NS + _NS - 1) for low, high in spans)


def _literal(node: Node) -> tuple[str, Any]:
    """Return the kind of a constant, and its value; versions of DuckDB differ in how they write it."""
    if node.get("type") != "VALUE_CONSTANT":
        return "", None
    if "literal" in node:
        return str(node["literal"].get("kind")), node["literal"].get("text")
    value = node.get("value") or {}
    return ("", None) if value.get("is_null", True) else (str(value["type"].get("id")), value.get("value"))


def integer(node: Node) -> int | None:
    """Return an integer constant."""
    kind, value = _literal(node)
    if kind not in _INTEGERS or not isinstance(value, (int, str)):
        return None
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else None


def _text(node: Node) -> str | None:
    kind, value = _literal(node)
    return value if kind in _STRINGS and isinstance(value, str) else None


def _type_name(cast: Node) -> str:
    if "type_expr" in cast:
        return str(cast["type_expr"].get("type_name")).upper()
    return str((cast.get("cast_type") or {}).get("id")).upper()


def _check(column: str, value: int | str) -> None:
    """Raise FilterError if no frame can have a value in a column."""
    if isinstance(value, int):
        kind = schema.frames().field(column).type
        if pa.types.is_unsigned_integer(kind) and value >> kind.bit_width:
            raise FilterError(f"no frame has {column} = {value}: the largest is {(1 << kind.bit_width) - 1}")
    elif value not in _words().get(column, {value}):
        words = {word.casefold(): word for word in sorted(_words()[column])}
        near = [words[each] for each in nearest(value.casefold(), words)]
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise FilterError(f"no frame has {column} = {value!r}", hint=hint)


@cache
def _words() -> dict[str, set[str]]:
    """Return all words of columns with a known vocabulary: of messages and enumerations."""
    found: dict[str, set[str]] = {"kind": set(KINDS), "status_name": set(STATUS.names.values())}
    found["name"] = {*_opcodes()}
    for part in protocol_parts():
        if isinstance(part, Field) and isinstance(part.names, EnumValue):
            names = {*part.names.names.values(), part.names.otherwise} - {""}
            found.setdefault(f"{part.key}_name", set()).update(names)
    return found


# -- options of ``read`` that choose the frames of a hint ---------------------------------------------

#: Columns, their options and their largest numbers. ``--seqno`` takes more frames than ``by_seqno`` has: a superset.
_OPTIONS: Mapping[str, tuple[str, int]] = {
    "frame": ("frame", U64),
    "connection": ("connection", U64),
    "opcode": ("opcode", 0xFF),
    "vbucket": ("vbucket", 0xFFFF),
    "opaque": ("opaque", 0xFFFFFFFF),
    "by_seqno": ("seqno", U64),
    "kind": ("kind", len(KINDS) - 1),
}
#: More ranges than this are joined to one.
_MOST = 64
_LATEST = (1 << 63) - 1
_NO_FRAME = {"frame": "!0-"}


def options_of(hint: Hint) -> dict[str, str]:
    """Return the filter options that choose all frames of a hint, and few others."""
    found: dict[str, str] = {}
    for column, (option, top) in _OPTIONS.items():
        if column not in hint:
            continue
        spans = _joined(hint[column], top)
        if not spans:
            return dict(_NO_FRAME)
        if column == "opcode":
            found[option] = ",".join(str(op) for low, high in spans for op in range(low, high + 1))
        elif column == "kind":
            found[option] = ",".join(KINDS[at] for low, high in spans for at in range(low, high + 1))
        else:
            found[option] = ",".join(f"{low}-{high}" for low, high in spans)
    return found if hint.get("time_ns", ((0, 0),)) else dict(_NO_FRAME)


def window_of(hint: Hint) -> TimeWindow | None:
    """Return the time window of a hint; None without one."""
    if not hint.get("time_ns"):
        return None
    low, high = min(low for low, _ in hint["time_ns"]), max(high for _, high in hint["time_ns"])
    until = Instant(high) if high < _LATEST else None
    return TimeWindow(Instant(max(-_LATEST, min(low, _LATEST))), until)


def _joined(spans: Spans, top: int) -> Spans:
    """Return spans in order, touching ones merged, up to the largest number."""
    found: list[tuple[int, int]] = []
    for low, high in sorted((max(low, 0), high) for low, high in spans if high >= 0):
        if low > top:
            break
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], min(high, top))
        else:
            found.append((low, min(high, top)))
    return tuple(found) if len(found) <= _MOST else ((found[0][0], found[-1][1]),)
