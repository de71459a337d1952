"""Prepares: the durable writes of a stream that wait for their outcome, or to be acknowledged."""

from typing import NamedTuple

from dcpdump.quick_dataclass import dataclass, field
from dcpdump.streams.frame_event import FrameEvent

#: Prepares of a stream that are kept at most.
_MOST = 65_536


class OpenPrepare(NamedTuple):
    """A prepare of which no COMMIT or ABORT came."""

    seqno: int
    frame: int
    due_ns: int | None  #: since when its outcome has to come; None: it need not come, or may have


@dataclass(slots=True, eq=False)
class Prepares:
    """Prepares of one stream."""

    open: dict[bytes, OpenPrepare] = field(default_factory=dict)  #: those not committed nor aborted, by key
    unacked: dict[int, FrameEvent] = field(default_factory=dict)  #: not yet acknowledged, by seqno
    missed: bool = False  #: there were more than are kept

    def add(self, key: bytes, seqno: int, place: FrameEvent, *, due: bool, closely: bool) -> None:
        """Take a prepare. ``due``: its outcome has to come; ``closely``: whether it is acknowledged matters too."""
        if len(self.open) >= _MOST:
            self.missed = True
            return
        self.open[key] = OpenPrepare(seqno, place.number, place.ts_ns if due else None)
        if closely and len(self.unacked) < _MOST:
            self.unacked[seqno] = place

    def acknowledge(self, seqno: int) -> None:
        """Take it that all up to a seqno are acknowledged."""
        if self.unacked:
            self.unacked = {at: prepare for at, prepare in self.unacked.items() if at > seqno}

    def complete(self, seqno: int) -> None:
        """Take it that all up to a seqno are decided."""
        if self.open:
            self.open = {key: prepare for key, prepare in self.open.items() if prepare.seqno > seqno}

    def excuse(self, prefix: bytes = b"") -> None:
        """Take it that the outcomes of those whose keys begin so need not come, or may have come."""
        for key, prepare in self.open.items():
            if key.startswith(prefix):
                self.open[key] = prepare._replace(due_ns=None)

    def hide_keys(self) -> None:
        """Forget keys, of a stream that learns no more."""
        self.open = {str(prepare.seqno).encode(): prepare for prepare in self.open.values()}
        self.unacked = {}


#: Most streams have none: these have one in common, to which nothing is added.
NO_PREPARES = Prepares()
