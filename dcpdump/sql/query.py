"""Find the tables, columns and frames that a query needs, from the tree that DuckDB parsed.

A part that is not understood needs everything: only the cost of a query depends on this module, never the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dcpdump.sql.predicates import ColumnNames, Hint, Moment, Node, either, integer

FRAMES = "frames"
#: The nodes of a query that are understood, beside expressions; modifiers are ORDER BY, LIMIT and DISTINCT.
_STREAMED = frozenset("SELECT_NODE SET_OPERATION_NODE BASE_TABLE JOIN SUBQUERY EMPTY EXPRESSION_LIST".split())
_UNDERSTOOD = _STREAMED | {"SHOW_REF", "CTE_NODE", "RECURSIVE_CTE_NODE", "TABLE_FUNCTION"}
#: Rows with more columns are not sorted or hashed while they are read, since that takes memory too.
_WIDE = 32
#: Up to so many rows, OFFSET included, are sorted while they are read.
_FEW = 10_000
#: Functions that read tables by the text of their names.
_DYNAMIC = frozenset({"query", "query_table"})
#: The joins before which a condition may choose the rows of a table.
_PLAIN_JOINS = frozenset({"REGULAR", "CROSS"})
#: Nodes that only name columns.
_EXPLAINED = frozenset({"DESCRIBE", "SHOW_FROM"})


class Query(NamedTuple):
    """The needs of a query."""

    columns: Mapping[str, frozenset[str]]  #: of the tables that it names
    hint: Hint  #: a hint for frames that can change the result
    streamed: bool  #: it has one table, which is best read once

    @property
    def tables(self) -> frozenset[str]:
        """Return the names of the tables that it needs."""
        return frozenset(self.columns)


class _Table(NamedTuple):
    """A table in a FROM. ``chosen``: the conditions of its SELECT hold for each of its rows."""

    name: str
    alias: str
    chosen: bool
    renamed: bool


def query_of(tree: Node, schemas: Mapping[str, Sequence[str]], moment: Moment) -> Query:
    """Return the needs of a query; ``schemas``: the existing tables and their columns."""
    return _Reader(schemas, moment).read(tree)


class _Reader:
    def __init__(self, schemas: Mapping[str, Sequence[str]], moment: Moment) -> None:
        self._schemas = {name: frozenset(columns) for name, columns in schemas.items()}
        self._first = {name: columns[0] for name, columns in schemas.items()}
        self._moment = moment
        self._tables: list[str] = []
        self._names: set[str] = set()
        self._all_columns = False  # all columns of all tables are needed
        self._complete: set[str] = set()  # the tables of which all columns are needed
        self._aliases: dict[str, set[str]] = {}  # of each table
        self._last_names: set[str] = set()  # the names in a query; of a table, if it uses complete rows
        self._hints: list[Hint] = []
        self._streamed = True
        self._held = False  # all rows are held before the first is answered

    def read(self, tree: Node) -> Query:
        """Return the needs of the query."""
        self._walk(tree)
        columns = {name: self._columns(name) for name in self._tables}
        hint: Hint = {}
        if self._hints:
            hint, *others = self._hints
            for each in others:
                hint = either(hint, each)
        held = self._held and any(name != FRAMES or len(found) > _WIDE for name, found in columns.items())
        return Query(columns, hint, self._streamed and len(self._tables) == 1 and not held)

    def _columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table that the query needs; the first always, as batches have no rows without."""
        columns = self._schemas[table]
        if (
            self._all_columns
            or table in self._complete
            or not self._aliases.get(table, set()).isdisjoint(self._last_names)
        ):
            return columns
        return (columns & self._names) | {self._first[table]}

    def _walk(self, node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                self._walk(each)
        elif isinstance(node, Mapping):
            self._see(node)
            if node.get("type") == "SHOW_REF" and node.get("show_type") in _EXPLAINED:
                return  # DESCRIBE reads no rows
            for each in node.values():
                self._walk(each)

    def _see(self, node: Node) -> None:
        kind, expression = node.get("type"), node.get("class")
        if expression == "COLUMN_REF":
            names = [str(each).lower() for each in node["column_names"]]
            self._names.update(names)
            self._last_names.add(names[-1])
        elif expression in ("SUBQUERY", "POSITIONAL_REFERENCE"):
            self._streamed = False  # it may be evaluated more than once
            self._all_columns |= expression == "POSITIONAL_REFERENCE"
        elif (
            expression is None and isinstance(kind, str) and not kind.endswith("_MODIFIER") and "null_order" not in node
        ):
            self._streamed &= kind in _STREAMED
            self._all_columns |= kind not in _UNDERSTOOD
            if kind == "SELECT_NODE":
                self._select(node)
            elif kind == "BASE_TABLE":
                self._refer(node)
            elif kind == "SHOW_REF" and node.get("show_type") not in _EXPLAINED:
                self._refer(node)  # SUMMARIZE has a name or a query, depending on the version
                self._all_columns = True
            elif kind == "JOIN":
                self._names.update(str(each).lower() for each in node["using_columns"])
                self._all_columns |= node["ref_type"] == "NATURAL"
            elif kind == "TABLE_FUNCTION" and node["function"]["function_name"].lower() in _DYNAMIC:
                self._tables += self._schemas
                self._all_columns = True
                self._hints.append({})
        self._held |= expression == "WINDOW" or _holds_all(node)
        if "cte_map" in node and node["cte_map"]["map"]:
            self._streamed = False  # a WITH may be read wherever it is named

    def _refer(self, node: Node) -> None:
        name = node["table_name"].strip('"').lower()
        if name in self._schemas:
            self._tables.append(name)

    def _select(self, node: Node) -> None:
        """Note the needs of one SELECT for the tables in its FROM, and its hint for frames."""
        tables = list(_tables(node["from_table"], chosen=node.get("sample") is None))
        for each in [each for each in tables if each.name in self._schemas]:
            self._aliases.setdefault(each.name, set()).add(each.alias)
            if each.renamed or _needs_all_columns(node, each):
                self._complete.add(each.name)
            if each.name != FRAMES:
                continue
            usable = each.chosen and not each.renamed and each.alias not in self._schemas[FRAMES]
            scope = ColumnNames(each.alias, self._plain(tables, each), self._moment)
            self._hints.append(scope.hint(node["where_clause"]) if usable else {})

    def _plain(self, tables: list[_Table], mine: _Table) -> frozenset[str]:
        """Return the columns of frames that no other table of a FROM has too."""
        found = self._schemas[FRAMES]
        for each in tables:
            if each is not mine:
                found = found - self._schemas[each.name] if each.name in self._schemas else frozenset()
        return found


def _holds_all(node: Node) -> bool:
    """Return whether a SELECT keeps all its rows, to sort or group them; sorting with a small LIMIT does not."""
    modifiers = {each["type"]: each for each in node.get("modifiers", ())}
    grouped = node.get("group_expressions") or node.get("aggregate_handling") == "FORCE_AGGREGATES"
    sorts = "ORDER_MODIFIER" in modifiers and not _is_few(modifiers.get("LIMIT_MODIFIER", {}))
    return bool(grouped) or "DISTINCT_MODIFIER" in modifiers or sorts


def _is_few(limit: Node) -> bool:
    """Return whether LIMIT and OFFSET are numbers, and few rows together."""
    if limit.get("limit") is None or limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
        return False
    found = [integer(each) for each in (limit["limit"], limit.get("offset")) if each is not None]
    return all(each is not None for each in found) and sum(each or 0 for each in found) <= _FEW


def _needs_all_columns(select: Node, table: _Table) -> bool:
    """Return whether a SELECT takes all columns of a table."""
    stars = (node for node in _expressions(select) if node.get("class") == "STAR")
    return any(node.get("relation_name", "").lower() in ("", table.alias) for node in stars)


def _tables(node: Node, *, chosen: bool) -> Iterator[_Table]:
    """Yield the tables of a FROM and its joins; an item that is no table has no name."""
    kind = node.get("type")
    if kind == "JOIN":
        plain = chosen and node["ref_type"] in _PLAIN_JOINS and node.get("sample") is None
        yield from _tables(node["left"], chosen=plain and node["join_type"] in ("INNER", "LEFT", "SEMI", "ANTI"))
        yield from _tables(node["right"], chosen=plain and node["join_type"] == "INNER")
    elif kind == "BASE_TABLE":
        name = node["table_name"].lower()
        alias = (node.get("alias") or name).lower()
        yield _Table(name, alias, chosen and node.get("sample") is None, bool(node.get("column_name_alias")))
    elif kind != "EMPTY":
        yield _Table("", "", chosen=False, renamed=False)


def _expressions(node: Any) -> Iterator[Node]:
    """Yield the nodes of a SELECT, without the queries inside its FROM."""
    if isinstance(node, list):
        for each in node:
            yield from _expressions(each)
    elif isinstance(node, Mapping):
        yield node
        for name, each in node.items():
            if not (name in ("from_table", "left", "right") and isinstance(each, Mapping) and "class" not in each):
                yield from _expressions(each)
