"""Expand the paths of the command line to capture files.

Paths are files, globs and folders; the files of a folder are opened to find the captures among them.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from dcpdump.errors import CaptureError, system_words
from dcpdump.startup import lazy_pattern
from dcpdump.text import nearest

#: pcap, pcapng, cap, and the endings that tcpdump -C and compressors append
CAPTURE_NAME = lazy_pattern(r"\.(?:pcap|pcapng|cap|ntar|dmp)\d*(?:\.(?:gz|zst|lz4|xz|bz2))?$", re.IGNORECASE)

_MUCH_ELSE = 256  #: other files in a folder up to which ``in_short`` names the folder


def expand(paths: Sequence[str]) -> list[str]:
    """Return the capture files that ``paths`` name, each once. Paths are files, globs, and folders with all below them.

    ``-`` stands for itself. Raises CaptureError for a path that names nothing.
    """
    found = []
    seen = set()
    for path in paths:
        for name in _named_by(path):
            identity = name if name == "-" else os.path.realpath(name)
            if identity not in seen:
                seen.add(identity)
                found.append(name)
    return found


def _named_by(path: str) -> list[str]:
    if path == "-":
        return [path]
    if os.path.isdir(path):
        return _in_folder(path)
    if _exists(path):
        return [path]
    import glob  # here, as only globs need it

    if glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise CaptureError("no file matches", path)
        return [name for match in matches for name in (_in_folder(match) if os.path.isdir(match) else [match])]
    raise CaptureError("there is no such file", path, _nearest(path))


def in_short(paths: Sequence[str]) -> Sequence[str]:
    """Return the shortest paths that name the same captures: their folder, if it holds no other captures.

    A folder with many other files is not searched.
    """
    folder = os.path.dirname(paths[0])
    if len(paths) < 2 or {os.path.dirname(path) for path in paths} != {folder}:
        return paths
    parent, most = folder or os.curdir, len(paths) + _MUCH_ELSE
    files = list(islice(_files_below(parent), most))
    named = {os.path.join(parent, os.path.basename(path)) for path in paths}
    return [parent] if len(files) < most and named == {*_captures_among(files)} else paths


def _exists(path: str) -> bool:
    """Return whether there is a file or a link. Raises CaptureError where that cannot be determined."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise CaptureError(f"this cannot be read: {system_words(error)}", path) from error
    return True


def _in_folder(folder: str) -> list[str]:
    captures = sorted(_captures_among(_files_below(folder, refuse=_refuse)))
    if not captures:
        raise CaptureError("there is no capture in this folder", folder)
    return captures


def _captures_among(files: Iterable[str]) -> Iterator[str]:
    from dcpdump.capture.file import looks_like_capture

    for name in files:
        # A file just created is still empty: that is no reason to refuse the others.
        if _has_bytes(name) and (CAPTURE_NAME.search(name) or looks_like_capture(name)):
            yield name


def _has_bytes(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except FileNotFoundError:  # it is gone meanwhile
        return False


def _files_below(folder: str, *, refuse: Callable[[OSError], None] | None = None) -> Iterator[str]:
    """Yield the files below a folder. ``refuse`` is called with the error of a folder that cannot be listed."""
    for here, _, names in os.walk(folder, onerror=refuse):
        for name in names:
            path = os.path.join(here, name)
            if os.path.isfile(path):
                yield path


def _refuse(error: OSError) -> None:
    """Refuse a folder, a part of which cannot be listed: its captures would be missing silently."""
    if not isinstance(error, FileNotFoundError):  # or it was removed meanwhile
        raise CaptureError(f"this folder cannot be listed: {system_words(error)}", str(error.filename)) from error


def _nearest(path: str) -> str:
    if path.startswith("file://"):
        return f"name it as {path.removeprefix('file://')}"
    if "://" in path:
        return "dcpdump pipeline reads object storage; the other commands read files: fetch it before"
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    near = nearest(name, names, n=1)
    return f"did you mean {os.path.join(folder, near[0])}?" if near else ""
