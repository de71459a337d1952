"""TimeSpan: from when to when an input has packets, and where its clock goes back.

The times of packets of several threads of a capture differ in their order by less than a second: that is no clock.
"""

from typing import Final

from dcpdump.batch.block import Block
from dcpdump.net.no_time import NO_TIME
from dcpdump.wire.frame import Where

_BACK_NS: Final = 1_000_000_000


class TimeSpan:
    """Give it each block."""

    def __init__(self) -> None:
        self.first_ns: int | None = None  #: the earliest time
        self.last_ns: int | None = None  #: the latest
        self.back: Where | None = None  #: the first packet that is a second or more before the one ahead of it
        self.back_ns = 0  #: by so much
        self._before: int | None = None

    def meet(self, block: Block) -> None:
        """Note the times of a block's packets."""
        if block.span is None:
            return
        first, last = block.span
        self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        self.last_ns = last if self.last_ns is None else max(last, self.last_ns)
        if self.back is None and ((self._before or 0) > first or not block.rises):
            self._look_back(block)
        self._before = (
            block.batch.times[-1]
            if block.rises
            else next(ts_ns for ts_ns in reversed(block.batch.times) if ts_ns != NO_TIME)
        )

    def _look_back(self, block: Block) -> None:
        """Find where the clock goes back, if it does."""
        before = self._before
        for row, ts_ns in enumerate(block.batch.times):
            if ts_ns == NO_TIME:
                continue
            if before is not None and before - ts_ns >= _BACK_NS:
                self.back, self.back_ns = block.where(row), before - ts_ns
                return
            before = ts_ns
