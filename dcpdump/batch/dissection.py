"""Dissection: blocks of packets in, parts of frames out, as columns."""

from dcpdump.batch.builder import part_of
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.ends import Ends
from dcpdump.batch.part import Part
from dcpdump.batch.sessions import Recording, learn_frames
from dcpdump.conversation import Conversation
from dcpdump.wire.frames import Frames


class Dissection(BlockDissector[Part]):
    """Feed it blocks; it returns parts. ``gaps`` collects what connections lost, to be taken away by its owner."""

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> Part:
        part, planned = learnt(frames, first, involved, self._record, show_secrets=self._show_secrets)
        self.tally.dcp_frames += planned  # the others were counted as they were recorded
        return part


def learnt(
    frames: Frames, first: int, involved: dict[int, Conversation], record: Recording, *, show_secrets: bool
) -> tuple[Part, int]:
    """Make a part of frames, and have their sessions learn: return it, and how many of its planned frames are DCP's."""

    def ends_of(place: int) -> Ends:
        conversation, direction = involved[place // 2], place % 2
        src, dst = conversation.ends[direction]
        return Ends(place // 2, direction, src, dst, conversation.connection.syn)

    part = part_of(frames, first, ends_of)
    planned = learn_frames(part, involved, record, show_secrets=show_secrets)
    part.names.update({number: each.names for number, each in involved.items() if each.names.any})
    return part, planned
