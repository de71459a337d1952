"""Pair the requests and answers of one connection, by direction, opcode and opaque.

Several requests may have one opaque (some clients send all with the same): they are answered in the order in which
they were sent. Where the two directions were captured out of order, an answer waits a little for its request.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.startup import dataclass, field
from dcpdump.streams.frame_event import FrameEvent, between, identity_of
from dcpdump.streams.opcode_kinds import (
    CLOSE_STREAM,
    CONTROL,
    HELLO,
    NOOP,
    OPEN,
    SASL_AUTH,
    SASL_STEP,
    SELECT_BUCKET,
    STAT,
    STREAM_REQ,
)
from dcpdump.streams.window import GRACE, OUT_OF_ORDER_NS, is_settled

if TYPE_CHECKING:
    from dcpdump.streams.request import Request
    from dcpdump.streams.stream import Stream

#: Requests without an answer are forgotten, oldest first, beyond this many.
MOST = 4096
#: The same for stream requests, of which a client may send one for each vbucket and stream id.
MOST_STREAMS = 16_384
#: The most answers that wait for their requests for longer than some frames, since they are searched one by one.
MOST_EARLY = 1024
_NEAR_NS = 1_000_000_000
#: Requests whose answers are learnt from: those are kept whole while they wait.
_TEACH = frozenset({HELLO, SASL_AUTH, SASL_STEP, SELECT_BUCKET, OPEN, CONTROL, NOOP, STREAM_REQ, CLOSE_STREAM})

RequestKey = tuple[int, int, int]  #: the direction of the request, its opcode and opaque
RequestKind = tuple[int, int]  #: the direction of the request, and its opcode


@dataclass(slots=True, eq=False)
class UnansweredRequest:
    """A request without an answer, so far."""

    frame: FrameEvent  #: the request, without its bytes
    frames: int  #: how many the other end had sent before
    key: str = ""  #: of a control its key, of SELECT_BUCKET the bucket
    value: str = ""
    stream: "Stream | None" = None  #: of a stream request
    request: "Request | None" = None
    doubtful: bool = False  #: bytes were lost since, and maybe its answer
    unseen: bool = False  #: its answer may have come before the first frame that was captured of the other end
    overlaps: bool = False  #: bytes were lost just before: maybe its answer, if the capture is out of order
    echo: int = 0  #: the number of a request with its opcode and opaque that came instead of its answer
    behind: bool = False  #: others with its opaque were sent before it, and the next answer may be to one of those


class Early(NamedTuple):
    """An answer without a request, so far."""

    answer: FrameEvent
    frames: int  #: how many of the connection were captured before it
    starts_late: bool  #: the beginning of the connection is missing, so that its request may be


@dataclass(slots=True)
class Exchanges:
    """Requests of one connection that wait for their answers, and answers that were captured before their requests."""

    with_rules: bool  #: answers for which no request came are kept, until they are taken
    grace: int = GRACE  #: how many frames after an answer its request may still be captured
    count: int = 0  #: requests that wait
    forgotten: set[RequestKind] = field(default_factory=set)  #: of these an answer may be to a forgotten request
    fresh: set[RequestKey] = field(default_factory=set)  #: requests were taken since bytes were lost last
    answered: dict[RequestKind, int] = field(default_factory=dict)  #: the latest request that was answered
    unseen: dict[RequestKind, int] = field(default_factory=dict)
    #: of the latest answer whose request is not in the capture: the frame before which that was sent
    has_gaps: bool = False  #: bytes were lost
    lost_ns: int | None = None  #: when that was, the latest
    unpaired: set[int] = field(default_factory=set)  #: opaques of answers to stream requests for which none came
    by_key: dict[RequestKey, list[UnansweredRequest]] = field(default_factory=dict)
    #: By kind and the number of the request, oldest first.
    by_kind: dict[RequestKind, dict[int, UnansweredRequest]] = field(default_factory=dict)
    unjudged: dict[RequestKind, dict[int, UnansweredRequest]] = field(default_factory=dict)
    #: with rules, in the same way: those of which it is still open whether an answer comes
    noops: dict[int, dict[int, UnansweredRequest]] = field(default_factory=dict)  #: not doubtful, by direction as above
    earlier: list[Early] = field(default_factory=list)  #: answers of the last few frames that wait for their requests
    unasked: list[FrameEvent] = field(default_factory=list)  #: answers for which no request came

    backdated: int = 0  #: answers that are stamped before their requests, by more than captures are out of order
    backdated_ns: int = 0  #: by how much at most

    def ask(self, waiting: UnansweredRequest, frames: int, *, starts_late: bool = False) -> FrameEvent | None:
        """Note a request, and return its answer if that was captured before it.

        ``frames``: how many of the connection were captured before; ``starts_late``: its beginning is missing, so an
        answer may be that of a request which is not in the capture.
        """
        request = waiting.frame
        kind = request.direction, request.opcode
        key = request.direction, request.opcode, request.opaque
        before = self.by_key.get(key)
        if before and (starts_late or before[0].doubtful):
            same = all((each.frame.vbucket, each.key) == (request.vbucket, waiting.key) for each in before)
            self._forget_all(list(before))
            if not same:
                if waiting.request is not None:
                    waiting.request.ambiguous = True
                return None
            waiting.doubtful = waiting.behind = True
        if self.earlier:
            self._expire(frames, request.ts_ns)
            early = next(self.early(*kind, request.opaque), None)
            if early is not None:
                if _belongs(early, request, starts_late=starts_late or early.starts_late):
                    self.earlier.remove(early)
                    self.unpaired.discard(request.opaque)
                    self._compare_times(request, early.answer)
                    return early.answer
                waiting.doubtful = True
        waiting.unseen = starts_late and not waiting.frames
        if (waiting.doubtful or waiting.unseen) and waiting.request is not None:
            waiting.request.ambiguous = True  # unless an answer comes
        if self.count >= MOST:
            self._forget_beyond(MOST_STREAMS if request.opcode == STREAM_REQ else MOST, request.opcode)
        since_ns = between(self.lost_ns, request.ts_ns)
        waiting.overlaps = since_ns is not None and 0 <= since_ns <= OUT_OF_ORDER_NS
        self.fresh.add(key)
        self.by_key.setdefault(key, []).append(waiting)
        self.by_kind.setdefault(kind, {})[request.number] = waiting
        if self.with_rules:
            self.unjudged.setdefault(kind, {})[request.number] = waiting
        if request.opcode == NOOP and not waiting.doubtful:
            self.noops.setdefault(request.direction, {})[request.number] = waiting
        self.count += 1
        return None

    def asked(self, answer: FrameEvent) -> UnansweredRequest | None:
        """Return the request that an answer is for; None where none waits."""
        queue = self.by_key.get((1 - answer.direction, answer.opcode, answer.opaque))
        return queue[0] if queue else None

    def waiting_with(self, answer: FrameEvent) -> UnansweredRequest | None:
        """Return the only request that waits with an answer's opaque, of any opcode; None if there are several."""
        keys = {(1 - answer.direction, opcode, answer.opaque) for _, opcode in self.kinds()}
        found = [each for key in keys for each in self.by_key.get(key, ())]
        return found[0] if len(found) == 1 else None

    def answer(self, answer: FrameEvent, frames: int, *, starts_late: bool = False) -> UnansweredRequest | None:
        """Note an answer, and return its request. An answer without a request waits briefly for it.

        STAT has many answers, the last without a key. ``starts_late`` is as for a request.
        """
        kind = 1 - answer.direction, answer.opcode
        key = kind[0], kind[1], answer.opaque
        queue = self.by_key.get(key)
        if not queue:
            self._expire(frames, answer.ts_ns)
            starts_late = starts_late or kind in self.forgotten
            self.earlier.append(Early(answer if answer.opcode in _TEACH else identity_of(answer), frames, starts_late))
            if answer.opcode == STREAM_REQ and len(self.unpaired) < MOST:
                self.unpaired.add(answer.opaque)
            return None
        if answer.opcode == STAT and answer.value_at > answer.key_at:
            return queue[0]
        waiting = queue[0]
        self._drop(waiting)
        if waiting.overlaps and (between(waiting.frame.ts_ns, answer.ts_ns) or 0) > _NEAR_NS:
            waiting.doubtful = True
        self._compare_times(waiting.frame, answer)
        self.answered[kind] = max(self.answered.get(kind, 0), waiting.frame.number)
        return waiting

    def give_up(self, request: "Request") -> None:
        """Assume that the answer to a stream request was lost, if the request is the oldest with its opaque."""
        for queue in self._queues(STREAM_REQ, request.opaque):
            if queue[0].request is request:
                self._drop(queue[0])
                return

    def awaits(self, request: "Request") -> bool:
        """Return whether a stream request waits for its answer, and was not forgotten meanwhile."""
        return any(each.request is request for queue in self._queues(STREAM_REQ, request.opaque) for each in queue)

    def _queues(self, opcode: int, opaque: int) -> list[list[UnansweredRequest]]:
        """Return the requests of an opcode and opaque that wait, those of each end."""
        keys = ((direction, opcode, opaque) for direction in (0, 1))
        return [self.by_key[key] for key in keys if key in self.by_key]

    def early(self, direction: int, opcode: int, opaque: int) -> Iterator[Early]:
        """Yield the answers that wait for requests of that direction, opcode and opaque."""
        for early in self.earlier:
            answer = early.answer
            if (1 - answer.direction, answer.opcode, answer.opaque) == (direction, opcode, opaque):
                yield early

    def is_unclaimed(self, kind: RequestKind, frames: int, now_ns: int | None) -> bool:
        """Return whether an answer of a kind waits for its request, which may be captured a little later.

        ``frames``: how many of the connection were captured. One that waited for longer is stray.
        """
        return any(
            (1 - answer.direction, answer.opcode) == kind
            and not is_settled(frames - before, answer.ts_ns, now_ns, self.grace)
            for answer, before, _ in self.earlier
        )

    def close(self) -> None:
        """End the input: no more requests come."""
        while self.earlier:
            self._give_up_on(self.earlier.pop(0))

    def pop_unasked(self, frames: int, now_ns: int | None) -> Iterator[FrameEvent]:
        """Remove and return the answers for which no request came; later requests are not theirs.

        ``frames``: how many of the connection were captured by ``now_ns``.
        """
        self._expire(frames, now_ns)
        taken, self.unasked = self.unasked, []
        yield from taken

    def waiting(self, kind: RequestKind) -> Iterator[UnansweredRequest]:
        """Yield the requests of a kind that wait, oldest first."""
        yield from self.by_kind.get(kind, {}).values()

    def oldest_noop(self, direction: int) -> FrameEvent | None:
        """Return the NOOP that waits longest, of those whose answer was not among lost bytes."""
        waiting = self.noops.get(direction)
        return next(iter(waiting.values())).frame if waiting else None

    def kinds(self) -> list[RequestKind]:
        """Return the kinds of requests that wait."""
        return [kind for kind, waiting in self.by_kind.items() if waiting]

    def lose(self, ts_ns: int | None) -> None:
        """Note that bytes were lost, at a time: answers may have been among them.

        Of several requests with one opaque it is then unknown which of them the next answer is for.
        """
        self.has_gaps, self.lost_ns = True, ts_ns
        self.close()
        self.unasked.clear()
        self.noops.clear()
        for key in list(self.fresh):  # of the others there is one each, and it is doubtful since the loss before
            queue = self.by_key[key]
            if len(queue) > 1:
                self._forget_all(list(queue))
            else:
                queue[0].doubtful = True
        self.fresh.clear()

    def _compare_times(self, request: FrameEvent, answer: FrameEvent) -> None:
        """Count an answer that is stamped long before its request: clocks differ, or one goes back."""
        if request.ts_ns is not None and answer.ts_ns is not None and request.ts_ns - answer.ts_ns > OUT_OF_ORDER_NS:
            self.backdated += 1
            self.backdated_ns = max(self.backdated_ns, request.ts_ns - answer.ts_ns)

    def _forget_all(self, forgotten: list[UnansweredRequest]) -> None:
        """Forget requests whose answers cannot be distinguished from others."""
        for waiting in forgotten:
            if waiting.request is not None:
                waiting.request.ambiguous = True
            self._drop(waiting)

    def _expire(self, frames: int, now_ns: int | None) -> None:
        while self.earlier:
            answer, before, _ = self.earlier[0]
            many = len(self.earlier) > MOST_EARLY and frames - before >= self.grace
            if not (many or is_settled(frames - before, answer.ts_ns, now_ns, self.grace)):
                return
            self._give_up_on(self.earlier.pop(0))

    def _give_up_on(self, early: Early) -> None:
        """Assume that the request of an answer was not captured, or that there was none."""
        answer = early.answer
        kind = 1 - answer.direction, answer.opcode
        if self.has_gaps or kind in self.forgotten:
            self.unseen[kind] = answer.number
        elif early.starts_late:  # it was sent before the capture began
            self.unseen[kind] = 1
        if self.with_rules and not early.starts_late:
            self.unasked.append(identity_of(answer))
            del self.unasked[:-MOST]

    def _forget_beyond(self, most: int, opcode: int) -> None:
        """Forget the oldest request of this one's kind (for streams, or other), if too many wait."""
        alike = [kind for kind in self.kinds() if (kind[1] == STREAM_REQ) == (opcode == STREAM_REQ)]
        if sum(len(self.by_kind[kind]) for kind in alike) < most:
            return
        oldest = min((next(iter(self.by_kind[kind].values())) for kind in alike), key=lambda each: each.frame.number)
        self.forgotten.add((oldest.frame.direction, oldest.frame.opcode))
        self._forget_all([oldest])

    def _drop(self, waiting: UnansweredRequest) -> None:
        frame = waiting.frame
        key = frame.direction, frame.opcode, frame.opaque
        queue = self.by_key[key]
        queue.pop(0)  # those of one opaque are forgotten from the oldest on
        if not queue:
            del self.by_key[key]
            self.fresh.discard(key)
        kind = frame.direction, frame.opcode
        del self.by_kind[kind][frame.number]
        if self.with_rules:
            self.unjudged[kind].pop(frame.number, None)
        if frame.opcode == NOOP:
            self.noops.get(frame.direction, {}).pop(frame.number, None)
        self.count -= 1


def _belongs(early: Early, request: FrameEvent, *, starts_late: bool) -> bool:
    """Return whether an answer that was captured before a request is its own.

    ``starts_late``: there may be requests that were not captured. But NOOPs are far apart, so what comes just before
    one can only be its answer.
    """
    if not starts_late:
        return True
    answer_ns, asked_ns = early.answer.ts_ns, request.ts_ns
    if request.opcode != NOOP or answer_ns is None or asked_ns is None:
        return False
    return asked_ns - answer_ns <= _NEAR_NS
