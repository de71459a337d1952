"""Damage to captures of healthy connections is not a fault of their ends: it raises no finding but unknown ones."""

import random

import pytest

from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.net.packet import Packet
from tests.support.conversation import Said, findings, findings_of, packets, said
from tests.support.damage import WAYS, merged
from tests.support.habits import HABITS

SEGMENTS = (1 << 20, 1 << 20, 1448, 100, 37)
TALKS: dict[str, list[Said]] = {
    **{name: said(text) for name, text in HABITS.items()},
    "two at once": merged(HABITS["java-dcp-client"], HABITS["goxdcr"]),
    "two of one opaque": merged(HABITS["dcpdrain"], HABITS["legacy"]),
}
#: How many conversations are damaged in each way here. By hand: all of them, with many seeds.
EACH = 4


def faults(found: list[Finding]) -> list[str]:
    """Return the verdicts among findings, as text."""
    bad = (Severity.VIOLATION, Severity.SUSPICIOUS)
    return [f"{each.rule.id} #{each.frame}: {each.message}" for each in found if each.severity in bad]


def damaged(name: str, way: str, seed: int) -> list[Packet]:
    """Return a conversation, captured badly."""
    chance = random.Random(f"{name}, {way}, {seed}")
    return WAYS[way](packets(TALKS[name], chance.choice(SEGMENTS)), chance)


@pytest.mark.parametrize("name", HABITS)
def test_a_client_with_habits_of_its_own_is_healthy(name: str) -> None:
    found = findings(HABITS[name])
    assert [(each.rule.id, each.frame, each.message) for each in found if each.severity is not Severity.INFO] == []


@pytest.mark.parametrize("way", WAYS)
def test_damage_is_no_fault(way: str) -> None:
    chance = random.Random(way)
    for name in chance.sample(sorted(TALKS), EACH):
        seed = chance.randrange(1 << 20)
        captured = damaged(name, way, seed)
        assert (name, seed, faults(findings_of(captured) if captured else [])) == (name, seed, [])


def test_every_way_of_damage_changes_a_capture() -> None:
    whole = packets(TALKS["java-dcp-client"])
    for way, damage in WAYS.items():
        assert damage(whole, random.Random(1)) != whole, way
