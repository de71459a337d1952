"""Connections: packets in, each direction's bytes out, with every situation that TCP and captures bring about."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.endpoints import Connection, Flow
from dcpdump.net.event import Bytes, Conflict, End, Gap, Seen
from dcpdump.net.limits import SECOND, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.reassembly import Counters
from tests.support.balances import accounted
from tests.support.packets import (
    ACK,
    FIN,
    FLOW,
    FLOW6,
    NOON,
    SYN,
    TcpTalk,
    ethernet,
    flow,
    ipv4,
    ipv4_tcp,
    packet,
    packets,
    renumbered,
    tcp,
    vlan,
)
from tests.support.sentences import sentences

ASK = bytes(range(200))
ANSWER = bytes(range(255, 0, -1)) * 40

Texts = dict[tuple[int, int], bytes]


def run(some: list[Packet], limits: Limits | None = None) -> tuple[list[Delivery], Counters]:
    """Return all deliveries of a capture, and the counters, which must balance after every packet."""
    machine = Connections(limits or Limits())
    out = []
    for each in some:
        out += machine.feed(each)
        assert machine.counts.payload_bytes == accounted(machine.counts)
    out += machine.close()
    assert machine.counts.payload_bytes == accounted(machine.counts)
    assert machine.counts.pending_bytes == 0
    return out, machine.counts


def texts(out: list[Delivery]) -> Texts:
    """Return the bytes of each connection and direction."""
    found: Texts = {}
    for connection, direction, event in out:
        if isinstance(event, Bytes):
            key = connection.number, direction
            found[key] = found.get(key, b"") + event.data
    return found


def gaps(out: list[Delivery]) -> list[tuple[int, int, int | None, str]]:
    """Return the holes: direction, offset, length, reason."""
    return [(d, e.offset, e.length, e.reason) for _, d, e in out if isinstance(e, Gap)]


def ends(out: list[Delivery]) -> list[tuple[int, int, str]]:
    """Return the ends: connection, direction, reason."""
    return [(c.number, d, e.reason) for c, d, e in out if isinstance(e, End)]


def talk(
    where: Flow = FLOW, *, segment: int = 1448, isn: tuple[int, int] = (1000, 5000), syn: bool = True, acks: bool = True
) -> TcpTalk:
    """Return a request of 200 bytes and a response of 10,200."""
    return TcpTalk(where, segment=segment, isn=isn, syn=syn, acks=acks).send(0, ASK).send(1, ANSWER).fin()


WHOLE = {(0, 0): ASK, (0, 1): ANSWER}

# ── the plain ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", [FLOW, FLOW6])
@pytest.mark.parametrize("segment", [1, 7, 1448, 70_000])
def test_a_whole_conversation_comes_out_as_it_was_sent(where: Flow, segment: int) -> None:
    out, counts = run(talk(where, segment=segment).packets)
    assert texts(out) == WHOLE
    assert (gaps(out), ends(out)) == ([], [(0, 0, "fin"), (0, 1, "fin")])
    assert {c for c, _, _ in out} == {Connection(0, where)}
    assert counts.payload_bytes == counts.delivered_bytes == len(ASK) + len(ANSWER)
    assert counts.packets == counts.tcp_packets


def test_bytes_of_a_healthy_stream_come_with_their_own_packet() -> None:
    conversation = TcpTalk().send(0, b"hello")
    machine = Connections()
    delivered = [machine.feed(each) for each in conversation]
    fourth = Seen(4, NOON + 4_000_000, "test.pcap", 0)
    assert delivered == [[], [], [], [Delivery(Connection(0, FLOW), 0, Bytes(0, b"hello", fourth))], []]


def test_a_question_comes_before_its_answer_even_in_a_late_join() -> None:
    conversation = TcpTalk(syn=False, acks=False).send(0, b"question").send(1, b"answer")
    out, _ = run(conversation.packets)
    assert [e.data for _, _, e in out if isinstance(e, Bytes)] == [b"question", b"answer"]


def test_one_direction_may_be_in_a_vlan_and_the_other_not() -> None:
    conversation = talk()
    tagged = [
        each._replace(data=vlan(each.data[14:], 0x8100)) if number % 2 else each
        for number, each in enumerate(conversation)
    ]
    assert texts(run(tagged)[0]) == WHOLE


def test_zero_length_datagrams_of_offloading_carry_their_segment() -> None:
    big = bytes(70_000)
    frames = [
        ethernet(ipv4_tcp(FLOW, 999, flags=SYN)),
        ethernet(ipv4(FLOW, tcp(FLOW, 1000, big), length=0)),
        ethernet(ipv4_tcp(FLOW, 71_000, b"after")),
    ]
    assert texts(run(packets(frames))[0]) == {(0, 0): big + b"after"}


def test_padding_of_a_pure_acknowledgement_is_no_payload() -> None:
    padded = [each._replace(data=each.data.ljust(60, b"\xee")) for each in talk()]
    assert texts(run(padded)[0]) == WHOLE


# ── who talks to whom ───────────────────────────────────────────────────────────────────────────────────────


def test_the_one_that_opens_is_direction_0() -> None:
    conversation = talk().packets
    for first in (0, 1):  # the SYN; the SYN+ACK, when the SYN was not captured
        out, _ = run(conversation[first:])
        assert {c for c, _, _ in out} == {Connection(0, FLOW)}
        assert texts(out) == WHOLE
        assert not any(e.joined_late for _, _, e in out if isinstance(e, Bytes))


def test_the_first_acknowledgement_says_where_a_lost_syn_ack_was() -> None:
    conversation = talk().packets
    del conversation[1]
    out, _ = run(conversation)
    assert texts(out) == WHOLE
    assert not any(e.joined_late for _, _, e in out if isinstance(e, Bytes))


def test_addresses_and_ports_that_only_look_alike_are_different_connections() -> None:
    flows = [flow(f"10.0.0.{host}:{port}", "10.0.0.9:11210") for host in (1, 2) for port in (50_001, 50_002)]
    conversations = [TcpTalk(each).send(0, str(each).encode()) for each in flows]
    out, _ = run([each for conversation in conversations for each in conversation])
    assert texts(out) == {(number, 0): str(each).encode() for number, each in enumerate(flows)}


def test_a_retransmitted_syn_is_the_same_connection() -> None:
    conversation = talk().packets
    out, counts = run([conversation[0], *conversation, conversation[0], conversation[1]])
    assert (texts(out), counts.connections) == (WHOLE, 1)


def test_data_on_a_syn_is_the_first_data() -> None:
    frames = [
        ethernet(ipv4_tcp(FLOW, 999, b"early", flags=SYN)),
        ethernet(ipv4_tcp(FLOW.reverse, 4999, flags=SYN | ACK, ack=1005)),
        ethernet(ipv4_tcp(FLOW, 1005, b"+more", flags=ACK, ack=5000)),
    ]
    assert texts(run(packets(frames))[0]) == {(0, 0): b"early+more"}


#: What clients 1, 2 … say (``1> abc``) and hear (``1< def``), or do: ``fin``, ``rst`` and ``heard rst``, ``lose 3``
#: bytes, ``anew`` on the same ports. -> What comes of each direction of each connection, holes, how it ends where that
#: is known, and counters. In brackets: limits, or that the capture joined late.
CASES = """
a late join calls the first one seen direction 0
    [late] 1< answer, 1> question, 1 fin -> 0> answer, 0< question; fin fin
connections are numbered in the order first seen
    1> one, 2> two, 1> more -> 0> onemore, 1> two; connections=2
a new syn on the same ports is a new connection
    1> first, 1 anew, 1> second, 1< reply -> 0> first, 1> second, 1< reply; reused reused; connections=2
ports reused twice with holes are three connections
    1> ab, 1 lose 3, 1> f, 1 anew, 1> cd, 1 lose 4, 1> g, 1 anew, 1> h
        -> 0> ab[3 lost-by-capture]f, 1> cd[4 lost-by-capture]g, 2> h; reused reused reused reused; connections=3
a reset does not stop a stream that continues
    1> abc, 1 rst, 1> def, 1 fin -> 0> abcdef; fin fin
a connection that was reset ends in both directions
    1> abc, 1 heard rst -> 0> abc; rst rst
the least recently used connection goes first
    [connections=2] 1> a, 2> b, 1> A, 3> c -> 0> aA, 1> b, 2> c; evicted evicted; connections=3 evictions=1 closed=1
a connection that has ended goes before one that is silent
    [connections=3] 1> a, 2> b, 2 fin, 3> b, 3 fin, 4> c, 1> A
        -> 0> aA, 1> b, 2> b, 3> c; fin fin fin fin; connections=4
a connection that was reset goes before one that is silent
    [connections=2] 1> a, 2> b, 2 rst, 3> c, 1> A -> 0> aA, 1> b, 2> c; rst rst; connections=3
of connections that are over the latest are kept for packets that come late; one that continues is not over
    [over=2] 1> a, 1 fin, 2> b, 2 rst, 3> c, 3 fin, 4> d, 1> A, 5> e, 2> B, 3> C
        -> 0> a, 1> bB, 2> c[1 lost-by-capture]C, 3> d, 4> A, 5> e; fin fin fin fin rst; connections=6
"""


def spoken(steps: str, syn: bool) -> list[Packet]:
    """Return the packets of a case."""
    talks: dict[str, TcpTalk] = {}
    made: list[Packet] = []
    for step in steps.split(", "):
        who, _, text = step.partition(" ")
        client = who[0]
        if client not in talks or text == "anew":
            isn = (1000 + 100_000 * len(made), 5000)
            talks[client] = TcpTalk(flow(f"10.0.0.1:{client}"), syn=syn, isn=isn)
        talk = talks[client]
        if len(who) > 1:
            talk.send(int(who[1] == "<"), text.encode())
        elif text == "fin":
            talk.fin()
        elif text.endswith("rst"):
            talk.rst(int(text.startswith("heard")))
        elif text.startswith("lose"):
            talk.skip(0, int(text[5:]))
        made += talk.packets
        talk.packets.clear()
    return renumbered(made)


@pytest.mark.parametrize(("given_", "wanted"), sentences(CASES))
def test_it_holds_that(given_: str, wanted: str) -> None:
    option, _, steps = given_[1:].partition("] ") if given_.startswith("[") else ("", "", given_)
    name, _, value = option.partition("=")
    limits: dict[str, Any] = {name: int(value)} if value else {}
    out, counts = run(spoken(steps, option != "late"), Limits(**limits))
    said: dict[str, str] = {}
    for connection, direction, event in out:
        if isinstance(event, Bytes | Gap):
            text = event.data.decode() if isinstance(event, Bytes) else f"[{event.length} {event.reason}]"
            place = f"{connection.number}{'><'[direction]}"
            said[place] = said.get(place, "") + text
    known = " ".join(reason for _, _, reason in ends(out) if reason != "end")
    counted = [(name, getattr(counts, name)) for name in ("connections", "evictions", "closed")]
    shown = " ".join(f"{name}={count}" for name, count in counted if count and (name, count) != ("connections", 1))
    streams = ", ".join(
        f"{place} {said[place]}" for place in sorted(said, key=lambda place: (place[0], place[1] == "<"))
    )
    assert "; ".join(filter(None, (streams, known, shown))) == wanted


# ── disorder ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("copies", [2, 4])
def test_an_any_capture_sees_each_packet_several_times(copies: int) -> None:
    some = talk(segment=500).packets
    out, counts = run([each for each in some for _ in range(copies)])
    assert texts(out) == WHOLE
    assert counts.duplicate_bytes == (copies - 1) * (len(ASK) + len(ANSWER))
    assert (counts.retransmitted_bytes, counts.connections, counts.conflicts) == (0, 1, 0)


# ── loss ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_time_passes_for_a_hole_by_any_packet_of_the_capture() -> None:
    conversation = TcpTalk(segment=3).send(0, b"abcdefghi")
    some = conversation.packets
    del some[5]
    machine = Connections()
    for each in some:
        machine.feed(each)
    other = packet(b"", 99, ts_ns=NOON + 3 * SECOND)
    assert gaps(machine.feed(other)) == [(0, 3, 3, "lost-by-capture")]


def test_a_capture_of_one_direction_is_read() -> None:
    both = TcpTalk(segment=100).send(0, ASK).send(1, ANSWER)
    some = [each for each in both if each.data[26:30] == bytes((10, 0, 0, 2))]
    out, _ = run(some)
    assert texts(out) == {(0, 1): ANSWER}
    assert gaps(out) == [(0, 0, len(ASK), "lost-by-capture")]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("side", [0, 1])
def test_a_reset_is_known_by_its_sender_and_by_its_time_and_of_two_the_first_counts(side: int, again: bool) -> None:
    talk = TcpTalk().send(0, b"abc").send(1, b"def").rst(side)
    reset_ns = talk.packets[-1].ts_ns
    some = (talk.rst(1 - side) if again else talk).packets
    out, _ = run([*some, *TcpTalk(flow("10.0.0.7:40000"), start_ns=NOON + 60 * SECOND).packets])
    reported = [(d.direction, d.event.reset_ns, d.event.by_peer) for d in out if isinstance(d.event, End)][:2]
    assert reported == [(0, reset_ns, side == 1), (1, reset_ns, side == 0)]


@pytest.mark.parametrize("side", [0, 1])
def test_of_two_fins_that_counts_which_the_other_acknowledges(side: int) -> None:
    talk = TcpTalk().send(0, b"abc").send(1, b"def").send(side, b"bye")
    talk.write(side, flags=FIN | ACK)
    talk.skip(side, 1).write(1 - side, flags=FIN | ACK)
    *begun, bye, _, closes, answer = talk.packets
    out, _ = run([*begun, answer, bye, closes])
    ends = {each.direction: each.event.reset_ns for each in out if isinstance(each.event, End)}
    assert ends == {1 - side: None, side: (answer.ts_ns or 0) - 1}


def test_fragments_that_disagree_are_a_conflict_of_the_stream() -> None:
    segment = tcp(FLOW, 1000, b"twelve bytes")
    forged = tcp(FLOW, 1000, b"TWELVE BYTES")
    frames = [
        ethernet(ipv4_tcp(FLOW, 999, flags=SYN)),
        ethernet(ipv4(FLOW, segment[:24], fragment=0, more=True)),
        ethernet(ipv4(FLOW, forged[16:24], fragment=16, more=True)),
        ethernet(ipv4(FLOW, segment[24:], fragment=24)),
    ]
    out, counts = run(packets(frames))
    assert texts(out) == {(0, 0): b"twelve bytes"}
    assert [e for _, _, e in out if isinstance(e, Conflict)] == [
        Conflict(0, segment[16:24], forged[16:24], Seen(4, NOON + 4_000_000, "test.pcap", 0))
    ]
    assert counts.conflicts == 1


def test_a_fragment_that_is_missing_makes_a_gap() -> None:
    conversation = TcpTalk(segment=100).send(0, ASK)
    first = conversation.packets[3].data[14:]
    tail = packet(ethernet(ipv4(FLOW, first[20 + 64 :], fragment=64)), 4)
    some = [*conversation.packets[:3], tail, *conversation.packets[4:]]
    out, _ = run(renumbered(some))
    assert texts(out) == {(0, 0): ASK[100:]}
    assert gaps(out) == [(0, 0, 100, "lost-by-capture")]


# ── what is not understood ──────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_understood_is_counted_by_reason() -> None:
    some = [
        packet(bytes(60), link_type=147),
        packet(ethernet(bytes(46), 0x88CC)),
        packet(ethernet(ipv4(FLOW, bytes(20), protocol=17))),
        packet(ethernet(ipv4(FLOW, bytes(20), protocol=17))),
    ]
    out, counts = run(some)
    assert out == []
    assert counts.not_understood == {"unknown link 147": 1, "not IP (ethertype 0x88cc)": 1, "not TCP (UDP)": 2}


def test_a_hostile_capture_cannot_invent_reasons_without_end() -> None:
    counts = run([packet(ethernet(bytes(46), 0x9A00 + number)) for number in range(200)])[1]
    assert len(counts.not_understood) == 65
    assert sum(counts.not_understood.values()) == 200


def test_packets_without_time_are_read() -> None:
    some = talk(segment=100).packets
    del some[9]
    out, _ = run([each._replace(ts_ns=None) for each in some])
    assert len(texts(out)[0, 1]) == len(ANSWER) - 100


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_reassembly_together_stays_within_its_memory() -> None:
    limits = Limits(memory=200_000)
    some, lost = [], 0
    for port in range(100):
        conversation = TcpTalk(flow(f"10.0.0.1:{1000 + port}", "10.0.0.2:11210"), segment=5000)
        some += conversation.skip(0, 10).write(0, ack=0).send(0, bytes(5000)).packets[:-1]
        lost += 10
    machine = Connections(limits)
    out = []
    for each in renumbered(some, step_ns=1000):
        out += machine.feed(each)
        assert machine.held < limits.memory + limits.memory // 8
        assert machine.counts.payload_bytes == accounted(machine.counts)
    evicted = len(gaps(out))
    assert evicted > 50
    assert set(gaps(out)) == {(0, 0, 10, "evicted")}
    machine.close()
    assert machine.counts.delivered_bytes == 100 * 5000


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=100, deadline=None)
@given(
    st.binary(min_size=1, max_size=400),
    st.binary(max_size=400),
    st.integers(1, 90),
    st.integers(0, 600),
    st.integers(0, 600),
    st.randoms(use_true_random=False),
)
def test_cutting_swapping_and_doubling_change_nothing(
    ask: bytes, answer: bytes, segment: int, wrap0: int, wrap1: int, chance: random.Random
) -> None:
    isn = ((1 << 32) - 1 - wrap0, (1 << 32) - 1 - wrap1)
    some = TcpTalk(segment=segment, isn=isn).send(0, ask).send(1, answer).fin().packets
    head, body = some[:3], some[3:]
    body += chance.choices(body, k=len(body) // 3)
    body = [each for _, each in sorted(enumerate(body), key=lambda pair: pair[0] + chance.uniform(0, 32))]
    out, counts = run(renumbered(head + body, step_ns=1000))
    assert texts(out) == {key: text for key, text in (((0, 0), ask), ((0, 1), answer)) if text}
    assert (gaps(out), counts.conflicts) == ([], 0)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_damage_raises_and_the_books_balance(data: st.DataObject) -> None:
    some = talk(segment=2000).packets
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(some) - 1))
        bad = bytearray(some[at].data)
        where = data.draw(st.integers(12, len(bad) - 1))
        bad[where] = data.draw(st.integers(0, 255))
        some[at] = some[at]._replace(data=bytes(bad))
    run(some, Limits(connections=2, patience_bytes=1000, pending_bytes=4000))


def test_gaps_are_given_up_in_the_order_of_their_deadlines() -> None:
    here, there = FLOW, FLOW.reverse
    sent = [
        ipv4_tcp(here, 99, flags=SYN),
        ipv4_tcp(there, 499, flags=SYN | ACK, ack=100),
        ipv4_tcp(there, 510, b"b" * 10, ack=100),  # what is before it comes late
        ipv4_tcp(here, 110, b"a" * 10, ack=520),  # what is before it never comes
        ipv4_tcp(there, 500, b"b" * 10, ack=120),
        ipv4_tcp(there, 530, b"b" * 10, ack=120),  # nor what is before this
        ipv4_tcp(here, 120, ack=540),
        ipv4_tcp(here, 120, b"a" * 10, ack=540),
    ]
    some = packets(map(ethernet, sent))
    some[-1] = some[-1]._replace(ts_ns=NOON + 10 * SECOND)
    found, _ = run(some)
    gaps = [(direction, event.offset) for _, direction, event in found if isinstance(event, Gap)]
    assert gaps == [(0, 0), (1, 20)]
