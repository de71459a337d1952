"""Find files and folders, on this machine or in object storage, by the names that the user typed.

Names are local paths, or URIs of Arrow's file systems: ``s3://``, ``gs://``, ``abfs://``, ``hdfs://``; ``s3a://`` is
Hadoop's name for the first. A name is kept as typed, with account and host, which Arrow's paths lack: workers and
driver each open the same name.
"""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import quote

from pyarrow import ArrowException, fs

from dcpdump.capture.paths import CAPTURE_NAME, expand
from dcpdump.errors import CaptureError, DcpdumpError

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasb": "abfs", "wasbs": "abfss"}
_IN_URI = "/!$&'()*+,;=:@~"  #: characters without escape in the path of a URI, beside letters and digits


class RemotePath(NamedTuple):
    """A file system, and a path in it."""

    system: fs.FileSystem
    path: str

    @property
    def local(self) -> bool:
        """Return whether it is on this machine."""
        return isinstance(self.system, fs.LocalFileSystem)

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(self.system, f"{self.path.rstrip('/')}/{name}")

    @property
    def exists(self) -> bool:
        """Return whether there is a file or folder."""
        return self.system.get_file_info(self.path).type is not fs.FileType.NotFound

    def files(self, *, recursive: bool = False) -> list[fs.FileInfo]:
        """Return the files and folders in a folder; none where there is no folder."""
        chosen = fs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
        found: list[fs.FileInfo] = self.system.get_file_info(chosen)
        return found

    def open(self) -> BinaryIO:
        """Open a file to read and seek in."""
        return cast(BinaryIO, self.system.open_input_file(self.path))

    def read(self) -> bytes:
        """Return the bytes of a file."""
        with self.open() as file:
            return file.read()

    def write(self, data: bytes) -> None:
        """Write a file completely or not at all, and make its folders."""
        part = f"{self.path}.{uuid.uuid4().hex[:12]}.part"  # another attempt may write the same file
        make_folders(self)
        with self.system.open_output_stream(part) as file:
            file.write(data)
        self.system.move(part, self.path)


def resolve_uri(name: str) -> RemotePath:
    """Return the file system and path of a name. Raises DcpdumpError for a scheme that Arrow does not know."""
    scheme, colon, rest = name.partition("://")
    if not colon:
        return RemotePath(fs.LocalFileSystem(), os.path.abspath(name))
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    host, slash, path = rest.partition("/")
    if ":" in host.rpartition("@")[0]:
        raise DcpdumpError(
            "a password in a name would be written to the tables",
            f"{scheme}://…",
            "put it into the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if scheme.startswith("abfs") and "@" in host:  # Arrow reads CONTAINER@ACCOUNT with this ending only
        host = host.replace(".blob.core.windows.net", ".dfs.core.windows.net")
    try:
        return RemotePath(*fs.FileSystem.from_uri(f"{scheme}://{host}{slash}{quote(path, safe=_IN_URI + '?#%')}"))
    except (ArrowException, OSError, ValueError) as error:
        what = str(error).strip().splitlines()[0]
        s3 = f"is it {name.partition('?')[0]}?region=…, or another server's: AWS_ENDPOINT_URL=http://…"
        known = "a path, or one that begins with s3://, gs://, abfs:// or hdfs://"
        hint = s3 if scheme == "s3" else "" if scheme in ("gs", "abfs", "abfss", "hdfs") else known
        raise DcpdumpError(f"this place cannot be opened: {what}", name, hint) from error


def below(folder: str, name: str) -> str:
    """Return the name of a file in a folder; options of its file system (``?…``) stay at the end."""
    if not is_remote(folder):
        return f"{folder.rstrip('/')}/{name}"
    base, mark, options = folder.partition("?")
    scheme, colon, rest = base.partition("://")
    return f"{scheme}{colon}{rest.rstrip('/')}/{quote(name, safe=_IN_URI)}{mark}{options}"


def is_remote(name: str) -> bool:
    """Return whether a name is in object storage or in a distributed file system."""
    return "://" in name


@contextmanager
def working_in(folder: str) -> Iterator[None]:
    """Work in a folder, in a ``with``, where this machine has it.

    That is the driver's: relative names are below it, and executors of their own start elsewhere.
    """
    before = os.getcwd()
    with suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def make_folders(target: RemotePath) -> None:
    """Make the folders that a file is to be in, on this machine for their owner alone. Raises OSError."""
    folder = os.path.dirname(target.path)
    if not target.local:
        target.system.create_dir(folder, recursive=True)
        return
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        with suppress(FileExistsError):  # another task made it first
            os.mkdir(each, 0o700)


# -- the captures that names stand for ----------------------------------------------------------------


class Input(NamedTuple):
    """A capture file."""

    path: str
    size: int
    changed: float = 0.0  #: when it was last modified, in seconds since the epoch


def inputs(names: Sequence[str]) -> list[Input]:
    """Return the capture files that files, folders and globs name, here or in object storage. Raises CaptureError."""
    found: list[Input] = []
    for name in names:
        if is_remote(name):
            found += _remote(name)
        else:
            for path in expand([name]):
                with suppress(FileNotFoundError):  # deleted meanwhile, as by the writer of a ring
                    found.append(Input(path, os.stat(path).st_size, os.stat(path).st_mtime))
    return list(dict.fromkeys(found))


def _remote(name: str) -> list[Input]:
    base, mark, query = name.partition("?")
    stem, star, _ = base.partition("*")
    folder = stem.rsplit("/", 1)[0] if star else base
    where = resolve_uri(folder + mark + query)
    try:
        info = where.system.get_file_info(where.path)
        if info.type is fs.FileType.File:
            return [Input(name, info.size, info.mtime_ns / 1e9)]
        if info.type is fs.FileType.NotFound:
            raise CaptureError("there is no such file or folder", name)
        listed = where.files(recursive=True)
    except OSError as error:
        raise CaptureError(f"this cannot be listed: {error.strerror or error}", name) from error
    root = where.path.rstrip("/")
    files = [
        Input(below(folder + mark + query, each.path[len(root) + 1 :]), each.size, each.mtime_ns / 1e9)
        for each in sorted(listed, key=lambda each: str(each.path))
        if each.type is fs.FileType.File
        and (fnmatchcase(each.path[len(root) :], base[len(folder) :]) if star else CAPTURE_NAME.search(each.path))
    ]
    if not files:
        raise CaptureError("no file matches" if star else "there is no capture in this folder", name)
    return files


#: Bytes of a request: the latency of object storage is that of sending some megabytes.
_REQUESTED = 8 * 1024 * 1024


class RemoteSource:
    """A source of the bytes of a file in object storage, from an offset on."""

    def __init__(self, name: str, offset: int) -> None:
        self.failure = ""
        self._piece = memoryview(b"")
        try:
            self._file = resolve_uri(name).open()
            self._file.seek(offset)
        except OSError as error:
            what = "there is no such file" if isinstance(error, FileNotFoundError) else f"this cannot be read: {error}"
            raise CaptureError(what, name) from error

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, up to ``size``; none at the end."""
        if not self._piece:
            self._piece = memoryview(self._file.read(_REQUESTED))
        found, self._piece = self._piece[:size], self._piece[size:]
        return bytes(found)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
