"""Write the folder of an export. It appears whole, with all its files, or not at all.

It is filled beside its final name, for its owner alone (captures hold documents), and renamed at the end.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from dcpdump.arrow import schema, verdicts
from dcpdump.arrow.writers import FORMATS, TableWriter
from dcpdump.errors import OutputError, unwritable
from dcpdump.held_signals import signals_held
from dcpdump.unfinished import UnfinishedFolder

#: All tables, in the order in which they are listed.
SCHEMAS: Mapping[str, Callable[[], pa.Schema]] = {
    "frames": schema.frames,
    "gaps": schema.gaps,
    "streams": verdicts.streams,
    "findings": verdicts.findings,
    "files": schema.files,
}


class Tables:
    """The tables under construction; each is fed batches. Use it in a ``with``: an exception leaves nothing."""

    def __init__(self, path: str, form: str, names: Iterable[str] = SCHEMAS, *, force: bool = False) -> None:
        self._final = Path(os.path.abspath(path))
        _refuse_to_harm(self._final, path, force)
        try:
            self._unfinished = UnfinishedFolder(self._final)
        except OSError as error:
            raise unwritable(error, path) from error
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
        try:
            self._writers[name].feed(batch)
        except OSError as error:
            raise unwritable(error, self._path) from error

    def publish(self) -> None:
        """Close all files, and rename the folder to its final name."""
        try:
            for writer in self._writers.values():
                writer.close()
            self._put(self._part)
        except OSError as error:
            raise unwritable(error, self._path) from error

    def withdraw(self) -> None:
        """Remove the tables of an earlier export, so that old rows are not taken for new ones: this one has none."""
        try:
            self._put(None)
        except OSError as error:
            raise unwritable(error, self._path) from error

    def _put(self, folder: Path | None) -> None:
        """Put a folder, or none, in the place of an earlier export, which is set aside until it is there."""
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
        self._unfinished.remove()  # once published, it is not there any more


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
