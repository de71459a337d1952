"""Find a file or folder, on this machine or in object storage, by the name that the user typed.

Local paths and whatever Arrow knows: ``s3://``, ``gs://``, ``abfs://``, ``hdfs://``; ``s3a://`` is Hadoop's name for
the first. A name is kept as it was typed, with the account and the host that are not in Arrow's paths: workers and the
driver open the same name, each for themselves.
"""

import os
from contextlib import suppress
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import quote

from pyarrow import ArrowException, fs

from dcpdump.errors import DcpdumpError

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasb": "abfs", "wasbs": "abfss"}
_IN_URI = "/!$&'()*+,;=:@~"  #: what stands for itself in the path of a URI, beside letters and digits


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

    def read(self) -> bytes:
        """Return the bytes of a file."""
        with self.system.open_input_stream(self.path) as file:
            data: bytes = file.read()
        return data

    def write(self, data: bytes) -> None:
        """Write a file, whole or not at all, and the folders that it is in."""
        part = f"{self.path}.part"
        self.system.create_dir(os.path.dirname(self.path), recursive=True)
        with self.system.open_output_stream(part) as file:
            file.write(data)
        self.system.move(part, self.path)


def place(name: str) -> RemotePath:
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
    base, mark, options = folder.partition("?") if is_remote(folder) else (folder, "", "")
    return f"{base.rstrip('/')}/{name}{mark}{options}"


def child(folder: str, root: str, path: str) -> str:
    """Return the name of what is at ``path`` below a folder, which is at ``root``, in the paths of its file system."""
    base, mark, options = folder.partition("?")
    scheme, colon, rest = base.partition("://")
    below_root = quote(path[len(root.rstrip("/")) :], safe=_IN_URI)
    return f"{scheme}{colon}{rest.rstrip('/')}{below_root}{mark}{options}"


def for_hadoop(name: str) -> str:
    """Return a name as Java takes it: with Hadoop's scheme, and without what only Arrow understands."""
    scheme, colon, rest = name.partition("://")
    hadoop = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}.get(scheme.lower(), scheme)
    return f"{hadoop}{colon}{rest.partition('?')[0]}" if colon else name


def open_binary(name: str) -> BinaryIO:
    """Open a file to read and seek in, wherever it is."""
    if not is_remote(name):
        return open(name, "rb")
    where = place(name)
    return cast(BinaryIO, where.system.open_input_file(where.path))


def is_remote(name: str) -> bool:
    """Return whether a name is in object storage or in a distributed file system."""
    return "://" in name


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
        with suppress(FileExistsError):  # another task was faster
            os.mkdir(each, 0o700)
