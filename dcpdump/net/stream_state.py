"""The state of a byte stream as plain values: all that decides what it makes of the segments that come next.

What was delivered, which repeats are compared with, and the counters are not part of it.
"""

from typing import Any, NamedTuple, TypedDict

from dcpdump.net.sender_state import SenderValues

SeenState = tuple[int, int | None, str, int]  #: number and time of a packet, its file, its interface
#: Where a segment starts, how many bytes had arrived with it, its bytes, the end of what the snap length cut off behind
#: them, when it came, and in which packet.
WaitingState = tuple[int, int, bytes, int, int, SeenState]
#: Since when the first hole was taken for lost (time, bytes arrived), and when it is given up.
PatienceState = tuple[tuple[int, int] | None, int | None]
FinState = tuple[int, int, int, SeenState]  #: its offset, how many bytes had arrived with it, its time and packet
StrayState = tuple[int, bytes, int]  #: a segment from far outside: sequence number, bytes, how many were cut off


class Stray(NamedTuple):
    """A segment from far outside the stream, kept until a second one near it confirms it."""

    seq: int
    payload: bytes
    missing: int


class ReassemblyState(TypedDict):
    """What is known of the offsets of a stream."""

    offset: int  #: of the next byte to deliver
    joined_late: bool
    deadline: int | None
    gathering: bool  #: the first offset is not known yet
    since: int  #: when gathering began
    now: int
    arrived: int  #: bytes that were new when they came
    top: int  #: the end of the furthest piece
    acked: int | None
    fin: FinState | None
    reset_at: int | None
    reset_by_peer: bool
    ended: bool
    waiting: list[WaitingState]  #: by offset, then by arrival
    patience: PatienceState | None  #: None before the stream begins


class StreamState(ReassemblyState):
    """And of its sequence numbers; -1 stands for one that never comes."""

    base: int | None  #: of offset 0; None before the stream begins
    ready: int  #: that may be delivered without further thought
    isn: int | None
    first_ack: int | None
    last_ack: int
    stray: StrayState | None
    answers: bool
    sender: SenderValues


def stream_essence(state: StreamState) -> tuple[Any, ...]:
    """Return what decides how a stream continues: two with the same do the same with the same segments."""
    offset, arrived = state["offset"], state["arrived"]
    since, deadline = state["patience"] or (None, None)
    fin, acked = state["fin"], state["acked"]
    shut, repeats, *times = state["sender"]
    return (
        offset,
        state["base"],
        state["ready"],
        state["isn"],
        state["last_ack"],
        state["gathering"] and state["since"],
        state["joined_late"],
        state["now"],
        state["reset_at"],
        state["reset_by_peer"],
        state["ended"],
        state["stray"],
        state["deadline"],
        shut == 1,
        repeats and (repeats, *times),
        deadline,
        max(state["top"], offset),
        None if acked is None else max(acked, offset),
        None if fin is None else (fin[0], fin[1] - arrived, fin[2]),
        None if since is None else (since[0], since[1] - arrived),
        [(start, order - arrived, *rest) for start, order, *rest in state["waiting"]],
        state["base"] is not None or (state["first_ack"], state["answers"]),
    )
