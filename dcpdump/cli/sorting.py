"""Sort the rows of a table by a column: ``--sort`` and ``--reverse``, the same in text and for programs."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from dcpdump.cli.options import Command
from dcpdump.nearest import nearest
from dcpdump.quick_dataclass import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

T = TypeVar("T")
#: column → what a row is sorted by; None where the row has nothing there
Columns = Mapping[str, Callable[[T], Any]]

#: What a row has where it has nothing.
_NOTHING = (None, "")
#: What objects call some columns.
_SAME = {"connection": "conn", "vbucket": "vb", "stream_id": "sid", "lost_bytes": "lost"}


@dataclass(frozen=True, slots=True)
class Sorting(Generic[T]):
    """The order that was asked for. ``column``: None for the usual one."""

    columns: Columns[T]
    column: str | None
    reverse: bool

    def __call__(self, rows: Iterable[T]) -> list[T]:
        """Return rows in that order; those with nothing in the column last, equal ones as they were."""
        found = list(rows)
        if self.column is None:
            return found[::-1] if self.reverse else found
        key = self.columns[self.column]
        there = [row for row in found if key(row) not in _NOTHING]
        return sorted(there, key=key, reverse=self.reverse) + [row for row in found if key(row) in _NOTHING]


class _Column(click.ParamType):  # type: ignore[type-arg]
    """One of the columns of a table."""

    name = "column"

    def __init__(self, columns: Columns[Any]) -> None:
        self._columns = columns

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the column that is meant."""
        found = _SAME.get(value.lower(), value.lower().replace("_", "-"))
        if found in self._columns:
            return found
        near = nearest(found, self._columns, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(self._columns)
        raise click.UsageError(f"unknown column {value!r} for --sort ({meant}there are {known})", ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        """Return the columns that begin so."""
        from dcpdump.cli.completion import Completed

        return Completed(lambda: [(column, "") for column in self._columns]).shell_complete(ctx, param, incomplete)


def sort_options(columns: Columns[Any]) -> Callable[[Command], Command]:
    """Add the options for the order of a table's rows."""

    def add(command: Command) -> Command:
        command = click.option("--reverse", is_flag=True, help="The other way round.")(command)
        help_ = f"Sort by a column, the least first: {', '.join(columns)}."
        return click.option("--sort", metavar="COLUMN", type=_Column(columns), help=help_)(command)

    return add


def sorting(columns: Columns[T], options: dict[str, Any]) -> Sorting[T]:
    """Take the options for the order of rows out of ``options``."""
    return Sorting(columns, options.pop("sort"), options.pop("reverse"))
