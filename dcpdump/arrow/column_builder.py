"""Build the columns of a batch, some rows at a time, in any order."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from dcpdump.batch.frame_batch import Numbers
from dcpdump.batch.gather import Array

# -- any values as Arrow's arrays: what does not fit its column becomes null --------------------------
# Knows types, and nothing about frames. Text may have a lone surrogate, which JSON can spell: it is replaced by its
# JSON escape.

_UNREPRESENTABLE = (pa.ArrowException, OverflowError, TypeError, ValueError)


def to_array_lossy(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return values as an array, and the indices of those that do not fit completely."""
    try:
        return pa.array(values, kind), []
    except _UNREPRESENTABLE:
        pairs = [_fit(value, kind) for value in values]
    unrepresentable = [at for at, (_, fits) in enumerate(pairs) if not fits]
    return pa.array([value for value, _ in pairs], kind), unrepresentable


def batch_of(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as a batch."""
    columns = [to_array_lossy([row.get(field.name) for row in rows], field.type)[0] for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _fit(value: Any, kind: pa.DataType) -> tuple[Any, bool]:
    """Return as much of a value as fits, and whether it fits completely."""
    if value is None:
        return None, True
    if pa.types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: _fit(value.get(field.name), field.type) for field in kind}
        return {name: batch for name, (batch, _) in fields.items()}, all(fits for _, fits in fields.values())
    if pa.types.is_list(kind) and isinstance(value, (list, tuple)):
        batches = [_fit(batch, kind.value_type) for batch in value]
        return [batch for batch, _ in batches], all(fits for _, fits in batches)
    if pa.types.is_string(kind) and isinstance(value, str):
        return encodable(value), True
    try:
        pa.array([value], kind)
    except _UNREPRESENTABLE:
        return None, False
    return value, True


# -- Arrow arrays over NumPy's and over bytes, without copying or converting ----------------------------

_CHUNK = 1 << 16
_nulls = lru_cache(maxsize=256)(pa.nulls)


def numbers_of(values: Array, kind: pa.DataType, null: Array | None = None) -> pa.Array:
    """Return numbers of the column's own width as an array; ``null``: a mask of nulls."""
    valid = None if null is None or not null.any() else _bits(~null)
    if pa.types.is_boolean(kind):
        data = _bits(values.astype(bool))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values.astype(_dtype(kind), copy=False)))
    return pa.Array.from_buffers(kind, len(values), [valid, data])


def indices_of(which: Array, null: Array | None = None) -> pa.Array:
    """Return indices as an array."""
    return numbers_of(which, pa.int64(), null)


def pieces(data: bytes, start: Array, end: Array) -> pa.Array:
    """Return an array of binary over bytes: piece, bytes between, piece, bytes between …

    Pieces are in the order of their bytes and do not overlap.
    """
    offsets = np.empty(2 * len(start) + 1, np.int32)
    offsets[:-1:2], offsets[1::2] = start, end
    offsets[-1] = end[-1] if len(end) else 0
    return pa.Array.from_buffers(pa.binary(), 2 * len(start), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls; such arrays share memory, since most columns are null in most batches."""
    return _nulls(-(-count // _CHUNK) * _CHUNK, kind).slice(0, count)


def _bits(values: Array) -> pa.Buffer:
    """Return booleans as a bitmap in Arrow's order."""
    return pa.py_buffer(np.packbits(values, bitorder="little"))


@lru_cache(maxsize=64)
def _dtype(kind: pa.DataType) -> Any:
    """Return NumPy's type of a number. Arrow's own function imports pandas."""
    return np.dtype(np.int64 if pa.types.is_timestamp(kind) else str(kind))


# -- the columns of a batch ---------------------------------------------------------------------------


class Vocabulary:
    """The words of dictionary columns, numbered the same way in every batch."""

    def __init__(self) -> None:
        self._words: dict[str, Numbers[str]] = {}
        self._arrays: dict[str, pa.Array] = {}

    def codes(self, column: str, words: Sequence[str]) -> Array:
        """Return the numbers of words in a column."""
        return self._words.setdefault(column, Numbers()).of(words)

    def array(self, column: str) -> pa.Array:
        """Return all words of a column."""
        words = self._words.setdefault(column, Numbers())
        array = self._arrays.get(column)
        if array is None or len(array) != len(words):
            array = self._arrays[column] = to_array_lossy(words.all, pa.string())[0]
        return array

    def nothing(self, field: pa.Field, count: int) -> pa.Array:
        """Return nulls for a column."""
        if not pa.types.is_dictionary(field.type):
            return nulls(count, field.type)
        # Keep the words of earlier batches: a file cannot remove them.
        return pa.DictionaryArray.from_arrays(nulls(count, pa.int32()), self.array(field.name), safe=False)

    def numbered(self, name: str, codes: Array) -> pa.Array:
        """Return a dictionary column of the numbers of words; negative numbers are null."""
        return pa.DictionaryArray.from_arrays(numbers_of(codes, pa.int32(), codes < 0), self.array(name), safe=False)


class ColumnBuilder:
    """A batch of ``count`` rows. Values never put are null. ``names``: the columns to build; None: all."""

    def __init__(
        self, schema: pa.Schema, count: int, vocabulary: Vocabulary, names: Collection[str] | None = None
    ) -> None:
        self._schema = schema
        self._names = frozenset(schema.names if names is None else names)
        self._count = count
        self._vocabulary = vocabulary
        self._numbers: dict[str, tuple[Array, Array]] = {}
        self._codes: dict[str, Array] = {}
        self._picked: dict[str, tuple[Array, list[pa.Array]]] = {}
        self._complete: dict[str, Array] = {}

    def has(self, *names: str) -> bool:
        """Return whether any of these columns is to be built."""
        return any(name in self._names for name in names)

    def all(self, name: str, values: Array) -> None:
        """Fill a column of numbers."""
        self._complete[name] = values

    def numbers(self, name: str, rows: Array, values: Any) -> None:
        """Put numbers into some rows; times in the column's own unit."""
        if name not in self._names:
            return
        if name not in self._numbers:
            kind = _dtype(self._schema.field(name).type)
            self._numbers[name] = np.zeros(self._count, kind), np.ones(self._count, bool)
        column, null = self._numbers[name]
        column[rows] = values
        null[rows] = False

    def words(self, name: str, rows: Array, words: Sequence[str], which: Array | int = 0) -> None:
        """Put words into some rows; ``which``: the index in ``words`` for each row."""
        if name not in self._names:
            return
        if name not in self._codes:
            self._codes[name] = np.full(self._count, -1, np.int32)
        if len(rows):
            self._codes[name][rows] = self._vocabulary.codes(name, words)[which]

    def pick(self, name: str, rows: Array, source: pa.Array, which: Array | None = None) -> None:
        """Put values of an array into some rows; ``which``: the index for each row; None: in order."""
        if name not in self._names:
            return
        if name not in self._picked:
            self._picked[name] = np.full(self._count, -1, np.int64), []
        index, sources = self._picked[name]
        if which is not None:
            source = source.take(indices_of(which))
        index[rows] = sum(map(len, sources)) + np.arange(len(source))
        sources.append(source)

    def objects(self, name: str, rows: list[int], values: list[Any]) -> list[int]:
        """Put Python objects into some rows of a column of any type; return the rows whose objects do not fit."""
        kind = self._schema.field(name).type
        if pa.types.is_dictionary(kind):
            texts = [encodable(value) for value in values]
            words = list(dict.fromkeys(texts))
            self.words(name, np.array(rows), words, np.array([words.index(text) for text in texts]))
            return []
        array, unrepresentable = to_array_lossy(values, kind)
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            there = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
            fitting = array.drop_null().to_numpy(zero_copy_only=False)
            self.numbers(name, np.array(rows)[there], fitting)
        else:
            self.pick(name, np.array(rows), array)
        return [rows[at] for at in unrepresentable]

    def batch(self) -> pa.RecordBatch:
        """Return the batch."""
        schema = self._schema
        if len(self._names) < len(schema):
            schema = pa.schema([field for field in schema if field.name in self._names], schema.metadata)
        return pa.RecordBatch.from_arrays([self._array(field) for field in schema], schema=schema)

    def _array(self, field: pa.Field) -> pa.Array:
        name, kind = field.name, field.type
        if name in self._complete:
            return numbers_of(self._complete[name], kind)
        if name in self._numbers:
            return numbers_of(self._numbers[name][0], kind, self._numbers[name][1])
        if name in self._codes:
            return self._vocabulary.numbered(name, self._codes[name])
        if name in self._picked:
            index, sources = self._picked[name]
            source = sources[0] if len(sources) == 1 else pa.concat_arrays(sources)
            if len(source) == self._count and np.array_equal(index, np.arange(self._count)):
                return source
            return source.take(indices_of(index, index < 0))
        return self._vocabulary.nothing(field, self._count)
