"""Provide ``dcpdump sql``: ask captures in SQL."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any

import click

from dcpdump.capture import expand
from dcpdump.cli.export import need_pyarrow
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import InputOptions, input_of, input_options
from dcpdump.cli.options import Display, display, display_options, selection, window_options
from dcpdump.cli.reading import progress
from dcpdump.cli.sink import Sink
from dcpdump.errors import DcpdumpError, ExitCode

FORMATS = ("table", "csv", "ndjson")
#: Of the bytes of --memory, those that reading and writing take; and those without which DuckDB answers little.
_OTHERS, _LEAST = 160 << 20, 96 << 20


def _schema() -> Any:
    """Return the schema of the tables' rows."""
    need_pyarrow()
    from dcpdump.sql.row_schema import schema

    return schema()


@click.command(
    cls=GroupedCommand,
    schema=_schema,
    examples=(
        "dcpdump sql 'select name, count(*) from frames group by all order by 2 desc' node1.pcap",
        "dcpdump sql \"from findings where severity = 'violation'\" captures/ -f csv -o findings.csv",
        "dcpdump sql -i node1.pcap",
    ),
)
@click.argument("words", nargs=-1, metavar="QUERY CAPTURE…")
@click.option("-i", "--interactive", is_flag=True, help="Ask for queries, one after the other: without QUERY.")
@window_options
@display_options(FORMATS, value_bytes="all")
@input_options(follow=False)
@click.option(
    "--summary", type=click.Choice(["text", "json", "none"]), default="text", help="The balance of all bytes."
)
@click.option("-q", "--quiet", is_flag=True, help="No summary: --summary none.")
def sql(words: tuple[str, ...], interactive: bool, summary: str, quiet: bool, **options: Any) -> int:
    """Ask captures in SQL: the tables frames, streams, gaps, findings and files, straight from the packets.

    Tables and columns are those of export; --schema says what each column means. Only what a query names is
    decoded: conditions on name, opcode, vbucket, by_seqno, connection, time and frame cost what filters of read cost.
    The query can read nothing but these tables, and write nothing.
    """
    if find_spec("duckdb") is None or find_spec("pyarrow") is None:
        raise DcpdumpError("SQL needs DuckDB and pyarrow", "", "pip install 'duckdb>=2' 'pyarrow>=15'")
    need_pyarrow()
    times = {name: options.pop(name) for name in ("since", "until", "tz")}
    selection(dict(times))  # what is wrong with them is said before anything is read
    query, names = ("", words) if interactive else (words[0] if words else "", words[1:])
    shown, given = display({**options, "tz": times["tz"]}, whole=FORMATS), input_of(options, names)
    if not names:
        missing = "CAPTURE…" if interactive or words else "QUERY"
        raise click.UsageError(f"Missing argument '{missing}': dcpdump sql 'select count(*) from frames' node1.pcap")
    paths = expand(names)
    answer = partial(_answer, paths, shown, given, times, "none" if quiet else summary)
    if not interactive:
        return answer(query)
    if shown.path is not None:
        raise click.UsageError("-o is for the answer of one query, not for those of -i")
    if not all(map(os.path.isfile, paths)):
        raise click.UsageError("every query of -i reads the captures: a pipe has to be written to a file first")
    from dcpdump.cli.sql_session import prompt

    return prompt(answer)


def _answer(
    paths: Sequence[str], shown: Display, given: InputOptions, times: Mapping[str, Any], summary: str, text: str
) -> int:
    """Answer a query, and return the exit code."""
    from dcpdump.arrow.folder import SCHEMAS
    from dcpdump.cli.sql_session import QueryReading, write_answer
    from dcpdump.sql.database import Engine

    captures = given.open(paths)
    memory = max(given.memory - _OTHERS, _LEAST)
    with (
        Engine({name: make() for name, make in SCHEMAS.items()}, memory) as engine,
        Sink(shown.path, force=shown.force, inputs=paths, paged=True) as sink,
    ):
        query = engine.understood(text)
        made = QueryReading(query, captures, shown, given, times)
        reading = made.reading
        with reading.summarised(summary):
            with progress(() if summary == "none" else [each.name for each in captures]):
                rows = made.offer(engine)
                engine.long = made.long
                schema, batches = engine.answer(text)
                first = iter(list(islice(batches, 1)))  # before it comes, all or most is read
            with closing(rows), closing(batches):
                if reading.frames or not made.begun:
                    write_answer(sink, shown, schema, chain(first, batches))
                else:
                    sink.abandon()
        sink.settle()
        return reading.conclude(summary) if made.begun else ExitCode.DONE
