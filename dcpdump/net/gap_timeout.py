"""Patience: whether a hole in a direction's bytes may still be filled, or is to be given up."""

from typing import NamedTuple

from dcpdump.net.limits import Limits
from dcpdump.net.stream_state import PatienceState


class Hole(NamedTuple):
    """Bytes that are missing up to ``end``: what lies there came ``since`` a time, as the byte of that arrival."""

    end: int
    arrived: int
    since: int


class GapTimeout:
    """With one hole at a time, the first. ``deadline``: when to tick next, None where time alone decides nothing.

    What the receiver acknowledged was lost by the capture; it may have been written late, and gets some more
    bytes or some time. What it did not acknowledge will be sent again, as long as anybody is there to do so.
    """

    __slots__ = ("_limits", "_lost_since", "deadline")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lost_since: tuple[int, int] | None = None  # in time and in bytes arrived
        self.deadline: int | None = None

    def state(self) -> PatienceState:
        """Return what it waits for as plain values, for ``restore``."""
        return self._lost_since, self.deadline

    def restore(self, state: PatienceState) -> None:
        """Restore a state."""
        self._lost_since, self.deadline = state

    def rest(self) -> None:
        """Stop: nothing is waited for."""
        self._lost_since = self.deadline = None

    def ends(self, hole: Hole, now: int, arrived: int, *, acked: bool, resent: bool, over_since: int) -> bool:
        """Whether the hole is to be given up.

        ``acked``: the receiver has its bytes; ``resent``: the sender may be relied upon to send them again;
        ``over_since``: when a FIN or a RST came after which neither end may send any more.
        """
        limits = self._limits
        self.deadline = None
        if acked:
            time, count = self._lost_since or (now, arrived)
            self._lost_since = time, count = max(time, hole.since), max(count, hole.arrived)
            if arrived - count >= limits.patience_bytes:
                return True
        else:
            self._lost_since = None
            if resent:
                return False
            time = max(hole.since, over_since)
        if now - time >= limits.patience_ns:
            return True
        self.deadline = time + limits.patience_ns
        return False

    def room(self, arrived: int) -> int:
        """Return how many more bytes may arrive before the hole that is waited for has to be given up."""
        return self._limits.patience_bytes - 1 - (arrived - self._lost_since[1] if self._lost_since else 0)
