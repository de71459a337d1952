"""Rollbacks in a diagnosis: loops, whatever was granted in between, and those after which all went on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dcpdump.diagnosis import words
from dcpdump.diagnosis.ends import server_ended
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.stream_troubles import rollbacks_of
from dcpdump.diagnosis.trouble import Trouble
from dcpdump.plural import counted
from dcpdump.streams.causes import Cause, Situation
from dcpdump.streams.consumer import alike, same
from dcpdump.streams.explanation import Clause
from dcpdump.streams.request import Request
from dcpdump.streams.rollback import Rollback, branch_of, resume, rollbacks
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import LOOP, ended_by
from dcpdump.streams.wording import place, seqno, span, times

_FRAMES = 8
_BY_SERVER = (Cause.RESET_BY_SERVER, Cause.CLOSED_BY_SERVER)
#: By clause: why clients were sent back.
_BECAUSE = {
    Clause.PURGE: ": a purge of deletions overtook what the client has",
    Clause.UUID: ": the server's history does not have the client's vbucket uuid",
    Clause.SNAPSHOT: ": the server's history is another since a failover",
}


class Rollbacks:
    """The rollbacks of an input: loops, whatever was granted in between, and those after which all went on."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._several = evidence, len(evidence.dcp) > 1
        any_of_them = any(stream.rollbacks for stream in evidence.ledger.streams)
        self._every = rollbacks(evidence.ledger) if any_of_them else []
        #: by stream: the latest
        self._latest = {attempt.stream: each for each in self._every for attempt in each.attempts}

    def troubles(self) -> Iterator[Trouble]:
        """Yield loops that streams do not show by themselves, and the other rollbacks of streams in no trouble."""
        evidence = self._evidence
        fine = {stream for stream, verdict in evidence.judged if stream.rollbacks and verdict.degree is None}
        loops: dict[int, list[Rollback]] = {}
        others: dict[tuple[Clause, int], list[Rollback]] = {}
        for each in self._every:
            if each.attempts[-1].stream in fine:
                number, clause = each.stream.connection.number, each.explanation.clause
                if each.count > LOOP:
                    loops.setdefault(number, []).append(each)
                else:
                    others.setdefault((clause, number), []).append(each)
        for group in loops.values():
            yield _loop(group, self._several)
        for (clause, _), group in others.items():
            yield _note(clause, group, self._several)

    def with_causes(self, trouble: Trouble, before: Iterable[str]) -> Trouble:
        """Return a trouble of rollbacks with what led to it, what its client has to take back, and how to go on."""
        each = next((self._latest[stream] for stream in trouble.streams if stream in self._latest), None)
        advice = None if each is None else resume(each, self._evidence.ledger)
        if each is None or advice is None:
            return replace(trouble, follows=(*before, *trouble.follows))
        which = f"{place(each.stream)}: " * (len(trouble.streams) > 1)
        request = each.attempts[-1].request
        lines = [branch_of(advice, request) or _taken_back(request), f"to go on: {advice.text} ({advice.why})"]
        return replace(trouble, follows=(*before, *trouble.follows, *(f"{which}{line}" for line in lines if line)))

    def ends_before(self, trouble: Trouble) -> dict[int, str]:
        """Return the connections that servers ended just before streams were rolled back, by number, and in words."""
        found: dict[int, str] = {}
        for stream in trouble.streams[: words.NAMED]:
            before = _before(self._evidence, stream)
            if before is not None:
                found[before.number] = server_ended(before, _open_at_end(before), several=self._several)
        return found


def _loop(group: Sequence[Rollback], several: bool) -> Trouble:
    streams, first = _streams(group), group[0]
    name, target = words.who(first.stream.connection, several), seqno(first.first.rollback_seqno)
    if len(group) == 1:
        text = f"{place(first.stream)} of {name} was rolled back to {target}, "
        text += f"{'at least ' * first.least}{times(first.count)} in "
        text += f"{span(first.lasted_ns)}: a loop, as it asks from {seqno(first.first.start_seqno)} again each time"
    else:
        listed = words.listed_vbuckets(each.stream.vbucket for each in group)
        text = f"{counted(len(group), 'vbucket')} of {name} are rolled back again and again: {listed}"
    return _trouble(Situation.LOOP, text, "rollback-loop", group, streams)


def _note(clause: Clause, group: Sequence[Rollback], several: bool) -> Trouble:
    streams, first = _streams(group), group[0]
    targets = {each.first.rollback_seqno for each in group}
    to_0 = sum(each.first.rollback_seqno == 0 for each in group)
    to = f" to {seqno(first.first.rollback_seqno)}" if len(targets) == 1 else f", {to_0:,} of them to 0" if to_0 else ""
    was = "was" if len(streams) == 1 else "were"
    text = f"{words.subject(streams, several)} {was} rolled back{to}{_BECAUSE.get(clause, '')}"
    return _trouble(Situation.ROLLBACKS, text, clause.value, group, streams)


def _trouble(
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
        tuple(frame for each in group if (frame := each.first.answer_frame) is not None)[:_FRAMES],
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
        if same(each.connection, connection) or alike(each.connection, connection)
    )
    begins_ns = stream.first_ns or 0
    over = [each for each in mine if each.ended_ns is not None and each.ended_ns <= begins_ns]
    latest = max(over, key=lambda each: each.ended_ns or 0, default=None)
    return latest if latest is not None and ended_by(latest) in _BY_SERVER else None


def _open_at_end(connection: ConnectionState) -> int:
    return sum(not each.ended and each.granted for each in connection.streams)
