"""Read captures for a query: no more of them is decoded, and no more rows are made, than it may need."""

import gc
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa

from dcpdump.arrow.folder import SCHEMAS
from dcpdump.arrow.frame_table import VALUES, FrameTable, batch_of_records, is_cut
from dcpdump.arrow.other_tables import JUDGED, OtherTables
from dcpdump.batch.block import Block
from dcpdump.batch.dissector import SMALL_BLOCK_BYTES, BlockDissector, Dissection, NumberPicker, Picked, Picker
from dcpdump.batch.part import even_groups, joined
from dcpdump.capture import Capture
from dcpdump.cli.input_options import InputOptions
from dcpdump.cli.options import Display, Selection, selection
from dcpdump.cli.reading import CaptureSource, Consumer, Reading
from dcpdump.cli.summary import READ
from dcpdump.cli.tables import cut_notes
from dcpdump.dissect import Dissector
from dcpdump.filter import FrameFilter
from dcpdump.filter.choices import Wanted, wanted_of
from dcpdump.record import Record
from dcpdump.sql.database import Engine
from dcpdump.sql.predicates import options_of, window_of
from dcpdump.sql.query import FRAMES, Query
from dcpdump.streams.dissection import Watching

if TYPE_CHECKING:
    from dcpdump.batch.part import Part

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
