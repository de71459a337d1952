"""Bursts: documents told to the ledger many at a time teach it what they teach one by one."""

from dataclasses import fields
from typing import Any

import pytest

from dcpdump.columnar.block import blocks
from dcpdump.net.packet import Packet
from dcpdump.streams.burst import Burst
from dcpdump.streams.feed import Watching, sights, steps
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import Connection, Stream
from tests.check_cases import CASES, items
from tests.conversation import opening, packets, said
from tests.healthy import HEALTHY
from tests.ledgers import ledger_of

OPENING = opening(controls="connection_buffer_size=1000") + "STREAM vb=5\n"
DOCUMENTS = "RX snapshot-marker{start=1, end=30, flags=0x5}\n" + items(1, 30)


def books(kept: Ledger) -> Any:
    """It gives everything that a ledger holds, as plain values."""

    def plain(thing: Any, depth: int) -> Any:
        if isinstance(thing, (Stream, Connection)) and depth:
            return thing.__class__.__name__, thing.number
        if hasattr(thing, "__dataclass_fields__"):
            return {field.name: plain(getattr(thing, field.name), depth + 1) for field in fields(thing)}
        if isinstance(thing, dict):
            return {key: plain(value, depth + 1) for key, value in thing.items()}
        if isinstance(thing, (list, tuple)):
            return [plain(each, depth + 1) for each in thing]
        return thing

    connections = [plain(each, 0) for each in kept.connections.values()]
    numbers = kept.frames, kept.first_ns, kept.last_ns
    return [plain(each, 0) for each in kept.streams], connections, kept.high, kept.logs, numbers


def told(captured: list[Packet]) -> list[Sight | Burst]:
    dissection = Watching()
    return [step for block in blocks(captured) for part in dissection.feed_block(block) for step in steps(part)]


@pytest.mark.parametrize("name", HEALTHY)
def test_bursts_teach_what_their_frames_teach(name: str) -> None:
    captured = packets(said(HEALTHY[name]))
    for lost in range(len(captured)):
        rest = captured[:lost] + captured[lost + 1 :]
        assert books(ledger_of(rest, bursts=True)) == books(ledger_of(rest))


def test_faulty_conversations_are_kept_alike() -> None:
    for name, case in CASES.items():
        for text in (case.trips, case.spares):
            captured = packets(said(text))
            assert books(ledger_of(captured, bursts=True)) == books(ledger_of(captured)), name


def test_documents_that_follow_one_another_are_one_burst() -> None:
    steps_of = told(packets(said(OPENING + DOCUMENTS)))
    (burst,) = (step for step in steps_of if isinstance(step, Burst))
    dissection = Watching()
    seen = [
        sight
        for block in blocks(packets(said(OPENING + DOCUMENTS)))
        for part in dissection.feed_block(block)
        for sight in sights(part, documents=False)
    ]
    documents = [sight for sight in seen if sight.opcode == 0x57]
    assert burst.each() == documents
    assert burst[:-1] == (
        30,
        documents[0].connection,
        documents[0].direction,
        5,
        documents[0].opaque,
        0,
        sum(sight.length for sight in documents),
        documents[-1].ts_ns,
        1,
        30,
        30,
        ((0x57, 30, sum(sight.length for sight in documents)), (0x58, 0, 0), (0x59, 0, 0)),
    )


def test_a_burst_that_fills_the_window_is_taken_apart() -> None:
    captured = packets(said(OPENING + DOCUMENTS))
    kept = ledger_of(captured, bursts=True)
    assert books(kept) == books(ledger_of(captured))
    (connection,) = kept.connections.values()
    assert connection.window.is_blocked
