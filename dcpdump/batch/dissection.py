"""Dissection: blocks of packets in, parts of frames out, as columns."""

from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.part import Part
from dcpdump.conversation import Conversation
from dcpdump.wire.frames import Frames


class Dissection(BlockDissector[Part]):
    """Feed it blocks; it returns parts. ``gaps`` collects what connections lost, to be taken away by its owner."""

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> Part:
        return self._part(frames, first, involved)
