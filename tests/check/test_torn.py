"""Healthy conversations, captured badly: no violation and no suspicion about snapshots, seqnos and flow control."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.check.rule import Severity
from dcpdump.net.packet import Packet
from tests.support.conversation import findings_of, packets, said
from tests.support.healthy import HEALTHY

_BAD = {Severity.VIOLATION, Severity.SUSPICIOUS}
_MS = 1_000_000


def sender(packet: Packet) -> bytes:
    """Return the address of who sent a packet."""
    return packet.data[26:30]


def lost(captured: list[Packet], chance: random.Random) -> list[Packet]:
    """Leave packets out."""
    share = chance.choice((0.02, 0.1, 0.3))
    return [packet for packet in captured if chance.random() > share]


def cut(captured: list[Packet], chance: random.Random) -> list[Packet]:
    """Begin late, and end early."""
    begin = chance.randrange(len(captured))
    return captured[begin : chance.randrange(begin, len(captured)) + 1]


def half(captured: list[Packet], chance: random.Random) -> list[Packet]:
    """Leave out what one end sends, from some packet on."""
    end, begin = sender(chance.choice(captured)), chance.choice((0, chance.randrange(len(captured))))
    return [packet for at, packet in enumerate(captured) if at < begin or sender(packet) == end]


def disordered(captured: list[Packet], chance: random.Random) -> list[Packet]:
    """Move packets by some milliseconds, but not before others of the same end."""
    latest: dict[bytes, int] = {}
    placed = []
    for packet in captured:
        end = sender(packet)
        latest[end] = max(latest.get(end, 0), (packet.ts_ns or 0) + chance.randint(0, 8) * _MS)
        placed.append((latest[end], packet.number, packet))
    return [packet for *_, packet in sorted(placed, key=lambda each: each[:2])]


@pytest.mark.parametrize("damage", [lost, cut, half, disordered], ids=lambda damage: damage.__name__)
@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(HEALTHY)), segment=st.sampled_from([1 << 20, 100, 37]), seed=st.integers(0, 1 << 20))
def test_a_bad_capture_of_healthy_traffic_raises_no_suspicion(damage, name: str, segment: int, seed: int) -> None:  # type: ignore[no-untyped-def]
    captured = damage(packets(said(HEALTHY[name]), segment), random.Random(seed))
    bad = [each for each in findings_of(captured) if each.severity in _BAD and each.rule.code[3] in "345"]
    assert [(each.rule.code, each.frame, each.message) for each in bad] == []


def test_what_waits_for_the_other_direction_is_not_released_by_a_frame_with_a_hole() -> None:
    captured = packets(said(HEALTHY["plain"]), 37)
    torn = [packet for packet in captured if packet.number not in {13, 15, 16, 38, 40, 42}]
    assert [each.message for each in findings_of(torn) if each.severity in _BAD] == []


def test_requests_with_one_opaque_whose_answers_were_lost_are_not_taken_for_one_another() -> None:
    captured = packets(said(HEALTHY["rollback"]), 37)
    for missing in ({4, 5, 11, 13, 21}, {4, 5, 7, 16, 19, 21, 30, 33, 42}, {16, 18, 24, 29, 35}):
        torn = [packet for packet in captured if packet.number not in missing]
        assert [each.message for each in findings_of(torn) if each.severity in _BAD] == []


def test_a_second_marker_with_history_may_be_lost_where_the_answer_to_its_control_was() -> None:
    captured = packets(said(HEALTHY["change stream"]))
    torn = [packet for packet in captured if packet.number not in {7, 11, 13, 15, 18, 22}]
    assert [each.message for each in findings_of(torn) if each.severity in _BAD] == []
