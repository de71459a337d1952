"""Estimate how far the clocks of two captures are apart, and how long frames were on their way between them."""

from typing import NamedTuple

from dcpdump.compare.way import Differences


class ClockOffset(NamedTuple):
    """How far B's clock is ahead of A's, in ns.

    ``spread``: half of what a frame takes from one place of capture to the other and back, since how that divides
    into the two ways cannot be known. ``a_first``: direction 0 (of A) passes A before B. ``frames``: how many of each
    direction it rests on at least.
    """

    offset: int
    spread: int
    a_first: bool
    frames: int


class Latency(NamedTuple):
    """How long frames of a direction took from one place of capture to the other, in ns."""

    median: int
    p99: int


def clock(there: Differences | None, back: Differences | None) -> ClockOffset | None:
    """Return the clock by how much later frames of both directions are in B; None where one has no frame in both.

    What is later in B is offset plus latency in the direction that passes A first, offset less latency in the other.
    """
    if there is None or back is None:
        return None
    offset, half = (there.p50 + back.p50) // 2, (there.p50 - back.p50) // 2
    return ClockOffset(offset, abs(half), half >= 0, min(there.frames, back.frames))


def latency(later: Differences, found: ClockOffset, direction: int) -> Latency:
    """Return the latency of a direction of A."""
    if found.a_first is (direction == 0):
        return Latency(later.p50 - found.offset, later.p99 - found.offset)
    return Latency(found.offset - later.p50, found.offset - later.p1)


def of_all(clocks: list[ClockOffset]) -> ClockOffset | None:
    """Return the clock that rests on most frames; None where there is none."""
    return max(clocks, key=lambda each: each.frames, default=None)
