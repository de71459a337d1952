"""Define a piece of a direction's bytes: a frame, or bytes that belong to none."""

from enum import Enum
from typing import NamedTuple

from dcpdump.wire.frame import NOWHERE, RawFrame, Where


class Why(Enum):
    """Reasons for which bytes belong to no frame."""

    NO_BOUNDARY = "no frame begins there"
    NOT_MEMCACHED = "not the memcached binary protocol"
    TORN_HEADER = "the rest of the header was lost"
    BEGUN_BEFORE = "the rest of a frame that began before the capture"
    PASSED_BY = "the rest of a frame of which too much was lost or too much waits"


class Skipped(NamedTuple):
    """Bytes that belong to no frame, and why."""

    offset: int
    length: int
    why: Why
    where: Where = NOWHERE


Cut = RawFrame | Skipped


def merged(cuts: list[Cut]) -> list[Cut]:
    """Join neighbouring skips of one reason into one."""
    out: list[Cut] = []
    for cut in cuts:
        last = out[-1] if out else None
        if (
            isinstance(cut, Skipped)
            and isinstance(last, Skipped)
            and last.why is cut.why
            and last.offset + last.length == cut.offset
        ):
            out[-1] = Skipped(last.offset, last.length + cut.length, cut.why, cut.where)
        else:
            out.append(cut)
    return out
