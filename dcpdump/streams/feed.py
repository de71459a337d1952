"""Feed: parts of frames in, events and runs of documents out, in the order of the frames."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dcpdump.batch.block import Block
from dcpdump.batch.ends import Lost
from dcpdump.net.half import TcpChange
from dcpdump.net.no_time import NO_TIME
from dcpdump.streams.document_run import DocumentRun, Step, one_by_one
from dcpdump.streams.ends_watching import Ended, EndsWatching
from dcpdump.streams.eviction import Evictable, Eviction
from dcpdump.streams.frame_event import Before, FrameEvent
from dcpdump.streams.hidden_numbers import without_numbers
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.pending_losses import PendingLosses, before_of
from dcpdump.streams.run_dissection import RunPiece, piece_of
from dcpdump.streams.succession import Succession
from dcpdump.streams.time_order import Order

if TYPE_CHECKING:
    from dcpdump.batch.part import Part

    Piece = RunPiece | Part

#: What holds connections up before their first frame is remembered up to so many.
_EARLY = 1_024
#: Frames may follow a RST that is forged, or out of order: live, it ends a connection of which none did for so long.
_RESET_NS = 2_000_000_000

Lose = Callable[[int, int, Before, int | None], None]


class Feed:
    """Feed a ledger with what a dissection returns, piece by piece, losses and ends included."""

    def __init__(
        self, dissection: EndsWatching[Any], ledger: Ledger, *, closely: bool = False, hides: bool = False
    ) -> None:
        self._dissection = dissection
        self._ledger = ledger
        self._closely = closely  #: as ``steps`` has it; else documents are of no interest but for what they count
        self._hides = hides  #: what is learnt is for an output that is redacted
        self._pending = PendingLosses()
        self._order = Order()
        self._latest = NO_TIME
        self.succession = Succession()  #: of the files
        self._early: dict[tuple[int, int, str], TcpChange] = {}  # of connections without a frame
        dissection.watch(closely=closely)
        self._eviction = Eviction(dissection, ledger)

    def meet(self, block: Block) -> None:
        """Take a block of packets, before its parts: the ledger is to know whether several files are one capture."""
        self.succession.meet(block)

    def frame_events(self, pieces: Sequence["Piece"]) -> list[FrameEvent]:
        """Take the next pieces, and return the events that the ledger learns next."""
        return [frame for step in self.steps(pieces) for frame in one_by_one(step)]

    def steps(self, pieces: Sequence["Piece"]) -> Sequence[Step]:
        """Do the same, with runs of documents."""
        taken = [each if isinstance(each, RunPiece) else piece_of(each) for each in pieces]
        in_order = self._orderly(taken)
        found = [step for piece in taken for step in self._steps(piece)]
        return self._order.feed(found, waiting=self._dissection.waiting, in_order=in_order)

    def _orderly(self, pieces: Sequence[RunPiece]) -> bool:
        """Take the losses and ends of pieces, and return whether their times never go back."""
        in_order = True
        self._pending.add(self._dissection.gaps)
        self._dissection.gaps.clear()
        self.succession.take(pieces)
        for piece in pieces:
            for ends in piece.places:
                self._ledger.meet(ends)
            if len(piece):
                first_ns, last_ns, rises = piece.times
                in_order &= first_ns >= self._latest and rises
                self._latest = max(self._latest, last_ns)
        self._end()
        return in_order

    def _steps(self, piece: RunPiece) -> list[Step]:
        found = piece.steps(closely=self._closely, losses=self._pending.before(piece))
        if not self._hides:
            return found
        return [each if isinstance(each, DocumentRun) else without_numbers(each) for each in found]

    def rest(self) -> list[Step]:
        """Return what still waits for others, once there are no more parts."""
        return self._order.close()

    def evictable(self, lose: Lose | None = None, *, streams: bool = True) -> Evictable | None:
        """Return what may be evicted, as the ledger has too much; None where it has not. ``streams``: those too.

        To be asked once all steps are learnt; ``lose`` is as in ``close``.
        """
        if not self._eviction.due or self._order.waiting:
            return None
        found = self._eviction.choose(streams=streams)
        for ended in found.ended:
            self._reset(ended)
        for each in found.connections:
            self._lose(self._pending.take(each.number), lose)
            self.succession.forget(each.number)
        return found

    def pause(self, now_ns: int) -> None:
        """Have the ledger know who has left and what time it is, so that it can be judged before it is closed."""
        self._end()
        for ended in self._dissection.resets(now_ns - _RESET_NS):
            self._reset(ended)
        self._ledger.close(now_ns)

    def _reset(self, ended: Ended) -> None:
        """Have the ledger know who reset a connection of which no frame has come since."""
        connection = self._ledger.connections.get(ended.connection)
        if connection is not None and not connection.end_reason and (connection.last_ns or 0) <= (ended.ts_ns or 0):
            self._ledger.end(*ended)

    def close(self, last_ns: int | None = None, lose: Lose | None = None) -> None:
        """Report losses that no frame followed and ends, and close the ledger.

        ``last_ns``: the time of the last packet, which may be none of a frame. ``lose``: who takes losses, if not the
        ledger.
        """
        self._lose([*self._pending.rest(), *self._dissection.gaps], lose)
        self._end()
        self._ledger.alone = self.succession.one
        self._ledger.close(last_ns)

    def _lose(self, losses: Sequence[Lost], lose: Lose | None) -> None:
        for loss in losses:
            ends = loss.ends
            (lose or self._ledger.lose)(ends.connection, ends.direction, before_of([loss]), loss.gap.seen.ts_ns)

    def _end(self) -> None:
        """Have the ledger know which connections ended by now."""
        for ended in self._dissection.ended:
            self._ledger.end(*ended)
        self._dissection.ended.clear()
        changes = self._dissection.tcp_changes
        if changes or self._early:
            self._hold_up([*self._early.values(), *changes])
            changes.clear()

    def _hold_up(self, changes: Sequence[TcpChange]) -> None:
        """Have the connections know how TCP holds them up; those without a frame, once they have one."""
        self._early = {}
        for change in changes:
            connection = self._ledger.connections.get(change.connection)
            place = change[:3]
            if connection is not None:
                connection.hold_up(change.direction, change.fault, begins=change.begins, ts_ns=change.ts_ns)
            elif not change.begins:
                self._early.pop(place, None)
            elif len(self._early) < _EARLY:
                self._early[place] = change
