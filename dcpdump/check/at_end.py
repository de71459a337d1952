"""At the end: what becomes clear of a stream once it is over, as all was captured that may explain it."""

from collections.abc import Iterator

from dcpdump.check.evidence import Found
from dcpdump.check.rule import Delayed, Event
from dcpdump.streams.explanation import NoClause, explain
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.messages import last_message
from dcpdump.streams.request import Request
from dcpdump.streams.resumptions import Skips
from dcpdump.streams.stream import Stream


class AtEnd:
    """What becomes clear of the streams of a ledger that is closed, or whose streams were concluded."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._skips = ledger, Skips(ledger)

    def of(self, stream: Stream) -> Iterator[Found]:
        """Yield what becomes clear of a stream."""
        yield from self._sent_back(stream)
        skip = self._skips.of(stream)
        if skip is not None:
            request = skip.request
            yield Event.SKIPPED_CHANGES, Delayed(_place(stream, request.frame, request.ts_ns), stream, skip=skip)

    def _sent_back(self, stream: Stream) -> Iterator[Found]:
        """Yield rollbacks that are wrong, of equal ones the first that surely is the answer to its request.

        Those above the start of their request are wrong by themselves.
        """
        seen = set()
        for request in stream.rollbacks:
            numbers, back = _numbers(request), request.rollback_seqno
            if back is None or numbers in seen or request.begins_below(back):
                continue
            found = explain(request, stream, self._ledger)
            if found.cause is not NoClause.REQUEST:
                seen.add(numbers)
            if found.wrong is not None:
                answer = _place(stream, request.answer_frame, request.answered_ns)
                yield Event.SENT_BACK, Delayed(answer, stream, amount=back, explanation=found)


def _numbers(request: Request) -> tuple[int | None, ...]:
    """Return what a rollback depends on, and where it goes."""
    snapshot = request.snap_start_seqno, request.snap_end_seqno
    return request.start_seqno, request.vbucket_uuid, *snapshot, request.flags, request.rollback_seqno


def _place(stream: Stream, number: int | None, ts_ns: int | None) -> FrameEvent:
    """Return the place of a frame that is about a stream."""
    return last_message(stream)._replace(number=number or 0, ts_ns=ts_ns)
