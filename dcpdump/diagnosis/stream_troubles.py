"""Troubles of streams: those whose verdict is one, all of one connection and cause as one."""

from collections.abc import Iterator, Sequence

from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence, Judged
from dcpdump.diagnosis.trouble import Command, Trouble, TroubleCode
from dcpdump.plural import counted
from dcpdump.streams.causes import Cause, Reason, Verdict, VerdictKind
from dcpdump.streams.explanation import doubt, explain
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock, place, reason_name

#: Where more connections than these have the same trouble, they are one trouble.
_APART = 3
_FRAMES = 8
_VBUCKETS = 40  #: named in a command, at most
#: By cause: what streams wait for.
_WAITS: dict[Cause | Reason, str] = {
    Cause.SNAPSHOT_INCOMPLETE: "stuck in the middle of a snapshot",
    Cause.END_NOT_SENT: "stuck at the end: the end seqno is reached and no STREAM_END came",
    Cause.STATE_NOT_ANSWERED: "stuck in a takeover: SET_VBUCKET_STATE is not answered",
    Cause.PENDING_NOT_SENT: "stuck in a takeover: SET_VBUCKET_STATE(pending) does not come",
    Cause.ACTIVE_NOT_SENT: "stuck in a takeover with no active copy: SET_VBUCKET_STATE(active) does not come",
    Cause.TAKEOVER_NOT_ENDED: "stuck at the end of a takeover: no STREAM_END came",
    Cause.PREPARE_UNDECIDED: "stuck with a durable write that is neither committed nor aborted",
    Cause.SNAPSHOT_NOT_ACKNOWLEDGED: "stuck behind a snapshot that is not acknowledged",
    Cause.BEHIND_SERVER: "stuck behind the server's high seqno",
    Cause.NOOPS_MISSING: "stuck: the producer is silent, and sends no NOOP",
    Cause.NOT_ANSWERED: "asked for without an answer",
}
_BY_KIND = {
    VerdictKind.ENDED: TroubleCode.ENDED,
    VerdictKind.STUCK: TroubleCode.STUCK,
    VerdictKind.REFUSED: TroubleCode.REFUSED,
    VerdictKind.ROLLED_BACK: TroubleCode.ROLLED_BACK,
}

Key = tuple[TroubleCode, Cause | Reason]


def stream_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the troubles of streams. One that flow control or TCP holds back is a trouble of its connection."""
    several = len(evidence.dcp) > 1
    for (code, cause), judged in _grouped(evidence.judged):
        yield _trouble(evidence, code, cause, judged, several)
    troubled = evidence.evicted.troubled
    if troubled.total():
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in troubled.most_common() if count)
        text = f"{counted(troubled.total(), 'more stream')} in trouble, not kept in memory, which were over: {kinds}"
        more = Command("streams", ("--stuck", "--memory", "1G"))
        yield Trouble(TroubleCode.UNCLEAR, text, more, cause="evicted", count=troubled.total())


def code_of(verdict: Verdict) -> TroubleCode | None:
    """Return what trouble a verdict is; None where it is none, or that of a connection."""
    if not verdict.trouble or verdict.kind in (VerdictKind.BLOCKED, VerdictKind.HELD_UP):
        return None
    if verdict.cause is Cause.LOOP:
        return TroubleCode.LOOP
    if isinstance(verdict.cause, Reason) or verdict.cause in (Cause.NOT_REOPENED_YET, Cause.MAY_BE_REOPENED):
        return TroubleCode.UNCLEAR
    if verdict.cause in words.ENDS:
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
    first = streams[0]
    connections = tuple(sorted({stream.connection.number for stream in streams}))
    return Trouble(
        code,
        _text(code, cause, judged, several),
        _command(code, cause, streams, connections),
        _detail(evidence, code, judged),
        cause.value,
        len(streams),
        connections,
        tuple(streams),
        tuple(frame for frame in map(_frame, streams) if frame is not None)[:_FRAMES],
        first.last_ns if first.end_frame is None else first.ended_ns,
    )


def _text(code: TroubleCode, cause: Cause | Reason, judged: Sequence[Judged], several: bool) -> str:
    """Say in a sentence what became of streams, and of which vbuckets they are where it does not name one."""
    streams, one = [stream for stream, _ in judged], len(judged) == 1
    who, are, was = words.subject(streams, several), "is" if one else "are", "was" if one else "were"
    listed = "" if one else f": {words.listed_vbuckets(stream.vbucket for stream in streams)}"
    match code:
        case TroubleCode.LOOP:
            again = f"was rolled back {judged[0][1].why}" if one else "are rolled back again and again"
            return f"{who} {again}{listed}"
        case TroubleCode.ENDED:
            ends = {stream.end_status for stream in streams if stream.end_frame is not None}
            names = sorted(reason_name(each) or str(each) for each in ends if each is not None)
            how = f" ({', '.join(names)})" if names else ""
            return f"{who} ended{how} and {was} not asked for again{listed}"
        case TroubleCode.REFUSED:
            statuses = {stream.requests[-1].status for stream in streams if stream.requests}
            names = sorted(words.status_name(each) for each in statuses if each is not None)
            how = f" with {', '.join(names)}" if names else ""
            return f"{who} {was} refused{how} and not granted since{listed}"
        case TroubleCode.ROLLED_BACK:
            return f"{who} {was} rolled back and not asked for again{listed}"
        case TroubleCode.CLOSED:
            return _closed(words.ENDS[cause], streams, several)
        case TroubleCode.UNCLEAR if cause is Cause.NOT_REOPENED_YET:
            return f"{who} stopped just before the capture ends{listed}"
        case TroubleCode.UNCLEAR if cause is Cause.MAY_BE_REOPENED:
            return f"{who} stopped, and another client, or the same one restarted, asked for what follows{listed}"
        case TroubleCode.UNCLEAR:
            return f"{who} stopped, and the capture does not show what followed{listed}"
        case _:
            return f"{who} {are} {_WAITS.get(cause, 'stuck')}{listed}"


def _closed(by: str, streams: Sequence[Stream], several: bool) -> str:
    """Say that connections ended with streams open."""
    connections = {stream.connection for stream in streams}
    if len(connections) > 1:
        return f"{counted(len(connections), 'connection')} were {by} with {counted(len(streams), 'stream')} open"
    (connection,) = connections
    open_ones = place(streams[0]) if len(streams) == 1 else counted(len(streams), "stream")
    who, when = words.who(connection, several), clock(connection.ended_ns)
    return f"the connection of {who} was {by} at {when} with {open_ones} open"


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


def _detail(evidence: Evidence, code: TroubleCode, judged: Sequence[Judged]) -> str:
    """Return more of the first stream: its verdict; of a rollback the clause that explains the clearest request."""
    (stream, verdict), one = judged[0], len(judged) == 1
    if code in (TroubleCode.LOOP, TroubleCode.ROLLED_BACK):
        clearest = min(stream.rollbacks, key=lambda request: bool(doubt(request, stream)))
        text = explain(clearest, stream, evidence.ledger).text
        return text if one else f"{place(stream)}, {verdict.why}: {text}"
    waits = stream.connection.noops.open_ns if code is TroubleCode.CLOSED else None
    silent = f"a NOOP waited for its answer since {clock(waits)}; " if waits is not None else ""
    return silent + (verdict.why if one else f"{place(stream)}: {verdict.why}")
