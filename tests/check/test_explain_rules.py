"""Rules that need no other frame, applied to what is pasted."""

import json

import pytest

from dcpdump.annotate import annotate
from dcpdump.check.engine import judge
from dcpdump.wire.encode import Item, encode
from tests.support.console import run
from tests.support.conversation import said
from tests.support.healthy import HEALTHY


def frames(conversation: str) -> str:
    """Return the frames of a conversation as hex."""
    return " ".join(each.data.hex() for each in said(conversation))


ODD = frames(
    """
    RX snapshot-marker{start=10, end=3, flags=0x3}
    TX control{key=enable_nop, value=true}
    TX stream-request{vb=5, start=3, end=9, snap-start-seqno=5, snap-end-seqno=7}
    RX mutation{seqno=5}
    """
)


def test_rules_that_need_no_other_frame_are_applied_to_each() -> None:
    assert [
        line for line in run(f"dcpdump explain -f line {ODD}").out.splitlines() if not line.startswith(("TX", "RX"))
    ] == [
        "rule: DCP301 Snapshot that ends before it starts: snapshot 10..3 (a conforming peer answers Einval)",
        "rule: DCP302 Snapshot type that does not fit: snapshot type 0x3 is both memory and disk",
        "rule: DCP216 Control key that is misspelt: control key enable_nop: no release knows it; enable_noop is near"
        " (a conforming peer answers Einval)",
        "rule: DCP221 Stream request whose range is out of order: start seqno 3 is outside its snapshot 5..7"
        " (a conforming peer answers Erange)",
    ]


def test_ndjson_has_the_rules_as_objects_and_none_where_there_are_none() -> None:
    rows = [json.loads(line) for line in run(f"dcpdump explain -f ndjson {ODD}").out.splitlines()]
    assert rows[0]["rules"] == [
        {
            "code": "DCP301",
            "title": "Snapshot that ends before it starts",
            "severity": "violation",
            "message": "snapshot 10..3",
            "status": "Einval",
        },
        {
            "code": "DCP302",
            "title": "Snapshot type that does not fit",
            "severity": "violation",
            "message": "snapshot type 0x3 is both memory and disk",
        },
    ]
    assert "rules" not in rows[3]


def test_what_rules_say_is_left_out_where_keys_are_hidden() -> None:
    assert "enable_nop:" not in run(f"dcpdump explain -f line --redact {ODD}").out
    rows = [json.loads(line) for line in run(f"dcpdump explain -f ndjson --redact {ODD}").out.splitlines()]
    assert [(each["code"], "message" in each) for each in rows[1]["rules"]] == [("DCP216", False)]


@pytest.mark.parametrize("name", HEALTHY)
def test_no_frame_of_a_healthy_conversation_breaks_a_rule_by_itself(name: str) -> None:
    for each in said(HEALTHY[name]):
        assert [found.message for one in annotate((each.data,)) for found in judge(one.record)] == []


def test_a_frame_whose_lengths_contradict_its_bytes_is_held_against_no_rule() -> None:
    whole = frames("RX snapshot-marker{start=10, end=3, flags=0x3}")
    for damaged in (whole + "00", whole[:-2], whole.replace("805600001400", "805600001500", 1)):
        assert "rule:" not in run(f"dcpdump explain {damaged}").out


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        ({"key": b"\x03key"}, "CACHE_TRANSFER: collection id 3 is reserved"),
        ({"key": bytes(252)}, "CACHE_TRANSFER: items[0]: key_len 252 is not 2 to 251"),
        ({"key": b"\0key", "value_length": 9}, "CACHE_TRANSFER: items[0]: value needs 9 bytes, 0 are left"),
    ],
    ids=["reserved collection", "long key", "short value"],
)
def test_a_record_that_no_consumer_takes_is_reported_and_ends_the_connection(record: Item, rule: str) -> None:
    frame = encode("DCP_CACHE_TRANSFER", {"items": [record]}, vbucket=3)
    printed = run(f"dcpdump explain -f line {frame.hex()}").out.splitlines()
    heading = "rule: DCP103 Sections or datatype that the message cannot have: "
    assert [line for line in printed if line.startswith("rule: ")] == [heading + rule]
