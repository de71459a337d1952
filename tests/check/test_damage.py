"""Damage to captures of healthy connections is not a fault of their ends: it raises no finding but unknown ones."""

import random
from functools import cache

import pytest

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.net.packet import Packet
from tests.support.check_cases import CASES, PLAIN, THREE
from tests.support.conversation import Said, findings, findings_of, packets, said
from tests.support.damage import WAYS, behind, joined, merged
from tests.support.habits import HABITS
from tests.support.healthy import HEALTHY
from tests.support.ledgers import captured

#: Bytes of a packet, at most; and the bytes up to which frames that are sent at once share one, or 0.
SEGMENTS = ((1 << 20, 0), (1 << 20, 0), (1 << 20, 1448), (1 << 20, 60_000), (1448, 0), (100, 0), (37, 0))
#: How many conversations are damaged in each way here. By hand: all of them, with many seeds.
EACH = 4
FAULTS = Severity.VIOLATION, Severity.SUSPICIOUS


def faults(found: list[Finding], families: str = "12345") -> list[str]:
    """Return the verdicts among findings, as text: all violations, and of some families what is suspicious."""
    return [
        f"{each.rule.code} #{each.frame}: {each.message}"
        for each in found
        if each.severity is FAULTS[0] or (each.severity is FAULTS[1] and each.rule.code[3] in families)
    ]


@cache
def sound() -> dict[str, tuple[list[Said], str]]:
    """Return conversations, and the families of which nothing is to be suspicious when they are damaged.

    Of the near misses of rules those that break no other rule. They are made when they are tested.
    """
    misses = {id: case.spares for id, case in CASES.items() if not faults(findings(case.spares), "")}
    return {
        **{id: (said(text), "") for id, text in misses.items()},
        **{name: (said(text), "345") for name, text in HEALTHY.items()},
        **{name: (said(text), "12345") for name, text in HABITS.items()},
        "two at once": (merged(HABITS["java-dcp-client"], HABITS["goxdcr"]), "12345"),
        "two of one opaque": (merged(HABITS["dcpdrain"], HABITS["legacy"]), "12345"),
    }


def damaged(name: str, way: str, seed: int) -> list[Packet]:
    """Return a conversation, captured badly."""
    chance = random.Random(f"{name}, {way}, {seed}")
    segment, together = chance.choice(SEGMENTS)
    return WAYS[way](packets(joined(sound()[name][0], together), segment), chance)


@pytest.mark.parametrize("name", HABITS)
def test_a_client_with_habits_of_its_own_is_healthy(name: str) -> None:
    found = findings(HABITS[name])
    assert [(each.rule.id, each.frame, each.message) for each in found if each.severity is not Severity.INFO] == []


@pytest.mark.parametrize("way", WAYS)
def test_damage_is_no_fault(way: str) -> None:
    chance = random.Random(way)
    for families in ("", "345", "12345"):
        for name in chance.sample(sorted(name for name, each in sound().items() if each[1] == families), EACH):
            seed = chance.randrange(1 << 20)
            captured = damaged(name, way, seed)
            assert (name, seed, faults(findings_of(captured), families) if captured else []) == (name, seed, [])


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("name", HABITS)
def test_a_direction_that_was_captured_late_is_no_fault(name: str, client: bool) -> None:
    """But for flow control, which has an account of its own, with its own bounds."""
    for size, by in ((0, 1), (0, 12), (1448, 3), (1448, 8), (60_000, 12)):
        found = faults(findings_of(behind(packets(joined(said(HABITS[name]), size)), client=client, by=by)))
        assert [each for each in found if not each.startswith(("DCP503", "DCP504"))] == [], (size, by)


@pytest.mark.parametrize(
    ("name", "reach", "seed"),
    [
        ("S20", 5, 18),  # a marker was acknowledged, in the capture, before its stream was granted
        ("consumer", 20, 669),
        ("plain", 20, 4061),  # NOOPs long before their answers
        ("requested again", 5, 838652),  # a stream that ended before its request
        ("rollback", 20, 707160),  # a refusal and a grant, both before their requests
    ],
)
def test_packets_out_of_order_are_no_fault(name: str, reach: int, seed: int) -> None:
    captured, chance = packets(sound()[name][0], 100), random.Random(seed)
    order = sorted(range(len(captured)), key=lambda at: at + chance.random() * reach)
    assert faults(findings_of([captured[at] for at in order]), "") == []


@pytest.mark.parametrize(
    ("name", "segment", "missing"),
    [
        ("plain", 37, {13, 15, 16, 38, 40, 42}),  # what waits for the other direction is not released by such a frame
        ("rollback", 37, {4, 5, 11, 13, 21}),  # requests with one opaque, whose answers were lost
        ("rollback", 37, {4, 5, 7, 16, 19, 21, 30, 33, 42}),
        ("rollback", 37, {16, 18, 24, 29, 35}),
        ("change stream", 1 << 20, {7, 11, 13, 15, 18, 22}),  # a second marker with history, and a control's answer
    ],
)
def test_packets_that_are_missing_are_no_fault(name: str, segment: int, missing: set[int]) -> None:
    captured = packets(sound()[name][0], segment)
    assert faults(findings_of([packet for packet in captured if packet.number not in missing])) == []


def test_every_way_of_damage_changes_a_capture() -> None:
    whole = packets(sound()["java-dcp-client"][0])
    for way, damage in WAYS.items():
        assert damage(whole, random.Random(1)) != whole, way


# -- where the order of both directions is not known ----------------------------------------------------------

TWICE = PLAIN + "RX noop{opaque=1}\nWAIT 2\nRX noop{opaque=2}\n"
ANSWER = "TX noop-response{success}\n"
UNKNOWN = "bytes were acknowledged before they were captured: the order of both directions is not known"


def test_what_depends_on_the_order_of_both_directions_is_unknown_where_that_is_not_known() -> None:
    answered = TWICE.replace("WAIT 2\n", "WAIT 2\n" + ANSWER) + ANSWER
    late = behind(packets(said(answered)), client=True, by=2)
    assert [(each.rule.code, each.reason) for each in findings_of(late)] == [("DCP512", UNKNOWN)]
    assert [each.rule.code for each in findings(TWICE) if each.severity in FAULTS] == ["DCP512"]


def test_a_stream_whose_end_was_lost_goes_on_where_its_opaque_is_granted_before_it_is_requested() -> None:
    again = "RX stream-request-response{success, opaque=0x1005}\nRX snapshot-marker{start=3, end=4, flags=0x5}\n"
    text = PLAIN + "STREAM vb=5\n" + THREE + "-RX stream-end{status=2}\n" + again + "RX mutation{seqno=3}\n"
    text += "TX stream-request{vb=5, start=3, opaque=0x1005}\nRX mutation{seqno=4}\n"
    assert faults(findings_of(captured(text))) == []


def test_a_request_without_an_answer_is_found_in_a_shifted_capture_too() -> None:
    text = PLAIN + "TX get-failover-log{vb=5}\nWAIT 40\n" + "RX noop\nTX noop-response{success}\n" * 3
    assert [each.rule.code for each in findings_of(behind(packets(said(text)), client=False, by=2))] == ["DCP107"]
