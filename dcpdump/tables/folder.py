"""Tables: the folder of an export. It appears whole, with all its files, or not at all.

It is filled beside its final name, for its owner alone (captures hold documents), and renamed at the end.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from dcpdump.columnar import schema
from dcpdump.columnar.block import NO_TIME, Block
from dcpdump.columnar.dissection import Lost
from dcpdump.columnar.write import FORMATS, TableWriter
from dcpdump.errors import OutputError
from dcpdump.redact import Redactor

SCHEMAS = {"frames": schema.frames, "gaps": schema.gaps, "files": schema.files}


class Tables:
    """The tables under construction; each is fed batches. Use it in a ``with``: an exception leaves nothing."""

    def __init__(self, path: str, form: str, *, force: bool = False) -> None:
        self._final = Path(os.path.abspath(path))
        _refuse_to_harm(self._final, path, form, force)
        try:
            self._part = Path(tempfile.mkdtemp(prefix=f".{self._final.name}.", suffix=".part", dir=self._final.parent))
        except OSError as error:
            raise _unwritable(error, path) from error
        self._path = path
        self._writers: dict[str, TableWriter] = {}
        for name, make in SCHEMAS.items():
            file = self._part / f"{name}.{form}"
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
            self._writers[name] = FORMATS[form](file, make())

    def feed(self, name: str, batch: pa.RecordBatch) -> None:
        """It takes the next rows of a table."""
        try:
            self._writers[name].feed(batch)
        except OSError as error:
            raise _unwritable(error, self._path) from error

    def publish(self) -> None:
        """It ends all files, and lets the folder appear."""
        try:
            for writer in self._writers.values():
                writer.close()
            old = None
            if self._final.exists():
                old = Path(tempfile.mkdtemp(prefix=f".{self._final.name}.", suffix=".old", dir=self._final.parent))
                os.replace(self._final, old)
            os.rename(self._part, self._final)
            if old is not None:
                shutil.rmtree(old)
        except OSError as error:
            raise _unwritable(error, self._path) from error

    def __enter__(self) -> "Tables":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._part, ignore_errors=True)  # published, it is not there any more


def gap_rows(lost: Iterable[Lost], redactor: Redactor | None = None) -> pa.RecordBatch:
    """It gives the rows of ``gaps``."""
    rows = [
        {
            "connection": ends.connection,
            "direction": ends.direction,
            "src": ends.src,
            "dst": ends.dst,
            "offset": gap.offset,
            "bytes": gap.length,
            "reason": gap.reason,
            "ts": None if gap.seen.ts_ns is None else gap.seen.ts_ns // 1000,
            "time_ns": gap.seen.ts_ns,
            "packet": gap.seen.number,
            "file": gap.seen.file,
        }
        for ends, gap in ((each.redacted(redactor), gap) for each, gap in lost)
    ]
    return pa.RecordBatch.from_pylist(rows, schema.gaps())


class Files:
    """What became known of each capture. ``feed`` it every block."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int | None, int | None]] = {}

    def feed(self, block: Block) -> None:
        """It notes how many packets a file has, and when the first and the last were seen."""
        for number, name in enumerate(block.files):
            mine = block.file == number
            times = block.ts_ns[mine]
            times = times[times != NO_TIME]
            count, first, last = self._seen.get(name, (0, None, None))
            if len(times):
                first = int(times.min()) if first is None else min(first, int(times.min()))
                last = int(times.max()) if last is None else max(last, int(times.max()))
            self._seen[name] = count + int(mine.sum()), first, last

    def rows(self, problems: dict[str, list[str]]) -> pa.RecordBatch:
        """It gives the rows of ``files``; ``problems`` are what was found wrong with each, by name."""
        rows = []
        for name, found in problems.items():
            count, first, last = self._seen.get(name, (0, None, None))
            rows.append(
                {
                    "path": name,
                    "size": os.path.getsize(name) if os.path.isfile(name) else None,
                    "packets": count,
                    "first_ts": None if first is None else first // 1000,
                    "first_time_ns": first,
                    "last_ts": None if last is None else last // 1000,
                    "last_time_ns": last,
                    "status": "damaged" if found else "ok",
                    "problem": "; ".join(found) or None,
                }
            )
        return pa.RecordBatch.from_pylist(rows, schema.files())


def _refuse_to_harm(final: Path, path: str, form: str, force: bool) -> None:
    if not (final.exists() or final.is_symlink()):
        return
    if not final.is_dir() or final.is_symlink():
        raise OutputError("the output is no folder", path)
    if not force:
        raise OutputError("the output exists already", path, "--force replaces it")
    ours = {f"{name}.{each}" for name in SCHEMAS for each in FORMATS}
    others = sorted(set(os.listdir(final)) - ours)
    if others:
        raise OutputError(f"the folder holds what is no table: {others[0]}", path, "name a folder for the tables alone")


def _unwritable(error: OSError, path: str) -> OutputError:
    return OutputError(f"cannot write: {(error.strerror or str(error)).lower()}", path)
