"""Provide ``dcpdump conns``: list client and server of each connection, and what they negotiated."""

from collections.abc import Iterable

from dcpdump.cli.analysis import AnalysisResult, LedgerConsumer, analysis
from dcpdump.cli.options import Invocation
from dcpdump.cli.summary import tls_closed, tls_state
from dcpdump.diagnosis.words import by_server, not_opened
from dcpdump.dissect import Dissector
from dcpdump.render.conns import CLOSED, CONNECTIONS, ConnectionRow, ConnectionTable, rows_of


class Listing(LedgerConsumer):
    """A ledger of which connections are listed; those that were never opened are in a note."""

    lists_streams = False

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return which servers did not answer a SYN."""
        yield from super().remarks(dissection)
        for server, attempts in by_server(self.unanswered).items():
            yield f"dcpdump: note: {not_opened(server, attempts)}"


@analysis(
    [CONNECTIONS, CLOSED],
    "dcpdump conns node1.pcap",
    "dcpdump conns captures/ --port 11210",
    "dcpdump conns node1.pcap -f ndjson",
    sort=CONNECTIONS,
    reader=Listing,
)
def conns(reading: Listing, asked: Invocation) -> AnalysisResult:
    """List connections: client and server, features, flags, controls, keep-alive, how they ended.

    A question mark stands where the capture does not say. TLS that could not be opened has a row that says why.
    """
    tls_reports = reading.dissection.tls_reports
    tls = {number: (tls_state(each), each) for number, each in tls_reports.items()}
    found = rows_of(reading.connections, tls)
    for number in reading.closed:
        each = tls_reports[number]
        found.append(ConnectionRow(number, each.src, each.dst, None, tls_closed(each), each))
    rows = asked.order(sorted(found, key=lambda row: row.number))
    return AnalysisResult(
        lambda: [ConnectionTable(rows) if rows else reading.nothing()],
        lambda: map(CONNECTIONS.object, rows),
        always=bool(reading.closed),
    )
