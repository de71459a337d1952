"""Make what the tabs of streams, findings and connections show, from one reading of all frames."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from dcpdump.browse.analysis import Analysis, Dialogue, StreamPlace, TabRow, TabRows
from dcpdump.check.finding import Finding
from dcpdump.clock import clock_in_use
from dcpdump.diagnosis.trouble import Evidence, Judged
from dcpdump.escape import safe
from dcpdump.render import findings as finding_lines
from dcpdump.render import flow
from dcpdump.render.column import ColumnSet
from dcpdump.render.conns import CONNECTIONS, ConnectionTable, rows_of
from dcpdump.render.findings import FINDINGS
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Table, fitted
from dcpdump.streams.eviction import EvictedStreams
from dcpdump.streams.ladder import ladder
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import place, short_name
from dcpdump.text import counted

#: So wide are the texts below a table.
_WIDTH = 110
#: Dialogues of so many streams are made: those in trouble first.
_MOST_DIALOGUES = 20_000


def analysis_of(evidence: Evidence) -> Analysis:
    """Return what a reading that is over has to show."""
    worst_first = sorted(evidence.judged, key=lambda each: each[1].rank)
    by_frame: dict[int, list[Line]] = defaultdict(list)
    for finding, _ in evidence.findings:
        by_frame[finding.frame] += finding_lines.frame_lines([finding])
    return Analysis(
        {
            "streams": _streams(worst_first, evidence.evicted, evidence.now_ns),
            "findings": _findings(evidence),
            "connections": _connections(evidence),
        },
        _dialogues(evidence, [stream for stream, _ in worst_first[:_MOST_DIALOGUES]]),
        {frame: tuple(lines) for frame, lines in by_frame.items()},
    )


def place_of(stream: Stream) -> StreamPlace:
    """Return where a stream is."""
    return stream.connection.number, stream.vbucket, stream.stream_id or 0


def _streams(judged: Sequence[Judged], evicted: EvictedStreams, now_ns: int | None) -> TabRows:
    table = STREAMS.table([StreamRow(stream, verdict, now_ns) for stream, verdict in judged])
    rows = []
    for (stream, verdict), cells, kind in zip(judged, table.rows, table.kinds, strict=True):
        where = place_of(stream)
        clauses = [("connection", str(where[0])), ("vbucket", str(where[1]))]
        if where[2]:
            clauses.append(("stream-id", str(where[2])))
        first = next((request.frame for request in stream.requests), None)
        page = (Line(kind, verdict.text),)
        rows.append(TabRow(tuple(cells), kind, tuple(clauses), first, page, where))
    if evicted.streams:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in evicted.kinds.most_common())
        text = f"{counted(evicted.streams, 'more stream')} not kept in memory, which were over: {kinds}"
        hint = Line(LineKind.PLAIN, "a larger --memory lists more")
        cells = ("",) * (len(table.heads) - 1) + (text,)
        rows.append(TabRow(cells, LineKind.PROBLEM, page=(Line(LineKind.PROBLEM, text), hint)))
    return _tab(table, rows, "no streams")


def _dialogues(evidence: Evidence, streams: Iterable[Stream]) -> dict[StreamPlace, tuple[Dialogue, ...]]:
    found: dict[StreamPlace, list[Dialogue]] = defaultdict(list)
    for stream in streams:
        connection = stream.connection
        wants = short_name(connection.setup.name) or connection.client_address or connection.src
        has = connection.server_address or connection.dst
        title = f"{place(stream)} of c{connection.number}"
        rungs = tuple(ladder(stream, evidence.now_ns))
        found[place_of(stream)].append(Dialogue(title, safe(wants), safe(has), rungs))
    return {
        place: tuple(sorted(each, key=lambda one: min((r.frame for r in one.rungs if r.frame), default=0)))
        for place, each in found.items()
    }


def _findings(evidence: Evidence) -> TabRows:
    table = FINDINGS.table(evidence.findings)
    found = zip(evidence.findings, table.rows, table.kinds, strict=True)
    rows = [_finding(finding, tuple(cells), kind) for (finding, _), cells, kind in found]
    return _tab(table, rows, f"nothing found: {evidence.rules:,} rules asked")


def _finding(finding: Finding, cells: tuple[str, ...], kind: LineKind) -> TabRow:
    when = "" if finding.ts_ns is None else f"  {clock_in_use().full(finding.ts_ns)}"
    page = (Line(kind, f"{cells[-1]}{when}"), Line(LineKind.PLAIN, ""), *finding_lines.page(finding.rule, None))
    clauses = [("connection", str(finding.connection))]
    if finding.vbucket is not None:
        clauses.append(("vbucket", str(finding.vbucket)))
    return TabRow(cells, kind, tuple(clauses), finding.frame, page)


#: What a tab has of connections; the rest is in their cards.
_CONNECTIONS = ColumnSet(*CONNECTIONS.some("conn client name agent bucket streams frames bytes lost end"))


def _connections(evidence: Evidence) -> TabRows:
    found = rows_of(evidence.connections)
    table = _CONNECTIONS.table(found)
    rows = []
    for each, row, cells in zip(evidence.connections, found, table.rows, strict=True):
        card = ConnectionTable([row]).lines(_WIDTH)
        windows = fitted(flow.lines(flow.rows_of([each], evidence.now_ns)), None)
        page = (*card, Line(LineKind.PLAIN, ""), *windows)
        kind = LineKind.HINT if each.missing.gaps or each.missing.skipped else LineKind.PLAIN
        rows.append(TabRow(tuple(cells), kind, (("connection", str(each.number)),), None, tuple(page)))
    return _tab(table, rows, "no connections")


def _tab(table: Table, rows: Sequence[TabRow], nothing: str) -> TabRows:
    return TabRows(tuple(table.heads), tuple(table.right), tuple(table.least), tuple(rows), nothing)
