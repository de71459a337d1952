"""Cut: a piece of a direction's bytes: a frame, or bytes that belong to none."""

from enum import Enum
from typing import NamedTuple

from dcpdump.wire.frame import NOWHERE, RawFrame, Where


class Why(Enum):
    """Reasons for which bytes belong to no frame."""

    NO_BOUNDARY = "no frame begins there"
    NOT_MEMCACHED = "not the memcached binary protocol"
    TORN_HEADER = "the rest of the header was lost"
    PASSED_BY = "the rest of a frame of which too much was lost or too much waits"


class Skipped(NamedTuple):
    """Bytes that belong to no frame, and why."""

    offset: int
    length: int
    why: Why
    where: Where = NOWHERE


Cut = RawFrame | Skipped
