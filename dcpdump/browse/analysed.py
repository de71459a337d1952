"""Make the tables of streams, findings and connections for the tabs, from one reading of all frames."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from dcpdump.browse.analysis import Analysis, Dialogue, StreamKey, TabRow, TabRows
from dcpdump.clock import clock_in_use
from dcpdump.diagnosis.trouble import Evidence, Judged
from dcpdump.escape import safe
from dcpdump.render import findings as finding_lines
from dcpdump.render import flow
from dcpdump.render.column import ColumnSet
from dcpdump.render.conns import CONNECTIONS, ConnectionTable, rows_of
from dcpdump.render.findings import FINDINGS
from dcpdump.render.ladder import ladder
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import fitted
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import EvictedStreams
from dcpdump.streams.wording import name_stream, short_name
from dcpdump.text import counted

Row = TypeVar("Row")
#: The width of the texts below a table.
_WIDTH = 110
#: For how many streams dialogues are made: those in trouble first.
_MOST_DIALOGUES = 20_000


def analysis_of(evidence: Evidence) -> Analysis:
    """Return the analysis of a completed reading."""
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


def stream_key(stream: Stream) -> StreamKey:
    """Return the connection, vbucket and id of a stream."""
    return stream.connection.number, stream.vbucket, stream.stream_id or 0


def _tab(columns: ColumnSet[Row], found: Sequence[Row], nothing: str) -> TabRows:
    """Return a table of rows, without links to frames yet."""
    table = columns.table(found)
    orders = [column.order for column in columns if column.head]
    rows = []
    kinds = table.kinds or [LineKind.PLAIN] * len(found)
    for row, cells, kind in zip(found, table.rows, kinds, strict=True):
        keys = tuple(cell if order is None else order(row) for order, cell in zip(orders, cells, strict=True))
        rows.append(TabRow(cells, keys, kind))
    return TabRows(table, rows, nothing)


def _streams(judged: Sequence[Judged], evicted: EvictedStreams, now_ns: int | None) -> TabRows:
    tab = _tab(STREAMS, [StreamRow(stream, verdict, now_ns) for stream, verdict in judged], "no streams")
    rows = []
    for row, (stream, verdict) in zip(tab.rows, judged, strict=True):
        where = connection, vbucket, stream_id = stream_key(stream)
        clauses = [("connection", str(connection)), ("vbucket", str(vbucket))]
        clauses += [("stream-id", str(stream_id))] * bool(stream_id)
        first = next((request.frame for request in stream.requests), None)
        page = (Line(row.kind, verdict.text),)
        rows.append(row._replace(clauses=tuple(clauses), frame=first, page=page, stream=where))
    if evicted.streams:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in evicted.kinds.most_common())
        text = f"{counted(evicted.streams, 'more stream')} not kept in memory, which were over: {kinds}"
        hint = Line(LineKind.PLAIN, "a larger --memory lists more")
        empty = ("",) * (len(tab.table.heads) - 1)
        rows.append(TabRow((*empty, text), (*empty, ""), LineKind.PROBLEM, page=(Line(LineKind.PROBLEM, text), hint)))
    return tab._replace(rows=rows)


def _dialogues(evidence: Evidence, streams: Iterable[Stream]) -> dict[StreamKey, tuple[Dialogue, ...]]:
    found: dict[StreamKey, list[Dialogue]] = defaultdict(list)
    for stream in streams:
        connection = stream.connection
        client = short_name(connection.setup.name) or connection.client_address or connection.src
        server = connection.server_address or connection.dst
        title = f"{name_stream(stream)} of c{connection.number}"
        rungs = tuple(ladder(stream, evidence.now_ns))
        found[stream_key(stream)].append(Dialogue(title, safe(client), safe(server), rungs))
    return {
        key: tuple(sorted(each, key=lambda one: min((r.frame for r in one.rungs if r.frame), default=0)))
        for key, each in found.items()
    }


def _findings(evidence: Evidence) -> TabRows:
    tab = _tab(FINDINGS, evidence.findings, f"nothing found: {evidence.rules:,} rules asked")
    rows = []
    for row, (finding, _) in zip(tab.rows, evidence.findings, strict=True):
        when = "" if finding.ts_ns is None else f"  {clock_in_use().full(finding.ts_ns)}"
        title = Line(row.kind, f"{row.cells[-1]}{when}")
        page = (title, Line(LineKind.PLAIN, ""), *finding_lines.page(finding.rule, None))
        rows.append(row._replace(frame=finding.frame, page=page))
    return tab._replace(rows=rows)


#: The columns of connections in the tab; the others are in their cards.
_CONNECTIONS = ColumnSet(*CONNECTIONS.some("conn client name agent bucket streams frames bytes lost end"))


def _connections(evidence: Evidence) -> TabRows:
    found = rows_of(evidence.connections)
    tab = _tab(_CONNECTIONS, found, "no connections")
    rows = []
    for row, each, shown in zip(tab.rows, evidence.connections, found, strict=True):
        windows = fitted(flow.lines(flow.rows_of([each], evidence.now_ns)), None)
        page = (*ConnectionTable([shown]).lines(_WIDTH), Line(LineKind.PLAIN, ""), *windows)
        kind = LineKind.HINT if each.missing.gaps or each.missing.skipped else LineKind.PLAIN
        rows.append(row._replace(kind=kind, clauses=(("connection", str(each.number)),), page=page))
    return tab._replace(rows=rows)
