"""Provide ``dcpdump sql``: ask captures in SQL, a query or one after the other."""

import cmd
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from dcpdump.cli.export import TABLES, need_pyarrow
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, format_option, option, value_bytes_option
from dcpdump.cli.reading import progress
from dcpdump.cli.signals import repeat
from dcpdump.cli.terminal import complain, end_line
from dcpdump.errors import CaptureError, DcpdumpError, ExitCode

FORMATS = ("table", "csv", "ndjson")
#: Of the bytes of --memory, those that reading and writing take; and those without which DuckDB answers little.
_OTHERS, _LEAST = 160 << 20, 96 << 20


def _schema() -> Any:
    """Return the schema of the tables' rows."""
    need_pyarrow()
    from dcpdump.sql.results import schema

    return schema()


@command(
    "dcpdump sql 'select name, count(*) from frames group by all order by 2 desc' node1.pcap",
    "dcpdump sql \"from findings where severity = 'violation'\" captures/ -f csv -o findings.csv",
    "dcpdump sql -i node1.pcap",
    params=[
        click.Argument(["words"], nargs=-1, metavar="QUERY CAPTURE…"),
        option("-i, --interactive", "Ask for queries, one after the other: without QUERY."),
        "since until tz",
        format_option(FORMATS),
        "color",
        value_bytes_option("all"),
        "output force show-secrets REDACTION salvage align keylog memory ONE-JOB summary NO-SUMMARY",
    ],
    schema=_schema,
    uncut=FORMATS,
)
def sql(asked: Invocation, words: tuple[str, ...], interactive: bool) -> int:
    """Ask captures in SQL: the tables frames, streams, gaps, findings and files, straight from the packets.

    Tables and columns are those of export; --schema says what each column means. Only what a query names is
    decoded: conditions on name, opcode, vbucket, by_seqno, connection, time and frame cost what filters of read cost.
    The query can read nothing but these tables, and write nothing.
    """
    if find_spec("duckdb") is None or find_spec("pyarrow") is None:
        raise DcpdumpError("SQL needs DuckDB and pyarrow", "", "pip install 'duckdb>=2' 'pyarrow>=15'")
    need_pyarrow()
    query, names = ("", words) if interactive else (words[0] if words else "", words[1:])
    asked.captures = names
    asked.validate()  # what is wrong is said before anything is read
    if not names:
        missing = "CAPTURE…" if interactive or words else "QUERY"
        raise click.UsageError(f"Missing argument '{missing}': dcpdump sql 'select count(*) from frames' node1.pcap")
    paths = asked.paths
    if not interactive:
        return _answer(asked, query)
    if asked.path is not None:
        raise click.UsageError("-o is for the answer of one query, not for those of -i")
    if not all(map(os.path.isfile, paths)):
        raise click.UsageError("every query of -i reads the captures: a pipe has to be written to a file first")
    return prompt(partial(_answer, asked))


def _answer(asked: Invocation, text: str) -> int:
    """Answer a query, and return the exit code."""
    from dcpdump.arrow.folder import SCHEMAS
    from dcpdump.cli.tables import QueryReading, write_answer
    from dcpdump.sql.database import Engine

    summary, captures = asked.summary, asked.open(asked.paths)
    memory = max(asked.memory - _OTHERS, _LEAST)
    with (
        Engine({name: make() for name, make in SCHEMAS.items()}, memory) as engine,
        asked.sink() as sink,
    ):
        query = engine.understood(text)
        made = QueryReading(query, captures, asked)
        reading = made.reading
        with reading.summarised(summary):
            with progress(() if summary == "none" else [each.name for each in captures]):
                rows = made.offer(engine)
                engine.long = made.long
                schema, batches = engine.answer(text)
                first = iter(list(islice(batches, 1)))  # before it comes, all or most is read
            with closing(rows), closing(batches):
                if reading.frames or not made.begun:
                    write_answer(sink, asked, schema, chain(first, batches))
                else:
                    sink.abandon()
        sink.drain()
        return reading.conclude(summary) if made.begun else ExitCode.DONE


# -- the prompt: queries one after the other, with completion and history where there is readline -----

_PROMPTS = "sql> ", "...> "
_HELP = f"""A query ends with ';'. Tables: {", ".join(TABLES)}. Tab completes their columns.
.schema [TABLE]  columns and their types
.help            this
.quit            leave, as Ctrl-D does; Ctrl-C aborts a query
"""
_QUITS = (".quit", ".exit", "quit", "exit")
_HISTORY_LINES = 1000
_KEYWORDS = """select from where group by order having limit join using with as distinct between in is not null and or
    count sum min max avg desc asc describe summarize timestamp interval""".split()
#: Between these, readline looks for the word to complete.
_DELIMITERS = " \t\n,;()=<>+-*/'\"."


def prompt(answer: Callable[[str], int]) -> int:
    """Answer queries until the input ends, and return the exit code."""
    terminal = sys.stdin is not None and sys.stdin.isatty()
    queries = _Prompt(answer, terminal=terminal)
    if terminal:
        click.echo(_HELP, nl=False)
    with _history() if terminal else nullcontext():
        repeat(queries.cmdloop, queries.interrupt)
    return ExitCode.DONE


class _Prompt(cmd.Cmd):
    """What is typed: queries, each up to its ';', and commands with a dot."""

    def __init__(self, answer: Callable[[str], int], *, terminal: bool) -> None:
        super().__init__(completekey="tab" if terminal else "")
        self._answer, self._terminal = answer, terminal
        self._lines: list[str] = []  # of the query that is typed
        self._answering = False
        self._begin()

    def onecmd(self, line: str) -> bool:
        """Take a line, and answer the query that it ends; return whether the input has ended."""
        ended = line == "EOF" or (not self._lines and line.strip() in _QUITS)
        if line == "EOF" and self._terminal:
            click.echo()
        if line.strip() and not ended:
            self._lines.append(line)
        if self._lines and (ended or line.rstrip().endswith(";") or self._lines[0].startswith(".")):
            text = "\n".join(self._lines).strip().rstrip("; \n")
            self._answering = True
            self._answered(text)
            self._begin()
        elif self._lines and self._terminal:
            self.prompt = _PROMPTS[1]
        return ended

    def interrupt(self) -> None:
        """Forget the query that Ctrl-C ended, or the lines that were typed of one."""
        if self._answering:
            end_line()
            complain("the query was aborted", ())
        else:
            click.echo()
        self._begin()

    def completedefault(self, text: str, *_: object) -> list[str]:
        """Return the words that begin so."""
        return [word for word in words() if word.startswith(text.lower())]

    completenames = completedefault

    def _begin(self) -> None:
        self._lines, self._answering = [], False
        self.prompt = _PROMPTS[0] if self._terminal else ""

    def _answered(self, text: str) -> None:
        """Answer a query, or do what a command with a dot says; what is wrong in it is reported."""
        try:
            if text:
                _obey(text) if text.startswith(".") else self._answer(text)
        except CaptureError:
            raise
        except DcpdumpError as error:
            complain(str(error), (error.hint, *error.more))


@cache
def words() -> list[str]:
    """Return what can be completed: tables, columns, keywords."""
    from dcpdump.arrow.folder import SCHEMAS

    columns = [name for make in SCHEMAS.values() for name in make().names]
    return sorted({*TABLES, *columns, *_KEYWORDS})


def _obey(command: str) -> None:
    """Do what a command with a dot says."""
    from dcpdump.arrow import schema
    from dcpdump.arrow.folder import SCHEMAS

    name, *tables = command.split()
    unknown = next((each for each in tables if each not in TABLES), None)
    if name not in (".schema", ".tables", ".help") or unknown is not None:
        what = f"no such table: {unknown}" if name == ".schema" else f"no such command: {name}"
        raise DcpdumpError(what, "", _HELP.partition("\n")[0] if unknown else ".help lists the commands")
    if name == ".help":
        click.echo(_HELP, nl=False)
    for each in tables or TABLES if name == ".schema" else ():
        click.echo(f"{each} {schema.text(SCHEMAS[each]())}", nl=False)
    if name == ".tables":
        click.echo("\n".join(TABLES))


@contextmanager
def _history() -> Iterator[None]:
    """Keep the queries of earlier runs, where Python has readline, for their owner alone: they may quote keys."""
    try:
        readline: Any = import_module("readline")
    except ImportError:
        yield
        return
    readline.set_completer_delims(_DELIMITERS)
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dcpdump" / "sql-history"
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with suppress(OSError):  # a home that cannot be written
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.set_history_length(_HISTORY_LINES)
            readline.write_history_file(path)
