"""Turn batches of frames into events and runs of documents, in the order of the frames."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from dcpdump.batch.block import Block
from dcpdump.net.event import TcpChange
from dcpdump.net.limits import CONNECTION, LEAST, LIVING, STREAM
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Lost
from dcpdump.redact import hides_numbers, is_stray
from dcpdump.streams.dissection import Ended, EndsWatching, RunBatch, piece_of
from dcpdump.streams.frame_event import HIDDEN, UNKNOWN_LOSS, Before, DocumentRun, FrameEvent, Missed, Step
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ANY_TIME, ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.frame import Section
from dcpdump.wire.value import Content

# -- what was lost of each direction, until a frame comes that begins behind it -----------------------


class PendingLosses:
    """Losses in the order of their directions' bytes, each kept until the frame behind it is there."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, int], deque[tuple[int, Lost]]] = {}  #: by connection and direction, numbered
        self._count = 0

    def add(self, losses: Iterable[Lost]) -> None:
        """Keep losses. Those of one direction come in the order of its bytes."""
        for loss in losses:
            self._of.setdefault((loss.direction.connection, loss.direction.side), deque()).append((self._count, loss))
            self._count += 1

    def before(self, piece: RunBatch) -> dict[int, Before]:
        """Return the losses before rows of a piece.

        A loss belongs to the first frame of its direction that begins after it, and is forgotten with it.
        """
        gaps = piece.gaps()
        found = {row: Before(length, Missed(skipped=length)) for row, length in gaps.items()}
        for at, direction in enumerate(piece.directions) if self._of else ():
            pending = self._of.get((direction.connection, direction.side))
            if pending:
                _move_behind(pending, *piece.offsets_of(at), gaps, found)
                if not pending:
                    del self._of[direction.connection, direction.side]
        return found

    def pop(self, connection: int | None = None) -> list[Lost]:
        """Return the losses (of a connection) that no frame followed, as they came, and forget them."""
        directions = list(self._of) if connection is None else [(connection, 0), (connection, 1)]
        kept = [each for direction in directions for each in self._of.pop(direction, ())]
        return [loss for _, loss in sorted(kept, key=itemgetter(0))]


def _move_behind(
    pending: deque[tuple[int, Lost]],
    rows: Sequence[int],
    offsets: Sequence[int],
    gaps: Mapping[int, int],
    found: dict[int, Before],
) -> None:
    """Move losses of a direction to the frames behind them, as far as these are there."""
    moved: dict[int, list[Lost]] = {}
    while pending and len(rows) and pending[0][1].gap.offset <= offsets[-1]:
        loss = pending.popleft()[1]
        moved.setdefault(int(rows[bisect_left(offsets, loss.gap.offset)]), []).append(loss)
    for row, losses in moved.items():
        found[row] = before_of(losses, gaps.get(row, 0))


def before_of(losses: Sequence[Lost], length: int = 0) -> Before:
    """Return several losses as one; ``length``: of what is between two frames, 0 where all of it is in the first."""
    sent = [each.length for loss in losses for each in loss.sent]
    skipped = sum(loss.skipped for loss in losses)
    missed = Missed(sum(each or 0 for each in sent), len(sent), sent.count(None), skipped)
    texts = [loss.gap.length for loss in losses]
    if None in texts:
        return Before(UNKNOWN_LOSS, missed)
    return Before(length or sum(each or 0 for each in texts) + skipped or UNKNOWN_LOSS, missed)


# -- damaged frames: numbers that may be bytes of a key or a value are taken from their events --------
# Redacted records do not show them, so what is learnt for an output that is redacted has to do without them.


def without_numbers(event: FrameEvent) -> FrameEvent:
    """Return an event without the numbers that are hidden where its frame is redacted: as if they were lost."""
    record = event.record
    if record is None:
        return event
    frame = record.frame
    if not hides_numbers(frame):
        return event
    stray = is_stray(frame)
    if not stray and all(field.section is Section.HEADER or isinstance(field.value, bytes) for field in frame.fields):
        return event
    header = tuple(field for field in frame.fields if field.section is Section.HEADER and not stray)
    hidden = replace(frame, fields=header, lookup={}, key=None, value=None)
    content = Content(problems=record.content.problems)
    event = event._replace(
        record=replace(record, frame=hidden, content=content), seqno=None, shape=HIDDEN, fields=(), complete=False
    )
    if stray:
        return event._replace(
            opcode=0, vbucket_or_status=0, opaque=0, cas=0, datatype=0, stream_id=0, length=len(frame.raw.data)
        )
    return event


# -- succession ---------------------------------------------------------------------------------------
# Whether files are one capture that was rotated, so that the end of the last is the end of all.
#
# It is one only where each file begins at or after the end of the one before it, and connections continue from each
# into the next without a loss: files of several places, or with others missing in between, say nothing about each
# other's connections.


class Succession:
    """A test whether files are one rotated capture, fed each block and its pieces."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[int, int]] = {}  # of each file: the first and the last
        self._latest: dict[tuple[int, int], str] = {}  # by connection and direction: the file with its latest frame
        self._joined: set[tuple[str, str]] = set()  # files from which a direction continues into the other
        self._broken: set[tuple[str, str]] = set()  # files between which bytes of a direction are missing

    def observe(self, block: Block) -> None:
        """Note the times of each file."""
        if len(block.files) == 1:
            if block.span is not None:
                self.note(block.files[0], *block.span)
            return
        times = defaultdict[int, list[int]](list)
        for ts_ns, file in zip(block.batch.times, block.batch.file, strict=True):
            if ts_ns != NO_TIME:
                times[file].append(ts_ns)
        for file, those in times.items():
            self.note(block.files[file], min(those), max(those))

    def note(self, name: str, first_ns: int, last_ns: int) -> None:
        """Note that a file has packets of these times."""
        first, last = self._times.get(name, (first_ns, last_ns))
        self._times[name] = min(first_ns, first), max(last_ns, last)

    def consume(self, pieces: Iterable[RunBatch]) -> None:
        """Note the connections that continue from one file into another."""
        for piece in pieces:
            directions = ((direction.connection, direction.side) for direction in piece.directions)
            if len(piece.files) == 1 and all(self._latest.get(each) == piece.files[0] for each in directions):
                continue  # as nearly always
            for name, direction, after_gap in piece.sources():
                key = direction.connection, direction.side
                before = self._latest.get(key)
                if before != name:
                    self._latest[key] = name
                    if before is not None:
                        (self._broken if after_gap else self._joined).add((before, name))

    def forget(self, connection: int) -> None:
        """Forget a connection that has ended."""
        for direction in (0, 1):
            self._latest.pop((connection, direction), None)

    @property
    def one(self) -> bool:
        """Return whether all files are one capture."""
        files = sorted(self._times.items(), key=lambda each: each[1])
        if any(end > begin for (_, (_, end)), (_, (begin, _)) in pairwise(files)):
            return False
        pairs = {(name, after) for (name, _), (after, _) in pairwise(files)}
        return pairs <= self._joined - self._broken


# -- order: frames in the order of time, across the two directions of connections ---------------------
# A direction with a hole waits until the hole is filled or given up, while the other goes on: an answer may come before
# its request. Here frames of the other direction wait too, so that frames are learnt in the order in which they were
# sent. The order within a direction never changes: a frame that waited for bytes has the time at which they came.

#: How long to wait for a hole that the receiver has filled, and some more.
_PATIENCE_NS = 2_500_000_000
#: The most frames that wait; so many of their bytes, or a decoded field, count as one more frame.
_MOST = 262_144
_BYTES = 256
#: How many are kept when there are more. The fewer times frames are released, the fewer runs are taken apart.
_ENOUGH = _MOST * 7 // 8
_TIME = itemgetter(0)


class _Held(NamedTuple):
    """Frames that wait. In order, they are in the order of time, and those of one time as they came."""

    ts_ns: int
    number: int  #: counts frames, so no two have the same
    end_ns: int
    weight: int  #: how much memory they need, in frames
    step: Step


class Order:
    """A queue that returns events and runs in order of time, once nothing earlier is to be expected."""

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self._weight = 0  # of all of them
        self._end_ns = 0  # and the latest of their ends
        self._latest: dict[tuple[int, int], int] = {}  # by direction of a connection
        self._count = 0

    @property
    def waiting(self) -> bool:
        """Whether frames wait."""
        return bool(self._held)

    def feed(self, seen: Sequence[Step], *, waiting: bool, in_order: bool) -> Sequence[Step]:
        """Add the next frames. ``waiting``: bytes wait behind a hole; ``in_order``: times never go back."""
        if not self._held and not waiting and in_order:
            return seen
        self._hold(sorted(map(self._timed, seen)))
        if not waiting:
            return self.close()
        until = self._until()
        begun = bisect_right(self._held, until, key=_TIME)
        if not begun:
            return []
        # What is under way at that time is reported as far as it goes.
        held = sorted(_apart(self._held[:begun], lambda each: until < each.end_ns))
        count = bisect_right(held, until, key=_TIME)
        self._weight -= sum([each.weight for each in self._held[:begun]])
        del self._held[:begun]
        if not self._held:
            self._end_ns = 0
        self._hold(held[count:])
        return _steps_of(held[:count])

    def close(self) -> list[Step]:
        """Return all waiting frames."""
        held, self._held = self._held, []
        self._weight = self._end_ns = 0
        self._latest.clear()
        return _steps_of(held)

    def _hold(self, others: list[_Held]) -> None:
        """Add frames, which are in order, to those that wait. They are the next ones, or nearly."""
        if others:
            first, behind = bisect_left(self._held, others[0]), bisect_right(self._held, others[-1])
            self._held[first:behind] = sorted([*self._held[first:behind], *others])
            self._weight += sum([each.weight for each in others])
            self._end_ns = max(self._end_ns, *[each.end_ns for each in others])

    def _timed(self, step: Step) -> _Held:
        """Return frames with the time from which they count."""
        whose = step.connection, step.direction
        if isinstance(step, DocumentRun):
            frames, first, last = step.frames, step.first_ns, step.last_ns
        else:
            frames, first, last = 1, step.ts_ns or 0, step.ts_ns or 0
        before = self._latest.get(whose, 0)
        self._latest[whose] = end = max(before, last)
        self._count += frames
        return _Held(max(before, first), self._count - frames, end, _weight(step), step)

    def _until(self) -> int:
        """Return the time up to which no earlier frame is to be expected."""
        until = self._end_ns - _PATIENCE_NS
        if self._weight <= _MOST:
            return until
        weight = self._weight
        for each in self._held:
            weight -= each.weight
            if weight <= _ENOUGH:
                return max(until, each.ts_ns)
        return until


def _weight(step: Step) -> int:
    """Return how much memory frames need, in frames."""
    if isinstance(step, DocumentRun):
        return step.frames + step.size // _BYTES
    record = step.record
    decoded = 0 if record is None else len(record.frame.fields) + len(record.frame.problems)
    return 1 + step.length // _BYTES + decoded


def _apart(held: Iterable[_Held], which: Callable[[_Held], bool]) -> Iterator[_Held]:
    """Take runs apart, frame by frame."""
    for each in held:
        if isinstance(each.step, DocumentRun) and which(each):
            for at, frame in enumerate(each.step.each()):
                ts_ns = max(each.ts_ns, frame.ts_ns or 0)
                yield _Held(ts_ns, each.number + at, ts_ns, _weight(frame), frame)
        else:
            yield each


def _steps_of(held: list[_Held]) -> list[Step]:
    """Return frames in their order; a run in whose midst the other direction sent is taken apart."""
    times: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in held:
        times[each.step.connection, each.step.direction].append(each.ts_ns)
    apart = sorted(_apart(held, lambda each: _is_interrupted(each, times)))
    return [each.step for each in held] if len(apart) == len(held) else _steps_of(apart)


def _is_interrupted(run: _Held, times: dict[tuple[int, int], list[int]]) -> bool:
    others = times.get((run.step.connection, 1 - run.step.direction), [])
    first = bisect_left(others, run.ts_ns)
    return first < len(others) and others[first] <= run.end_ns


# -- eviction: streams and connections that have ended may be forgotten, so that memory is bounded ------
# The longest silent ones come first. A stream that was requested in place of another is never forgotten before that
# one, so that no kept stream seems abandoned. The latest ones are always kept.

#: Connections are examined again when their number exceeds the limit by this share.
_LOOKS = 8
#: The share of the memory that is freed at a time, since each examination costs a few steps for each stream.
_FREED = 4


class Evictable(NamedTuple):
    """Streams and connections that may be forgotten."""

    streams: list[Stream]
    connections: list[ConnectionState]  #: without a stream, once these are evicted
    ended: list[Ended]  #: of connections of these that were reset, which the ledger does not know yet


class Eviction:
    """The choice of the streams and connections that a ledger forgets."""

    def __init__(self, dissection: EndsWatching[Any], ledger: Ledger) -> None:
        self._dissection, self._ledger = dissection, ledger
        self._most, self._state = dissection.most_connections, dissection.most_state
        self._most_open = self._most  # connections at the same time: fewer where each has many streams
        self._crowded, self._full = self._most, self._state  # beyond so much some may be evicted
        self._resets: dict[int, Ended] = {}  # by connection: those of which nothing came since

    @property
    def due(self) -> bool:
        """Return whether the ledger exceeds its limit."""
        return len(self._ledger.connections) > self._crowded or self._size > self._full

    @property
    def _size(self) -> int:
        """Return the memory that connections and streams may take."""
        connections = len(self._ledger.connections)
        unknown = max(0, self._dissection.living - connections)  # to the ledger, any more or not yet
        return connections * CONNECTION + unknown * LIVING + len(self._ledger.streams) * STREAM

    def choose(self) -> Evictable:
        """Return connections and streams to forget."""
        ledger, chosen = self._ledger, Evictable([], [], [])
        size = self._size
        self._resets = {
            each.connection: each
            for each in self._dissection.resets(ANY_TIME)
            if (known := ledger.connections.get(each.connection)) is not None
            and (known.last_ns or 0) <= (each.ts_ns or 0)
        }
        crowd = len(ledger.connections) - self._most
        for connection in self._idle():
            if size <= self._state and len(chosen.connections) >= crowd:
                break
            chosen.connections.append(connection)
            size -= self._freed_by(connection)
        if size > self._state:
            size = self._choose_streams(chosen, size)
            if size > self._state:
                self._close_some(size)
        self._crowded = max(self._most, len(ledger.connections) - len(chosen.connections) + self._most // _LOOKS)
        self._full = max(self._state, size + self._state // _LOOKS)
        numbers = {each.number for each in chosen.connections} | {each.connection.number for each in chosen.streams}
        chosen.ended.extend(each for number, each in self._resets.items() if number in numbers)
        return chosen

    def _idle(self) -> Iterator[ConnectionState]:
        """Yield the ended connections without a stream, in the order in which they began."""
        connections = list(self._ledger.connections.values())
        for at, connection in enumerate(connections):
            old = at < len(connections) - LEAST
            if not connection.streams and (self._ends(connection) if old else self._is_over(connection)):
                yield connection

    def _choose_streams(self, chosen: Evictable, size: int) -> int:
        """Choose streams, and the connections that have no others, and return how much is left then."""
        left = Counter[ConnectionState]()
        goal = self._state - self._state // _FREED
        for stream in _silent(self._ledger.streams):
            if size <= goal:
                break
            connection = stream.connection
            ends = self._ends(connection)
            if not ends and not _is_over(stream):
                continue
            chosen.streams.append(stream)
            size -= STREAM
            left[connection] += 1
            if ends and left[connection] == len(connection.streams):
                chosen.connections.append(connection)
                size -= self._freed_by(connection)
        return size

    def _close_some(self, size: int) -> None:
        """Have open connections closed, where evicting those that are over is not enough."""
        fitting = self._dissection.living * self._state // size
        self._most_open = max(LEAST, min(self._most_open, fitting))
        self._dissection.remember(self._most_open)

    def _freed_by(self, connection: ConnectionState) -> int:
        return CONNECTION if self._is_over(connection) else CONNECTION - LIVING

    def _ends(self, connection: ConnectionState) -> bool:
        """Return whether a connection has ended, as far as its packets show; frames may still be on their way."""
        ends = connection.end.by is not None or connection.number in self._resets
        return ends or self._is_over(connection)

    def _is_over(self, connection: ConnectionState) -> bool:
        """Return whether no frame of a connection can come any more."""
        return self._dissection.is_over(connection.number)


def _silent(streams: Sequence[Stream]) -> list[Stream]:
    """Return the streams that have been silent since before the latest ones began, silent for longest first."""
    since = min(map(_latest, streams[-LEAST:]), default=0)
    return sorted((each for each in streams[:-LEAST] if _latest(each) < since), key=_latest)


def _latest(stream: Stream) -> int:
    """Return the number of the latest frame of a stream."""
    request = stream.request
    return max(stream.traffic.last_frame, 0 if request is None else request.answer_frame or request.frame)


def _is_over(stream: Stream) -> bool:
    """Return whether nothing more is to be expected of a stream on an open connection, unless it is requested again."""
    if stream.ended or stream.replaced or stream.next is not None:
        return True
    if stream.is_sending:
        return False
    request = stream.requests[-1]
    return request.status is not None or not stream.connection.exchanges.awaits(request)


# -- the feed -------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from dcpdump.batch.frame_batch import FrameBatch

    Piece = RunBatch | FrameBatch

#: How many connections without a frame are remembered that TCP holds up.
_EARLY = 1_024
#: Frames may follow a RST that is forged, or out of order: live, it ends a connection of which none did for so long.
_RESET_NS = 2_000_000_000

Lose = Callable[[int, int, Before, int | None], None]


class Feed:
    """Feed a ledger with what a dissection returns, piece by piece, losses and ends included."""

    def __init__(
        self, dissection: EndsWatching[Any], ledger: Ledger, *, with_rules: bool = False, hides: bool = False
    ) -> None:
        self._dissection = dissection
        self._ledger = ledger
        self._with_rules = with_rules  #: as ``steps`` has it; else documents are of no interest but for what they count
        self._hides = hides  #: what is learnt is for an output that is redacted
        self._pending = PendingLosses()
        self._order = Order()
        self._latest = NO_TIME
        self.succession = Succession()  #: of the files
        self._early: dict[tuple[int, int, str], TcpChange] = {}  # of connections without a frame
        dissection.watch(with_rules=with_rules)
        self._eviction = Eviction(dissection, ledger)

    def observe(self, block: Block) -> None:
        """Note a block, before its batches, so that the ledger knows whether several files are one capture."""
        self.succession.observe(block)

    def steps(self, pieces: Sequence["Piece"]) -> Sequence[Step]:
        """Add the next pieces, and return the events and runs of documents that the ledger learns next."""
        taken = [each if isinstance(each, RunBatch) else piece_of(each) for each in pieces]
        in_order = self._orderly(taken)
        found = [step for piece in taken for step in self._steps(piece)]
        return self._order.feed(found, waiting=self._dissection.waiting, in_order=in_order)

    def _orderly(self, pieces: Sequence[RunBatch]) -> bool:
        """Note the losses and ends of pieces, and return whether their times never go back."""
        in_order = True
        self._pending.add(self._dissection.gaps)
        self._dissection.gaps.clear()
        self.succession.consume(pieces)
        for piece in pieces:
            for direction in piece.directions:
                self._ledger.note_addresses(direction)
            if len(piece):
                first_ns, last_ns, rises = piece.times
                in_order &= first_ns >= self._latest and rises
                self._latest = max(self._latest, last_ns)
        self._end()
        return in_order

    def _steps(self, piece: RunBatch) -> list[Step]:
        found = piece.steps(with_rules=self._with_rules, losses=self._pending.before(piece))
        if not self._hides:
            return found
        return [each if isinstance(each, DocumentRun) else without_numbers(each) for each in found]

    def rest(self) -> list[Step]:
        """Return the frames that still wait, after the last batch."""
        return self._order.close()

    def evictable(self, lose: Lose | None = None) -> Evictable | None:
        """Return what may be evicted, as the ledger has too much; None where it has not.

        To be asked once all steps are learnt; ``lose`` is as in ``close``.
        """
        if not self._eviction.due or self._order.waiting:
            return None
        found = self._eviction.choose()
        for ended in found.ended:
            self._reset(ended)
        for each in found.connections:
            self._lose(self._pending.pop(each.number), lose)
            self.succession.forget(each.number)
        return found

    @property
    def waiting(self) -> bool:
        """Whether bytes or frames are there that wait for earlier ones."""
        return self._order.waiting or self._dissection.waiting

    def pause(self, now_ns: int) -> None:
        """Tell the ledger which connections ended and the time, and close it for a verdict; more may follow."""
        self.advance(now_ns)
        self._ledger.close(now_ns)

    def advance(self, now_ns: int) -> None:
        """Tell the ledger which connections ended, and the time."""
        self._ledger.last_ns = max(now_ns, self._ledger.last_ns or 0)
        self._end()
        for ended in self._dissection.resets(now_ns - _RESET_NS):
            self._reset(ended)

    def _reset(self, ended: Ended) -> None:
        """Tell the ledger which connections were reset without later frames."""
        connection = self._ledger.connections.get(ended.connection)
        if connection is not None and not connection.end.reason and (connection.last_ns or 0) <= (ended.ts_ns or 0):
            self._ledger.end(*ended)

    def close(self, last_ns: int | None = None, lose: Lose | None = None) -> None:
        """Report losses that no frame followed and ends, and close the ledger.

        ``last_ns``: the time of the last packet, which may be none of a frame. ``lose``: who takes losses, if not the
        ledger.
        """
        self._lose([*self._pending.pop(), *self._dissection.gaps], lose)
        self._end()
        self._ledger.single_capture = self.succession.one
        self._ledger.close(last_ns)

    def _lose(self, losses: Sequence[Lost], lose: Lose | None) -> None:
        for loss in losses:
            direction = loss.direction
            (lose or self._ledger.lose)(direction.connection, direction.side, before_of([loss]), loss.gap.seen.ts_ns)

    def _end(self) -> None:
        """Tell the ledger which connections have ended."""
        for ended in self._dissection.ended:
            self._ledger.end(*ended)
        self._dissection.ended.clear()
        changes = self._dissection.tcp_changes
        if changes or self._early:
            self._hold_up([*self._early.values(), *changes])
            changes.clear()

    def _hold_up(self, changes: Sequence[TcpChange]) -> None:
        """Tell connections how TCP holds them up; those without a frame, once they have one."""
        self._early = {}
        for change in changes:
            connection = self._ledger.connections.get(change.connection)
            key = change[:3]
            if connection is not None:
                connection.hold_up(change.direction, change.fault, begins=change.begins, ts_ns=change.ts_ns)
            elif not change.begins:
                self._early.pop(key, None)
            elif len(self._early) < _EARLY:
                self._early[key] = change
