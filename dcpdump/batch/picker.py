"""Picker: blocks of packets in, the records of few chosen frames out; where many are chosen, parts.

It loads nothing for columns before there is a block of which many frames are to be decoded.
"""

from typing import TYPE_CHECKING, NamedTuple, Union

from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.picking import Picking
from dcpdump.conversation import Conversation
from dcpdump.filter.header_clauses import Wanted
from dcpdump.filter.ranges import Ranges
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.frames import Frames

if TYPE_CHECKING:
    from dcpdump.batch.part import Part

#: Of the frames of a block, so many may be decoded one by one, or one in so many; else all are taken as columns.
FEW, ONE_IN = 64, 64
#: Bytes of packets handled at once: few enough that a processor still has at hand what the next step looks at.
BLOCK_BYTES = 512 * 1024


def most_of(frames: Frames) -> int:
    """Return how many of some frames may be decoded one by one that columns would take at once."""
    return max(FEW, len(frames) // ONE_IN)


class Picked(NamedTuple):
    """Frames that may be wanted, among them all that are; the others were passed by."""

    records: list[Record]


#: No frame is wanted for its header.
_NONE = Wanted(bytes(256), bytes(65_536))


class Picker(BlockDissector[Union[Picked, "Part"]]):
    """Feed it blocks; it returns records or parts, in which all frames are that are ``wanted``."""

    def __init__(
        self,
        wanted: Wanted,
        limits: Limits = DEFAULT,
        *,
        show_secrets: bool = False,
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._wanted = wanted

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> "Picked | Part":
        picking = Picking(frames, first, involved, self._wanted)
        most = most_of(frames)
        if picking.count(most) > most:
            return self._part(frames, first, involved)
        return Picked(self._pick(picking, first, len(frames), involved))

    def _pick(self, picking: Picking, first: int, count: int, involved: dict[int, Conversation]) -> list[Record]:
        records: list[Record] = []
        at = -1
        while (at := picking.next(at + 1)) < count:
            place = picking.place()
            records.append(self._record(involved[place >> 1], place & 1, picking.raw(at), first + at))
        self.tally.dcp_frames += picking.dcp
        return records


class NumberPicker(Picker):
    """Feed it blocks; it returns parts, in which all frames are whose ``numbers`` are wanted."""

    def __init__(
        self,
        numbers: Ranges,
        limits: Limits = DEFAULT,
        *,
        show_secrets: bool = False,
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(_NONE, limits, show_secrets=show_secrets, secrets=secrets)
        self._numbers = numbers

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> "Picked | Part":
        if self._numbers.overlaps(first, first + len(frames) - 1):
            return self._part(frames, first, involved)
        super()._piece(frames, first, involved)
        return Picked([])
