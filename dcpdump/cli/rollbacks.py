"""Provide ``dcpdump rollbacks``: list rollbacks, each with the clause of the protocol that explains it."""

from dcpdump.cli.analysis import AnalysisResult, LedgerConsumer, analysis
from dcpdump.cli.options import Invocation, option
from dcpdump.render.rollbacks import RESUME, ROLLBACKS, latest, lines
from dcpdump.render.style import Line
from dcpdump.render.text_columns import Table
from dcpdump.streams.rollbacks import find_rollbacks
from dcpdump.streams.rollbacks import resume as resume_of


@analysis(
    [ROLLBACKS],
    "dcpdump rollbacks node1.pcap",
    "dcpdump rollbacks captures/ --vbucket 500 --resume",
    "dcpdump rollbacks node1.pcap -f ndjson",
    params=[option("--resume", "A row for each vbucket: what its client should have sent to go on.")],
    sort=ROLLBACKS,
)
def rollbacks(reading: LedgerConsumer, asked: Invocation, resume: bool) -> AnalysisResult:
    """Explain rollbacks: what was requested, against the failover log and the purge seqno, as far as they were seen.

    Equal rollbacks of a client are one; more than three are a loop. Each with what the client should have sent:
    --resume has a row of that for each vbucket.
    """
    streams, ledger = reading.streams, reading.ledger
    wanted = set(streams)
    found = [each for each in find_rollbacks(ledger) if each.stream in wanted]
    advised = asked.order((each, resume_of(each, ledger)) for each in found)
    if resume:
        advised = latest(advised)

    def text() -> list[Line | Table]:
        if not streams:
            return [reading.nothing()]
        if resume and advised:
            return [RESUME.table(advised)]
        return list(lines(advised, streams, ledger.last_ns))

    return AnalysisResult(text, lambda: map(ROLLBACKS.object, advised))
