"""Troubles of streams: those whose verdict is one, all of one connection and cause as one; and what is not known."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import median

from dcpdump.diagnosis import words
from dcpdump.diagnosis.trouble import Command, Evidence, Judged, Trouble, Unjudged, UnjudgedCode, grouped, on
from dcpdump.spec.names import CLOSED, FILTER_EMPTY, OK
from dcpdump.streams.causes import Cause, Degree, Reason, Situation, VerdictKind
from dcpdump.streams.frame_event import between
from dcpdump.streams.identity import host, same_or_alike
from dcpdump.streams.request import Request, fault_of
from dcpdump.streams.rollbacks import LOOP, Rollback, RollbackReason, branch_of, doubt, explain, find_rollbacks, resume
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import BY_SERVER, IDLE_NS, ended_by, why_closed
from dcpdump.streams.wording import client, clock, name_stream, reason_name, seqno, short_name, span
from dcpdump.text import counted, ranges

#: Where more connections than these have the same trouble, they are one trouble.
_APART = 3
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
    Cause.NOT_ANSWERED: "requested without an answer",
}
#: Held back by flow control or TCP: a trouble of the connection.
_OF_CONNECTIONS = frozenset({Situation.BLOCKED, Situation.ZERO_WINDOW, Situation.NO_ANSWER})

Key = tuple[Situation | VerdictKind, Cause | Reason]


def stream_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the troubles of streams. One that flow control or TCP holds back is a trouble of its connection."""
    for key, judged in _grouped(evidence.judged, Degree.WRONG, Degree.NOTE):
        yield _trouble(evidence, key, judged)


def streams_unjudged(evidence: Evidence) -> Iterator[Unjudged]:
    """Yield the streams of which it is not known what became of them, and why."""
    for (_, cause), judged in _grouped(evidence.judged, Degree.UNKNOWN):
        streams, (first, verdict) = [stream for stream, _ in judged], judged[0]
        numbers = tuple(sorted({stream.connection.number for stream in streams}))
        example = f" ({'' if len(streams) == 1 else f'{name_stream(first)}: '}{verdict.why})"
        why = "" if cause is Reason.OTHER_NODES else example
        yield Unjudged(
            UnjudgedCode.STREAMS,
            f"{words.subject(streams, evidence.several)} {_unknown(judged)}{words.listed(streams)}{why}",
            len(streams),
            numbers,
            Command("streams", ("--cause", cause.value), _few(numbers)),
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
            return f"{over} and {was} not requested again here; another node, not in this capture, may know"
        case _, Reason.TOO_MANY:
            return f"{_how_over(verdict.kind, streams, was)}, and whether {it} {was} requested again is unknown"
        case Situation.REFUSED, _:
            return f"{_how_over(verdict.kind, streams, was)}, and whether {it} {was} granted later is not certain"
        case _, Cause.MAY_BE_REOPENED:
            return "stopped, and another client, or the same one restarted, requested what follows"
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
    ends = {stream.end_status for stream in streams if stream.end is not None}
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


def _trouble(evidence: Evidence, key: Key, judged: Sequence[Judged]) -> Trouble:
    streams, verdict = [stream for stream, _ in judged], judged[0][1]
    situation, cause = verdict.situation or Situation.STUCK, key[1]
    first = streams[0]
    connections = tuple(sorted({stream.connection.number for stream in streams}))
    return Trouble(
        situation,
        _text(situation, cause, judged, evidence.several),
        _command(situation, cause, streams, connections, wrong=verdict.trouble),
        _detail(evidence, situation, judged),
        cause.value,
        len(streams),
        connections,
        tuple(streams),
        tuple(frame for frame in map(_frame, streams) if frame is not None)[: words.FRAMES],
        first.traffic.last_ns if first.end is None else first.ended_ns,
        verdict.certain,
    )


def _text(situation: Situation, cause: Cause | Reason, judged: Sequence[Judged], several: bool) -> str:
    """Say in a sentence what became of streams, and of which vbuckets they are where it does not name one."""
    streams, one = [stream for stream, _ in judged], len(judged) == 1
    who, are, was = words.subject(streams, several), "is" if one else "are", "was" if one else "were"
    listed = words.listed(streams)
    match situation:
        case Situation.LOOP:
            again = f"was rolled back {judged[0][1].why}" if one else "are rolled back again and again"
            return f"{who} {again}{listed}"
        case Situation.ENDED:
            return f"{who} ended{_reasons(streams)} and {was} not requested again{listed}"
        case Situation.REFUSED:
            return f"{who} {was} refused{_statuses(streams)} and not granted since{listed}"
        case Situation.REFUSALS:
            return f"{who} {was} refused{_statuses(streams)} again and again{listed}"
        case Situation.ROLLED_BACK:
            return f"{who} {was} rolled back and not requested again{listed}"
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
    open_ones = name_stream(streams[0]) if len(streams) == 1 else counted(len(streams), "stream")
    who, when = words.who(connection, several), clock(connection.end.ts_ns)
    return f"the connection of {who} was {by} at {when} with {open_ones} open"


def _command(
    situation: Situation, cause: Cause | Reason, streams: Sequence[Stream], connections: tuple[int, ...], *, wrong: bool
) -> Command:
    """Return what shows exactly these streams."""
    if situation is Situation.LOOP:
        return rollbacks_of(streams, _few(connections))
    return Command("streams", (*(("--stuck",) if wrong else ()), "--cause", cause.value), _few(connections))


def rollbacks_of(streams: Sequence[Stream], connections: tuple[str, ...] = ()) -> Command:
    """Return what explains the rollbacks of streams."""
    numbers = [text for text, _ in ranges(stream.vbucket for stream in streams)]
    chosen = ("--vbucket", ",".join(numbers)) if len(numbers) <= _VBUCKETS else ()
    return Command("rollbacks", chosen, connections)


def _listed(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(text for text, _ in ranges(numbers)[: words.LISTED])


def _few(numbers: Sequence[int]) -> tuple[str, ...]:
    """Return connections for a command, where they are few."""
    return tuple(map(str, numbers)) if len(numbers) <= _APART else ()


def _frame(stream: Stream) -> int | None:
    """Return the frame that shows best what became of a stream: its end, the answer to its request, its request."""
    request = stream.request
    if stream.end is not None:
        return stream.end.frame
    if request is not None and not stream.granted:
        return request.answer_frame or request.frame
    return stream.traffic.last_frame or stream.granted_frame


def _detail(evidence: Evidence, situation: Situation, judged: Sequence[Judged]) -> str:
    """Return more of the first stream: its verdict; of a rollback the clause that explains the clearest request."""
    (stream, verdict), one = judged[0], len(judged) == 1
    if situation in (Situation.LOOP, Situation.ROLLED_BACK) and stream.requests.rolled_back:
        clearest = min(stream.requests.rolled_back, key=lambda request: bool(doubt(request, stream)))
        text = explain(clearest, stream, evidence.ledger).text
        return text if one else f"{name_stream(stream)}, {verdict.why}: {text}"
    waits = stream.connection.noops.open_ns if situation is Situation.CLOSED else None
    silent = f"a NOOP waited for its answer since {clock(waits)}; " if waits is not None else ""
    return silent + (verdict.why if one else f"{name_stream(stream)}: {verdict.why}")


# -- ends of streams, again and again -----------------------------------------------------------------

#: Reasons for which streams end that have all that was requested, or that are to end.
_PLANNED = frozenset({OK, CLOSED, FILTER_EMPTY})


def repeated_ends(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the streams that servers ended more than three times, for one reason, and from where they began each time.

    That is certain where the latest of them got no further either, and 10 s have passed since the first.
    """
    several = len(evidence.dcp) > 1
    found: dict[tuple[int, int | None, bool], list[list[Stream]]] = {}
    for stream, verdict in evidence.judged:
        ended = stream.before if stream.end is None else stream
        if stream.next is not None or verdict.trouble or ended is None or ended.end_status in _PLANNED:
            continue
        chain = _ended_alike(ended)
        lasted_ns = between(chain[-1].granted_ns, evidence.now_ns) if chain else None
        if len(chain) > LOOP and lasted_ns is not None and lasted_ns >= IDLE_NS:
            further = (stream.seqnos.high or 0) > max(each.seqnos.high or 0 for each in chain)
            waits_ns = None if stream is ended else between(stream.granted_ns, evidence.now_ns)
            certain = not further and (stream is ended or (waits_ns is not None and waits_ns >= IDLE_NS))
            found.setdefault((stream.connection.number, ended.end_status, certain), []).append(chain)
    for (number, _, certain), chains in found.items():
        streams, first = [chain[0] for chain in chains], chains[0]
        one = len(chains) == 1
        how = f"{len(first)} times in {span(between(first[-1].granted_ns, first[0].ended_ns))}"
        often = (how if one else "again and again") + ", and got no further" * certain
        yield Trouble(
            Situation.ENDS,
            f"{words.subject(streams, several)} ended{_reasons(streams)} {often}{words.listed(streams)}",
            on("streams", (number,), "--vbucket", ",".join(_listed(each.vbucket for each in streams))),
            f"{'' if one else f'{name_stream(streams[0])}: {how}, '}each time from seqno {seqno(_start(streams[0]))}",
            "ended-repeatedly",
            len(streams),
            (number,),
            tuple(streams),
            tuple(each.end.frame for each in reversed(first) if each.end is not None)[: words.FRAMES],
            first[-1].ended_ns,
            certain,
        )


def _ended_alike(latest: Stream) -> list[Stream]:
    """Return the streams of one place that ended one after another as the latest did, the latest first."""
    chain: list[Stream] = []
    at: Stream | None = latest
    while at is not None and at.end is not None and at.granted and at.end_status == latest.end_status:
        if _start(at) is None or _start(at) != _start(latest):
            break
        chain.append(at)
        at = at.before
    return chain


def _start(stream: Stream) -> int | None:
    """Return the seqno from which a stream was granted."""
    return None if stream.grant is None else stream.grant.start_seqno


# -- ends of connections ------------------------------------------------------------------------------
# Those that end again and again, those that take each other's names, those that servers ended.

#: So many connections of one consumer, one after another, are no accident.
_MANY = 5
#: So many that a server closed as others took their name are of two clients, or of one that does so again and again.
_TAKEN = 3
_AGAIN = frozenset({Cause.REOPENED, Cause.ASKED_AGAIN})


def end_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield what becomes clear of the ends of connections: names that were taken, reconnects, ends by servers."""
    said: set[int] = set()
    for trouble in (*_names_taken(evidence), *_reconnects(evidence)):
        if said.isdisjoint(trouble.connections):
            yield trouble
            said.update(trouble.connections)
    yield from _by_servers(evidence, said)


def _names_taken(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the names for which connections were opened in turn, each of which the server closed for the next."""
    named = ((each.setup.client_key, each) for each in evidence.connections)
    taken = [(key, each) for key, each in named if key and why_closed(each)]
    for (server, _, name), group in grouped(taken, itemgetter(0)).items():
        if len(group) < _TAKEN:
            continue
        closed = [each for _, each in group]
        closed.sort(key=lambda each: each.end.ts_ns or 0)
        first, last = closed[0], closed[-1]
        lasting = span((last.end.ts_ns or 0) - (first.end.ts_ns or 0))
        hosts = sorted({host(each) or "?" for each in closed})
        numbers = tuple(each.number for each in closed)
        yield Trouble(
            Situation.NAME_TAKEN,
            f"connections named {short_name(name)} close each other: {server} closed {len(closed):,} of them in "
            f"{lasting}, each as the next was opened with its name",
            Command("conns", connections=_listed(numbers)),
            f"a name may be open once on a server and bucket; two clients have it, or one opens again before it closes "
            f"({', '.join(hosts[: words.NAMED])})",
            "name-taken",
            len(closed),
            numbers,
            ts_ns=first.end.ts_ns,
        )


def _reconnects(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the consumers that lost their connections to a server again and again."""
    ended = [each for each in dict.fromkeys(_reopened(evidence)) if None not in (each.first_ns, each.end.ts_ns)]
    for connections in grouped(ended, consumer_of).values():
        chain = _one_after_another(connections)
        if len(chain) >= _MANY:
            numbers = {each.number for each in chain}
            streams = [stream for stream, _ in evidence.judged if stream.connection.number in numbers]
            yield _reconnect(chain, _progress_lost(streams))


def _progress_lost(streams: Sequence[Stream]) -> str:
    """Return which streams of one consumer began from one seqno each time, though more had come, in words."""
    found: list[tuple[int, int, int]] = []
    for (vbucket, _), same in grouped(streams, lambda each: (each.vbucket, each.stream_id)).items():
        starts, highs = {_start(each) for each in same}, [each.seqnos.high or 0 for each in same]
        (start, *others) = starts
        if len(same) >= _MANY and not others and start is not None and min(highs) > start:
            found.append((vbucket, start, min(highs)))
    if not found:
        return ""
    vbucket, start, high = found[0]
    more = f", and so were {counted(len(found) - 1, 'more stream')}" if len(found) > 1 else ""
    return f"; vb {vbucket} was requested from seqno {start} each time, though it had come up to {high}{more}"


def _reopened(evidence: Evidence) -> Iterator[ConnectionState]:
    """Yield, for each stream that was open as its connection ended and was requested again, the connection."""
    for stream, verdict in evidence.judged:
        over = stream.end is not None or stream.closed_ns is not None or stream.next is not None
        if verdict.cause in _AGAIN and not over:
            yield stream.connection


def consumer_of(connection: ConnectionState) -> object:
    """Return what the connections of a consumer to a server have in common: not its id, if it is restarted."""
    identity = connection.identity
    name = host(connection), identity.agent, identity.numberless or identity.family
    return name, connection.setup.bucket, connection.server_address


def _one_after_another(connections: Iterable[ConnectionState]) -> list[ConnectionState]:
    """Return the most connections of which each began when the one before it had ended."""
    chain: list[ConnectionState] = []
    for each in sorted(connections, key=lambda connection: connection.end.ts_ns or 0):
        if not chain or (each.first_ns or 0) >= (chain[-1].end.ts_ns or 0):
            chain.append(each)
    return chain


def _reconnect(chain: list[ConnectionState], progress_lost: str) -> Trouble:
    first, last = chain[0], chain[-1]
    lasting = span((last.end.ts_ns or 0) - (first.first_ns or 0))
    lasted = span(int(median((each.end.ts_ns or 0) - (each.first_ns or 0) for each in chain)))
    causes = Counter(ended_by(each) for each in chain)
    how = ", ".join(f"{count:,} {words.ENDS[cause]}" for cause, count in causes.most_common())
    rivals = sum(bool(why_closed(each)) for each in chain)
    why = f"; {rivals:,} as another connection took the name" if rivals else ""
    numbers = tuple(each.number for each in chain)
    return Trouble(
        Situation.RECONNECTS,
        f"{len(chain):,} connections of {short_name(first.setup.name) or host(first) or client(first)} to "
        f"{first.server_address or 'a server'} ended one after another in {lasting}, with streams open that were "
        "requested again",
        Command("conns", connections=_listed(numbers)),
        f"a connection lasted {lasted} (median); {how}{why}{progress_lost}",
        "reconnects",
        len(chain),
        numbers,
        ts_ns=first.end.ts_ns,
        certain=len(chain) - causes[Cause.CLOSED_BY_CLIENT] - causes[Cause.CONNECTION_ENDED] >= _MANY,
    )


def _by_servers(evidence: Evidence, said: set[int]) -> Iterator[Trouble]:
    """Yield the connections that their servers ended with streams open, all of which were requested again."""
    open_streams = Counter(each.number for each in _reopened(evidence))
    lost = {stream.connection.number for stream, verdict in evidence.judged if verdict.situation is Situation.CLOSED}
    for each in evidence.connections:
        count, cause = open_streams[each.number], ended_by(each)
        if not count or cause not in BY_SERVER or each.number in said or each.number in lost:
            continue
        yield Trouble(
            Situation.CLOSED,
            server_ended(each, count, several=evidence.several) + ", requested again since",
            on("conns", (each.number,)),
            why_closed(each),
            cause.value,
            connections=(each.number,),
            ts_ns=each.end.ts_ns,
            certain=False,
        )


def server_ended(connection: ConnectionState, streams: int, *, several: bool) -> str:
    """Say that a server ended a connection while streams were open on it."""
    how = words.ENDS[ended_by(connection)].partition(" ")[0]
    server = connection.server_address or "the server"
    who = words.who(connection, several)
    when = clock(connection.end.ts_ns)
    return f"{server} {how} the connection of {who} at {when} with {counted(streams, 'stream')} open"


# -- rollbacks in a diagnosis -------------------------------------------------------------------------
# Loops, whatever was granted in between, and those after which all went on.

#: Rollbacks that verdicts on streams are about.
_OF_STREAMS = (Situation.LOOP, Situation.ROLLED_BACK)
#: By clause: why clients were sent back.
_BECAUSE = {
    RollbackReason.PURGE: ": a purge of deletions overtook what the client has",
    RollbackReason.UUID: ": the server's history does not have the client's vbucket uuid",
    RollbackReason.SNAPSHOT: ": the server's history is another since a failover",
}


class Rollbacks:
    """The rollbacks of an input: loops, grants in between ignored, and rollbacks after which all went on."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self._several = evidence, evidence.several
        self._every = find_rollbacks(evidence.ledger)
        requests = [(attempt.request.frame, attempt.stream, each) for each in self._every for attempt in each.attempts]
        #: by stream: that of its latest request
        self._latest = {stream: each for _, stream, each in sorted(requests, key=lambda request: request[0])}

    def troubles(self) -> Iterator[Trouble]:
        """Yield loops that verdicts on streams do not say, and the other rollbacks of streams that are not wrong."""
        degrees = {
            stream: verdict.degree
            for stream, verdict in self.evidence.judged
            if stream.requests.rolled_back and verdict.situation not in _OF_STREAMS
        }
        loops: list[Rollback] = []
        others: list[Rollback] = []
        for each in self._every:
            stream = each.attempts[-1].stream
            if each.is_loop and stream in degrees:
                loops.append(each)
            elif degrees.get(stream, Degree.WRONG) is not Degree.WRONG:
                others.append(each)
        for group in grouped(loops, lambda each: each.stream.connection).values():
            yield _loop(group, self._several)
        for group in grouped(others, lambda each: (each.explanation.clause, each.stream.connection)).values():
            yield _note(group[0].explanation.clause, group, self._several)

    def with_causes(self, trouble: Trouble, before: Iterable[str]) -> Trouble:
        """Return a trouble of rollbacks with what led to it, what its client has to take back, and how to go on."""
        latest = [self._latest[stream] for stream in trouble.streams[: words.NAMED] if stream in self._latest]
        found = [(each, advice) for each in latest if (advice := resume(each, self.evidence.ledger)) is not None]
        if not found:
            return replace(trouble, follows=(*before, *trouble.follows))
        with_branch = (one for one in found if branch_of(one[1], one[0].attempts[-1].request))
        each, advice = next(with_branch, found[0])
        which = f"{name_stream(each.stream)}: " * (len(trouble.streams) > 1)
        request = each.attempts[-1].request
        lines = [branch_of(advice, request) or _taken_back(request)]
        if each.granted is None or each.granted.request.start_seqno != advice.start:
            went_on = each.granted is not None and trouble.situation is not Situation.LOOP
            lines.append(f"{'it could have asked' if went_on else 'to go on'}: {advice.text} ({advice.why})")
        return replace(trouble, follows=(*before, *trouble.follows, *(f"{which}{line}" for line in lines if line)))

    def ends_before(self, trouble: Trouble) -> dict[int, str]:
        """Return the connections that servers ended just before streams were rolled back, by number, and in words."""
        found: dict[int, str] = {}
        for stream in trouble.streams[: words.NAMED]:
            before = _before(self.evidence, stream)
            if before is not None:
                found[before.number] = server_ended(before, _open_at_end(before), several=self._several)
        return found


def _loop(group: Sequence[Rollback], several: bool) -> Trouble:
    streams, first = _streams(group), group[0]
    name, target = words.who(first.stream.connection, several), seqno(first.first.rollback_seqno)
    if len(group) == 1:
        text = f"{name_stream(first.stream)} of {name} was rolled back to {target}, {first.often}: "
        text += f"a loop, as it asked {first.asked_again} again each time"
    else:
        listed = words.listed_vbuckets(each.stream.vbucket for each in group)
        text = f"{counted(len(group), 'vbucket')} of {name} are rolled back again and again: {listed}"
    return _rollback_trouble(Situation.LOOP, text, "rollback-loop", group, streams)


def _note(clause: RollbackReason, group: Sequence[Rollback], several: bool) -> Trouble:
    streams, first = _streams(group), group[0]
    targets = {each.first.rollback_seqno for each in group}
    to_0 = sum(each.first.rollback_seqno == 0 for each in group)
    to = f" to {seqno(first.first.rollback_seqno)}" if len(targets) == 1 else f", {to_0:,} of them to 0" if to_0 else ""
    was = "was" if len(streams) == 1 else "were"
    text = f"{words.subject(streams, several)} {was} rolled back{to}{_BECAUSE.get(clause, '')}"
    return _rollback_trouble(Situation.ROLLBACKS, text, clause.value, group, streams)


def _rollback_trouble(
    situation: Situation, text: str, cause: str, group: Sequence[Rollback], streams: Sequence[Stream]
) -> Trouble:
    first = group[0]
    return Trouble(
        situation,
        text,
        rollbacks_of(streams),
        first.explanation.text,
        cause,
        len(streams),
        tuple(sorted({each.connection.number for each in streams})),
        tuple(streams),
        tuple(frame for each in group if (frame := each.first.answer_frame) is not None)[: words.FRAMES],
        first.first.ts_ns,
    )


def _streams(group: Sequence[Rollback]) -> list[Stream]:
    """Return the streams of which the latest of equal requests were, each once."""
    return list(dict.fromkeys(each.attempts[-1].stream for each in group))


def _taken_back(request: Request) -> str:
    """Return what a client has to take back, in words; empty where it is sent all anew."""
    start, target = request.start_seqno, request.rollback_seqno
    if not target or start is None or target >= start:
        return ""
    return f"a failover took back {counted(start - target, 'change')} that it has: {target + 1}..{start}"


def _before(evidence: Evidence, stream: Stream) -> ConnectionState | None:
    """Return the connection on which a client had a vbucket, if its server ended it just before the client came."""
    connection = stream.connection
    mine = (
        each.connection
        for each in evidence.ledger.streams
        if each.vbucket == stream.vbucket and each.connection is not connection and each.granted
        if same_or_alike(each.connection, connection)
    )
    begins_ns = stream.traffic.first_ns or 0
    over = [each for each in mine if each.end.ts_ns is not None and each.end.ts_ns <= begins_ns]
    latest = max(over, key=lambda each: each.end.ts_ns or 0, default=None)
    return latest if latest is not None and ended_by(latest) in BY_SERVER else None


def _open_at_end(connection: ConnectionState) -> int:
    return sum(not each.ended and each.granted for each in connection.streams)
