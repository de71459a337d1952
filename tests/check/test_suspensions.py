"""Suspensions: what a rule's page promises is kept. Where one is in force that it names there is no verdict."""

from dataclasses import replace

import pytest

from dcpdump.check.rule import Severity, Suspend
from dcpdump.check.rules import BY_NAME, RULES
from tests.support.check_cases import (
    BOTH,
    CACHE,
    CARTS,
    DURABLE,
    EIGHT,
    FILTERED,
    MEMORY,
    OSO_BEGINS,
    PLAIN,
    STREAM,
    THREE,
    items,
)
from tests.support.conversation import findings, findings_of, opening, packets, said

LATER = "RX snapshot-marker{start=4, end=6, flags=%s}\n"
SYNC = opening(controls="enable_sync_writes=true")
COMMIT = "RX commit{prepared-seqno=%d, commit-seqno=%d, key=a}\n"
PREPARE = "RX prepare{seqno=%d, key=a}\n"
DISK_COMMIT = "RX snapshot-marker{start=0, end=3, flags=0x6, layout=2.0}\n" + PREPARE % 1 + COMMIT % (1, 2)
FAR = "STREAM vb=5, start=5%s\nRX snapshot-marker{start=7, end=9, flags=0x6}\n"
DROPPED = CARTS + "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=8}\n"
UNORDERED = BOTH + FILTERED + MEMORY + EIGHT + OSO_BEGINS

#: By rule and suspension: what the rule would find where it is in force.
CASES = {
    ("DCP115", Suspend.OUT_OF_ORDER): (
        BOTH + STREAM + MEMORY + DROPPED + OSO_BEGINS + "RX mutation{seqno=7, key=#0861}\n"),
    ("DCP231", Suspend.FILTER): (
        BOTH + FILTERED.replace("vb=5,", "vb=5, end=9,") + MEMORY + EIGHT
        + "RX seqno-advanced{seqno=3}\nRX stream-end{status=0}\n"),
    ("DCP304", Suspend.REPLICA): (PLAIN + FAR % ""),
    ("DCP306", Suspend.FILTER): (
        BOTH + FILTERED.replace("vb=5,", "vb=5, flags=0x10,") + MEMORY + EIGHT + "RX seqno-advanced{seqno=3}\n"
        + LATER % "0x1" + "RX mutation{seqno=5, key=#0863}\n"),
    ("DCP306", Suspend.REPLICA): (PLAIN + STREAM + THREE + LATER % "0x1" + items(5, 5)),
    ("DCP306", Suspend.HISTORY): (DURABLE + STREAM + THREE + LATER % "0x11" + items(5, 5)),
    ("DCP306", Suspend.OUT_OF_ORDER): (
        DURABLE + STREAM + THREE + LATER % "0x1" + items(4, 6) + OSO_BEGINS + items(7, 7)),
    ("DCP317", Suspend.HISTORY): (
        DURABLE + STREAM
        + "RX snapshot-marker{start=1, end=3, flags=0x15}\nRX mutation{seqno=1, key=a}\nRX mutation{seqno=2, key=a}\n"),
    ("DCP322", Suspend.REPLICA): (SYNC + STREAM + DISK_COMMIT),
    ("DCP401", Suspend.OUT_OF_ORDER): (
        BOTH + FILTERED + MEMORY + EIGHT + OSO_BEGINS + "RX mutation{seqno=9, key=#0869}\n"),
    ("DCP402", Suspend.OUT_OF_ORDER): (
        BOTH + FILTERED + MEMORY + EIGHT + OSO_BEGINS + "RX mutation{seqno=1, key=#0869}\n"),
    ("DCP402", Suspend.CACHE_TRANSFER): (PLAIN + CACHE + "RX mutation{seqno=9}\n"),
    ("DCP413", Suspend.FILTER): (DURABLE + FILTERED + MEMORY + COMMIT % (1, 3)),
    ("DCP413", Suspend.REPLICA): (SYNC + STREAM + MEMORY + COMMIT % (1, 3)),
    ("DCP414", Suspend.FILTER): (DURABLE + FILTERED + MEMORY + PREPARE % 3 + "RX stream-end{status=2}\n"),
    ("DCP415", Suspend.HISTORY): (
        DURABLE + STREAM + "RX snapshot-marker{start=1, end=3, flags=0x15}\n" + PREPARE % 1 + PREPARE % 2),
}  # fmt: skip


def test_every_suspension_is_of_a_rule_and_every_rule_with_one_has_a_case() -> None:
    assert {each for rule in RULES for each in rule.unjudged} == set(Suspend)
    assert {(rule.code, each) for rule in RULES for each in rule.off} == CASES.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1].name}")
def test_where_a_suspension_is_in_force_there_is_no_verdict(case: tuple[str, Suspend]) -> None:
    code, suspension = case
    rule, captured = BY_NAME[code], packets(said(CASES[case]))
    others = tuple(each for each in rule.off if each is not suspension)
    assert {each.rule.code for each in findings_of(captured, [replace(rule, off=others)]) if not each.reason} == {code}
    assert [each for each in findings_of(captured, [rule]) if not each.reason] == []


@pytest.mark.parametrize("code", [code for code, each in CASES if each is Suspend.REPLICA])
def test_what_a_replica_may_send_is_unknown_and_not_left_out(code: str) -> None:
    found = [each for each in findings(CASES[code, Suspend.REPLICA]) if each.rule.code == code]
    reason = "the source may be a replica: its request does not insist on an active vbucket"
    assert [(each.severity, each.reason) for each in found] == [(Severity.UNKNOWN, reason)]


@pytest.mark.parametrize("flag", ["0x10", "0x1"])
def test_a_request_that_insists_on_an_active_vbucket_has_no_replica_for_its_source(flag: str) -> None:
    assert "S4" in {each.rule.id for each in findings(PLAIN + FAR % f", flags={flag}") if not each.reason}


def test_between_nodes_the_source_is_active() -> None:
    synchronous = opening(controls="enable_sync_writes=true, consumer_name=n2")
    for begun in (DURABLE, opening(name="replication:n1"), synchronous):
        assert "S4" in {each.rule.id for each in findings(begun + FAR % "") if not each.reason}
