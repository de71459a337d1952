"""Keep growing columns with what the list of frames shows, and most filters test, of every frame.

Columns are in unlinked temporary files, appended by writing and read by mapping. A forked process shares them: one
writes, and the other reads once it knows the number of rows.
"""

import mmap
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Literal

from dcpdump.errors import OutputError
from dcpdump.processes import write_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_Kind = Literal["q", "B", "H", "I", "Q"]

#: The most bytes of packets that are kept from an input that cannot be read a second time.
SPOOL_BYTES = 4 << 30
#: Bits of ``flags``.
RESPONSE = 1
SERVER = 2  #: a message of the server's own, with opcodes of their own
GAP_BEFORE = 4  #: bytes before it in its direction were lost or skipped
ODD = 8  #: incomplete, or with a number that no column can hold: filters use its record
PROBLEM = 16  #: a problem was found outside of keys and values; those in documents are found by ``record``
HAS_VBUCKET = 32
HAS_SEQNO = 64
HAS_STREAM_ID = 128
REFUSED = 256  #: a response whose status is not success

#: The columns with a value for each frame, and their types, as memoryview formats.
_FRAME_COLUMNS: Mapping[str, _Kind] = {
    "ts_ns": "q",
    "opcode": "B",
    "magic": "B",
    "vbucket": "H",
    "status": "H",
    "direction": "I",
    "opaque": "I",
    "stream_id": "H",
    "seqno": "Q",
    "length": "I",
    "flags": "H",
}
#: Columns with fewer rows: responses and their requests; frames after lost bytes, and how many bytes.
_SPARSE_COLUMNS: Mapping[str, Mapping[str, _Kind]] = {
    "answers": {"answer": "I", "request": "I"},
    "gaps": {"gap_frame": "I", "gap_bytes": "Q"},
}
_KINDS = {name: kind for columns in (_FRAME_COLUMNS, *_SPARSE_COLUMNS.values()) for name, kind in columns.items()}


class Columns:
    """Growing columns. ``refresh`` sets how many rows there are, and so the length of the arrays.

    Arrays returned before stay valid, with their old length. A column is mapped on first use; ``values`` returns single
    values without NumPy, whose import takes longer than showing the first frames.
    """

    ts_ns: "Array"  #: of the packet that completed the frame; NO_TIME without one
    opcode: "Array"
    magic: "Array"
    vbucket: "Array"  #: of a response, its request's; 0 without HAS_VBUCKET
    status: "Array"  #: of a response; else 0
    direction: "Array"  #: index in the index's ``directions``
    opaque: "Array"
    stream_id: "Array"
    seqno: "Array"  #: of a snapshot marker or stream request its start
    length: "Array"
    flags: "Array"
    answer: "Array"  #: frame numbers of responses, rising
    request: "Array"  #: and of the request for each
    gap_frame: "Array"  #: frame numbers
    gap_bytes: "Array"

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}
        self._mapped: dict[str, memoryview] = {}
        try:
            for name in _KINDS:
                self._files[name] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            self.close()
            raise not_kept("the index cannot be kept", error) from error
        self.refresh(0, 0, 0)

    def append(self, part: "dict[str, Array]") -> None:
        """Append rows."""
        try:
            for name, column in part.items():
                write_all(self._files[name].fileno(), column.astype(_KINDS[name], "C", copy=False).data.cast("B"))
        except OSError as error:
            raise not_kept("the index cannot be kept", error) from error

    def refresh(self, frames: int, answers: int, gaps: int) -> None:
        """Set how many frames, responses and gaps are visible."""
        self.frames, self.answers, self.gaps = frames, answers, gaps
        for name in self._mapped:
            self.__dict__.pop(name, None)
        self._mapped.clear()

    def values(self, name: str) -> memoryview:
        """Return a column for reading single values."""
        if name not in self._mapped:
            self._mapped[name] = self._map(name)
        return self._mapped[name]

    def __getattr__(self, name: str) -> "Array":
        """Return a column as an array."""
        if name not in _KINDS:
            raise AttributeError(name)
        import numpy as np

        found = self.__dict__[name] = np.asarray(self.values(name))
        return found

    def request_of(self, number: int) -> int | None:
        """Return the request of a response; None for other frames, or if the request was not captured."""
        answers = self.values("answer")
        at = bisect_left(answers, number)
        return self.values("request")[at] if at < len(answers) and answers[at] == number else None

    def answers_of(self, number: int) -> list[int]:
        """Return the responses to a request; some requests have several."""
        found: list[int] = self.answer[self.request == number].tolist()
        return found

    def close(self) -> None:
        """Close the files, which are freed once no array uses them."""
        for file in self._files.values():
            file.close()

    def _map(self, name: str) -> memoryview:
        count = self.frames
        for sparse, columns in _SPARSE_COLUMNS.items():
            if name in columns:
                count = getattr(self, sparse)
        none = memoryview(array(_KINDS[name]))
        if not count:
            return none
        size = count * none.itemsize
        return memoryview(mmap.mmap(self._files[name].fileno(), size, access=mmap.ACCESS_READ)).cast(_KINDS[name])


def not_kept(what: str, error: OSError) -> OutputError:
    """Return the error that a temporary file cannot be written; ``what``: what that means."""
    return OutputError(f"{what}: {error.strerror or error}", tempfile.gettempdir(), "TMPDIR=/a/larger/folder")
