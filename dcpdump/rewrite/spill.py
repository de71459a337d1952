"""Keep the bytes of many streams by their offsets in an unnamed file, so that memory stays small."""

import os
import tempfile
from array import array
from bisect import bisect_right

from dcpdump.errors import writing

_PIECE = 64 * 1024  #: pending bytes of one stream, before they are written
_PENDING = 16 * 1024 * 1024  #: pending bytes of all streams


class _Stream:
    """The runs of one stream: offsets in the stream, ascending, and in the file."""

    __slots__ = ("data", "ends", "file_offsets", "start", "starts")

    def __init__(self) -> None:
        self.starts: array[int] = array("q")
        self.ends: array[int] = array("q")
        self.file_offsets: array[int] = array("q")
        self.start = 0  # of pending bytes
        self.data = bytearray()


class Spill:
    """A store of streams' bytes: put them in ascending order, get any range. Bytes never put read as zeros."""

    def __init__(self, folder: str) -> None:
        with writing(folder):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        self._streams: dict[int, _Stream] = {}
        self._end = 0
        self._pending = 0

    def put(self, number: int, start: int, data: bytes) -> None:
        """Append bytes of a stream at an offset, which is not before the end of those put earlier."""
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = _Stream()
        if stream.data and stream.start + len(stream.data) != start:
            self._write(stream)
        if not stream.data:
            stream.start = start
        stream.data += data
        self._pending += len(data)
        if len(stream.data) >= _PIECE:
            self._write(stream)
        if self._pending >= _PENDING:
            for each in self._streams.values():
                self._write(each)

    def get(self, number: int, start: int, end: int) -> bytes:
        """Return the bytes of a stream from ``start`` to ``end``."""
        stream = self._streams.get(number)
        if stream is None or end <= start:
            return bytes(max(0, end - start))
        self._write(stream)
        out = bytearray(end - start)
        at = max(bisect_right(stream.starts, start) - 1, 0)
        while at < len(stream.starts) and stream.starts[at] < end:
            first, last = max(start, stream.starts[at]), min(end, stream.ends[at])
            if first < last:
                offset = stream.file_offsets[at] + first - stream.starts[at]
                out[first - start : last - start] = os.pread(self._file.fileno(), last - first, offset)
            at += 1
        return bytes(out)

    def __enter__(self) -> "Spill":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _write(self, stream: _Stream) -> None:
        size = len(stream.data)
        if not size:
            return
        self._file.write(stream.data)
        self._file.flush()
        continues = bool(stream.ends) and stream.ends[-1] == stream.start
        if continues and stream.file_offsets[-1] + stream.ends[-1] - stream.starts[-1] == self._end:
            stream.ends[-1] += size
        else:
            stream.starts.append(stream.start)
            stream.ends.append(stream.start + size)
            stream.file_offsets.append(self._end)
        self._end += size
        self._pending -= size
        stream.data = bytearray()
