"""Find capture files and their sizes for what stands on the command line, on this machine or in object storage.

A remote capture is fetched before it is read, to a folder of the task that reads it, and keeps its own name in the
tables.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

from dcpdump.capture import expand
from dcpdump.capture.paths import CAPTURE_NAME
from dcpdump.errors import CaptureError
from dcpdump.spark.filesystem import child, is_remote, place
from dcpdump.unfinished import temporary_folder

_CHUNK = 4 * 1024 * 1024


class Input(NamedTuple):
    """A capture file."""

    path: str
    size: int


def inputs(names: Sequence[str]) -> list[Input]:
    """Return the capture files that files, folders and globs name, here or in object storage. Raises CaptureError."""
    found: list[Input] = []
    for name in names:
        if is_remote(name):
            found += _remote(name)
        else:
            for path in expand([name]):
                with suppress(FileNotFoundError):  # deleted meanwhile, as by the writer of a ring
                    found.append(Input(path, os.path.getsize(path)))
    return list(dict.fromkeys(found))


@contextmanager
def fetched(paths: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a mapping of readable local path to own name; files that were fetched are removed at the end."""
    names = list(paths)
    if not any(map(is_remote, names)):
        yield {name: name for name in names}
        return
    with temporary_folder("dcpdump-fetched") as folder:
        yield {_fetch(name, folder, number) if is_remote(name) else name: name for number, name in enumerate(names)}


def _fetch(name: str, folder: Path, number: int) -> str:
    where = place(name)
    here = folder / f"{number:05d}-{os.path.basename(where.path)}"
    try:
        with where.system.open_input_stream(where.path) as source, here.open("wb") as target:
            while piece := source.read(_CHUNK):
                target.write(piece)
    except OSError as error:
        raise CaptureError(f"this cannot be fetched: {error.strerror or error}", name) from error
    return str(here)


def _remote(name: str) -> list[Input]:
    base, mark, query = name.partition("?")
    stem, star, _ = base.partition("*")
    folder = stem.rsplit("/", 1)[0] if star else base
    where = place(folder + mark + query)
    try:
        info = where.system.get_file_info(where.path)
        if info.type is fs.FileType.File:
            return [Input(name, info.size)]
        if info.type is fs.FileType.NotFound:
            raise CaptureError("there is no such file or folder", name)
        below = where.system.get_file_info(fs.FileSelector(where.path, recursive=True))
    except OSError as error:
        raise CaptureError(f"this cannot be listed: {error.strerror or error}", name) from error
    root = where.path.rstrip("/")
    files = [
        Input(child(folder + mark + query, root, each.path), each.size)
        for each in sorted(below, key=lambda each: str(each.path))
        if each.type is fs.FileType.File
        and (fnmatchcase(each.path[len(root) :], base[len(folder) :]) if star else CAPTURE_NAME.search(each.path))
    ]
    if not files:
        raise CaptureError("no file matches" if star else "there is no capture in this folder", name)
    return files
