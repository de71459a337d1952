"""Write the folder of an export. It appears complete, with all its files, or not at all.

It is filled beside its final name, for its owner alone (captures hold documents), and renamed at the end.
"""

import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from dcpdump.arrow import other_tables, schema, verdicts
from dcpdump.arrow.column_builder import Vocabulary
from dcpdump.errors import OutputError, writing
from dcpdump.escape import safe, safe_json
from dcpdump.processes import signals_held
from dcpdump.unfinished import UnfinishedFolder

# -- writers of a table: Parquet, Arrow, csv ----------------------------------------------------------

#: The most rows of a row group: enough to compress well, few enough to skip groups one by one.
ROW_GROUP = 1_048_576
#: Bytes in memory at which a row group ends, even with few rows.
ROW_GROUP_BYTES = 8 * 1024 * 1024


class TableWriter(Protocol):
    """A writer of batches; ``close`` completes the file."""

    def feed(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class ParquetFile:
    """Parquet with zstd. Numbers that grow are written as differences, words as their numbers."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        words = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        steps = [name for name in _GROWING if name in schema.names]
        self._writer = pq.ParquetWriter(
            path,
            schema,
            version="2.6",
            data_page_version="2.0",
            compression="zstd",
            compression_level=1,
            use_dictionary=words,
            column_encoding=dict.fromkeys(steps, "DELTA_BINARY_PACKED"),
            write_statistics=[name for name in _SOUGHT if name in schema.names],
            sorting_columns=[pq.SortingColumn(0)] if schema.names[0] == "frame" else None,
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = self._size = 0
        self._schema = schema

    def feed(self, batch: pa.RecordBatch) -> None:
        """Write the next rows."""
        self._held.append(batch)
        self._rows += batch.num_rows
        self._size += sum(column.nbytes for column in batch.columns if column.null_count < len(column))
        if self._rows >= ROW_GROUP or self._size >= ROW_GROUP_BYTES:
            self.end_group()

    def close(self) -> None:
        """Write the last rows, and the footer."""
        self.end_group()
        self._writer.close()

    def give_up(self) -> None:
        """Close the incomplete file. Otherwise Arrow would close it later, and fail since its target is closed."""
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._writer.is_open = False

    def end_group(self) -> None:
        """Write the rows so far as a row group, which can be read separately."""
        if not self._held:
            return
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._rows, self._size = [], 0, 0
        self._writer.write_table(table, row_group_size=ROW_GROUP)


class ArrowFile:
    """Arrow's own file format.

    A file's dictionary can only grow, and a first dictionary without words cannot. So a column without words in the
    first batch begins with an empty word, which no row has.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema, options=options)
        self._wordless: list[int] | None = None  #: columns without words in the first batch

    def feed(self, batch: pa.RecordBatch) -> None:
        """Write the next rows."""
        columns = batch.columns
        if self._wordless is None:
            wordy = (at for at, column in enumerate(columns) if pa.types.is_dictionary(column.type))
            self._wordless = [at for at in wordy if not len(columns[at].dictionary)]
        for at in self._wordless:
            columns[at] = _after_an_empty_word(columns[at])
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()
        self._sink.close()


class CsvFile:
    """RFC 4180. Bytes are safe text, lists and objects JSON."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import csv

        self._schema = pa.schema([pa.field(field.name, _flat(field.type)) for field in schema])
        self._writer = csv.CSVWriter(path, self._schema)

    def feed(self, batch: pa.RecordBatch) -> None:
        """Write the next rows."""
        arrays = [_flattened(column) for column in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


FORMATS: dict[str, Callable[[Path, pa.Schema], TableWriter]] = {
    "parquet": ParquetFile,
    "arrow": ArrowFile,
    "csv": CsvFile,
}

_GROWING = ("frame", "packet", "time_ns", "time", "offset", "length", "by_seqno", "rev_seqno", "value_length")
_SOUGHT = "frame packet time time_ns connection opcode vbucket status opaque by_seqno key".split()


def _after_an_empty_word(column: pa.DictionaryArray) -> pa.DictionaryArray:
    import pyarrow.compute as pc

    words = pa.concat_arrays([pa.array([""], column.dictionary.type), column.dictionary])
    return pa.DictionaryArray.from_arrays(pc.add(column.indices, 1), words)


def _flat(kind: pa.DataType) -> pa.DataType:
    simple = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return kind if simple else pa.string()


def _flattened(column: pa.Array) -> pa.Array:
    kind = column.type
    if _flat(kind) == kind and not pa.types.is_string(kind):
        return column
    if pa.types.is_dictionary(kind):
        words = pa.array([None if word is None else safe(word) for word in column.dictionary.to_pylist()], pa.string())
        return pa.DictionaryArray.from_arrays(column.indices, words).cast(pa.string())
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_timestamp(kind):
        import pyarrow.compute as pc

        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    return pa.array([None if value is None else _cell(value) for value in column.to_pylist()], pa.string())


def _cell(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return safe(value)
    return safe_json(json.dumps(_spelled(value), ensure_ascii=False))


def _spelled(value: Any) -> Any:
    if isinstance(value, bytes):
        return safe(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, (list, tuple)):
        return [_spelled(each) for each in value]
    if isinstance(value, dict):
        return {name: _spelled(each) for name, each in value.items() if each is not None}
    return value


#: All tables, in the order in which they are listed.
SCHEMAS: Mapping[str, Callable[[], pa.Schema]] = {
    "frames": schema.frames,
    "gaps": other_tables.gaps,
    "streams": verdicts.streams,
    "findings": verdicts.findings,
    "files": other_tables.files,
}


class Tables:
    """The tables under construction; each is fed batches. Use it in a ``with``: an exception leaves nothing."""

    def __init__(self, path: str, form: str, names: Iterable[str] = SCHEMAS, *, force: bool = False) -> None:
        self._final = Path(os.path.abspath(path))
        _refuse_to_harm(self._final, path, force)
        with writing(path):
            self._unfinished = UnfinishedFolder(self._final)
        self._part = self._unfinished.path
        self._path = path
        self._writers: dict[str, TableWriter] = {}
        for name in names:
            file = self._part / f"{name}.{form}"
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
            self._writers[name] = FORMATS[form](file, SCHEMAS[name]())

    @property
    def names(self) -> Collection[str]:
        """Return the names of the tables that are written."""
        return self._writers.keys()

    def feed(self, name: str, batch: pa.RecordBatch) -> None:
        """Write the next rows of a table."""
        with writing(self._path):
            self._writers[name].feed(batch)

    def publish(self) -> None:
        """Close all files, and rename the folder to its final name."""
        with writing(self._path):
            for writer in self._writers.values():
                writer.close()
            self._put(self._part)

    def withdraw(self) -> None:
        """Remove the tables of an earlier export, so that old rows are not taken for new ones: this one has none."""
        with writing(self._path):
            self._put(None)

    def _put(self, folder: Path | None) -> None:
        """Replace an earlier export by a folder, or by none; until then the old one is kept aside."""
        with signals_held():
            old = None
            if self._final.exists():
                old = tempfile.mkdtemp(prefix=f".{self._final.name}.", suffix=".old", dir=self._final.parent)
                os.replace(self._final, old)
            if folder is not None:
                os.rename(folder, self._final)
            if old is not None:
                shutil.rmtree(old)

    def __enter__(self) -> "Tables":
        return self

    def __exit__(self, *_: object) -> None:
        self._unfinished.remove()  # after publishing it no longer exists


def _refuse_to_harm(final: Path, path: str, force: bool) -> None:
    if not (final.exists() or final.is_symlink()):
        return
    if not final.is_dir() or final.is_symlink():
        raise OutputError("the output is not a folder", path)
    ours = {f"{name}.{each}" for name in SCHEMAS for each in FORMATS}
    others = sorted(set(os.listdir(final)) - ours)
    if others:
        raise OutputError(
            f"the folder holds what is not a table: {others[0]}", path, "name a folder for the tables alone"
        )
    if not force:
        raise OutputError("the output exists already", path, "--force replaces it")


# -- work in a thread of its own: Arrow releases the interpreter's lock meanwhile ---------------------

T = TypeVar("T")

#: How many pieces may wait; more would only take memory.
_WAITING = 3


class BackgroundWriter(Generic[T]):
    """A thread that calls ``work`` with each piece that it is fed, in order.

    Not ``threaded``, or where no thread can be started, the caller does the work.
    """

    def __init__(self, work: Callable[[T], None], *, threaded: bool) -> None:
        self._work, self._pool = work, ThreadPoolExecutor(1) if threaded else None
        self._waiting: deque[Future[None]] = deque()
        try:
            if self._pool is not None:
                self._pool.submit(int)  # starts the thread
        except RuntimeError:
            self._pool = None

    def feed(self, piece: T) -> None:
        """Queue a piece of work, and wait for the first one where too many are queued. Raises what the work raised."""
        if self._pool is None:
            self._work(piece)
            return
        self._waiting.append(self._pool.submit(self._work, piece))
        while self._waiting and (len(self._waiting) > _WAITING or self._waiting[0].done()):
            self._waiting.popleft().result()

    def close(self) -> None:
        """Wait until all is done. Raises what the work raised."""
        if self._pool is not None:
            self._pool.shutdown()
        for each in self._waiting:
            each.result()


# -- batches as bytes, from the process that made them to the one that writes them --------------------
# Only columns with values are sent. Each batch has its own dictionary; the receiver gives words the same number in
# every batch, in the order in which they occur.

#: The metadata key for the number of rows with a cut value.
_CUT = b"cut"


def pack_batch(batch: pa.RecordBatch | None, cut: int = 0) -> bytes:
    """Return a batch as bytes, empty without rows. ``cut``: how many rows have a cut value."""
    if batch is None or not batch.num_rows:
        return b""
    batch = batch.select([at for at, column in enumerate(batch.columns) if column.null_count < len(column)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata({_CUT: str(cut)})) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


class ReceivedBatches:
    """The batches of one table as they are received, in order."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._vocabulary = Vocabulary()
        self.cut = 0  #: in how many rows so far a value was cut

    def batch(self, data: bytes | memoryview) -> pa.RecordBatch | None:
        """Return the next batch with all columns of its table; None for empty bytes."""
        if not data:
            return None
        with pa.ipc.open_stream(pa.py_buffer(bytes(data))) as stream:
            found = stream.read_next_batch()
        self.cut += int(found.schema.metadata[_CUT])
        at_of = {name: at for at, name in enumerate(found.schema.names)}
        columns = [
            self._column(field, found.column(at_of[field.name]))
            if field.name in at_of
            else self._vocabulary.nothing(field, found.num_rows)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: pa.Field, column: pa.Array) -> pa.Array:
        if not pa.types.is_dictionary(field.type):
            return column
        numbers = np.append(self._vocabulary.codes(field.name, column.dictionary.to_pylist()), -1).astype(np.int32)
        return self._vocabulary.numbered(field.name, numbers[column.indices.fill_null(-1).to_numpy()])
