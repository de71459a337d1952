"""Packets that are taken many at once make known what they would one after another, and leave the same state."""

import random

import pytest

from dcpdump.batch.block import blocks
from dcpdump.net.batch import Segments, reassemble_plain
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.event import Bytes, BytesRun, StreamEvent, one_by_one
from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from tests.support.packets import MILLISECOND, SECOND, TcpTalk

#: All that is told, in its order; the counters; the state of both streams at the end.
Outcome = tuple[list[Delivery], object, list[object]]


def one_after_another(captured: list[Packet], limits: Limits) -> Outcome:
    connections = Connections(limits)
    told = [each for packet in captured for each in connections.feed(packet)]
    return told, connections.counts, states(connections)


def at_once(captured: list[Packet], limits: Limits) -> Outcome:
    connections = Connections(limits)
    connections.in_runs = True
    told: list[Delivery] = []
    for block in blocks(captured, 50_000):
        at = 0
        while at < len(block):
            segments = Segments(block.batch)
            stop, others = reassemble_plain(connections, block.batch, at, segments)
            if stop == at:
                others, stop = connections.feed(block.packets[at]), at + 1
            told += [segments.event(each) for each in range(len(segments))]
            told += [each._replace(event=event) for each in others for event in one_by_one([each.event])]
            at = stop
    return told, connections.counts, states(connections)


def states(connections: Connections) -> list[object]:
    return [half.stream.state() for one in connections.living for half in (one, one.other)]


def replica(chance: random.Random, *, acks: bool) -> list[Packet]:
    """Return packets of a producer of which some are lost, come again, are cut short or swapped, or make a pause."""
    talk = TcpTalk(segment=100, acks=acks, step_ns=chance.choice([MILLISECOND, 20 * MILLISECOND]))
    for _ in range(40):
        talk.send(0, bytes(24)).send(1, chance.randbytes(chance.randrange(3000)))
    packets: list[Packet] = []
    later = 0
    for packet in talk.packets:
        later += SECOND if chance.random() < 0.002 else 0
        kind, ts_ns = chance.random(), (packet.ts_ns or 0) + later
        if kind < 0.02 and packet.number > 3:
            continue
        packets.append(packet._replace(ts_ns=None if kind > 0.998 else ts_ns))
        if kind < 0.03:
            packets.append(packets[-1])
        elif kind < 0.04:
            packets.append(chance.choice(packets[-60:])._replace(ts_ns=ts_ns))
        elif kind < 0.05:
            packets[-1] = packets[-1]._replace(data=packet.data[:90])
        elif kind < 0.06:
            packets[-2:] = packets[:-3:-1]
        elif kind < 0.065:
            packets[-1] = packets[-1]._replace(file="other.pcap")
    return packets


@pytest.mark.parametrize("acks", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_all_that_is_told_and_kept_is_the_same(seed: int, acks: bool) -> None:
    chance = random.Random(seed)
    limits = chance.choice([Limits(), Limits(pending_bytes=5000), Limits(pending_segments=20, patience_bytes=2000)])
    captured = replica(chance, acks=acks)
    assert at_once(captured, limits) == one_after_another(captured, limits)


def test_what_waited_behind_a_hole_goes_on_in_one_run() -> None:
    talk = TcpTalk(segment=100, acks=False).send(1, b"first").skip(1, 10).send(1, bytes(1000))
    connections = Connections()
    connections.in_runs = True
    for packet in talk.packets:
        connections.feed(packet)
    events: list[StreamEvent] = [each.event for each in connections.close()]
    assert [len(each.pieces) for each in events if isinstance(each, BytesRun)] == [10]
    assert not any(isinstance(each, Bytes) for each in events)
