"""Phases: which messages lead from one to which, and that the table is what ``spec streams`` prints."""

import pytest

from dcpdump.streams.phases import PHASES, Phase
from tests.support.check_cases import CACHE, MEMORY, OSO_BEGINS, STATE, STREAM, TAKEOVER, cached
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.ledgers import damaged, ledger, only

REQUEST, BACK = "TX stream-request{vb=5}\n", "RX stream-request-response{rollback, rollback-seqno=0}\n"
OSO_ENDS, CACHED = "RX oso-snapshot{flags=2}\n", cached(3)
ONE, HANDED = "RX mutation{seqno=1}\n", MEMORY + STATE % 1
REACHED = [
    (REQUEST, Phase.REQUESTED),
    (REQUEST + BACK, Phase.REFUSED),
    (REQUEST + BACK + REQUEST, Phase.REQUESTED),
    (STREAM, Phase.OPEN),
    (CACHE, Phase.CACHE_TRANSFER),
    (CACHE + CACHED, Phase.CACHE_TRANSFER),
    (CACHE + CACHED + "RX cache-transfer-end\n", Phase.OPEN),
    (CACHE + CACHED + MEMORY, Phase.SNAPSHOT),
    (STREAM + ONE, Phase.OPEN),
    (STREAM + MEMORY + ONE, Phase.SNAPSHOT),
    (STREAM + OSO_BEGINS + ONE, Phase.OUT_OF_ORDER),
    (STREAM + OSO_BEGINS + MEMORY, Phase.OUT_OF_ORDER),
    (STREAM + OSO_BEGINS + OSO_ENDS, Phase.OPEN),
    (STREAM + OSO_ENDS, Phase.OPEN),
    (TAKEOVER.removeprefix(opening()) + HANDED, Phase.HANDED_OVER),
    (TAKEOVER.removeprefix(opening()) + HANDED + MEMORY, Phase.HANDED_OVER),
]


@pytest.mark.parametrize(("said", "phase"), REACHED)
def test_each_message_leads_where_the_table_says(said: str, phase: Phase) -> None:
    assert only(ledger(opening() + said)).phase is phase


@pytest.mark.parametrize(
    ("said", "phase"), [(f"-{ONE}RX mutation{{seqno=2}}\n", Phase.UNKNOWN), (f"-{ONE}{MEMORY}", Phase.SNAPSHOT)]
)
def test_after_lost_bytes_it_is_unknown_up_to_a_marker(said: str, phase: Phase) -> None:
    assert only(damaged(opening() + STREAM + MEMORY.replace("start=1", "start=0") + said)).phase is phase


def test_the_phases_are_printed() -> None:
    phases = run("dcpdump spec streams").out.split("\n\n")[1:-1]
    assert [each.partition(":")[0].upper().replace(" ", "_") for each in phases] == [each.name for each in PHASES]
    assert phases[5].split("\n") == [
        "Out of order: in an out-of-order snapshot (OSO)",
        "  message with a seqno  → the same",
        "  OSO_SNAPSHOT end      → open",
        "  bytes lost            → unknown",
    ]
