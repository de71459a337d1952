"""Read captures for queries, ask for these where none is given, and write what they answer."""

import gc
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import click
import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow.folder import SCHEMAS
from dcpdump.arrow.frame_table import VALUES, FrameTable, batch_of_records, is_cut
from dcpdump.arrow.other_tables import JUDGED, OtherTables
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import SMALL_BLOCK_BYTES, BlockDissector, Dissection, NumberPicker, Picked, Picker
from dcpdump.batch.part import even_groups, joined
from dcpdump.capture import Capture
from dcpdump.cli.export import cut_notes
from dcpdump.cli.input_options import InputOptions
from dcpdump.cli.options import Display, Selection, selection
from dcpdump.cli.reading import CaptureSource, Consumer, Reading
from dcpdump.cli.signals import Interruptible
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import READ
from dcpdump.cli.terminal import complain, end_line, terminal_size
from dcpdump.dissect import Dissector
from dcpdump.errors import CaptureError, DcpdumpError, ExitCode
from dcpdump.escape import safe_json
from dcpdump.filter import FrameFilter
from dcpdump.filter.choices import Wanted, wanted_of
from dcpdump.record import Record
from dcpdump.render.objects import csv_row
from dcpdump.render.style import Palette
from dcpdump.render.text_columns import Table
from dcpdump.sql.database import Engine
from dcpdump.sql.predicates import options_of, window_of
from dcpdump.sql.query import FRAMES, Query
from dcpdump.sql.result_values import cell, is_number, names_of, rows_of
from dcpdump.streams.dissection import Watching

if TYPE_CHECKING:
    from dcpdump.batch.part import Part


# -- the reading of captures for a query --------------------------------------------------------------
# No more of them is decoded, and no more rows are made, than it may need.

Piece = Union[Picked, "Part"]
#: Where no frame becomes a row, none has to be decoded.
_NO_FRAME = Wanted(bytes(256), bytes(65_536))
#: Values of so many bytes make no row long.
_SHORT = 1 << 16


class QueryReading:
    """The reading of captures for one query. ``times``: the options that choose frames by their times."""

    def __init__(
        self, query: Query, captures: Sequence[Capture], shown: Display, given: InputOptions, times: Mapping[str, Any]
    ) -> None:
        self._query, self._captures = query, captures
        self._chosen = _selection(query, times)
        source = CaptureSource(captures, patient=True)
        dissection = self._dissection(source, shown, given)
        self._others = OtherTables(query.tables, dissection, shown.redactor)
        self._rows = _Rows(query, self._chosen, shown, dissection, self._others)
        numbers = self._chosen.numbers if query.tables == {FRAMES} else None
        last = None if numbers is None else numbers.last
        self.reading: Reading[Any] = Reading(source, dissection, self._rows, last=last)

    @property
    def begun(self) -> bool:
        """Return whether anything was read: a query may not need it, or DuckDB see that no row can be wanted."""
        return self._rows.begun

    @property
    def long(self) -> bool:
        """Return whether a row may have a whole document."""
        most = self._rows.shown.value_bytes
        named = not VALUES.isdisjoint(self._query.columns.get(FRAMES, ()))
        return named and (most is None or most > _SHORT)

    def offer(self, engine: Engine) -> Generator[pa.RecordBatch, None, None]:
        """Offer the tables of a query; return the rows that are read as they come, to be closed once it is answered."""
        query = self._query
        if query.streamed:
            (table,) = query.tables
            batches = self._batches() if table == FRAMES else self._batches_of(table)
            engine.stream(table, _schema(query, table), batches)
            return batches
        others, batches = query.tables - {FRAMES}, self._batches()
        if FRAMES in query.tables:
            engine.store(FRAMES, _schema(query, FRAMES), batches)
        elif len(others) == 1:
            (table,) = others
            batches = self._batches_of(table)
            engine.store(table, _schema(query, table), batches)
            others = frozenset()
        elif others:
            for _ in batches:
                pass
        if others:
            self._rows.keep(self._others.rows(self._captures))
        for name in others:
            engine.store(name, _schema(query, name), self._rows.taken(name))
        self._release()
        return batches

    def _release(self) -> None:
        """Release what only reading needed: the query may need the memory."""
        del self._others, self._rows.others, self._rows.table
        gc.collect()  # connections and what judges them name each other
        pa.default_memory_pool().release_unused()

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        with closing(self.reading.steps()) as steps:
            for _ in steps:
                yield from self._rows.made()

    def _batches_of(self, table: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of another table than frames: as they come, and what is known at the end."""
        rows = self._rows
        with closing(self.reading.steps()) as steps:
            for _ in steps:
                yield from rows.taken(table)
        for some in self._others.rows(self._captures):
            rows.keep([some])
            yield from rows.taken(table)

    def _dissection(self, source: CaptureSource, shown: Display, given: InputOptions) -> BlockDissector[Any]:
        """Return the dissection that decodes least of all that suit the query."""
        how: dict[str, Any] = {"show_secrets": shown.show_secrets, "secrets": given.secrets}
        tables, numbers = self._query.tables, self._chosen.numbers
        if not JUDGED.isdisjoint(tables):
            return Watching(given.limits, **how)
        wanted = wanted_of(self._chosen.texts) if FRAMES in tables else _NO_FRAME
        if wanted is not None or numbers is not None:
            source.block_bytes = SMALL_BLOCK_BYTES
        if wanted is not None:
            return Picker(wanted, given.limits, **how)
        return Dissection(given.limits, **how) if numbers is None else NumberPicker(numbers, given.limits, **how)


class _Rows(Consumer[Piece]):
    """A consumer that makes the rows of chosen frames."""

    verb = READ

    def __init__(
        self,
        query: Query,
        chosen: Selection,
        shown: Display,
        dissection: BlockDissector[Any],
        others: OtherTables,
    ) -> None:
        self._query, self._chosen, self.shown = query, chosen, shown
        self._dissection, self.others = dissection, others
        self.redactor = shown.redactor
        self.table = FrameTable(
            chosen.masks,
            shown.value_bytes,
            redactor=shown.redactor,
        )
        self.table.choose(query.columns.get(FRAMES, ()))
        self.begun = False
        self._pieces: list[Piece] = []  # of which rows are to be made
        self._cut = 0  # rows in which a value was cut
        self.tables: dict[str, list[pa.RecordBatch]] = {"gaps": []}  #: rows of other tables, of what is needed

    @property
    def frames(self) -> int:  # type: ignore[override]
        """Return how many frames were read."""
        return self._dissection.tally.frames

    def begin(self) -> None:
        """Note that the reading has begun."""
        self.begun = True

    def meet(self, block: Block) -> None:
        """Set the beginning of the capture, and count packets."""
        self._chosen.begin(block.begins_ns)
        self.others.meet(block)

    def take(self, pieces: list[Piece]) -> bool:
        """Take what rows are to be made of; there are never enough."""
        self.keep(self.others.take([piece for piece in pieces if not isinstance(piece, Picked)]))
        if FRAMES in self._query.tables:
            self._pieces += pieces
        return False

    def made(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was taken since the last call, in batches that are not large."""
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            groups: Iterable[Any] = [piece] if isinstance(piece, Picked) else even_groups([piece])
            for group in groups:
                batch = self._picked(group.records) if isinstance(group, Picked) else self._fed(group)
                if batch is not None:
                    yield batch

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return in how many rows values were cut."""
        return cut_notes(self._cut, self.shown.value_bytes)

    def keep(self, tables: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Keep what the query needs of rows of other tables."""
        for name, rows in tables:
            if name in self._query.tables:
                self.tables.setdefault(name, []).append(rows.select(_schema(self._query, name).names))

    def taken(self, table: str) -> list[pa.RecordBatch]:
        """Return the rows of another table that came since the last call."""
        found, self.tables[table] = self.tables.get(table, []), []
        return found

    def _fed(self, parts: list["Part"]) -> pa.RecordBatch | None:
        before = self.table.cut
        batch = self.table.feed(joined(parts))
        self._cut += self.table.cut - before
        return batch

    def _picked(self, records: Sequence[Record]) -> pa.RecordBatch | None:
        chosen = [self.shown.shown(record) for record in records if self._chosen.accepts(record)]
        columns, most = self._query.columns[FRAMES], self.shown.value_bytes
        if not columns.isdisjoint(VALUES):
            self._cut += sum(is_cut(record, most) for record in chosen)
        return batch_of_records(chosen, most, columns) if chosen else None


def _schema(query: Query, table: str) -> pa.Schema:
    """Return the schema of what a query needs of a table."""
    return pa.schema([field for field in SCHEMAS[table]() if field.name in query.columns[table]])


def _selection(query: Query, times: Mapping[str, Any]) -> Selection:
    """Return the selection of frames that a query needs. Times that were given as options hold exactly."""
    chosen = selection({**options_of(query.hint), **times})
    window = window_of(query.hint)
    if chosen.window is not None or window is None:
        return chosen
    return replace(chosen, window=window, filter=FrameFilter((*chosen.filter.clauses, window)))


# -- the answer: a table for people, csv, or ndjson ---------------------------------------------------

#: Cells that are laid out together, and characters: the next rows are a table of their own.
_TABLE_CELLS, _TABLE_SIZE = 100_000, 2 << 20
#: Bytes of rows of which the values are made at a time: as objects of Python they may be ten times as many.
_VALUES_SIZE = 1 << 20
#: Of more columns than these, the ones without any value are left out.
_MANY = 16
_NULL = "null"


def write_answer(sink: Sink, shown: Display, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a result, and return how many rows it has."""
    names = names_of(schema)
    rows = (row for batch in batches for some in _slices(batch) for row in rows_of(some))
    if shown.format == "table":
        return _write_tables(sink, Palette(shown.coloured(sink.is_terminal)), schema, rows)
    if shown.format == "csv":
        sink.write(csv_row(names) + "\r\n")
    count = 0
    for row in rows:
        if shown.format == "csv":
            sink.write(csv_row([cell(value) for value in row]) + "\r\n")
        else:
            sink.write(safe_json(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)) + "\n")
        count += 1
    return count


def _write_tables(sink: Sink, palette: Palette, schema: pa.Schema, rows: Iterator[tuple[Any, ...]]) -> int:
    names = names_of(schema)
    right = [name for name, kind in zip(names, schema.types, strict=True) if is_number(kind)]
    width = terminal_size().columns if sink.is_terminal else None
    count = 0
    for some in _chunks(rows):
        count += len(some)
        keep = list(range(len(names)))
        if len(names) > _MANY:
            keep = [at for at in keep if any(row[at] is not None for row in some)] or [0]
        heads = [names[at] for at in keep]
        cells = [[_NULL if (text := row[at]) is None else text for at in keep] for row in some]
        lines = Table(heads, cells, right=right, least=tuple(reversed(heads[1:-1]))).lines(width)
        for line in lines:
            sink.write(palette.paint(line) + "\n")
        if len(heads) < len(names):
            sink.write(f"{len(names) - len(heads)} columns without a value are not shown\n")
    return count


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch as several, of as many rows as can become values at a time."""
    count = batch.num_rows
    step = max(1, count * _VALUES_SIZE // max(batch.nbytes, 1))
    for at in range(0, count, step):
        yield batch.slice(at, step)


def _chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[Sequence[Sequence[str | None]]]:
    """Yield the cells of rows that are laid out together; None for a cell without a value.

    A cell is as wide as the widest of its column, so that one wide row would make many rows wide.
    """
    some: list[Sequence[str | None]] = []
    widest: list[int] = []
    for row in rows:
        cells = [None if value is None else cell(value) for value in row]
        widths = [0 if text is None else len(text) for text in cells]
        both = list(map(max, widest, widths)) if some else widths
        if some and ((len(some) + 1) * len(both) > _TABLE_CELLS or (len(some) + 1) * sum(both) > _TABLE_SIZE):
            yield some
            some, both = [], widths
        some.append(cells)
        widest = both
    if some:
        yield some


# -- the prompt: queries one after the other, with completion and history where there is readline -----

_PROMPT, _MORE = "sql> ", "...> "
_HELP = f"""A query ends with ';'. Tables: {", ".join(SCHEMAS)}. Tab completes their columns.
.schema [TABLE]  columns and their types
.help            this
.quit            leave, as Ctrl-D does; Ctrl-C aborts a query
"""
_HISTORY_LINES = 1000
_KEYWORDS = """select from where group by order having limit join using with as distinct between in is not null and or
    count sum min max avg desc asc describe summarize timestamp interval""".split()
#: Between these, readline looks for the word to complete.
_DELIMITERS = " \t\n,;()=<>+-*/'\"."


def prompt(answer: Callable[[str], int]) -> int:
    """Answer queries until the input ends, and return the exit code."""
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if terminal:
        click.echo(_HELP, nl=False)
    queries = _Queries(terminal)
    with Interruptible() as interruptible, _readline() if terminal else _nothing():
        while not queries.ended:
            if not interruptible.run(queries.read):
                queries.drop()
            elif not interruptible.run(partial(_answer, answer, queries.text)):
                end_line()
                complain("the query was aborted", ())
    return ExitCode.DONE


def _answer(answer: Callable[[str], int], text: str) -> None:
    """Answer a query, or do what a command with a dot says; what is wrong in it is reported."""
    try:
        if text:
            _obey(text) if text.startswith(".") else answer(text)
    except CaptureError:
        raise
    except DcpdumpError as error:
        complain(str(error), (error.hint, *error.more))


def words() -> list[str]:
    """Return what can be completed: tables, columns, keywords."""
    columns = [name for make in SCHEMAS.values() for name in make().names]
    return sorted({*SCHEMAS, *columns, *_KEYWORDS})


class _Queries:
    """What is typed: queries, and commands. ``text``: the one that was read, without the ';' at its end."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._lines: list[str] = []
        self.text = ""
        self.ended = False

    def read(self) -> None:
        """Read one, or to the end of the input: what is then left is a query too."""
        self.text = ""
        while not self.ended and not self.text:
            self._read_line()

    def drop(self) -> None:
        """Forget the lines of what is not wanted."""
        self._lines = []
        click.echo()

    def _read_line(self) -> None:
        try:
            line = input((_MORE if self._lines else _PROMPT) if self._terminal else "")
        except EOFError:
            self.ended = True
            if self._terminal:
                click.echo()
            self._take()
            return
        if not self._lines and line.strip() in (".quit", ".exit", "quit", "exit"):
            self.ended = True
        elif line.strip():
            self._lines.append(line)
            if line.rstrip().endswith(";") or self._lines[0].startswith("."):
                self._take()

    def _take(self) -> None:
        self.text = "\n".join(self._lines).strip().rstrip("; \n")
        self._lines = []


def _obey(command: str) -> None:
    """Do what a command with a dot says."""
    name, *tables = command.split()
    unknown = next((each for each in tables if each not in SCHEMAS), None)
    if name not in (".schema", ".tables", ".help") or unknown is not None:
        what = f"no such table: {unknown}" if name == ".schema" else f"no such command: {name}"
        raise DcpdumpError(what, "", _HELP.partition("\n")[0] if unknown else ".help lists the commands")
    if name == ".help":
        click.echo(_HELP, nl=False)
    for each in tables or SCHEMAS if name == ".schema" else ():
        click.echo(f"{each} {schema.text(SCHEMAS[each]())}", nl=False)
    if name == ".tables":
        click.echo("\n".join(SCHEMAS))


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _readline() -> Iterator[None]:
    """Complete words, and keep the queries of earlier runs, where Python has readline."""
    try:
        readline: Any = import_module("readline")
    except ImportError:
        yield
        return
    known = words()

    def complete(text: str, state: int) -> str | None:
        found = [word for word in known if word.startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(complete)
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    history = _history()
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        with suppress(OSError):  # a home that cannot be written
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.set_history_length(_HISTORY_LINES)
            readline.write_history_file(history)


def _history() -> Path:
    """Return the file that keeps queries. They may quote keys: it is for its owner alone."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dcpdump" / "sql-history"
