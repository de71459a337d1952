"""Define what the commands that write tables share: the tables' names, and the package that they need."""

import os
from collections.abc import Iterator
from typing import Any

import click

from dcpdump.text import INSTALL_TABLES, counted

#: All tables. ``files`` is always written: it says what was read.
TABLES = ("frames", "gaps", "streams", "findings", "files")


class ExtraMissing(click.UsageError):
    """An optional package is not installed."""

    hint = INSTALL_TABLES


class TableNames(click.ParamType):  # type: ignore[type-arg]
    """A list of tables' names."""

    name = "NAMES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names; ``files`` is always among them."""
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            if name not in TABLES:
                raise click.BadParameter(f"{name!r} is not a table; there are {', '.join(TABLES)}", ctx, param)
        return tuple(name for name in TABLES if name in names or name == "files")


def cut_notes(rows: int, value_bytes: int | None) -> Iterator[str]:
    """Yield a note of the ``rows`` in which ``--value-bytes`` cut values or left them out; nothing for none."""
    if rows:
        was = f"{counted(rows, 'row')} by --value-bytes {value_bytes}: value_length says how long they were"
        yield f"dcpdump: note: values were cut in {was}"


def need_pyarrow() -> None:
    """Raise a usage error where the package for tables is missing."""
    # Arrow's own pools keep what is freed for later: a fifth more memory, and no time is gained. It is read only once.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        import dcpdump.arrow.schema  # noqa: F401
    except ImportError as error:
        if error.name != "pyarrow":
            raise
        raise ExtraMissing("tables need pyarrow, which is not installed") from error
