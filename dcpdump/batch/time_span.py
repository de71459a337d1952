"""TimeSpan: from when to when an input has packets, and where its clock goes back.

The times of packets of several threads of a capture differ in their order by less than a second: that is no clock.
"""

from typing import Final

import numpy as np

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
        rows = np.flatnonzero(block.ts_ns != NO_TIME)
        if not len(rows):
            return
        times = block.ts_ns[rows]
        first, last = int(times.min()), int(times.max())
        self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        self.last_ns = last if self.last_ns is None else max(last, self.last_ns)
        if self.back is None:
            steps = np.diff(times, prepend=times[0] if self._before is None else self._before)
            found = np.flatnonzero(steps <= -_BACK_NS)
            if len(found):
                at = int(found[0])
                self.back, self.back_ns = block.where(int(rows[at])), -int(steps[at])
        self._before = int(times[-1])
