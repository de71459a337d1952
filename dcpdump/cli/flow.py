"""Provide ``dcpdump flow``: show flow control, and when it blocked a producer."""

from dcpdump.cli.analysis import AnalysisResult, LedgerConsumer, analysis
from dcpdump.cli.options import Invocation
from dcpdump.render.flow import FLOW, lines, rows_of
from dcpdump.render.style import Line, LineKind


class FlowReading(LedgerConsumer):
    """A ledger of which connections are listed."""

    lists_streams = False


@analysis(
    [FLOW],
    "dcpdump flow node1.pcap",
    "dcpdump flow node1.pcap --connection 2",
    "dcpdump flow captures/ -f ndjson",
    sort=FLOW,
    reader=FlowReading,
)
def flow(reading: FlowReading, asked: Invocation) -> AnalysisResult:
    """Show flow control: who blocked whom, and when.

    For each connection: buffer, bytes sent, acknowledged and outstanding, when the producer was blocked, which kind of
    message a consumer never acknowledges, and when TCP held an end up: its peer did not read (its receive window was
    zero), or did not acknowledge what was sent again and again. Where the beginning was not captured, or bytes were
    lost, what is outstanding is the least that it can be (≥), and whether the producer is blocked is inferred from its
    waits. An acknowledgement may be captured up to 50 ms before the messages that it acknowledges; what is acknowledged
    beyond those is too much.
    """
    rows = asked.order(rows_of(reading.connections, reading.ledger.last_ns, drawn=asked.terminal))
    return AnalysisResult(lambda: lines(rows) or [_nothing(reading)], lambda: map(FLOW.object, rows))


def _nothing(consumer: LedgerConsumer) -> Line:
    """Return why there is no flow control to show."""
    if any(each.setup.opened_by is not None or each.stream_count for each in consumer.connections):
        return Line(LineKind.PLAIN, "no message of a stream, so no flow control")
    return consumer.nothing()
