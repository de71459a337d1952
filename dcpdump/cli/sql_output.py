"""Write the answer of a query: as a table for people, as csv, or as ndjson."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dcpdump.cli.options import Display
from dcpdump.cli.sink import Sink
from dcpdump.cli.terminal import terminal_size
from dcpdump.escape import safe_json
from dcpdump.render import csv
from dcpdump.render.style import Palette
from dcpdump.render.text_columns import Table
from dcpdump.sql.result_values import cell, is_number, names_of, rows_of

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
        sink.write(csv.row_text(names) + "\r\n")
    count = 0
    for row in rows:
        if shown.format == "csv":
            sink.write(csv.row_text([cell(value) for value in row]) + "\r\n")
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
