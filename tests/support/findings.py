"""What check finds in conversations and captures, as text."""

from collections.abc import Sequence

from dcpdump.check.finding import Finding
from dcpdump.net.packet import Packet
from tests.support.conversation import findings, findings_of

Captured = str | Sequence[Packet]


def found(captured: Captured, *rules: str) -> list[Finding]:
    """Return the findings in a conversation, or in packets; ``rules``: those of these codes alone."""
    every = findings(captured) if isinstance(captured, str) else findings_of(captured)
    return [each for each in every if not rules or each.rule.code in rules]


def reported(captured: Captured, *rules: str) -> list[str]:
    """Return the certain findings: "DCP103 violation: MUTATION has datatype 0x01 (Einval)"."""
    return [
        f"{each.rule.code} {each.severity.value}: {each.message}{f' ({each.status})' * bool(each.status)}"
        for each in found(captured, *rules)
        if not each.reason
    ]


def brief(captured: Captured, *rules: str) -> list[str]:
    """Return all findings without their sentences: "DCP301 violation Einval"."""
    return [f"{each.rule.code} {each.severity.value} {each.status}".rstrip() for each in found(captured, *rules)]
