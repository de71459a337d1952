"""The rules: each has a conversation that trips it and one that comes near; none is tripped by healthy ones."""

import re

import pytest

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Rule, Severity
from dcpdump.check.rules import BY_NAME, RULES
from tests.support.check_cases import CASES
from tests.support.conversation import codes, findings, findings_of, packets, said
from tests.support.healthy import HEALTHY

#: The paragraphs of the list of rules. Of those that are gone the numbers are not used again.
IDS = {
    f"{family}{number}"
    for family, count in {"F": 19, "C": 16, "L": 22, "S": 23, "D": 8, "B": 7, "N": 6, "T": 4}.items()
    for number in range(1, count + 1)
} - {"L13", "S5", "S7", "S8", "S19", "S21", "D7", "B1"}


def test_every_rule_of_the_protocol_is_there_once() -> None:
    assert {rule.id for rule in RULES} == IDS
    assert len({rule.code for rule in RULES}) == len(RULES) == len(IDS)


def test_every_rule_has_both_conversations() -> None:
    assert CASES.keys() == IDS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_tripped_by_its_conversation_once_and_not_by_its_near_miss(rule: Rule) -> None:
    found = [each for each in findings(CASES[rule.id].trips) if each.reason == ""]
    assert rule in {each.rule for each in found}
    assert rule.id not in codes(CASES[rule.id].spares)
    of_one_frame = [(each.rule.id, each.frame, each.vbucket, each.message) for each in found]
    assert sorted(of_one_frame, key=str) == sorted(set(of_one_frame), key=str)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_a_page_and_a_title_without_the_name_of_a_class(rule: Rule) -> None:
    assert rule.page.startswith(("It sees ", "Reported "))
    assert "Usual causes: " in rule.page or rule.id == "D8"
    assert re.findall(r"[a-z][A-Z]", rule.title) == []


def test_a_rule_is_found_by_code_and_by_id() -> None:
    assert BY_NAME["DCP301"] is BY_NAME["S1"]


def violations(found: list[Finding]) -> list[str]:
    """Return the certain findings, as text."""
    return [f"{each.rule.id} #{each.frame}: {each.message}" for each in found if each.severity is Severity.VIOLATION]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_traffic_raises_nothing(name: str) -> None:
    assert [(each.rule.id, each.frame, each.message) for each in findings(HEALTHY[name])] == []


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_traffic_raises_nothing_wherever_it_begins_or_ends(name: str) -> None:
    captured = packets(said(HEALTHY[name]))
    for at in range(0, len(captured), 5):
        for part in (captured[:at], captured[at:], captured[:at] + captured[at + 1 :]):
            found = [(at, each.rule.id, each.frame, each.message) for each in findings_of(part) if not each.reason]
            assert found == []


def test_a_seqno_that_goes_back_over_lost_bytes_is_unknown() -> None:
    captured = packets(said(CASES["S12"].trips))
    (finding,) = [each for each in findings_of(captured) if each.rule.id == "S12"]
    assert (finding.severity, finding.status, finding.vbucket) == (Severity.VIOLATION, "Erange", 5)
    torn = [*captured[:-2], captured[-1]]
    assert violations(findings_of(torn)) == []


def test_what_was_lost_inside_a_snapshot_is_reported_as_unknown() -> None:
    captured = packets(said(HEALTHY["plain"]))
    at = next(number for number, packet in enumerate(captured) if packet.data.endswith(b"k4"))
    reported = [each for each in findings_of(captured[:at] + captured[at + 1 :]) if each.rule.id == "S12"]
    assert [(each.severity, each.message, each.reason) for each in reported] == [
        (Severity.UNKNOWN, "the order between seqno 3 and 5 was not seen", "57 bytes were lost before frame 17")
    ]
