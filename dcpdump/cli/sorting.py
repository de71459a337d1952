"""Sort the rows of a table by a column: ``--sort`` and ``--reverse``, the same in text and for programs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import click

from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import client

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")
#: column → what a row is sorted by; None where the row has nothing there
Columns = Mapping[str, Callable[[T], Any]]

#: What objects call some columns.
_SAME = {"connection": "conn", "vbucket": "vb", "stream_id": "sid", "lost_bytes": "lost"}

#: Columns of connections.
CONNECTIONS: Columns[ConnectionState] = {
    "conn": lambda each: each.number,
    "client": client,
    "name": lambda each: each.name or None,
    "bucket": lambda each: each.bucket or None,
    "streams": lambda each: len(each.streams),
    "frames": lambda each: sum(each.frames),
    "bytes": lambda each: sum(each.bytes),
    "lost": lambda each: sum(each.lost_bytes),
    "end": lambda each: each.ended_ns,
}


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
        there = [row for row in found if key(row) is not None]
        return sorted(there, key=key, reverse=self.reverse) + [row for row in found if key(row) is None]


def sort_options(columns: Columns[Any]) -> Callable[[Command], Command]:
    """Add the options for the order of a table's rows."""
    known = ", ".join(columns)

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        found = None if value is None else _SAME.get(value.lower(), value.lower().replace("_", "-"))
        if found is None or found in columns:
            return found
        near = get_close_matches(found, columns, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise click.UsageError(f"unknown column {value!r} for --sort ({meant}there are {known})", ctx)

    def add(command: Command) -> Command:
        command = click.option("--reverse", is_flag=True, help="The other way round.")(command)
        help_ = f"Sort by a column, the least first: {known}."
        return click.option("--sort", metavar="COLUMN", callback=check, help=help_)(command)

    return add


def sorting(columns: Columns[T], options: dict[str, Any]) -> Sorting[T]:
    """Take the options for the order of rows out of ``options``."""
    return Sorting(columns, options.pop("sort"), options.pop("reverse"))
