"""Questions that the screen has about frames, and the answers, which may come from another process."""

from typing import TYPE_CHECKING, Any, NamedTuple

from dcpdump.conversation import MissingValues

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dcpdump.browse.listed import Numbers
    from dcpdump.capture.damage import Damage


class Decode(NamedTuple):
    """Ask for a frame. The answer is its Record."""

    number: int


class Describe(NamedTuple):
    """Ask what frames say. The answers are texts by number, the first frames first."""

    numbers: tuple[int, ...]


class Choose(NamedTuple):
    """Ask which frames a filter wants. The answers are FoundFrames."""

    text: str  #: of the filter
    first: int
    last: int


class Pick(NamedTuple):
    """Ask for the first of some frames that says a text, in lower case. The answer is its number, or None."""

    text: str
    numbers: "Numbers"


Question = Decode | Describe | Choose | Pick


class FoundFrames(NamedTuple):
    """Frames that a filter wants."""

    first: int  #: the first frame that was searched
    last: int  #: and the last
    packed: "npt.NDArray[np.uint8]"  #: a bit for each of them, as numpy.packbits has it

    @property
    def numbers(self) -> "npt.NDArray[np.int64]":
        """Return the numbers of the frames."""
        import numpy as np

        return np.flatnonzero(np.unpackbits(self.packed, count=self.last - self.first + 1)) + self.first


class Failed(NamedTuple):
    """Why there is no answer."""

    why: str


class Answer(NamedTuple):
    """An answer, or a piece of it."""

    ticket: int  #: of the question
    value: Any  #: as the question says, or Failed; None where the last piece had all
    done: bool  #: nothing more comes


class FrameEnds(NamedTuple):
    """A direction of a connection."""

    connection: int
    direction: int


class IndexNews(NamedTuple):
    """How far the index is, and what is new of it."""

    counts: tuple[int, int, int]  #: of frames, answers and gaps in the columns
    read: tuple[int, int | None]  #: bytes, and how many there are
    begins_ns: int | None
    idle: bool
    complete: bool
    failure: str
    ends: tuple[FrameEnds, ...]  #: behind those that are known
    damage: tuple["Damage", ...]
    lost: MissingValues
    skipped_bytes: int


Message = Answer | IndexNews | Exception
