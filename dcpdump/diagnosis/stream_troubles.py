"""Troubles of streams: those whose verdict is one, all of one connection and cause as one."""

from collections.abc import Callable, Iterator, Sequence

from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence, Judged
from dcpdump.diagnosis.trouble import Command, Trouble, TroubleCode
from dcpdump.streams.causes import Cause, Reason, Verdict, VerdictKind
from dcpdump.streams.explanation import doubt, explain
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock

#: Where more connections than these have the same trouble, they are one trouble.
_APART = 3
_FRAMES = 8
_VBUCKETS = 40  #: named in a command, at most
_CLOSED = frozenset(
    {
        Cause.CLOSED_BY_SERVER,
        Cause.CLOSED_BY_CLIENT,
        Cause.RESET_BY_SERVER,
        Cause.RESET_BY_CLIENT,
        Cause.CONNECTION_ENDED,
    }
)
_BY_KIND = {
    VerdictKind.ENDED: TroubleCode.ENDED,
    VerdictKind.STUCK: TroubleCode.STUCK,
    VerdictKind.REFUSED: TroubleCode.REFUSED,
    VerdictKind.ROLLED_BACK: TroubleCode.ROLLED_BACK,
}

Key = tuple[TroubleCode, Cause | Reason]


def stream_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the troubles of streams. One that flow control holds back is a trouble of its connection."""
    several = len(evidence.dcp) > 1
    for (code, cause), judged in _grouped(evidence.judged):
        yield _trouble(evidence, code, cause, judged, several)


def code_of(verdict: Verdict) -> TroubleCode | None:
    """Return what trouble a verdict is; None where it is none, or that of a connection."""
    if not verdict.trouble or verdict.kind is VerdictKind.BLOCKED:
        return None
    if verdict.cause is Cause.LOOP:
        return TroubleCode.LOOP
    if isinstance(verdict.cause, Reason) or verdict.cause is Cause.NOT_REOPENED_YET:
        return TroubleCode.UNCLEAR
    if verdict.cause in _CLOSED:
        return TroubleCode.CLOSED
    return _BY_KIND.get(verdict.kind)


def _grouped(judged: Sequence[Judged]) -> Iterator[tuple[Key, list[Judged]]]:
    """Yield streams of one trouble and cause, by connection; of many connections, together."""
    found: dict[Key, dict[int, list[Judged]]] = {}
    for stream, verdict in judged:
        code = code_of(verdict)
        if code is not None:
            mine = found.setdefault((code, verdict.cause), {})
            mine.setdefault(stream.connection.number, []).append((stream, verdict))
    for key, by_connection in found.items():
        if len(by_connection) > _APART:
            yield key, [each for group in by_connection.values() for each in group]
        else:
            for group in by_connection.values():
                yield key, group


def _trouble(
    evidence: Evidence, code: TroubleCode, cause: Cause | Reason, judged: Sequence[Judged], several: bool
) -> Trouble:
    streams = [stream for stream, _ in judged]
    first, verdict = judged[0]
    detail = _DETAILS.get(code, _why)(evidence, first, verdict, len(judged))
    connections = tuple(sorted({stream.connection.number for stream in streams}))
    return Trouble(
        code,
        _text(code, cause, judged, several),
        _command(code, cause, streams, connections),
        detail,
        cause.value,
        len(streams),
        connections,
        tuple(streams),
        tuple(frame for frame in map(_frame, streams) if frame is not None)[:_FRAMES],
        _when(first),
    )


def _text(code: TroubleCode, cause: Cause | Reason, judged: Sequence[Judged], several: bool) -> str:
    streams = [stream for stream, _ in judged]
    match code:
        case TroubleCode.LOOP:
            return words.loop(streams, judged[0][1].why, several)
        case TroubleCode.ENDED:
            return words.ended(streams, several)
        case TroubleCode.REFUSED:
            return words.refused(streams, several)
        case TroubleCode.ROLLED_BACK:
            return words.rolled_back(streams, several)
        case TroubleCode.CLOSED:
            return words.closed(cause, streams, clock(streams[0].connection.ended_ns), several)
        case TroubleCode.UNCLEAR:
            return words.unclear(cause, streams, several)
        case _:
            return words.stuck(cause, streams, several)


def _command(
    code: TroubleCode, cause: Cause | Reason, streams: Sequence[Stream], connections: tuple[int, ...]
) -> Command:
    """Return what shows exactly these streams."""
    where: tuple[str, ...] = ()
    if len(connections) <= _APART:
        where = ("--connection", ",".join(map(str, connections)))
    if code is TroubleCode.LOOP:
        numbers = [text for text, _ in words.ranges(stream.vbucket for stream in streams)]
        return Command("rollbacks", (*where, *(("--vbucket", ",".join(numbers)) if len(numbers) <= _VBUCKETS else ())))
    return Command("streams", (*where, "--stuck", "--cause", cause.value))


def _frame(stream: Stream) -> int | None:
    """Return the frame that shows best what became of a stream: its end, the answer to its request, its request."""
    request = stream.request
    if stream.end_frame is not None:
        return stream.end_frame
    if request is not None and not stream.granted:
        return request.answer_frame or request.frame
    return stream.last_frame or stream.granted_frame


def _when(stream: Stream) -> int | None:
    if stream.end_frame is not None:
        return stream.ended_ns
    return stream.last_ns


# -- the second sentence -----------------------------------------------------------------------------------------

_Detail = Callable[[Evidence, Stream, Verdict, int], str]


def _why(_: Evidence, stream: Stream, verdict: Verdict, count: int) -> str:
    return verdict.why if count == 1 else f"{words.place(stream)}: {verdict.why}"


def _clause(evidence: Evidence, stream: Stream, verdict: Verdict, count: int) -> str:
    """Return which clause of the protocol explains a rollback, of the request that is clearest."""
    clearest = min(stream.rollbacks, key=lambda request: bool(doubt(request, stream)))
    text = explain(clearest, stream, evidence.ledger).text
    return text if count == 1 else f"{words.place(stream)}, {verdict.why}: {text}"


def _noop(_: Evidence, stream: Stream, verdict: Verdict, count: int) -> str:
    """Return since when a NOOP waited for its answer, where one did."""
    waits = stream.connection.noops.open_ns
    silent = f"a NOOP waited for its answer since {clock(waits)}; " if waits is not None else ""
    return silent + _why(_, stream, verdict, count)


_DETAILS: dict[TroubleCode, _Detail] = {
    TroubleCode.LOOP: _clause,
    TroubleCode.ROLLED_BACK: _clause,
    TroubleCode.CLOSED: _noop,
}
