"""Write the folder of all tables, by capture_id; files of tasks stay beside it until all are complete.

    DIR/frames/capture_id=X/date=2026-11-20/part-000003-….parquet

A task writes files, each with rows of one day, whose names are unique to the attempt, and returns them. ``publish``
moves the files of successful attempts into place, and replaces an earlier run of the same name. ``files`` comes last: a
capture_id with rows there has its rows in all tables.
"""

import os
import uuid
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dcpdump.arrow.folder import SCHEMAS, ParquetFile
from dcpdump.errors import writing
from dcpdump.processes import signals_held
from dcpdump.spark.filesystem import RemotePath, below, is_remote, make_folders, resolve_uri
from dcpdump.unfinished import UnfinishedFolder

_DAY_NS = 86_400 * 1_000_000_000
_NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_DATED = frozenset({"frames", "gaps"})


class Written(NamedTuple):
    """A file of a table: its path below the run's folder, and its number of rows."""

    table: str
    path: str
    rows: int


class _PartFile(ParquetFile):
    """A file of a table under construction. ``date``: the folder of its day."""

    def __init__(self, path: str, date: str, stream: Any, columns: pa.Schema) -> None:
        super().__init__(stream, columns)
        self.path, self.date, self.stream, self.rows = path, date, stream, 0


class Parts(AbstractContextManager["Parts"]):
    """A writer of one task's rows for the tables of a capture_id. ``close`` returns the files written.

    Use it in a ``with``, so that no file stays open after an exception.
    """

    def __init__(self, folder: str, capture_id: str, tag: str) -> None:
        self._root = resolve_uri(folder)
        self._capture = f"capture_id={capture_id}"
        self._tag = f"{tag}-{uuid.uuid4().hex[:12]}"  # unique to this attempt
        self._files = 0
        self._open: dict[str, _PartFile] = {}  # by table: the file of its current day
        self.written: list[Written] = []

    def feed(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table."""
        if not batch.num_rows:
            return
        if table not in _DATED:
            self._write(table, "", batch)
            return
        days = batch.column("time_ns").fill_null(np.iinfo(np.int64).min).to_numpy() // _DAY_NS
        for day in np.unique(days).tolist():
            mine = np.flatnonzero(days == day)
            chosen = batch if len(mine) == len(days) else batch.take(pa.array(mine))
            self._write(table, f"date={_date(day)}/", chosen)

    def close(self) -> list[Written]:
        """Write the last rows, and return all files written."""
        for name in list(self._open):
            self._complete(name)
        return self.written

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.give_up()
            with suppress(pa.ArrowException, OSError):
                file.stream.close()

    def leave_empty(self, table: str, beside: Iterable[Written]) -> None:
        """Write a table without rows, so that readers find its columns; its day is the first one of ``beside``.

        pyarrow, and so pandas, cannot read a table whose only day is null.
        """
        days = [part for each in beside for part in each.path.split("/") if part.startswith("date=")]
        day = min((day for day in days if _NO_DATE not in day), default=f"date={_date(0)}")
        empty = pa.RecordBatch.from_pylist([], schema=SCHEMAS[table]())
        self._write(table, f"{day}/" if table in _DATED else "", empty)

    def _write(self, table: str, date: str, rows: pa.RecordBatch) -> None:
        if table in self._open and self._open[table].date != date:
            self._complete(table)
        if table not in self._open:
            path = f"{table}/{self._capture}/{date}part-{self._tag}-{self._files}.parquet"
            self._files += 1
            self._open[table] = _PartFile(path, date, self._opened(path), rows.schema)
        file = self._open[table]
        with writing(file.path):
            file.feed(rows)
            if table == "index":
                file.end_group()  # each checkpoint can be read separately
        file.rows += rows.num_rows

    def _complete(self, table: str) -> None:
        """Close the current file of a table."""
        file = self._open[table]
        with writing(file.path):
            file.close()
            file.stream.close()
        del self._open[table]
        self.written.append(Written(table, file.path, file.rows))

    def _opened(self, path: str) -> Any:
        target = self._root / path
        with writing(target.path):
            make_folders(target)
            if target.local:  # for its owner alone: captures hold documents
                os.close(os.open(target.path, os.O_CREAT | os.O_WRONLY, 0o600))
            return target.system.open_output_stream(target.path)


def _date(day: int) -> str:
    try:
        return f"{datetime.fromtimestamp(day * 86_400, timezone.utc):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):  # no time, or a year beyond the calendar
        return _NO_DATE


#: The tables in the order in which they are published; the last one shows that a capture_id is complete.
TABLES = ("index", *SCHEMAS)
#: How many objects are moved at a time.
_MOVED = 32


def capture_id(name: str, chain: str) -> str:
    """Return the capture_id of a chain, given the input's."""
    return f"{name}~{chain}" if chain else name


class CaptureOutput(AbstractContextManager["CaptureOutput"]):
    """The tables of an input under construction. Use it in a ``with``: unpublished files are removed."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._input = path, name
        self._root = resolve_uri(path)
        self._unfinished: UnfinishedFolder | None = None
        self._made = self._root.local and not os.path.exists(self._root.path)
        with writing(path):
            if self._root.local:
                os.makedirs(self._root.path, mode=0o700, exist_ok=True)
                self._unfinished = UnfinishedFolder(Path(self._root.path) / name)
                self._run = self._unfinished.path.name
            else:
                self._run = f".{name}.{uuid.uuid4().hex[:12]}.part"
                self._root.system.create_dir((self._root / self._run).path, recursive=True)

    @property
    def folder(self) -> str:
        """Return the folder to which tasks write, by a name that is valid on every machine."""
        return below(self._path, self._run) if is_remote(self._path) else (self._root / self._run).path

    def publish(self, written: Iterable[Written], tables: Collection[str], chains: Iterable[str]) -> None:
        """Move the tables of all chains into place, and replace those of an earlier run over the same input."""
        written = [each for each in written if each.table in tables]
        for name in (capture_id(self._input, chain) for chain in chains):
            mine = [each for each in written if f"/capture_id={name}/" in each.path]
            with Parts(self.folder, name, "empty") as empty:
                for table in sorted({*tables} - {"index"} - {each.table for each in mine}):
                    empty.leave_empty(table, mine)
                written += empty.close()
        # Renaming is fast; in object storage each file is copied.
        with writing(self._path), signals_held() if self._root.local else nullcontext():
            self._withdraw("files")
            for table in TABLES:
                if table in tables or table == "index":
                    self._withdraw(table)
                    self._move([each.path for each in written if each.table == table])

    def withdraw(self) -> None:
        """Remove the tables of an earlier run over the same input, if this run has none."""
        with writing(self._path):
            for table in ("files", *TABLES):
                self._withdraw(table)

    def add(self, written: Iterable[Written], tables: Collection[str], beginning: str) -> None:
        """Add files to the tables, and remove older ones whose names begin with ``beginning``."""
        with writing(self._path):
            for table in (name for name in TABLES if name in tables):
                for folder in self._published(table):
                    for old in folder.files(recursive=True):
                        if old.is_file and old.base_name.startswith(beginning):
                            folder.system.delete_file(old.path)
                self._move([each.path for each in written if each.table == table])

    def __exit__(self, *_: object) -> None:
        if self._unfinished is not None:
            self._unfinished.remove()
            if self._made and not os.listdir(self._root.path):
                os.rmdir(self._root.path)
            return
        if (self._root / self._run).exists:
            self._root.system.delete_dir((self._root / self._run).path)

    def _published(self, table: str) -> list[RemotePath]:
        """Return the folders of a table for this input, of all chains and runs."""
        where, name = self._root / table, f"capture_id={self._input}"
        names = [each.base_name for each in where.files()]
        return [where / each for each in names if each == name or each.startswith(f"{name}~")]

    def _withdraw(self, table: str) -> None:
        """Remove a table's rows of this input. On this machine folders are first moved aside, which is fast."""
        for number, folder in enumerate(self._published(table)):
            if folder.local:
                os.rename(folder.path, (self._root / self._run / f"{table}-{number}.old").path)
            else:
                folder.system.delete_dir(folder.path)

    def _move(self, paths: Sequence[str]) -> None:
        """Move files of the run to the same paths in the output."""
        for folder in {os.path.dirname(path) for path in paths}:
            make_folders(self._root / folder / "file")
        if self._root.local:
            for path in paths:
                self._move_one(path)
        else:
            with ThreadPoolExecutor(_MOVED) as pool:
                list(pool.map(self._move_one, paths))

    def _move_one(self, path: str) -> None:
        self._root.system.move((self._root / self._run / path).path, (self._root / path).path)
