"""PacketsUntil: the packets of an input up to a time, as if the capture had ended then."""

from collections.abc import Callable

from dcpdump.batch.block import Block, gathered


class PacketsUntil:
    """Leave out packets that are later than a time; of a clock that goes back, each by its own time.

    ``end``: returns the last time (ns) that counts, from that of the capture's first packet.
    """

    def __init__(self, end: Callable[[int | None], int]) -> None:
        self._end = end
        self._begins_ns: int | None = None
        self.end_ns: int | None = None  #: the last time that counts, once packets were left out

    def cut(self, block: Block) -> Block | None:
        """Return a block without what is too late; None where nothing is left. Packets without a time stay."""
        if self._begins_ns is None:
            self._begins_ns = block.begins_ns
        end_ns = self._end(self._begins_ns)
        early = block.ts_ns <= end_ns
        if early.all():
            return block
        self.end_ns = end_ns
        rows = early.nonzero()[0].tolist()
        return gathered([block.packets[row] for row in rows]) if rows else None
