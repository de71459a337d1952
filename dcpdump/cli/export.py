"""Provide ``dcpdump export``: write captures as columnar tables."""

import os
from collections.abc import Iterator

import click

from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, format_option, option, value_bytes_option
from dcpdump.cli.sink import Sink, folder_of, saying_what_is_left
from dcpdump.errors import DcpdumpError, ExitCode
from dcpdump.text import INSTALL_TABLES, counted

# -- what the commands that write tables share: the tables' names, and the package that they need -----

#: All tables. ``files`` is always written: it says what was read.
TABLES = ("frames", "gaps", "streams", "findings", "files")


def _table_names(value: str) -> tuple[str, ...]:
    """Return the names of tables in a list; ``files`` is always among them."""
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in TABLES:
            raise click.BadParameter(f"{name!r} is not a table; there are {', '.join(TABLES)}")
    return tuple(name for name in TABLES if name in names or name == "files")


def tables_option(default: str, text: str = "Which to write.") -> click.Option:
    """Return the option for which tables to write."""
    return option("--tables NAMES", text, _table_names, default=default)


def cut_notes(rows: int, value_bytes: int | None) -> Iterator[str]:
    """Yield a note of the ``rows`` in which ``--value-bytes`` cut values or left them out; nothing for none."""
    if rows:
        was = f"{counted(rows, 'row')} by --value-bytes {value_bytes}: value_length says how long they were"
        yield f"dcpdump: note: values were cut in {was}"


def need_pyarrow() -> None:
    """Raise DcpdumpError where the package for tables is missing."""
    # Arrow's own pools keep what is freed for later: a fifth more memory, and no time is gained. It is read only once.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        import dcpdump.arrow.schema  # noqa: F401
    except ImportError as error:
        if error.name != "pyarrow":
            raise
        raise DcpdumpError("tables need pyarrow, which is not installed", hint=INSTALL_TABLES) from error


FORMATS = ("parquet", "arrow", "csv")


@command(
    "dcpdump export captures/ -o tables",
    "dcpdump export node1.pcap -o tables --opcode mutation -f csv",
    "dcpdump export --schema",
    params=[
        click.Argument(["captures"], nargs=-1, metavar="CAPTURE…"),
        "FRAMES",
        format_option(FORMATS),
        value_bytes_option("all"),
        option("-o, --output DIR", "The folder to write: whole or not at all."),
        option("--force", "Let -o replace the tables of an earlier export, or remove them where there is no DCP."),
        "show-secrets REDACTION",
        option("--schema", "Print the tables' columns and their types, and end."),
        tables_option(
            "frames,gaps,streams,files",
            "Which to write; findings, as check has them, take longer than all the others together.",
        ),
        "salvage align keylog memory",
        option("-j, --jobs N", "Threads and processes; default: the cores."),
        "summary NO-SUMMARY",
    ],
    uncut=FORMATS,
)
def export(asked: Invocation, schema: bool, tables: tuple[str, ...], jobs: int | None) -> int:
    """Write the frames of captures as columns: tables for DuckDB, pandas, Polars, Spark.

    DIR gets frames, gaps (bytes that were never captured), streams (what became of each) and files (what was read),
    each with the same columns for every capture. It appears whole or not at all. Filters choose the rows of frames;
    streams and findings read all.
    """
    need_pyarrow()
    asked.validate()
    if schema:
        from dcpdump.arrow.folder import SCHEMAS
        from dcpdump.arrow.schema import text

        with Sink(None) as sink:
            sink.write("\n".join(text(make()) for make in SCHEMAS.values()))
        return ExitCode.DONE
    if not asked.captures:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    folder = folder_of(asked.path)
    from dcpdump.arrow.folder import Tables
    from dcpdump.cli.reading import CaptureSource, Reading, worth_having
    from dcpdump.cli.tables import Exporting
    from dcpdump.streams.dissection import Watching

    inputs = asked.open(asked.paths)
    dissection = asked.dissect(Watching)
    with Tables(folder, asked.format, tables, force=asked.force) as written:
        exporting = Exporting(dissection, asked, written, worth_having(jobs, inputs))
        reading = Reading(CaptureSource(inputs, patient=True), dissection, exporting)
        with saying_what_is_left(lambda: f"nothing was written to {folder}"):
            reading.read()
            if dissection.tally.frames:
                exporting.conclude(inputs)
        if dissection.tally.frames:
            written.publish()
        else:
            written.withdraw()  # an earlier export must not be taken for this one
    return reading.conclude(asked.summary)
