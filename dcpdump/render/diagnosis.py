"""Write a diagnosis as one screen for people, and as objects: what the capture holds, what is wrong, what was not
judged.
"""

from collections.abc import Callable, Iterator, Sequence

from dcpdump.clock import clock_in_use
from dcpdump.diagnosis.diagnosis import COMMAND, Diagnosis, DiagnosisOutcome, behind
from dcpdump.diagnosis.trouble import Command, Evidence, Trouble, Unjudged, speaks_dcp
from dcpdump.record import Json
from dcpdump.render.conns import agent, ends
from dcpdump.render.ndjson import without_none
from dcpdump.render.streams import lag_object
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import folded, lost_keys
from dcpdump.streams.lag import Lag
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import short_name, span
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


def lines(
    found: Diagnosis, names: str, line: CommandLine, *, width: int | None = None, everything: bool = False
) -> list[Line]:
    """Return a diagnosis as lines. ``names``: of the captures; ``width``: of a terminal, where text is broken."""
    out = [*_holds(found.evidence, names, width), *_who(found, width, everything), Line(LineKind.PLAIN, "")]
    if found.outcome in _OUTCOMES:
        out += _wrapped(_OUTCOMES[found.outcome], found.conclusion, width)
    shown = found.troubles if everything else found.troubles[:TROUBLES]
    for trouble in shown:
        out += _trouble(trouble, line, width)
    if len(shown) < len(found.troubles):
        rest = found.troubles[len(shown) :]
        labels = ", ".join(dict.fromkeys(_label(trouble) for trouble in rest))
        out.append(Line(LineKind.PLAIN, f"… {len(rest):,} more ({labels}): --all"))
    return [*out, *_behind(found, line, width, everything), *_not_judged(found.unjudged, line, width, everything)]


def _wrapped(kind: LineKind, text: str, width: int | None, first: str = "", rest: str = "") -> list[Line]:
    """Break text at the width of a terminal; elsewhere it stays one line."""
    if width is None:
        return [Line(kind, first + text)]
    return [Line(kind, piece) for piece in folded(text, max(20, width), first=first, rest=rest, cut=False)]


def _holds(evidence: Evidence, names: str, width: int | None) -> Iterator[Line]:
    """Yield what the captures hold: when, how much, what is missing."""
    yield from _wrapped(LineKind.TITLE, names, width)
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
    yield from _wrapped(LineKind.PLAIN, " · ".join(filter(None, words)), width)


def between(first_ns: int | None, last_ns: int | None) -> str:
    """Return a time as people write it: with the date once where it is one day, and how long it lasts."""
    if first_ns is None or last_ns is None:
        return "at an unknown time"
    zone = clock_in_use().zone
    first, last = iso_time(zone.shown(first_ns))[:23], iso_time(zone.shown(last_ns))[:23]
    until = last[11:] if first[:10] == last[:10] else last.replace("T", " ")
    suffix = zone.suffix(last_ns).replace("Z", "")
    return f"{first.replace('T', ' ')} to {until} UTC{suffix} ({span(last_ns - first_ns)})"


def _who(found: Diagnosis, width: int | None, everything: bool) -> Iterator[Line]:
    """Yield who is on the connections: those in trouble first, then those with the most bytes."""
    evidence = found.evidence
    ranked = [number for trouble in found.troubles for number in trouble.connections]
    troubled = {number: rank for rank, number in reversed(list(enumerate(ranked)))}
    order = sorted(
        evidence.connections,
        key=lambda each: (not speaks_dcp(each), troubled.get(each.number, len(ranked)), -each.bytes),
    )
    shown = order if everything else order[:_CONNECTIONS]
    for each in sorted(shown, key=lambda each: each.number):
        yield from _wrapped(LineKind.FIELD, _identity(evidence, each), width, f"c{each.number}  ", "    ")
    if len(shown) < len(order):
        yield Line(LineKind.FIELD, f"… {counted(len(order) - len(shown), 'more connection')}: --all")


def _identity(evidence: Evidence, each: ConnectionState) -> str:
    """Say who is on a connection, and what became of its streams."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in evidence.kinds(each.number).most_common())
    words = [
        short_name(each.setup.name),
        agent(each.setup.agent),
        f"bucket {each.setup.bucket}" if each.setup.bucket else "",
        ends(each),
    ]
    if speaks_dcp(each):
        words.append(f"{counted(each.stream_count, 'stream')}{': ' * bool(kinds)}{kinds}")
    else:
        words.append(f"no DCP, {counted(each.frames, 'other frame')}")
    return " · ".join(word for word in words if word)


def _trouble(trouble: Trouble, line: CommandLine, width: int | None) -> Iterator[Line]:
    indent = " " * _LABEL
    kind = LineKind.PROBLEM if trouble.wrong else LineKind.HINT
    yield from _wrapped(kind, trouble.text, width, f"{_label(trouble):<{_LABEL}}", indent)
    for text in filter(None, (trouble.detail, *trouble.follows)):
        yield from _wrapped(LineKind.PLAIN, text, width, indent, indent)
    yield Line(LineKind.PLACE, f"{indent}{line(trouble.command)}")


def _label(trouble: Trouble) -> str:
    return trouble.situation.label if trouble.wrong else "note"


def _behind(found: Diagnosis, line: CommandLine, width: int | None, everything: bool) -> Iterator[Line]:
    """Yield which consumers are behind, and what shows all that are."""
    indent = " " * _LABEL
    consumers = behind(found.evidence)
    shown = consumers if everything else consumers[:_BEHIND]
    for each in shown:
        yield from _wrapped(LineKind.FIELD, each.text, width, f"{'lag':<{_LABEL}}", indent)
    if len(shown) < len(consumers):
        yield Line(LineKind.FIELD, f"{indent}… {counted(len(consumers) - len(shown), 'more connection')}: --all")
    if consumers:
        yield Line(LineKind.PLACE, f"{indent}{line(COMMAND)}")


def _not_judged(unjudged: Sequence[Unjudged], line: CommandLine, width: int | None, everything: bool) -> Iterator[Line]:
    indent = " " * _LABEL
    shown = unjudged if everything else unjudged[:_UNJUDGED]
    for each in shown:
        yield from _wrapped(LineKind.FIELD, each.text, width, f"{'not judged':<{_LABEL}}", indent)
        if each.command is not None:
            yield Line(LineKind.PLACE, f"{indent}{line(each.command)}")
    if len(shown) < len(unjudged):
        yield Line(LineKind.FIELD, f"… {len(unjudged) - len(shown)} more that was not judged: --all")


def objects(found: Diagnosis, captures: Sequence[str], line: CommandLine) -> Iterator[Json]:
    """Yield a diagnosis as objects: the capture, its connections, troubles by their rank, lags, what was not judged."""
    evidence = found.evidence
    yield without_none(
        {
            "type": "capture",
            "captures": list(captures),
            "first": None if evidence.begins_ns is None else iso_time(evidence.begins_ns),
            "last": None if evidence.last_ns is None else iso_time(evidence.last_ns),
            "packets": evidence.counters.packets,
            "frames": evidence.ledger.frames,
            "bytes": evidence.frame_bytes,
            "payload_bytes": evidence.counters.payload_bytes,
            "lost_bytes": evidence.tally.lost.bytes,
            "unknown_gaps": evidence.tally.lost.unknown or None,
            "skipped_bytes": evidence.tally.skipped_bytes,
            "connections": len(evidence.connections),
            "streams": evidence.streams,
            "states": dict(evidence.kinds().most_common()),
            "outcome": found.outcome.value,
            "text": found.conclusion,
            "troubles": sum(trouble.wrong for trouble in found.troubles),
            "notes": sum(not trouble.wrong for trouble in found.troubles),
        }
    )
    for each in evidence.connections:
        yield _connection(evidence, each)
    for rank, trouble in enumerate(found.troubles, 1):
        yield _trouble_object(rank, trouble, line)
    for each_behind in behind(evidence):
        yield from (_lag_object(stream, verdict.lag) for stream, verdict in each_behind.worst)
    for missing in found.unjudged:
        yield without_none(
            {
                "type": "unjudged",
                "code": missing.code.value,
                "text": missing.text,
                "count": missing.count,
                "connections": list(missing.connections),
                "command": None if missing.command is None else line(missing.command),
            }
        )


def _connection(evidence: Evidence, each: ConnectionState) -> Json:
    return without_none(
        {
            "type": "connection",
            "connection": each.number,
            "src": each.src,
            "dst": each.dst,
            "client": each.client_address,
            "server": each.server_address,
            "roles": each.roles.word,
            "name": each.setup.name,
            "agent": each.setup.agent,
            "bucket": each.setup.bucket,
            "dcp": speaks_dcp(each),
            "streams": each.stream_count,
            "states": dict(evidence.kinds(each.number).most_common()),
            "frames": each.frames,
            "bytes": each.bytes,
            **lost_keys(each.missing),
        }
    )


def _place(stream: Stream) -> Json:
    place = {"connection": stream.connection.number, "vbucket": stream.vbucket}
    return place | ({"stream_id": stream.stream_id} if stream.stream_id else {})


def _lag_object(stream: Stream, lag: Lag | None) -> Json:
    return without_none({"type": "lag", **_place(stream), **lag_object(lag)})


def _trouble_object(rank: int, trouble: Trouble, line: CommandLine) -> Json:
    streams = [_place(each) for each in trouble.streams]
    return without_none(
        {
            "type": "trouble",
            "rank": rank,
            "code": trouble.situation.value,
            "cause": trouble.cause or None,
            "severity": None if trouble.degree is None else trouble.degree.value,
            "text": trouble.text,
            "detail": trouble.detail or None,
            "follows": list(trouble.follows) or None,
            "count": trouble.count,
            "connections": list(trouble.connections),
            "streams": streams or None,
            "frames": list(trouble.frames) or None,
            "time": None if trouble.ts_ns is None else iso_time(trouble.ts_ns),
            "command": line(trouble.command),
        }
    )
