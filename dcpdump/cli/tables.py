"""Read captures as tables: to answer a query about them, and to export them."""

import gc
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dcpdump.arrow.folder import SCHEMAS, BackgroundWriter, ReceivedBatches, Tables, pack_batch
from dcpdump.arrow.frame_table import VALUES, FrameTable, batch_of_records, is_cut
from dcpdump.arrow.other_tables import JUDGED, OtherTables
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import SMALL_BLOCK_BYTES, BatchOrRecords, BlockDissector, Dissection, NumberPicker, Picker
from dcpdump.batch.frame_batch import FrameBatch, even_groups, is_heavy, joined, pieces_of, thing_of
from dcpdump.capture.file import Capture
from dcpdump.cli.export import cut_notes
from dcpdump.cli.frame_output import ChoosingConsumer
from dcpdump.cli.options import Invocation, Selection, selection
from dcpdump.cli.reading import CaptureSource, Consumer, Reading
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import READ
from dcpdump.cli.terminal import terminal_size
from dcpdump.dissect import Dissector
from dcpdump.escape import safe_json
from dcpdump.filter import FrameFilter
from dcpdump.filter.choices import NOTHING_WANTED, wanted_of
from dcpdump.processes import Workers
from dcpdump.record import Record
from dcpdump.render.objects import csv_row
from dcpdump.render.style import Palette
from dcpdump.render.text_columns import Table
from dcpdump.sql.predicates import options_of, window_of
from dcpdump.sql.query import FRAMES, Query
from dcpdump.sql.results import cell, is_number, names_of, rows_of
from dcpdump.streams.dissection import Watching

if TYPE_CHECKING:
    from dcpdump.sql.database import Engine


# -- the reading of captures for a query --------------------------------------------------------------
# No more of them is decoded, and no more rows are made, than it may need.

#: Values up to this size make no row long.
_SHORT = 1 << 16


class QueryReading(Consumer[BatchOrRecords]):
    """The reading of captures for one query: makes the rows of what it chooses."""

    verb = READ

    def __init__(self, query: Query, captures: Sequence[Capture], asked: Invocation) -> None:
        self._query, self._captures, self._asked = query, captures, asked
        self.redactor = asked.redactor
        self._chosen = _selection(query, asked)
        source = CaptureSource(captures, patient=True)
        self._dissection = self._suitable(source, asked)
        self._others = OtherTables(query.tables, self._dissection, asked.redactor)
        self._table = FrameTable(self._chosen.masks, asked.value_bytes, redactor=asked.redactor)
        self._table.choose(query.columns.get(FRAMES, ()))
        self.begun = False  #: anything was read: a query may not need it, or DuckDB see that no row can be wanted
        self._pieces: list[BatchOrRecords] = []  # of which rows are to be made
        self._cut = 0  # rows in which a value was cut
        self._kept: dict[str, list[pa.RecordBatch]] = {"gaps": []}  # rows of other tables, of what is needed
        numbers = self._chosen.numbers if query.tables == {FRAMES} else None
        last = None if numbers is None else numbers.last
        self.reading: Reading[Any] = Reading(source, self._dissection, self, last=last)

    @property
    def long(self) -> bool:
        """Return whether a row may have a whole document."""
        most = self._asked.value_bytes
        named = not VALUES.isdisjoint(self._query.columns.get(FRAMES, ()))
        return named and (most is None or most > _SHORT)

    def offer(self, engine: "Engine") -> Generator[pa.RecordBatch, None, None]:
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
            self._keep(self._others.rows(self._captures))
        for name in others:
            engine.store(name, _schema(query, name), self._pop_batches(name))
        # The query may need the memory of what only reading needed.
        del self._others, self._table
        gc.collect()  # connections and what judges them name each other
        pa.default_memory_pool().release_unused()
        return batches

    # -- as a consumer ----------------------------------------------------------------------------------

    @property
    def frames(self) -> int:  # type: ignore[override]
        """Return how many frames were read."""
        return self._dissection.tally.frames

    def begin(self) -> None:
        """Note that the reading has begun."""
        self.begun = True

    def observe(self, block: Block) -> None:
        """Set the beginning of the capture, and count packets."""
        self._chosen.begin(block.begins_ns)
        self._others.observe(block)

    def consume(self, pieces: list[BatchOrRecords]) -> bool:
        """Keep the pieces to make rows of; more are always wanted."""
        self._keep(self._others.feed([piece for piece in pieces if not isinstance(piece, list)]))
        if FRAMES in self._query.tables:
            self._pieces += pieces
        return False

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return in how many rows values were cut."""
        return cut_notes(self._cut, self._asked.value_bytes)

    # -- rows -------------------------------------------------------------------------------------------

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of frames as they come, in batches that are not large."""
        with closing(self.reading.steps()) as steps:
            for _ in steps:
                pieces, self._pieces = self._pieces, []
                for piece in pieces:
                    made = (
                        [self._picked(piece)] if isinstance(piece, list) else map(self._fed_batch, even_groups([piece]))
                    )
                    yield from (each for each in made if each is not None)

    def _batches_of(self, table: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of another table than frames: as they come, and what is known at the end."""
        with closing(self.reading.steps()) as steps:
            for _ in steps:
                yield from self._pop_batches(table)
        for some in self._others.rows(self._captures):
            self._keep([some])
            yield from self._pop_batches(table)

    def _keep(self, tables: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Keep what the query needs of rows of other tables."""
        for name, rows in tables:
            if name in self._query.tables:
                self._kept.setdefault(name, []).append(rows.select(_schema(self._query, name).names))

    def _pop_batches(self, table: str) -> list[pa.RecordBatch]:
        """Return the rows of another table that came since the last call."""
        found, self._kept[table] = self._kept.get(table, []), []
        return found

    def _fed_batch(self, batches: list[FrameBatch]) -> pa.RecordBatch | None:
        before = self._table.cut
        batch = self._table.feed(joined(batches))
        self._cut += self._table.cut - before
        return batch

    def _picked(self, records: Sequence[Record]) -> pa.RecordBatch | None:
        chosen = [self._asked.shown(record) for record in records if self._chosen.filter.accepts(record)]
        columns, most = self._query.columns[FRAMES], self._asked.value_bytes
        if not columns.isdisjoint(VALUES):
            self._cut += sum(is_cut(record, most) for record in chosen)
        return batch_of_records(chosen, most, columns) if chosen else None

    def _suitable(self, source: CaptureSource, asked: Invocation) -> BlockDissector[Any]:
        """Return the dissection that decodes least of all that suit the query."""
        tables, numbers = self._query.tables, self._chosen.numbers
        if not JUDGED.isdisjoint(tables):
            return asked.dissect(Watching)
        wanted = wanted_of(self._chosen.texts) if FRAMES in tables else NOTHING_WANTED
        if wanted is not None or numbers is not None:
            source.block_bytes = SMALL_BLOCK_BYTES
        if wanted is not None:
            return asked.dissect(partial(Picker, wanted))
        return asked.dissect(Dissection if numbers is None else partial(NumberPicker, numbers))


def _schema(query: Query, table: str) -> pa.Schema:
    """Return the schema of what a query needs of a table."""
    return pa.schema([field for field in SCHEMAS[table]() if field.name in query.columns[table]])


def _selection(query: Query, asked: Invocation) -> Selection:
    """Return the selection of frames that a query needs. Times that were given as options hold exactly."""
    chosen = selection({**options_of(query.hint), **{name: asked.options[name] for name in ("since", "until", "tz")}})
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


def write_answer(sink: Sink, asked: Invocation, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a result."""
    names = names_of(schema)
    rows = (row for batch in batches for some in _slices(batch) for row in rows_of(some))
    if asked.format == "table":
        _write_tables(sink, Palette(asked.coloured(sink.is_terminal)), schema, rows)
    elif asked.format == "csv":
        sink.write(csv_row(names) + "\r\n")
        for row in rows:
            sink.write(csv_row([cell(value) for value in row]) + "\r\n")
    else:
        for row in rows:
            sink.write(safe_json(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)) + "\n")


def _write_tables(sink: Sink, palette: Palette, schema: pa.Schema, rows: Iterator[tuple[Any, ...]]) -> None:
    names = names_of(schema)
    right = [name for name, kind in zip(names, schema.types, strict=True) if is_number(kind)]
    width = terminal_size().columns if sink.is_terminal else None
    for some in _chunks(rows):
        keep = list(range(len(names)))
        if len(names) > _MANY:
            keep = [at for at in keep if any(row[at] is not None for row in some)] or [0]
        heads = [names[at] for at in keep]
        cells = [[_NULL if (text := row[at]) is None else text for at in keep] for row in some]
        for line in Table(heads, cells, right=right, least=tuple(reversed(heads[1:-1]))).lines(width):
            sink.write(palette.paint(line) + "\n")
        if len(heads) < len(names):
            sink.write(f"{len(names) - len(heads)} columns without a value are not shown\n")


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


# -- the tables of export: several processes make the rows of frames, a thread writes them -------------

#: Batches of more bytes than any block's have a frame that is large, of which handing it over would make more copies.
_LARGE = 8 << 20


class Exporting(ChoosingConsumer[FrameBatch]):
    """A consumer that writes tables. ``jobs``: how many processes may be used."""

    def __init__(self, dissection: Watching, asked: Invocation, tables: Tables, jobs: int) -> None:
        super().__init__(asked)
        self._tables, chosen = tables, asked.frames
        self._table = FrameTable(
            chosen.masks,
            asked.value_bytes,
            count=chosen.count,
            redactor=asked.redactor,
            apart=True,
        )
        self._others = OtherTables(tables.names, dissection, asked.redactor)
        # To stop at a count, one process must see all rows.
        self._decoding: Workers[list[FrameBatch]] = Workers(
            jobs if chosen.count is None else 1, self._decode, pieces_of, thing_of
        )
        self._threaded = jobs > 1
        self._writing: BackgroundWriter[Any] | None = None
        self._arrivals = ReceivedBatches(SCHEMAS["frames"]())

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return which names of collections are not known, and in how many rows values were cut."""
        yield from super().remarks(dissection)
        yield from cut_notes(self._arrivals.cut, self._asked.value_bytes)

    def observe(self, block: Block) -> None:
        """Count packets. The first block sets the beginning of the input, which the processes need."""
        super().observe(block)
        self._others.observe(block)
        if self._writing is None:
            self._decoding.begin()  # before the thread starts: forked processes would not have it
            self._writing = BackgroundWriter(lambda batch: self._tables.feed("frames", batch), threaded=self._threaded)

    def consume(self, batches: list[FrameBatch]) -> bool:
        """Write gaps, judge frames, and have rows made; return whether there are enough."""
        for name, rows in self._others.feed(batches):
            self._tables.feed(name, rows)
        if "frames" in self._tables.names:
            for group in even_groups(batches):
                if not self._is_full:
                    here = sum(len(batch.data) for batch in group) > _LARGE or all(map(is_heavy, group))
                    self._write((self._decoding.put_here if here else self._decoding.put)(group))
        return self._is_full and JUDGED.isdisjoint(self._tables.names)

    def finish(self) -> None:
        """Write the rows that are left."""
        self._write(self._decoding.finish())
        if self._writing is not None:
            self._writing.close()

    def close(self) -> None:
        """End the processes."""
        self._decoding.close()

    def conclude(self, captures: Sequence[Capture]) -> None:
        """Write the tables of files and streams, and what the rules found."""
        for name, rows in self._others.rows(captures):
            self._tables.feed(name, rows)

    def _decode(self, batches: list[FrameBatch]) -> bytes:
        before = self._table.cut
        batch = self._table.feed(joined(batches))
        return pack_batch(batch, self._table.cut - before)

    def _write(self, made: Iterable[bytes | memoryview]) -> None:
        for data in made:
            batch = self._arrivals.batch(data)
            if batch is not None and self._writing is not None:
                self.frames += batch.num_rows
                self._writing.feed(batch)
