"""Find a file or folder, on this machine or in object storage, by the name that the user typed.

Local paths and whatever Arrow knows: ``s3://``, ``gs://``, ``abfs://``, ``hdfs://``; ``s3a://`` is Hadoop's name for
the first. Workers and the driver open the same name, each for themselves.
"""

from typing import BinaryIO, NamedTuple, cast

from pyarrow import ArrowException, fs

from dcpdump.errors import DcpdumpError

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasb": "abfs", "wasbs": "abfss"}


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


def place(name: str) -> RemotePath:
    """Return the file system and path of a name. Raises DcpdumpError for a scheme that Arrow does not know."""
    scheme, colon, rest = name.partition("://")
    if not colon:
        from os.path import abspath

        return RemotePath(fs.LocalFileSystem(), abspath(name))
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    try:
        return RemotePath(*fs.FileSystem.from_uri(f"{scheme}://{rest}"))
    except (ArrowException, OSError, ValueError) as error:
        what = str(error).strip().splitlines()[0]
        raise DcpdumpError(f"this place cannot be opened: {what}", name, "a path, or s3://BUCKET/FOLDER") from error


def open_binary(name: str) -> BinaryIO:
    """Open a file to read and seek in, wherever it is."""
    if not is_remote(name):
        return open(name, "rb")
    where = place(name)
    return cast(BinaryIO, where.system.open_input_file(where.path))


def is_remote(name: str) -> bool:
    """Return whether a name is in object storage or in a distributed file system."""
    return "://" in name
