"""Read conditions of a query, as DuckDB has parsed them, as hints. What is not understood says nothing.

DuckDB evaluates every condition again over the rows that it gets, so a hint may say less than a condition, never more.
What no frame can be equal to is refused.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.errors import FilterError
from dcpdump.nearest import nearest
from dcpdump.spec import MESSAGES, PUSHES, find
from dcpdump.spec.field import EnumValue, Field
from dcpdump.spec.statuses import STATUS
from dcpdump.sql.spans import KINDS, NUMBERED, NUMBERS, Hint, Spans, both, compared, either, numbers_of

Node = Mapping[str, Any]

_NS = 1000  #: in a µs, which is as fine as the column time
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
#: The time (µs) that a text stands for in a type; None where it is no time.
Moment = Callable[[str, str], "int | None"]


class ColumnNames(NamedTuple):
    """What a condition may call a column of ``frames``, and what its times stand for."""

    alias: str
    plain: frozenset[str]  #: columns that need no table before their name
    moment: Moment

    def column(self, node: Node) -> str | None:
        """Return the column of frames that an expression is; None for anything else."""
        if node.get("class") != "COLUMN_REF":
            return None
        *tables, name = [str(each).lower() for each in node["column_names"]]
        if not tables:
            return name if name in self.plain else None
        return name if tables == [self.alias] else None

    def hint(self, node: Node | None) -> Hint:
        """Return what a condition says."""
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
        """Return the times (ns) whose µs are so to a time."""
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
    """Return a constant that is a whole number."""
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
    """Raise FilterError where no frame has a value in a column."""
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
    """Return all words that columns may have, by column, where they are known: of messages and enumerations."""
    found: dict[str, set[str]] = {"kind": set(KINDS), "status_name": set(STATUS.names.values())}
    found["name"] = {find(opcode, server=server).name for opcode in range(256) for server in (False, True)}
    for message in (*MESSAGES.values(), *PUSHES.values()):
        for layout in message.layouts:
            for part in (*layout.extras, *layout.parts):
                if isinstance(part, Field) and isinstance(part.names, EnumValue):
                    names = {*part.names.names.values(), part.names.otherwise} - {""}
                    found.setdefault(f"{part.key}_name", set()).update(names)
    return found
