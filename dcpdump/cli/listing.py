"""Write the rows of a command in the requested order: as lines for people, as csv or as objects."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from dcpdump.cli.grouped import Completed
from dcpdump.cli.options import Invocation, option
from dcpdump.cli.sink import Sink
from dcpdump.cli.terminal import terminal_size
from dcpdump.record import Json
from dcpdump.render.column import ColumnSet
from dcpdump.render.objects import Rows, csv_lines, dump, keys
from dcpdump.render.style import Line, Palette
from dcpdump.render.text_columns import Fitting, fitted
from dcpdump.text import nearest

#: The formats of what is found out, in whichever command.
FORMATS = ("text", "csv", "ndjson")


def report(
    sink: Sink,
    asked: Invocation,
    rows: Rows,
    lines: Callable[[], Iterable[Line | Fitting]],
    objects: Callable[[], Iterable[Json]],
) -> None:
    """Write the results as lines, which fit a terminal, or as objects. ``rows``: the kinds of objects."""
    if asked.format == "ndjson":
        for row in objects():
            sink.write(dump(row) + "\n")
        return
    if asked.format == "csv":
        for text in csv_lines(keys(rows), objects()):
            sink.write(text)
        return
    palette = Palette(asked.coloured(sink.is_terminal))
    width = terminal_size().columns if sink.is_terminal else None
    for line in fitted(lines(), width):
        sink.write(palette.paint(line) + "\n")


# -- the order of rows: --sort and --reverse, the same in text and for programs ------------------------

T = TypeVar("T")
#: What a row has where it has nothing.
_NOTHING = (None, "")


class _Column(Completed):
    """One of the columns of a table."""

    def __init__(self, columns: ColumnSet[Any]) -> None:
        super().__init__(lambda: ((name, "") for name in columns.sortable))
        self._columns = columns

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the column that is meant, by its head or its key."""
        known, named = self._columns.sortable, self._columns.keyed.get(value.lower().replace("-", "_"))
        found = value.lower().replace("_", "-")
        if found not in known and named is not None:
            found = named.name
        if found in known:
            return found
        near = nearest(value.lower(), known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise click.UsageError(f"unknown column {value!r} for --sort ({meant}there are {', '.join(known)})", ctx)


def sort_options(columns: ColumnSet[Any]) -> list[click.Option]:
    """Return the options for the order of a table's rows."""
    names = f"Sort by a column, the least first: {', '.join(columns.sortable)}."
    return [option("--sort COLUMN", names, _Column(columns)), option("--reverse", "Reverse the order.")]


def sorting(columns: ColumnSet[T], options: Mapping[str, Any]) -> Callable[[Iterable[T]], list[T]]:
    """Return what puts rows in the requested order: those with nothing in the column last, equal ones as they were."""
    reverse, key = options["reverse"], columns.sortable.get(options["sort"])

    def ordered(rows: Iterable[T]) -> list[T]:
        found = list(rows)
        if key is None:
            return found[::-1] if reverse else found
        there = [row for row in found if key(row) not in _NOTHING]
        return sorted(there, key=key, reverse=reverse) + [row for row in found if key(row) in _NOTHING]

    return ordered
