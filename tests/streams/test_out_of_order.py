"""Captures whose two directions are out of order: TCP's acknowledgements show it, and nothing of it is a fault."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from dcpdump.net.connections import Connections
from dcpdump.net.event import AHEAD
from dcpdump.net.packet import Packet
from dcpdump.streams.flow import FlowState, flow_status, leak
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.window import Window
from tests.support.conversation import Said, findings_of, opening, packets, said
from tests.support.ledgers import ledger_of

SIZE, MARKER, MESSAGE, DOCUMENTS = 2_000, 44, 60, 300
CLIENT = (50_000).to_bytes(2, "big")
HANDSHAKE = 3


@cache
def conversation(*, waits: bool, noops_too: bool = False) -> str:
    """Return documents that fill the window again and again, or, if it never waits, half of it.

    ``noops_too``: the consumer acknowledges NOOPs, which do not count.
    """
    text = opening(controls=f"connection_buffer_size={SIZE}")
    text += f"STREAM vb=5\nRX snapshot-marker{{start=0, end={DOCUMENTS}, flags=5}}\n"
    full, owed, extra = SIZE if waits else SIZE // 2, MARKER, 0
    for seqno in range(1, DOCUMENTS + 1):
        text += f"RX mutation{{seqno:{seqno}, key={seqno:04x}, value=#00}}\n"
        owed += MESSAGE
        if seqno % 40 == 0:
            text += "RX noop{}\nTX noop-response{success}\n"
            extra += 24 * noops_too
        if owed >= full or seqno == DOCUMENTS:
            wait = "WAIT 0.5\n" if waits else ""
            text += f"{wait}TX buffer-acknowledgement{{buffer-bytes={owed + extra}}}\n"
            owed = extra = 0
    return text


@cache
def sent(text: str, each_us: int, per_packet: int) -> list[Packet]:
    """Return a conversation in packets: so many messages in each, and instead of a millisecond so much time between."""
    out: list[Said] = []
    count = 0
    begins_ns = said(text)[0].ts_ns
    for frame in said(text):
        now_ns = begins_ns + (frame.ts_ns - begins_ns) * each_us // 1_000
        joins = bool(out) and out[-1].direction == frame.direction == 1 and count < per_packet
        if joins and now_ns - out[-1].ts_ns < 400_000 * each_us:
            out[-1] = replace(out[-1], data=out[-1].data + frame.data, ts_ns=now_ns)
            count += 1
        else:
            out.append(replace(frame, ts_ns=now_ns))
            count = 1
    return packets(out)


def shuffled(captured: list[Packet], direction: int, seed: int, stamps: str) -> list[Packet]:
    """Move each packet of one direction up to 12 packets to and fro, in its own order.

    ``stamps``: the times are kept, or those of capture, all equal, or there are none.
    """
    random, latest = Random(seed), 0
    places: list[tuple[int, int, Packet]] = []
    for at, packet in enumerate(captured[HANDSHAKE:]):
        moves = (packet.data[34:36] != CLIENT) == direction
        place = at + random.randint(-12, 12) * moves
        if moves:
            place = latest = max(latest, place)
        places.append((place, moves, packet))
    order = [packet for _, _, packet in sorted(places, key=lambda each: each[:2])]
    times = [packet.ts_ns for packet in captured[HANDSHAKE:]]
    if stamps == "of capture":
        order = [packet._replace(ts_ns=ts_ns) for packet, ts_ns in zip(order, times, strict=True)]
    elif stamps != "kept":
        now_ns = times[0] if stamps == "equal" else None
        order = [packet._replace(ts_ns=now_ns) for packet in order]
    return [packet._replace(number=at) for at, packet in enumerate([*captured[:HANDSHAKE], *order], 1)]


def window_of(captured: Iterable[Packet], *, runs: bool = False, columns: bool = True) -> Window:
    """Return the window of a capture's only connection."""
    (connection,) = ledger_of(captured, runs=runs, columns=columns).connections.values()
    return connection.window


def judged(captured: list[Packet]) -> list[tuple[str, str]]:
    """Return what rules find of flow control."""
    found = [each for each in findings_of(captured) if each.rule.id.startswith("B")]
    return [(each.rule.code, each.message) for each in found]


def account(kept: Ledger) -> Any:
    """Return what is said of the only connection's window at the end."""
    (connection,) = kept.connections.values()
    window = connection.window
    state = flow_status(connection, kept.last_ns).state
    return state, window.counted.sent, window.acked, window.outstanding, window.overacked, window.excesses, leak(window)


TOTAL = MARKER + DOCUMENTS * MESSAGE
HEALTHY: Any = (FlowState.OPEN, TOTAL, TOTAL, 0, 0, [], None)


@pytest.mark.parametrize("stamps", ["kept", "of capture", "equal", "none"])
@pytest.mark.parametrize("direction", [0, 1], ids=["consumer", "producer"])
@pytest.mark.parametrize("waits", [False, True], ids=["never waits", "waits"])
@pytest.mark.parametrize("per_packet", [1, 12])
@pytest.mark.parametrize("each_us", [10, 1_000, 100_000])
def test_directions_that_are_captured_out_of_order_are_no_fault_of_flow_control(
    each_us: int, per_packet: int, waits: bool, direction: int, stamps: str
) -> None:
    captured = sent(conversation(waits=waits), each_us, per_packet)
    seed = per_packet + waits + (stamps == "kept")
    order = shuffled(captured, direction, seed, stamps)
    assert (account(ledger_of(order, runs=bool(seed % 2))), judged(order)) == (HEALTHY, [])


@pytest.mark.parametrize("direction", [0, 1], ids=["consumer", "producer"])
def test_what_is_never_sent_is_still_acknowledged_too_much(direction: int) -> None:
    captured = sent(conversation(waits=True, noops_too=True), 1_000, 1)
    assert {code for code, _ in judged(captured)} == {"DCP504"}
    for seed in range(3):
        order = shuffled(captured, direction, seed, "of capture")
        assert judged(order)[-1][0] == "DCP504"
        assert window_of(order).overacked == 7 * 24


def test_that_nothing_explains_a_leak_is_not_said_where_the_directions_are_out_of_order() -> None:
    """The last acknowledgement is of some bytes too much."""
    text, last = conversation(waits=True).rsplit("buffer-bytes=", 1)
    text += f"buffer-bytes={int(last.partition('}')[0]) + 477}}}"
    texts = [leak(window_of(order)) for order in (sent(text, 1_000, 1), moved(sent(text, 1_000, 1), -1))]
    assert [found and found.text for found in texts] == [
        "",
        "what explains it does not show, as the two directions are captured out of order",
    ]


def test_a_producer_that_ignores_its_window_still_exceeds_it() -> None:
    text = conversation(waits=True) + "".join(f"RX mutation{{seqno:{n}, key={n:04x}}}\n" for n in range(301, 1_500))
    order = shuffled(sent(text, 1_000, 1), 0, 1, "of capture")
    window = window_of(order)
    assert (window.out_of_order, window.is_exceeded) == (True, True)
    assert [code for code, _ in judged(order)] == ["DCP503"]


def moved(captured: list[Packet], by: int) -> list[Packet]:
    """Return a capture in which the third acknowledgement is captured by so many packets later."""
    at = [at for at, packet in enumerate(captured) if packet.data[54:56] == b"\x80\x5d"][2]
    order = [*captured]
    order.insert(at + by, order.pop(at))
    return order


CAPTURED = sent(conversation(waits=True), 1_000, 1)
#: Frame by frame or in runs, and those found in columns or not.
READING = [(False, True), (True, True), (True, False)]


@pytest.mark.parametrize(("by", "ahead"), [(-1, 0), (0, None), (1, 1)])
def test_tcp_shows_that_directions_are_out_of_order(by: int, ahead: int | None) -> None:
    order = moved(CAPTURED, by)
    connections = Connections()
    connections.tcp_changes = []
    for packet in order:
        connections.feed(packet)
    assert {(each.fault, each.direction) for each in connections.tcp_changes} == (
        set() if ahead is None else {(AHEAD, ahead)}
    )
    shows = [window_of(order, runs=runs, columns=columns).out_of_order for runs, columns in READING]
    assert shows == [ahead is not None] * len(READING)


def test_nothing_is_out_of_order_where_packets_are_captured_twice_swapped_in_one_direction_or_begin_late() -> None:
    twice = [packet for packet in CAPTURED for _ in range(2)]
    at = next(at for at in range(60, 99) if all(CAPTURED[at + n].data[34:36] != CLIENT for n in (0, 1)))
    swapped = [*CAPTURED[:at], CAPTURED[at + 1], CAPTURED[at], *CAPTURED[at + 2 :]]
    found = [window_of(order).out_of_order for order in (twice, swapped, CAPTURED[100:])]
    assert found == [False, False, False]
