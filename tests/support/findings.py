"""What check finds in conversations and captures, as text."""

from collections.abc import Sequence

from dcpdump.arrow.other_tables import Judging
from dcpdump.batch.block import blocks
from dcpdump.check.finding import Finding
from dcpdump.net.packet import Packet
from dcpdump.streams.dissection import Watching
from tests.support.conversation import findings, findings_of

Captured = str | Sequence[Packet]


def found(captured: Captured, *rules: str) -> list[Finding]:
    """Return the findings in a conversation, or in packets; ``rules``: those of these codes alone."""
    every = findings(captured) if isinstance(captured, str) else findings_of(captured)
    return [each for each in every if not rules or each.rule.code in rules]


def reported(captured: Captured, *rules: str) -> list[str]:
    """Return the findings: "DCP103 violation: MUTATION has datatype 0x01 (Einval)"."""
    return [
        f"{each.rule.code} {each.severity.value}: {each.message}{f' ({each.status})' * bool(each.status)}"
        for each in found(captured, *rules)
    ]


def certain(captured: Captured, *rules: str) -> list[str]:
    """Return the findings that are no unknown ones."""
    return [each for each in reported(captured, *rules) if " unknown: " not in each]


def brief(captured: Captured, *rules: str) -> list[str]:
    """Return all findings without their sentences: "DCP301 violation Einval"."""
    return [f"{each.rule.code} {each.severity.value} {each.status}".rstrip() for each in found(captured, *rules)]


def judged(captured: list[Packet]) -> list[tuple[str, int, str]]:
    """Return what is found in captured packets to the end of the capture: rule, connection and sentence."""
    dissection = Watching()
    judging = Judging(dissection)
    for block in blocks(captured):
        judging.observe(block)
        for parts in dissection.feed_block(block):
            judging.feed(parts)
            dissection.gaps.clear()
    for parts in dissection.close_blocks():
        judging.feed(parts)
    judging.close(captured[-1].ts_ns)
    return [(each.rule.id, each.connection, each.message) for each, _ in judging.fold.findings()]
