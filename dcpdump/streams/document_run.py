"""DocumentRun: messages of one stream that follow one another, as one event. One event each means the same."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.batch.document_runs import Inspected
from dcpdump.streams.frame_event import FrameEvent

if TYPE_CHECKING:
    from dcpdump.streams.facts import Snapshot


class DocumentRun(NamedTuple):
    """Mutations, deletions and expirations, all whole, with nothing lost in between and times that never go back.

    Where it is not inspected closely, the snapshot marker that announces them may be its first frame.
    """

    first: int  #: number of the first frame
    frames: int
    connection: int
    direction: int
    word: int  #: the vbucket
    opaque: int
    stream_id: int  #: 0: none
    size: int  #: bytes of all frames
    first_ns: int
    last_ns: int
    first_seqno: int
    last_seqno: int
    high_seqno: int  #: the largest
    kinds: tuple[tuple[int, int, int], ...]  #: opcode, frames, bytes: of each message that there is
    pause_ns: int  #: the longest time between two of them
    each: Callable[[], list[FrameEvent]]  #: makes the events of all frames
    close: Inspected | None = None  #: where it was asked for
    snapshot: "Snapshot | None" = None  #: what its marker announces, if one is among its frames


Step = FrameEvent | DocumentRun


def one_by_one(step: Step) -> list[FrameEvent]:
    """Return the events of a frame or a run."""
    return step.each() if isinstance(step, DocumentRun) else [step]
