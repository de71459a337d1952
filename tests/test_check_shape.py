"""What a single message holds, as check judges it: sections, datatypes and values, by what the two ends agreed on."""

import pytest

from dcpdump.check.finding import Finding
from tests.conversation import findings, findings_of, opening, packets, said

STREAM = "STREAM vb=5\n"
MARKER = "RX snapshot-marker{start=1, end=9, flags=0x5}\n"
BEGUN = STREAM + MARKER
#: 0x40: bodies are left out, and the datatype stays that of the document.
LEFT_OUT = opening(0x45)
#: The document was compressed; its xattrs are not.
XATTRS_ALONE = "#0000000e0000000a5f73006173646600"


def told(found: list[Finding]) -> list[str]:
    """It gives the findings about shapes, without those of which nobody is sure."""
    return [
        f"{each.rule.id} {each.severity.value}: {each.message}"
        for each in found
        if each.rule.id in ("F3", "F4", "F5") and not each.reason
    ]


def shapes(text: str) -> list[str]:
    """It gives what is said of the shapes in a conversation."""
    return told(findings(text))


@pytest.mark.parametrize(
    "message",
    [
        f"RX mutation{{seqno=1, datatype=6, value={XATTRS_ALONE}}}\n",
        f"RX mutation{{seqno=1, datatype=7, value={XATTRS_ALONE}}}\n",
        "RX deletion{seqno=1, datatype=1}\n",
        "RX deletion{seqno=1, datatype=3}\n",
    ],
)
def test_a_datatype_without_its_body_is_judged_by_the_open_flag_only(message: str) -> None:
    assert shapes(LEFT_OUT + BEGUN + message) == []
    assert shapes(opening() + BEGUN + message)
    for text in (LEFT_OUT + BEGUN + message, opening() + BEGUN + message):
        captured = packets(said(text))
        for joined in range(len(packets(said(opening()))) - 2, len(captured)):
            assert told(findings_of(captured[joined:])) == []
        one_way = [packet for packet in captured if packet.data[34:36] != captured[0].data[34:36]]
        assert told(findings_of(one_way)) == []


def test_metadata_behind_a_body_is_no_part_of_it() -> None:
    body, metadata = b'{"a":1}'.hex(), "01020000"
    message = "RX mutation{{seqno=1, datatype=1, value=#{}{}, nmeta={}}}\n"
    begun = opening() + BEGUN
    assert shapes(begun + message.format(body, metadata, 4)) == []
    assert shapes(begun + message.format(body, metadata, 2)) == [
        "F5 suspicious: the body is marked JSON but is not: at byte 7 the value is over, and more follows"
    ]
    assert shapes(begun + message.format("", metadata, 4)) == []
