"""Define the state of a frame splitter as plain values: all that decides where it cuts the bytes that come next."""

from typing import Any, Final, TypedDict

#: What a splitter does: wait for the first bytes of its direction, search for a frame, cut frame after frame, or skip
#: the rest of a frame that was given up.
START: Final = "start"
SEARCH: Final = "search"
CUT: Final = "cut"
PASS: Final = "pass"

WhereState = tuple[int, int | None, str]  #: number and time of a packet, its file


class SplitterState(TypedDict):
    """What a splitter holds and knows. Offsets are of its direction."""

    state: str  #: START, SEARCH, CUT or PASS
    data: bytes  #: bytes that wait for the rest of a frame
    offset: int  #: of the first of it
    need: int  #: bytes that are needed before the next attempt
    marks: list[tuple[int, WhereState]]  #: the packet that brought the bytes up to an offset
    holes: list[tuple[int, int]]  #: in the data: lost bytes, that stand as zeros
    joining: bool  #: there has been neither a frame nor a loss, and the first byte may be anywhere in a frame
    lost: int  #: bytes lost or skipped since the last frame
    confidence: str
    passing: int  #: bytes that are left of a frame that was given up
    doubtful: bool
    segment: bool  #: the data begins where a segment did
    foreign: bool


def splitter_essence(state: SplitterState, most: int) -> tuple[Any, ...]:
    """Return what decides how a splitter continues: two that are equal cut the same bytes alike.

    Of the data only the first ``most`` bytes count, and how many there are.
    """
    if state["foreign"]:
        return ("foreign", state["offset"])
    data, at, offset = state["data"], state["state"], state["offset"]
    return (
        at,
        offset,
        len(data),
        data[:most],
        [mark for mark in state["marks"] if mark[0] > offset] if data else [],
        state["holes"],
        state["lost"],
        state["confidence"],
        state["passing"],
        at == SEARCH and (state["segment"], state["doubtful"], state["joining"]),
    )
