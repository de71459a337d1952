"""Column: one column of whatever is printed or stored, declared once.

Text, csv, ndjson, ``--sort``, ``--schema``, the tables of ``export``, the tabs of the browser and the tables of the
report follow from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any, Generic, TypeVar

from dcpdump.iso_time import iso_time
from dcpdump.quick_dataclass import dataclass
from dcpdump.record import Json
from dcpdump.render.row_keys import HEX, ID, INSTANT, INT, KEYS, NUMBER, TIME, U16, U64
from dcpdump.render.style import LineKind
from dcpdump.render.text_columns import Table, number

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of rows of a kind.

    What has a ``key`` is in objects, csv and stored tables; what has a ``head`` in tables for people. ``key?``: it is
    left out of an object that has nothing there. Type and meaning are those that ``KEYS`` has, where no others are
    given.
    """

    key: str = ""
    get: Callable[[Row], Any] | None = None  #: its value: times in nanoseconds, identities as numbers; None: nothing
    head: str = ""
    text: Callable[[Row], str] | None = None  #: its cell, where that is not the value as its type is written
    right: bool = False  #: cells are aligned at their right, as those of numbers are but for connections
    drop_rank: int = 0  #: 1 is the first that a narrow terminal leaves out; 0: after those, the last ones first
    sort: Callable[[Row], Any] | None = None  #: what rows are sorted by, where that is not the value
    type: "str | ColumnSet[Any]" = ""  #: columns: a list of rows that have them
    meaning: str = ""
    stored: bool = True  #: a column of the stored table too

    @property
    def name(self) -> str:
        """Return the name that ``--sort`` has for it; of ``client → server``, client."""
        return self.head.partition(" →")[0].replace(" ", "-")

    @property
    def cell(self) -> Callable[[Row], str]:
        """Return what writes its cells in a table for people; empty for nothing."""
        if self.text is not None:
            return self.text
        get = self.get
        assert get is not None, self.head
        if self.kind in _COUNTS:
            return lambda row: number(get(row))
        return lambda row: "" if (value := get(row)) is None else str(value)

    @property
    def optional(self) -> bool:
        """Return whether objects may lack it."""
        return self.key.endswith("?")

    @property
    def kind(self) -> "str | ColumnSet[Any]":
        """Return the word of its type, or the columns of its rows."""
        return self.type or (KEYS[self.key.rstrip("?")][0] if self.key else "")

    @property
    def means(self) -> str:
        """Return what it means."""
        return self.meaning or KEYS[self.key.rstrip("?")][1]

    @property
    def is_right(self) -> bool:
        """Return whether cells are aligned at their right."""
        return self.right or self.kind in _NUMBERS

    @property
    def order(self) -> Callable[[Row], Any] | None:
        """Return what rows are sorted by; None: they are not sorted by it."""
        return (self.sort or self.get) if self.head else None


_COUNTS: frozenset[object] = frozenset({INT, U64})
_NUMBERS: frozenset[object] = frozenset({INT, NUMBER, ID, U16, U64})
#: Types whose values are written otherwise in objects.
_WRITTEN: dict[object, Callable[[Any], Any]] = {
    TIME: iso_time,
    INSTANT: iso_time,
    HEX: "0x{:016x}".format,
}


def nonzero(count: Callable[[Row], int | None]) -> Callable[[Row], str]:
    """Return what writes a count, empty for 0 too."""
    return lambda row: number(count(row) or None)


class ColumnSet(Generic[Row]):
    """The columns of rows of a kind, in the order that all outputs have.

    ``type``: of rows among others; ``kind``: how a row is shown, where some are not plain.
    """

    def __init__(self, *columns: Column[Row], type: str = "", kind: Callable[[Row], LineKind] | None = None) -> None:
        self._all, self.type, self._kind = columns, type, kind
        keyed = [(each, each.key.rstrip("?"), each.get) for each in columns if each.key]
        self._keyed = [(key, get, each) for each, key, get in keyed if get is not None]
        self._written: list[tuple[str, Callable[[Row], Any], Callable[[Any], Any] | None]] | None = None

    def __iter__(self) -> Iterator[Column[Row]]:
        return iter(self._all)

    def __getitem__(self, name: str) -> Column[Row]:
        """Return the column with a head, as ``--sort`` has it, or else with a key."""
        return next((each for each in self._all if each.name == name), None) or self.keyed[name]

    def some(self, names: str) -> list[Column[Row]]:
        """Return columns by their names, in that order."""
        return [self[name] for name in names.split()]

    @property
    def keyed(self) -> Mapping[str, Column[Row]]:
        """Return the columns of objects, by their keys."""
        return {key: column for key, _, column in self._keyed}

    @property
    def sortable(self) -> Mapping[str, Callable[[Row], Any]]:
        """Return what rows can be sorted by: the name of a column → the value, None where there is nothing."""
        return {each.name: order for each in self._all if (order := each.order) is not None}

    def object(self, row: Row) -> Json:
        """Return a row as an object, without what it has not."""
        if self._written is None:
            self._written = [(key, get, _WRITTEN.get(column.kind)) for key, get, column in self._keyed]
        out: Json = {"type": self.type} if self.type else {}
        for key, get, written in self._written:
            value = get(row)
            if value is not None:
                out[key] = value if written is None else written(value)
        return out

    def table(self, rows: Sequence[Row]) -> Table:
        """Return rows as a table for people."""
        shown = [each for each in self._all if each.head]
        cells = [each.cell for each in shown]
        least = sorted((each for each in shown if each.drop_rank), key=lambda each: each.drop_rank)
        return Table(
            [each.head for each in shown],
            [tuple([intern(cell(row)) for cell in cells]) for row in rows],  # of 100,000 rows most cells are equal
            [each.head for each in shown if each.is_right],
            [each.head for each in least],
            [] if self._kind is None else [self._kind(row) for row in rows],
        )
