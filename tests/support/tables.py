"""Read tables as lists of rows, to be compared: those that ``export`` writes, and those of the pipeline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]


def exported(folder: Path, table: str) -> list[Row]:
    """Return the rows of an export, in order of place."""
    return ordered(pq.read_table(folder / f"{table}.parquet").to_pylist())


def found(folder: Path, table: str) -> list[Row]:
    """Return the rows of a table of the pipeline, in order of place."""
    files = sorted((folder / table).rglob("*.parquet"))
    return ordered([row for file in files for row in pq.ParquetFile(file).read().to_pylist()])


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Return rows sorted by the place of their frames."""
    names = ("file", "connection", "direction", "offset", "vbucket", "stream_id", "time_ns", "packet", "code")
    return sorted(rows, key=lambda row: [(row.get(name) is not None, row.get(name) or 0) for name in names])
