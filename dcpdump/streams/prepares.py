"""Prepares: the durable writes of a stream that wait for their outcome, or to be acknowledged."""

from dcpdump.quick_dataclass import dataclass, field
from dcpdump.streams.frame_event import FrameEvent

#: Prepares of a stream that are kept at most.
_MOST = 65_536


@dataclass(slots=True, eq=False)
class Prepares:
    """Prepares of one stream."""

    open: dict[bytes, int] = field(default_factory=dict)  #: seqnos of those not committed nor aborted, by key
    unacked: dict[int, FrameEvent] = field(default_factory=dict)  #: not yet acknowledged, by seqno
    missed: bool = False  #: there were more than are kept

    def add(self, key: bytes, seqno: int, place: FrameEvent, *, closely: bool) -> None:
        """Take a prepare. ``closely``: whether it is acknowledged matters too."""
        if len(self.open) >= _MOST:
            self.missed = True
            return
        self.open[key] = seqno
        if closely and len(self.unacked) < _MOST:
            self.unacked[seqno] = place

    def acknowledge(self, seqno: int) -> None:
        """Take it that all up to a seqno are acknowledged."""
        if self.unacked:
            self.unacked = {at: prepare for at, prepare in self.unacked.items() if at > seqno}

    def complete(self, seqno: int) -> None:
        """Take it that all up to a seqno are decided."""
        if self.open:
            self.open = {key: at for key, at in self.open.items() if at > seqno}


#: Most streams have none: these have one in common, to which nothing is added.
NO_PREPARES = Prepares()
