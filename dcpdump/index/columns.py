"""Columns: what the list of frames shows, and most filters ask for, of every frame, as arrays that grow.

They are in unlinked temporary files, which are written at the end and mapped to be read. A process that was forked
shares them: one writes, the other sees what was written as soon as it knows how much there is.
"""

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dcpdump.errors import OutputError

Array = NDArray[Any]

#: Bits of ``flags``.
RESPONSE = 1
SERVER = 2  #: the magic of the server's own requests: opcodes of another space
GAP_BEFORE = 4  #: bytes before it in its direction were lost or skipped
WEAK = 8  #: found on weak evidence
ODD = 16  #: not whole, with bytes lost inside, or with a number that no column holds: filters read its record
PROBLEM = 32  #: a problem is known without reading keys and values; those of documents only ``record`` finds
INFERRED = 64  #: whether its key has a collection id is inferred
PLANNED = 128  #: an ordinary request, of which filters need no record
HAS_VBUCKET = 256
HAS_SEQNO = 512
HAS_STREAM_ID = 1024
REFUSED = 2048  #: a response whose status is not success

#: The columns with a value for each frame.
FRAME_COLUMNS: Mapping[str, str] = {
    "ts_ns": "i8",
    "opcode": "u1",
    "magic": "u1",
    "vbucket": "u2",
    "status": "u2",
    "place": "u4",
    "opaque": "u4",
    "stream_id": "u2",
    "seqno": "u8",
    "length": "u4",
    "flags": "u2",
}
#: Of few frames: the answers and the requests they answer; the frames after lost bytes, and how many these are.
SPARSE_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "answers": {"answer": "u4", "request": "u4"},
    "gaps": {"gap_frame": "u4", "gap_bytes": "u8"},
}


class Columns:
    """Growing columns. ``refresh`` says how many rows there are; the arrays are then as long.

    Arrays that were taken before stay valid, and as short as they were.
    """

    ts_ns: Array  #: of the packet that completed the frame; NO_TIME where it has none
    opcode: Array
    magic: Array
    vbucket: Array  #: of a response that of its request; 0 without HAS_VBUCKET
    status: Array  #: of a response; else 0
    place: Array  #: which of the index's ``ends``
    opaque: Array
    stream_id: Array
    seqno: Array  #: of a snapshot marker and a request for a stream where they start
    length: Array
    flags: Array
    answer: Array  #: frame numbers of answers, rising
    request: Array  #: and of the request of each
    gap_frame: Array  #: frame numbers
    gap_bytes: Array

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}
        self._kinds = dict(FRAME_COLUMNS)
        for kinds in SPARSE_COLUMNS.values():
            self._kinds |= kinds
        try:
            for name in self._kinds:
                self._files[name] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            self.close()
            raise _no_place(error) from error
        self.refresh(0, 0, 0)

    def append(self, part: dict[str, Array]) -> None:
        """Write rows behind the others."""
        try:
            for name, column in part.items():
                _write(self._files[name], np.ascontiguousarray(column, self._kinds[name]))
        except OSError as error:
            raise _no_place(error) from error

    def refresh(self, frames: int, answers: int, gaps: int) -> None:
        """Map what was written: so many frames, answers and gaps."""
        self.frames, self.answers, self.gaps = frames, answers, gaps
        for name in FRAME_COLUMNS:
            setattr(self, name, self._mapped(name, frames))
        for sparse, count in (("answers", answers), ("gaps", gaps)):
            for name in SPARSE_COLUMNS[sparse]:
                setattr(self, name, self._mapped(name, count))

    def request_of(self, number: int) -> int | None:
        """Return which request a frame answers; None where it answers none, or that was not captured."""
        at = int(self.answer.searchsorted(number))
        return int(self.request[at]) if at < len(self.answer) and self.answer[at] == number else None

    def answers_of(self, number: int) -> list[int]:
        """Return the frames that answer a request; several where one has many answers."""
        found: list[int] = self.answer[self.request == number].tolist()
        return found

    def close(self) -> None:
        """Close the files, which frees what they take once no array of them is left."""
        for file in self._files.values():
            file.close()

    def _mapped(self, name: str, count: int) -> Array:
        kind = np.dtype(self._kinds[name])
        if not count:
            return np.empty(0, kind)
        mapped = mmap.mmap(self._files[name].fileno(), count * kind.itemsize, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, kind, count)


def _write(file: IO[bytes], column: Array) -> None:
    left = column.data.cast("B")
    while left:
        left = left[os.write(file.fileno(), left) :]


def _no_place(error: OSError) -> OutputError:
    folder = tempfile.gettempdir()
    return OutputError(f"the index cannot be kept: {error.strerror or error}", folder, "TMPDIR=/a/larger/folder")
