"""Write a diagnosis as one screen for people, and as objects: what the capture holds, what is wrong, what was not
judged.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dcpdump.clock import clock_in_use
from dcpdump.diagnosis.diagnosis import COMMAND, Diagnosis, DiagnosisOutcome, behind
from dcpdump.diagnosis.trouble import Command, Evidence, Trouble, Unjudged, speaks_dcp
from dcpdump.record import Json
from dcpdump.render.column import ROWS, Column, ColumnSet, of
from dcpdump.render.conns import ends
from dcpdump.render.streams import lag_columns, lost_columns
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, Paragraph
from dcpdump.streams.causes import Verdict
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import agent_name, short_name, span
from dcpdump.text import counted, iso_time, measured

#: Makes a command line of a command.
CommandLine = Callable[[Command], str]

#: What people are shown, where they did not ask for everything.
TROUBLES, _CONNECTIONS, _BEHIND, _UNJUDGED = 8, 5, 4, 4
_LABEL = 13  #: columns of a trouble's label
_OUTCOMES = {
    DiagnosisOutcome.HEALTHY: LineKind.GOOD,
    DiagnosisOutcome.NOTE: LineKind.GOOD,
    DiagnosisOutcome.UNKNOWN: LineKind.HINT,
}


def lines(found: Diagnosis, names: str, line: CommandLine, *, everything: bool = False) -> "list[Line | Fitting]":
    """Return a diagnosis as lines. ``names``: of the captures."""
    out: list[Line | Fitting] = [
        Paragraph(LineKind.TITLE, names),
        Paragraph(LineKind.PLAIN, " · ".join(holds(found.evidence))),
        *_who(found, everything),
        Line(LineKind.PLAIN, ""),
    ]
    if found.outcome in _OUTCOMES:
        out.append(Paragraph(_OUTCOMES[found.outcome], found.conclusion))
    shown = found.troubles if everything else found.troubles[:TROUBLES]
    for trouble in shown:
        out += _trouble(trouble, line)
    if len(shown) < len(found.troubles):
        rest = found.troubles[len(shown) :]
        labels = ", ".join(dict.fromkeys(trouble.label for trouble in rest))
        out.append(Line(LineKind.PLAIN, f"… {len(rest):,} more ({labels}): --all"))
    return [*out, *_behind(found, line, everything), *_not_judged(found.unjudged, line, everything)]


def holds(evidence: Evidence) -> list[str]:
    """Return what the captures hold: when, how much, what is missing."""
    ledger = evidence.ledger
    lost, skipped = evidence.tally.lost, evidence.tally.skipped_bytes
    missing = f"{measured(lost.bytes, lost.unknown, 'B')} lost in {counted(lost.gaps, 'gap')}" if lost.gaps else ""
    words = [
        between(evidence.begins_ns, evidence.last_ns),
        counted(ledger.frames, "frame"),
        f"{evidence.frame_bytes:,} B",
        counted(len(ledger.connections), "connection"),
        counted(ledger.stream_count, "stream"),
        "carved: only chosen packets are in it" if evidence.carved else "",
        missing,
        f"{skipped:,} B skipped" if skipped else "",
        "" if missing or skipped or evidence.carved else "nothing missing",
    ]
    return [*filter(None, words)]


def between(first_ns: int | None, last_ns: int | None) -> str:
    """Return a time as people write it: with the date once where it is one day, and how long it lasts."""
    if first_ns is None or last_ns is None:
        return "at an unknown time"
    zone = clock_in_use().zone
    first, last = iso_time(zone.shown(first_ns))[:23], iso_time(zone.shown(last_ns))[:23]
    until = last[11:] if first[:10] == last[:10] else last.replace("T", " ")
    changed = f" {zone.name(first_ns)}" if zone.suffix(first_ns) != zone.suffix(last_ns) else ""
    return f"{first.replace('T', ' ')}{changed} to {until} {zone.name(last_ns)} ({span(last_ns - first_ns)})"


def _who(found: Diagnosis, everything: bool) -> "Iterator[Line | Paragraph]":
    """Yield who is on the connections: those in trouble first, then those with the most bytes."""
    evidence = found.evidence
    ranks = found.ranks
    order = sorted(
        evidence.connections,
        key=lambda each: (not speaks_dcp(each), ranks.get(each.number, len(ranks)), -each.bytes),
    )
    shown = order if everything else order[:_CONNECTIONS]
    for each in sorted(shown, key=lambda each: each.number):
        yield Paragraph(LineKind.FIELD, _identity(evidence, each), f"c{each.number}  ", "    ")
    if len(shown) < len(order):
        yield Line(LineKind.FIELD, f"… {counted(len(order) - len(shown), 'more connection')}: --all")


def _identity(evidence: Evidence, each: ConnectionState) -> str:
    """Say who is on a connection, and what became of its streams."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in evidence.kinds(each.number).most_common())
    words = [
        short_name(each.setup.name),
        agent_name(each.setup.agent),
        f"bucket {each.setup.bucket}" if each.setup.bucket else "",
        ends(each),
    ]
    if speaks_dcp(each):
        words.append(f"{counted(each.stream_count, 'stream')}{': ' * bool(kinds)}{kinds}")
    else:
        words.append(f"no DCP, {counted(each.frames, 'other frame')}")
    return " · ".join(word for word in words if word)


def _trouble(trouble: Trouble, line: CommandLine) -> "Iterator[Line | Paragraph]":
    yield _said(trouble.label, trouble.text, LineKind.PROBLEM if trouble.wrong else LineKind.HINT)
    for text in filter(None, (trouble.detail, *trouble.follows)):
        yield _said("", text, LineKind.PLAIN)
    yield _shell(line(trouble.command))


def _said(label: str, text: str, kind: LineKind = LineKind.FIELD) -> Paragraph:
    """Return a text behind its label."""
    return Paragraph(kind, text, f"{label:<{_LABEL}}", " " * _LABEL)


def _shell(command: str) -> Line:
    return Line(LineKind.ORIGIN, f"{'':{_LABEL}}{command}")


def _behind(found: Diagnosis, line: CommandLine, everything: bool) -> "Iterator[Line | Paragraph]":
    """Yield which consumers are behind, and what shows all that are."""
    consumers = behind(found.evidence)
    shown = consumers if everything else consumers[:_BEHIND]
    yield from (_said("lag", each.text) for each in shown)
    if len(shown) < len(consumers):
        yield Line(LineKind.FIELD, f"{'':{_LABEL}}… {counted(len(consumers) - len(shown), 'more connection')}: --all")
    if consumers:
        yield _shell(line(COMMAND))


def _not_judged(unjudged: Sequence[Unjudged], line: CommandLine, everything: bool) -> "Iterator[Line | Paragraph]":
    shown = unjudged if everything else unjudged[:_UNJUDGED]
    for each in shown:
        yield _said("not judged", each.text)
        if each.command is not None:
            yield _shell(line(each.command))
    if len(shown) < len(unjudged):
        yield Line(LineKind.FIELD, f"… {len(unjudged) - len(shown)} more not judged: --all")


class _Ranked(NamedTuple):
    """One of several things of a diagnosis, and what makes a command line of what shows more of it."""

    thing: Any
    line: CommandLine
    rank: int = 0

    @property
    def command(self) -> str | None:
        """Return the command that shows more."""
        return None if self.thing.command is None else self.line(self.thing.command)


PLACE = ColumnSet[Stream](*of("connection=connection.number vbucket stream_id??"))
_Found = tuple[Diagnosis, Sequence[str]]
CAPTURE = ColumnSet[_Found](
    *of("captures=1"),
    *of(
        "first?=begins_ns last?=last_ns packets=counters.packets frames=ledger.frames bytes=frame_bytes "
        "payload_bytes=counters.payload_bytes lost_bytes=tally.lost.bytes unknown_gaps??=tally.lost.unknown "
        "skipped_bytes=tally.skipped_bytes",
        "0.evidence",
    ),
    Column("connections", lambda row: len(row[0].evidence.connections)),
    *of("streams", "0.evidence"),
    Column("states", lambda row: dict(row[0].evidence.kinds().most_common())),
    *of("outcome=outcome.value text=conclusion", "0"),
    Column("troubles", lambda row: sum(trouble.wrong for trouble in row[0].troubles)),
    Column("notes", lambda row: sum(not trouble.wrong for trouble in row[0].troubles)),
    type="capture",
)

_On = tuple[Evidence, ConnectionState]
CONNECTION = ColumnSet[_On](
    *of(
        "connection=number src dst client=client_address server=server_address roles=roles.word name?=setup.name "
        "agent?=setup.agent bucket?=setup.bucket",
        "1",
    ),
    Column("dcp", lambda row: speaks_dcp(row[1])),
    *of("streams=stream_count", "1"),
    Column("states", lambda row: dict(row[0].kinds(row[1].number).most_common())),
    *of("frames bytes", "1"),
    *lost_columns("1.missing"),
    type="connection",
)

_NUMBERS = "the connections' numbers"
TROUBLE = ColumnSet[_Ranked](
    *of("rank"),
    *of("code=situation.value cause?? severity=degree.value text detail?? follows?? count", "thing"),
    *of("connections", "thing", type="[int]", meaning=_NUMBERS),
    *of("streams??", "thing", type=ROWS, columns=PLACE, meaning="the streams that it is about"),
    *of("frames??", "thing", type="[int]", meaning="the numbers of the frames"),
    *of("time?=thing.ts_ns command"),
    type="trouble",
)

LAG = ColumnSet[tuple[Stream, Verdict]](
    *of("connection=connection.number vbucket stream_id??", "0"),
    *lag_columns("1.lag", known=True),
    type="lag",
)

UNJUDGED = ColumnSet[_Ranked](
    *of("code=code.value text count", "thing"),
    *of("connections", "thing", type="[int]", meaning=_NUMBERS),
    *of("command?"),
    type="unjudged",
)

#: The rows of a diagnosis.
DIAGNOSIS: tuple[ColumnSet[Any], ...] = (CAPTURE, CONNECTION, TROUBLE, LAG, UNJUDGED)


def objects(found: Diagnosis, captures: Sequence[str], line: CommandLine) -> Iterator[Json]:
    """Yield a diagnosis as objects: the capture, its connections, troubles by their rank, lags, what was not judged."""
    evidence = found.evidence
    yield CAPTURE.object((found, captures))
    yield from (CONNECTION.object((evidence, each)) for each in evidence.connections)
    yield from (TROUBLE.object(_Ranked(each, line, rank)) for rank, each in enumerate(found.troubles, 1))
    yield from (LAG.object(each) for consumer in behind(evidence) for each in consumer.worst)
    yield from (UNJUDGED.object(_Ranked(each, line)) for each in found.unjudged)
