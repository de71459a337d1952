"""DocumentRun: messages of one stream that follow one another, as one event. One event each means the same."""

from collections.abc import Callable
from typing import NamedTuple

from dcpdump.streams.facts import Snapshot
from dcpdump.streams.frame_event import FrameEvent


class Close(NamedTuple):
    """What inspecting a run found: mutations and deletions, without anything in a reserved field, none of seqno 0."""

    rising: bool  #: each seqno is above the one before
    longest: int  #: bytes of the longest key, prefix included
    sound: bool  #: each key starts with a collection id as it should be
    forms: int  #: of deletions: bit 0 where there is one of layout 1, bit 1 where there is one of layout 2
    seqnos: list[int]
    keys: list[bytes]  #: as they are on the wire
    texts: "Texts"  #: the values that are marked JSON
    packed: list[tuple[int, int, bytes]]  #: of what is compressed or has xattrs: which frame, datatype and value


class Texts(NamedTuple):
    """Values of a run that are marked JSON, and nothing else."""

    data: bytes  #: they lie in here
    places: list[int]  #: which frames of the run they are of
    starts: list[int]
    ends: list[int]


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
    close: Close | None = None  #: where it was asked for
    snapshot: Snapshot | None = None  #: what its marker announces, if one is among its frames


Step = FrameEvent | DocumentRun


def one_by_one(step: Step) -> list[FrameEvent]:
    """Return the events of a frame or a run."""
    return step.each() if isinstance(step, DocumentRun) else [step]
