"""Write batches of a table to a file, as Parquet, Arrow or csv. FORMATS is the list."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dcpdump.escape import safe, safe_json

#: Rows of a row group, at most: many enough to compress well, few enough to be skipped one by one.
ROW_GROUP = 1_048_576
#: Bytes in memory at which a row group is ended, whatever its rows.
ROW_GROUP_BYTES = 8 * 1024 * 1024


class TableWriter(Protocol):
    """A writer of batches; ``close`` completes the file."""

    def feed(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class ParquetFile:
    """Parquet with zstd. Numbers that grow are written as differences, words as their numbers."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        words = [field.name for field in schema if _wordy(field.type)]
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
            self._flush()

    def close(self) -> None:
        """Write what is left, and the footer."""
        if self._held:
            self._flush()
        self._writer.close()

    def give_up(self) -> None:
        """Close the file as it is. Arrow would do it later, and complain that what it writes to is closed."""
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._writer.is_open = False

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._rows, self._size = [], 0, 0
        self._writer.write_table(table, row_group_size=ROW_GROUP)


class ArrowFile:
    """Arrow's own file format, as it lies in memory.

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
            wordy = (at for at, column in enumerate(columns) if _wordy(column.type))
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


def _wordy(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


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
