"""Write the rows that one task has for the tables, in files whose names are unique to the attempt.

    frames/date=2026-11-20/part-00003-….parquet

A file gets rows in sorted runs, one for each table as long as they are of one day.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow import zero_copy as laid
from dcpdump.arrow.column_builder import batch_of
from dcpdump.arrow.folder import SCHEMAS as EXPORTED
from dcpdump.arrow.folder import ParquetFile
from dcpdump.errors import unwritable
from dcpdump.spark.filesystem import make_folders, place

#: Columns that only a reader of everything in order can fill.
COUNTED = ("frame", "request_frame")
#: Bytes of rows that are sorted together, about: a row group of their file.
SORTED_BYTES = 8 * 1024 * 1024
EMPTY: Mapping[str, str] = {}
_DAY_NS = 86_400 * 1_000_000_000
_NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_DATED = frozenset({"frames", "gaps"})


def frames() -> pa.Schema:
    """Return the schema of ``frames``, without the frame numbers that only a reader of the whole input can count."""
    whole = schema.frames()
    kept = [field for field in whole if field.name not in COUNTED]
    return pa.schema(kept, metadata=whole.metadata)


SCHEMAS: Mapping[str, Callable[[], pa.Schema]] = {**EXPORTED, "frames": frames}


class Written(NamedTuple):
    """A file of a table: where it lies below the run's folder, and its rows."""

    table: str
    path: str
    rows: int


class _PartFile:
    """A file of a table under construction, which gets rows in sorted runs."""

    def __init__(self, path: str, stream: Any, columns: pa.Schema) -> None:
        self.path, self.rows = path, 0
        self._stream, self._writer = stream, ParquetFile(stream, columns)

    def feed(self, rows: pa.Table) -> None:
        """Write the next rows."""
        for batch in rows.to_batches():
            self._writer.feed(batch)
        self.rows += rows.num_rows

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()
        self._stream.close()

    def give_up(self) -> None:
        """Close the file as it is."""
        self._writer.give_up()
        with suppress(pa.ArrowException, OSError):
            self._stream.close()


class Parts:
    """The rows that one task has for the tables. Feed it batches; ``close`` returns what was written.

    ``names``: by the name under which a file is read, its own name for the tables. Use it in a ``with``: after an
    exception no file stays open.
    """

    def __init__(self, folder: str, tag: str, names: Mapping[str, str] = EMPTY) -> None:
        self._place = place(folder)
        self._names = {here: own for here, own in names.items() if here != own}
        self._tag = f"{tag}-{uuid.uuid4().hex[:12]}"  # no other attempt writes there
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._files = 0
        self._open: dict[str, tuple[str, _PartFile]] = {}  # by table: the day of its rows, and the file that gets them
        self._events: tuple[Any, Any] | None = None
        self.written: list[Written] = []

    def feed(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table, with the columns that ``export`` has."""
        if not batch.num_rows:
            return
        if table == "events":
            self._keep_events(batch)
            return
        if self._names:
            batch = _renamed(batch, self._names)
        if table != "frames":
            self._write_by_date(table, pa.Table.from_batches([batch]))
            return
        self._held.append(batch)
        self._size += sum(column.nbytes for column in batch.columns if column.null_count < len(column))
        if self._size >= SORTED_BYTES:
            self._flush()

    def close(self) -> list[Written]:
        """Write what is left, and return all files written."""
        self._flush()
        for name in list(self._open):
            self._complete(name)
        if self._events is not None:
            for each in self._events:
                each.close()
            self._events = None
        return self.written

    def __enter__(self) -> "Parts":
        return self

    def __exit__(self, *_: object) -> None:
        for dated in self._open.values():
            dated[1].give_up()

    def leave_empty(self, table: str, beside: Iterable[Written]) -> None:
        """Write a table without rows, so that readers find its columns: of the first day of the tables ``beside``.

        pyarrow, and so pandas, reads no table whose only day is none.
        """
        days = [part for each in beside for part in each.path.split("/") if part.startswith("date=")]
        day = min((day for day in days if _NO_DATE not in day), default=f"date={_date(0)}")
        self._write(table, f"{day}/" if table in _DATED else "", SCHEMAS[table]().empty_table())

    def _keep_events(self, batch: pa.RecordBatch) -> None:
        """Append events, which a later task reads, to a file of their own."""
        if self._events is None:
            path = f"events/part-{self._tag}.arrow"
            stream = self._opened(path)
            self._events = pa.ipc.new_stream(stream, batch.schema), stream
            self.written.append(Written("events", path, 0))
        self._events[0].write_batch(batch)

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self._size = [], 0
        table = _sorted(table.select(frames().names).replace_schema_metadata(frames().metadata))
        self._write_by_date("frames", table)

    def _write_by_date(self, table: str, rows: pa.Table) -> None:
        if table not in _DATED:
            self._write(table, "", rows)
            return
        times = rows.column("time_ns")
        days = times.fill_null(np.iinfo(np.int64).min).to_numpy() // _DAY_NS
        for day in np.unique(days).tolist():
            mine = np.flatnonzero(days == day)
            chosen = rows if len(mine) == len(days) else rows.take(pa.array(mine))
            self._write(table, f"date={_date(day)}/", chosen)

    def _write(self, table: str, date: str, rows: pa.Table) -> None:
        if table in self._open and self._open[table][0] != date:
            self._complete(table)
        if table not in self._open:
            path = f"{table}/{date}part-{self._tag}-{self._files}.parquet"
            self._files += 1
            self._open[table] = date, _PartFile(path, self._opened(path), rows.schema)
        file = self._open[table][1]
        try:
            file.feed(rows)
        except OSError as error:
            raise unwritable(error, file.path) from error

    def _complete(self, table: str) -> None:
        """Close the file that a table's rows were written to."""
        file = self._open[table][1]
        try:
            file.close()
        except OSError as error:
            raise unwritable(error, file.path) from error
        del self._open[table]
        self.written.append(Written(table, file.path, file.rows))

    def _opened(self, path: str) -> Any:
        target = self._place / path
        try:
            make_folders(target)
            if target.local:  # for its owner alone: captures hold documents
                os.close(os.open(target.path, os.O_CREAT | os.O_WRONLY, 0o600))
            return target.system.open_output_stream(target.path)
        except OSError as error:
            raise unwritable(error, target.path) from error


def _sorted(table: pa.Table) -> pa.Table:
    """Return rows sorted by connection, direction and offset."""
    order = np.lexsort([table.column(name).to_numpy() for name in ("offset", "direction", "connection")])
    if (np.diff(order) == 1).all():
        return table
    places = laid.places(order)
    columns = [
        column.combine_chunks().take(places)
        if column.null_count < len(column)
        else laid.nothing(len(column), column.type)
        for column in table.unify_dictionaries().columns
    ]
    return pa.table(columns, schema=table.schema)


def _renamed(batch: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """Return the batch with files under their own names."""
    place = batch.schema.get_field_index("file")
    if place < 0:
        return batch
    old = batch.column(place)
    words = old.dictionary if isinstance(old, pa.DictionaryArray) else old
    new = pa.array([names.get(word, word) for word in words.to_pylist()], pa.string())
    if isinstance(old, pa.DictionaryArray):
        new = pa.DictionaryArray.from_arrays(old.indices, new)
    return batch.set_column(place, batch.schema.field(place), new)


def _date(day: int) -> str:
    try:
        return f"{datetime.fromtimestamp(day * 86_400, timezone.utc):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):  # not a time, or a year beyond the calendar
        return _NO_DATE


def table_of(rows: list[dict[str, Any]], name: str) -> pa.RecordBatch:
    """Return rows as a batch of a table."""
    return batch_of(rows, SCHEMAS[name]())
