"""Ladders: the dialogue of a stream as the specification draws it, the side that wants changes at the left."""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec.names import CLOSED, FILTER_EMPTY, OK
from dcpdump.spec.statuses import ROLLBACK, SUCCESS
from dcpdump.streams.request import Request
from dcpdump.streams.wording import reason, seqno, span, status
from dcpdump.text import counted

if TYPE_CHECKING:
    from dcpdump.streams.stream import Stream

#: Rows of one ladder, at most.
MOST = 40
#: How many of equal exchanges are shown at the beginning and at the end.
_HEAD, _TAIL = 3, 2
#: Reasons of STREAM_END that are no trouble, and that of one that was not captured.
_EXPECTED = (OK, CLOSED, FILTER_EMPTY, None)


class Arrow(Enum):
    """What a row is. The values are classes of the page."""

    ASKS = "asks"
    ANSWERS = "answers"
    REFUSES = "refuses"
    BAND = "band"
    NOTE = "note"


class Rung(NamedTuple):
    """A row of a ladder."""

    arrow: Arrow
    text: str
    ts_ns: int | None = None
    frame: int | None = None


def ladder(stream: "Stream", now_ns: int | None) -> list[Rung]:
    """Return the rows of a stream's dialogue. ``now_ns``: when the capture ended."""
    exchanges = [_exchange(request) for request in stream.requests]
    out = _folded(exchanges, stream.requests.count(), alike=not stream.requests.omitted)
    if not stream.requests:
        out.append(Rung(Arrow.NOTE, "the capture begins while the stream is open"))
    if messages := sum(stream.traffic.counts) - (stream.end is not None):  # its end has a row of its own
        out.append(Rung(Arrow.BAND, _messages(stream, messages)))
    if stream.end is not None:
        code, ts_ns, frame = stream.end
        arrow = Arrow.ANSWERS if code in _EXPECTED else Arrow.REFUSES
        out.append(Rung(arrow, f"stream-end{{{reason(code)}}}", ts_ns, frame))
    elif stream.close is not None and stream.closed_ns is not None:
        arrow = Arrow.ANSWERS if stream.close.by_producer else Arrow.ASKS
        out.append(Rung(arrow, "close-stream, answered", stream.closed_ns))
    elif stream.connection.end.ts_ns is not None:
        text = f"the connection ends ({stream.connection.end.reason})"
        out.append(Rung(Arrow.NOTE, text, stream.connection.end.ts_ns))
    return [*out, _rest(stream, now_ns)]


def _exchange(request: Request) -> list[Rung]:
    """Return a request and its answer."""
    end = f"end={seqno(request.end_seqno)}"
    uuid = "?" if request.vbucket_uuid is None else f"0x{request.vbucket_uuid:x}"
    snapshot = f"snapshot={seqno(request.snap_start_seqno)}..{seqno(request.snap_end_seqno)}"
    asked = f"stream-request{{start={seqno(request.start_seqno)}, {end}, uuid={uuid}, {snapshot}}}"
    out = [Rung(Arrow.ASKS, asked, request.ts_ns, request.frame)]
    if request.status is None:
        return [*out, Rung(Arrow.NOTE, "no answer was captured")]
    if request.status == SUCCESS:
        log = request.failover_log
        text = "success" + (f", failover log of {len(log)}" if log else "")
        return [*out, Rung(Arrow.ANSWERS, text, request.answered_ns, request.answer_frame)]
    text = status(request.status)
    if request.status == ROLLBACK:
        text = f"rollback to {seqno(request.rollback_seqno)}"
    return [*out, Rung(Arrow.REFUSES, text, request.answered_ns, request.answer_frame)]


def _folded(exchanges: Sequence[list[Rung]], count: int, *, alike: bool) -> list[Rung]:
    """Return exchanges in order, those in the middle of many as one row.

    ``count``: how many there were; ``alike``: those that are not kept are as others that are.
    """
    if sum(map(len, exchanges)) <= MOST:
        return [rung for each in exchanges for rung in each]
    left_out = count - _HEAD - _TAIL
    first = [rung for each in exchanges[:_HEAD] for rung in each]
    last = [rung for each in exchanges[-_TAIL:] for rung in each]
    same = alike and len({tuple((rung.arrow, rung.text) for rung in each) for each in exchanges}) == 1
    return [*first, Rung(Arrow.NOTE, f"… {left_out:,} more {'like these' if same else 'requests'} …"), *last]


def _messages(stream: "Stream", messages: int) -> str:
    words = [counted(stream.traffic.snapshots, "snapshot")] if stream.traffic.snapshots else []
    words.append(counted(messages, "message"))
    if stream.seqnos.first is not None and stream.seqnos.high is not None:
        words.append(f"seqno {stream.seqnos.first:,} to {stream.seqnos.high:,}")
    return ", ".join(words)


def _rest(stream: "Stream", now_ns: int | None) -> Rung:
    """Return what follows, up to the end of the capture."""
    over = (stream.traffic.last_ns, stream.ended_ns, stream.closed_ns)
    last = max((ts for ts in over if ts is not None), default=None)
    if stream.next is not None:
        return Rung(Arrow.NOTE, "the stream was requested again on this connection")
    if last is None or now_ns is None:
        return Rung(Arrow.NOTE, "the capture ends")
    return Rung(Arrow.NOTE, f"nothing more up to the end of the capture, {span(now_ns - last)} later")
