"""Prepares: the durable writes of a stream that wait for their outcome, or to be acknowledged."""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from dcpdump.quick_dataclass import dataclass, field
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.wire.key_prefix import read_prefix

#: Prepares of a stream that are kept at most, and how many of those decided may be among them.
_MOST, _SPARE = 65_536, 64


class OpenPrepare(NamedTuple):
    """A prepare of which no COMMIT or ABORT came."""

    seqno: int
    frame: int
    due_ns: int | None  #: since when its outcome has to come; None: it need not come, or may have


@dataclass(slots=True, eq=False)
class Prepares:
    """Prepares of one stream."""

    open: dict[bytes, OpenPrepare] = field(default_factory=dict)  #: those not committed nor aborted, by key
    _order: list[tuple[int, bytes]] = field(default_factory=list)  #: a heap of these, and of some that are decided
    unacked: OrderedDict[int, FrameEvent] = field(default_factory=OrderedDict)  #: not yet acknowledged, by seqno
    missed: bool = False  #: there were more than are kept
    excused: int = 0  #: up to this frame, outcomes need not come, or may have come
    dropped: set[int] = field(default_factory=set)  #: collections that were dropped while there were any

    def add(self, key: bytes, seqno: int, place: FrameEvent, *, due: bool, closely: bool) -> None:
        """Take a prepare. ``due``: its outcome has to come; ``closely``: whether it is acknowledged matters too."""
        if len(self.open) >= _MOST:
            self.missed = True
            return
        self.open[key] = OpenPrepare(seqno, place.number, place.ts_ns if due else None)
        heappush(self._order, (seqno, key))
        if len(self._order) > 2 * len(self.open) + _SPARE:
            self._order = [(each.seqno, key) for key, each in self.open.items()]
            heapify(self._order)
        if closely and len(self.unacked) < _MOST:
            self.unacked[seqno] = place

    def acknowledge(self, seqno: int) -> None:
        """Take it that all up to a seqno are acknowledged."""
        while self.unacked and (first := next(iter(self.unacked))) <= seqno:
            del self.unacked[first]

    def complete(self, seqno: int) -> None:
        """Take it that all up to a seqno are decided."""
        while self._order and self._order[0][0] <= seqno:
            decided, key = heappop(self._order)
            if key in self.open and self.open[key].seqno == decided:
                del self.open[key]

    def excuse(self, frame: int) -> None:
        """Take it that the outcomes of those up to a frame need not come, or may have come."""
        if self.open:
            self.excused = frame

    def drop(self, collection: int) -> None:
        """Take it that a collection is dropped: a server forgets its prepares."""
        if self.open and len(self.dropped) < _MOST:
            self.dropped.add(collection)

    def due(self, by_ns: int) -> list[OpenPrepare]:
        """Return those of which the outcome had to come from a time on, or from an earlier one."""
        return [
            each
            for key, each in self.open.items()
            if each.due_ns is not None and each.due_ns <= by_ns and not self._is_excused(key, each)
        ]

    def hide_keys(self) -> None:
        """Forget keys, of a stream that learns no more."""
        kept = [each for key, each in self.open.items() if not self._is_excused(key, each)]
        self.open = {str(prepare.seqno).encode(): prepare for prepare in kept}
        self._order, self.unacked, self.dropped = [], OrderedDict(), set()

    def _is_excused(self, key: bytes, prepare: OpenPrepare) -> bool:
        prefix = read_prefix(key) if self.dropped else None
        return prepare.frame <= self.excused or (prefix is not None and prefix.collection in self.dropped)


#: Most streams have none: these have one in common, to which nothing is added.
NO_PREPARES = Prepares()
