"""Troubles of streams: those whose verdict is one, all of one connection and cause as one; and what is not known."""

from collections.abc import Iterator, Sequence

from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence, Judged
from dcpdump.diagnosis.trouble import Command, Trouble, Unjudged, UnjudgedCode
from dcpdump.plural import counted
from dcpdump.streams.causes import Cause, Degree, Reason, Situation, VerdictKind
from dcpdump.streams.explanation import doubt, explain
from dcpdump.streams.refusal import fault_of
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock, place, reason_name

#: Where more connections than these have the same trouble, they are one trouble.
_APART = 3
_FRAMES = 8
_VBUCKETS = 40  #: named in a command, at most
#: By cause: what streams wait for.
_WAITS: dict[Cause | Reason, str] = {
    Cause.SNAPSHOT_INCOMPLETE: "stuck in the middle of a snapshot",
    Cause.ADVANCED_NOT_SENT: "stuck in the middle of a snapshot: SEQNO_ADVANCED is missing",
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
#: Held back by flow control or TCP: a trouble of the connection.
_OF_CONNECTIONS = frozenset({Situation.BLOCKED, Situation.ZERO_WINDOW, Situation.NO_ANSWER})

Key = tuple[Situation | VerdictKind, Cause | Reason]


def stream_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the troubles of streams. One that flow control or TCP holds back is a trouble of its connection."""
    several = len(evidence.dcp) > 1
    for key, judged in _grouped(evidence.judged, Degree.WRONG, Degree.NOTE):
        yield _trouble(evidence, key, judged, several)


def streams_unjudged(evidence: Evidence) -> Iterator[Unjudged]:
    """Yield the streams of which it is not known what became of them, and why."""
    several = len(evidence.dcp) > 1
    for (_, cause), judged in _grouped(evidence.judged, Degree.UNKNOWN):
        streams, (first, verdict) = [stream for stream, _ in judged], judged[0]
        numbers = tuple(sorted({stream.connection.number for stream in streams}))
        example = f" ({'' if len(streams) == 1 else f'{place(first)}: '}{verdict.why})"
        listed = "" if len(streams) == 1 else f": {words.listed_vbuckets(stream.vbucket for stream in streams)}"
        why = "" if cause is Reason.OTHER_NODES else example
        yield Unjudged(
            UnjudgedCode.STREAMS,
            f"{words.subject(streams, several)} {_unknown(judged)}{listed}{why}",
            len(streams),
            numbers,
            Command("streams", (*_connections(numbers), "--cause", cause.value)),
        )
    troubled = evidence.evicted.troubled
    if troubled.total():
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in troubled.most_common() if count)
        text = (
            f"{counted(troubled.total(), 'more stream')} that may be in trouble, over and not kept in memory: {kinds}"
        )
        more = Command("streams", ("--stuck", "--memory", "1G"))
        yield Unjudged(UnjudgedCode.STREAMS, text, troubled.total(), command=more)


def _unknown(judged: Sequence[Judged]) -> str:
    """Say what became of streams as far as that is known, and what is not known of it."""
    verdict, one = judged[0][1], len(judged) == 1
    streams = [stream for stream, _ in judged]
    was, it = ("was", "it") if one else ("were", "they")
    match verdict.situation, verdict.cause:
        case None, _:
            return f"{'is' if one else 'are'} not judged"
        case Situation.REFUSED, Cause.TEMPORARY_FAILURE:
            return f"{was} refused{_statuses(streams)} and not granted since: later tries may be"
        case (Situation.REFUSED, Cause.NOT_MY_VBUCKET) | (_, Reason.OTHER_NODES):
            over = _how_over(verdict.kind, streams, was)
            return f"{over} and {was} not asked for again here; another node, not in this capture, may know"
        case _, Reason.TOO_MANY:
            return f"{_how_over(verdict.kind, streams, was)}, and whether {it} {was} asked for again is unknown"
        case Situation.REFUSED, _:
            return f"{_how_over(verdict.kind, streams, was)}, and whether {it} {was} granted later is not certain"
        case _, Cause.MAY_BE_REOPENED:
            return "stopped, and another client, or the same one restarted, asked for what follows"
        case _, Cause.NOT_REOPENED_YET:
            return f"{_how_over(verdict.kind, streams, was)} just before the capture ends"
        case _:
            text = f"{_how_over(verdict.kind, streams, was)}, and the capture does not show what followed"
            return (
                text if verdict.kind is not VerdictKind.STUCK else f"may wait for something: whether {it} does is open"
            )


def _how_over(kind: VerdictKind, streams: Sequence[Stream], was: str) -> str:
    if kind is VerdictKind.REFUSED:
        return f"{was} refused{_statuses(streams)}"
    if kind is VerdictKind.ROLLED_BACK:
        return f"{was} rolled back"
    return f"ended{_reasons(streams)}"


def _statuses(streams: Sequence[Stream]) -> str:
    statuses = {stream.requests[-1].status for stream in streams if stream.requests}
    names = sorted(words.status_name(each) for each in statuses if each is not None)
    return f" with {', '.join(names)}" if names else ""


def _reasons(streams: Sequence[Stream]) -> str:
    ends = {stream.end_status for stream in streams if stream.end_frame is not None}
    names = sorted(reason_name(each) or str(each) for each in ends if each is not None)
    return f" ({', '.join(names)})" if names else ""


def _grouped(judged: Sequence[Judged], *degrees: Degree) -> Iterator[tuple[Key, list[Judged]]]:
    """Yield streams of one situation, cause and fault of the request, by connection; of many connections, together."""
    found: dict[tuple[Situation | VerdictKind, Cause | Reason, Degree | None, str], dict[int, list[Judged]]] = {}
    for stream, verdict in judged:
        if verdict.degree in degrees and verdict.situation not in _OF_CONNECTIONS:
            fault = fault_of(stream) if verdict.situation is Situation.REFUSED else ""
            key = verdict.situation or verdict.kind, verdict.cause, verdict.degree, fault
            mine = found.setdefault(key, {})
            mine.setdefault(stream.connection.number, []).append((stream, verdict))
    for (situation, cause, _, _), by_connection in found.items():
        if len(by_connection) > _APART:
            yield (situation, cause), [each for group in by_connection.values() for each in group]
        else:
            for group in by_connection.values():
                yield (situation, cause), group


def _trouble(evidence: Evidence, key: Key, judged: Sequence[Judged], several: bool) -> Trouble:
    streams, verdict = [stream for stream, _ in judged], judged[0][1]
    situation, cause = verdict.situation or Situation.STUCK, key[1]
    first = streams[0]
    connections = tuple(sorted({stream.connection.number for stream in streams}))
    return Trouble(
        situation,
        _text(situation, cause, judged, several),
        _command(situation, cause, streams, connections, wrong=verdict.trouble),
        _detail(evidence, situation, judged),
        cause.value,
        len(streams),
        connections,
        tuple(streams),
        tuple(frame for frame in map(_frame, streams) if frame is not None)[:_FRAMES],
        first.last_ns if first.end_frame is None else first.ended_ns,
        verdict.certain,
    )


def _text(situation: Situation, cause: Cause | Reason, judged: Sequence[Judged], several: bool) -> str:
    """Say in a sentence what became of streams, and of which vbuckets they are where it does not name one."""
    streams, one = [stream for stream, _ in judged], len(judged) == 1
    who, are, was = words.subject(streams, several), "is" if one else "are", "was" if one else "were"
    listed = "" if one else f": {words.listed_vbuckets(stream.vbucket for stream in streams)}"
    match situation:
        case Situation.LOOP:
            again = f"was rolled back {judged[0][1].why}" if one else "are rolled back again and again"
            return f"{who} {again}{listed}"
        case Situation.ENDED:
            return f"{who} ended{_reasons(streams)} and {was} not asked for again{listed}"
        case Situation.REFUSED:
            return f"{who} {was} refused{_statuses(streams)} and not granted since{listed}"
        case Situation.ROLLED_BACK:
            return f"{who} {was} rolled back and not asked for again{listed}"
        case Situation.CLOSED:
            return _closed(words.ENDS[cause], streams, several)
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
    situation: Situation, cause: Cause | Reason, streams: Sequence[Stream], connections: tuple[int, ...], *, wrong: bool
) -> Command:
    """Return what shows exactly these streams."""
    where = _connections(connections)
    if situation is Situation.LOOP:
        return rollbacks_of(streams, where)
    return Command("streams", (*where, *(("--stuck",) if wrong else ()), "--cause", cause.value))


def rollbacks_of(streams: Sequence[Stream], where: tuple[str, ...] = ()) -> Command:
    """Return what explains the rollbacks of streams."""
    numbers = [text for text, _ in words.ranges(stream.vbucket for stream in streams)]
    return Command("rollbacks", (*where, *(("--vbucket", ",".join(numbers)) if len(numbers) <= _VBUCKETS else ())))


def _connections(numbers: Sequence[int]) -> tuple[str, ...]:
    return ("--connection", ",".join(map(str, numbers))) if len(numbers) <= _APART else ()


def _frame(stream: Stream) -> int | None:
    """Return the frame that shows best what became of a stream: its end, the answer to its request, its request."""
    request = stream.request
    if stream.end_frame is not None:
        return stream.end_frame
    if request is not None and not stream.granted:
        return request.answer_frame or request.frame
    return stream.last_frame or stream.granted_frame


def _detail(evidence: Evidence, situation: Situation, judged: Sequence[Judged]) -> str:
    """Return more of the first stream: its verdict; of a rollback the clause that explains the clearest request."""
    (stream, verdict), one = judged[0], len(judged) == 1
    if situation in (Situation.LOOP, Situation.ROLLED_BACK) and stream.rollbacks:
        clearest = min(stream.rollbacks, key=lambda request: bool(doubt(request, stream)))
        text = explain(clearest, stream, evidence.ledger).text
        return text if one else f"{place(stream)}, {verdict.why}: {text}"
    waits = stream.connection.noops.open_ns if situation is Situation.CLOSED else None
    silent = f"a NOOP waited for its answer since {clock(waits)}; " if waits is not None else ""
    return silent + (verdict.why if one else f"{place(stream)}: {verdict.why}")
