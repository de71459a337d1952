"""Write the folder of all tables, by capture; what tasks write stays beside it until it is complete.

    DIR/frames/capture_id=X/date=2026-11-20/part-00003-….parquet

A task writes files whose names are unique to the attempt, and returns them; ``publish`` moves those of the attempts
that counted into place, and replaces an earlier run over the same capture. ``files`` comes last: a capture that has its
rows there has all the others.
"""

import os
import uuid
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

from pyarrow import fs

from dcpdump.arrow.folder import SCHEMAS
from dcpdump.errors import unwritable
from dcpdump.processes import signals_held
from dcpdump.spark.filesystem import RemotePath, below, is_remote, make_folders, place
from dcpdump.spark.parts import Parts, Written
from dcpdump.unfinished import UnfinishedFolder

#: In the order in which they appear.
TABLES = tuple(SCHEMAS)


class CaptureOutput:
    """The tables of one capture under construction. Use it in a ``with``: what is not published is removed."""

    def __init__(self, path: str, capture_id: str) -> None:
        self._name = path
        self._root = place(path)
        self._capture = f"capture_id={capture_id}"
        self._run = _run_name(capture_id)
        self._unfinished: UnfinishedFolder | None = None
        self._made = self._root.local and not os.path.exists(self._root.path)
        try:
            if self._root.local:
                os.makedirs(self._root.path, mode=0o700, exist_ok=True)
                self._unfinished = UnfinishedFolder(Path(self._root.path) / capture_id, self._make_folder)
            else:
                (self._root / self._run).system.create_dir((self._root / self._run).path, recursive=True)
        except OSError as error:
            raise unwritable(error, path) from error

    def _make_folder(self) -> str:
        self._run = _run_name(self._capture.partition("=")[2])
        path = (self._root / self._run).path
        os.mkdir(path, 0o700)
        return path

    @property
    def folder(self) -> str:
        """Return the folder that tasks write to, by a name that every machine understands."""
        return below(self._name, self._run) if is_remote(self._name) else (self._root / self._run).path

    def publish(self, written: Iterable[Written], tables: Iterable[str]) -> None:
        """Move the tables into place, and replace those of an earlier run over the same capture."""
        wanted, written = set(tables), list(written)
        with Parts(self.folder, "empty") as empty:
            for name in sorted(wanted - {each.table for each in written}):
                empty.leave_empty(name, written)
            written += empty.close()
        by_table: dict[str, list[str]] = {name: [] for name in TABLES if name in wanted}
        for each in written:
            if each.table in wanted:
                by_table[each.table].append(each.path.removeprefix(f"{each.table}/"))
        try:
            # Renames are soon done; among objects each file is copied.
            with signals_held() if self._root.local else nullcontext():
                self._remove(self._root / "files" / self._capture)
                for name, paths in by_table.items():
                    self._replace(name, paths)
        except OSError as error:
            raise unwritable(error, self._name) from error

    def withdraw(self) -> None:
        """Remove the tables of an earlier run over the same capture, where this run has none."""
        try:
            for name in ("files", *TABLES):
                self._remove(self._root / name / self._capture)
        except OSError as error:
            raise unwritable(error, self._name) from error

    def add(self, written: Iterable[Written], tables: Iterable[str], beginning: str) -> None:
        """Add files to the tables, and remove those that are there whose names begin with ``beginning``."""
        wanted = [each for each in written if each.table in set(tables)]
        try:
            for name in (name for name in TABLES if name in set(tables)):
                final = self._root / name / self._capture
                for old in _files_below(final):
                    if os.path.basename(old).startswith(beginning):
                        final.system.delete_file(old)
                for each in wanted:
                    if each.table == name:
                        made = self._root / self._run / each.path
                        target = final / each.path.removeprefix(f"{name}/")
                        make_folders(target)
                        target.system.move(made.path, target.path)
        except OSError as error:
            raise unwritable(error, self._name) from error

    def __enter__(self) -> "CaptureOutput":
        return self

    def __exit__(self, *_: object) -> None:
        run = self._root / self._run
        if self._unfinished is not None:
            self._unfinished.remove()
            if self._made and not os.listdir(self._root.path):
                os.rmdir(self._root.path)
            return
        self._remove(run)

    def _replace(self, table: str, paths: list[str]) -> None:
        made, final = self._root / self._run / table, self._root / table / self._capture
        if not final.local:  # an object has no folder that could be renamed
            self._remove(final)
            for path in paths:
                final.system.move((made / path).path, (final / path).path)
            return
        keep = {os.path.join(made.path, path) for path in paths}
        for folder, _, names in os.walk(made.path):
            for name in names:
                if os.path.join(folder, name) not in keep:
                    os.unlink(os.path.join(folder, name))
        os.makedirs(os.path.dirname(final.path), mode=0o700, exist_ok=True)
        old = (self._root / self._run / f"{table}.old").path
        if os.path.isdir(final.path):
            os.rename(final.path, old)
        if paths:
            os.rename(made.path, final.path)

    def _remove(self, where: RemotePath) -> None:
        if where.system.get_file_info(where.path).type is not fs.FileType.NotFound:
            where.system.delete_dir(where.path)


def _run_name(capture_id: str) -> str:
    return f".{capture_id}.{uuid.uuid4().hex[:12]}.part"


def _files_below(where: RemotePath) -> list[str]:
    found = where.system.get_file_info(fs.FileSelector(where.path, allow_not_found=True, recursive=True))
    return [each.path for each in found if each.type is fs.FileType.File]
