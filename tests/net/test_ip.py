"""IPv4, IPv6 and fragments: which bytes are payload, whatever the lengths claim."""

import struct
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.ip import IPV4, IPV6, Datagram, Fragment, Fragments, Whole, parse
from dcpdump.net.layers import Layers
from dcpdump.net.limits import SECOND, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import Segment
from tests.support.packets import FLOW, FLOW6, NOON, ethernet, ipv4, ipv6, packet, tcp

ADDRESSES = bytes((10, 0, 0, 1, 10, 0, 0, 2))
TEXT = b"the payload of a packet, 25"[:25]


def payload(data: bytes) -> bytes | str | None:
    """Return the TCP payload of an IP packet on Ethernet, or the refusal."""
    segment = Layers().feed(packet(ethernet(data)))
    return segment.payload if isinstance(segment, Segment) else segment


# ── lengths ─────────────────────────────────────────────────────────────────────────────────────────────────


def jumbogram(padding: bytes) -> bytes:
    """Return a packet that says its length in an option, behind padding, with something behind it."""
    big = tcp(FLOW6, 1, BIG)
    option = padding + b"\xc2\x04" + struct.pack(">I", len(big) + 8 + len(padding))
    return ipv6(FLOW6, bytes((6, len(option) // 8)) + option + big, protocol=0, length=0) + b"trailer"


def chain(count: int) -> bytes:
    """Return a packet with so many extension headers."""
    headers = bytes((60, 0, 0, 0, 0, 0, 0, 0)) * (count - 1) + bytes((6, 0, 0, 0, 0, 0, 0, 0))
    return ipv6(FLOW6, headers + SIX, protocol=60)


BIG = bytes(90_000)
FOUR, SIX = tcp(FLOW, 1, TEXT), tcp(FLOW6, 1, TEXT)
AUTHENTICATION = bytes((6, 4)) + bytes(22)  # counts in 4 bytes, less 2
HOP_BY_HOP, ROUTING, DESTINATION = bytes((43, 0)) + bytes(6), bytes((60, 1)) + bytes(14), bytes((51, 0)) + bytes(6)
PAYLOADS: dict[str, tuple[bytes, bytes | str]] = {
    "IPv4 options": (ipv4(FLOW, FOUR, options=b"\x01" * 8), TEXT),
    "padding of Ethernet": (ipv4(FLOW, tcp(FLOW, 1)) + bytes(6), b""),
    "padding of Ethernet behind IPv6": (ipv6(FLOW6, tcp(FLOW6, 1)) + bytes(6), b""),
    "a length of zero, which means all that was captured": (ipv4(FLOW, FOUR, length=0), TEXT),
    "a length of zero of much": (ipv4(FLOW, tcp(FLOW, 1, BIG), length=0), BIG),
    "a length of zero of IPv6": (ipv6(FLOW6, SIX, length=0), TEXT),
    "a length of zero of much of IPv6": (ipv6(FLOW6, tcp(FLOW6, 1, BIG), length=0), BIG),
    "a jumbogram": (jumbogram(b""), BIG),
    "a jumbogram with padding, six of one byte and one of two": (jumbogram(b"\0\0\0\0\0\0\1\0"), BIG),
    "extension headers": (ipv6(FLOW6, HOP_BY_HOP + ROUTING + DESTINATION + AUTHENTICATION + SIX, protocol=0), TEXT),
    "an authentication header of IPv4": (ipv4(FLOW, AUTHENTICATION + FOUR, protocol=51), TEXT),
    "sixteen extension headers": (chain(16), TEXT),
    "more extension headers than anyone sends": (chain(17), "too deep (IPv6 extension headers)"),
    "an atomic fragment": (ipv6(FLOW6, struct.pack(">BBHI", 6, 0, 0, 7) + SIX, protocol=44), TEXT),
}


@pytest.mark.parametrize(("data", "wanted"), PAYLOADS.values(), ids=PAYLOADS)
def test_the_payload_is_found_behind(data: bytes, wanted: bytes | str) -> None:
    assert payload(data) == wanted


def test_what_the_snap_length_cut_is_counted_and_a_length_beyond_a_whole_packet_is_not_believed() -> None:
    whole = ethernet(ipv4(FLOW, FOUR))
    for data, wanted in (
        (packet(whole[:-10], wire_length=len(whole)), (TEXT[:-10], 10)),
        (packet(ethernet(ipv4(FLOW, FOUR, length=60_000))), (TEXT, 0)),
    ):
        segment = Layers().feed(data)
        assert isinstance(segment, Segment)
        assert (segment.payload, segment.payload_missing) == wanted


def test_an_ipv4_packet_is_read() -> None:
    assert parse(IPV4, ipv4(FLOW, b"abc"), 0) == Datagram(ADDRESSES, 6, 20, 23, 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ipv4(FLOW, b"")[:19], "IP header cut short"),
        (ipv6(FLOW6, b"")[:39], "IP header cut short"),
        (b"\x65" + ipv4(FLOW, b"")[1:], "IPv4 header says another version"),
        (b"\x44" + ipv4(FLOW, b"")[1:], "IPv4 lengths contradict each other"),
        (ipv4(FLOW, b"", length=19), "IPv4 lengths contradict each other"),
        (ipv4(FLOW, tcp(FLOW, 1), protocol=17), "not TCP (UDP)"),
        (ipv4(FLOW, b"", protocol=200), "not TCP (IP protocol 200)"),
        (ipv6(FLOW6, b"", protocol=59), "not TCP (IP protocol 59)"),
    ],
)
def test_what_is_not_readable_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    ethertype = 0x86DD if data[0] >> 4 == 6 and len(data) >= 39 else 0x0800
    assert Layers().feed(packet(ethernet(data, ethertype))) == reason


# ── fragments ───────────────────────────────────────────────────────────────────────────────────────────────


def fragments(text: bytes = TEXT, *, six: bool = False, size: int = 16, ident: int = 7) -> list[Packet]:
    """Return a segment in fragments of ``size`` bytes."""
    whole = tcp(FLOW6 if six else FLOW, 1, text)
    out = []
    for at in range(0, len(whole), size):
        piece, more = whole[at : at + size], at + size < len(whole)
        if six:
            data = ipv6(FLOW6, struct.pack(">BBHI", 6, 0, at | more, ident) + piece, protocol=44)
        else:
            data = ipv4(FLOW, piece, ident=ident, fragment=at, more=more)
        out.append(packet(ethernet(data)))
    return out


@pytest.mark.parametrize("six", [False, True])
def test_fragments_are_put_together_in_any_order(six: bool) -> None:
    pieces = fragments(six=six)
    assert len(pieces) == 3
    for order in permutations(pieces):
        layers = Layers()
        *waiting, last = [layers.feed(each) for each in order]
        assert waiting == [None, None]
        assert isinstance(last, Segment)
        assert (last.payload, last.disagreement) == (TEXT, None)


def test_overlapping_fragments_that_disagree_keep_the_first_and_say_so() -> None:
    fragments = Fragments()
    assert fragments.feed(ADDRESSES, 6, Fragment(7, 0, True), b"abcdefgh", NOON) is None
    assert fragments.feed(ADDRESSES, 6, Fragment(7, 0, True), b"abcdXXgh????????", NOON) is None
    assert fragments.feed(ADDRESSES, 6, Fragment(7, 16, False), b"end", NOON) == Whole(
        b"abcdefgh????????end", (b"abcdefgh", b"abcdXXgh")
    )


def test_without_one_of_its_fragments_a_datagram_waits() -> None:
    layers = Layers()
    assert [layers.feed(each) for each in fragments()[1:]] == [None, None]
    assert len(layers.state().fragments) == 1


def test_fragments_wait_sixty_seconds_of_capture_time() -> None:
    layers = Layers()
    first, second, third = fragments()
    late = third._replace(ts_ns=NOON + 61 * SECOND)
    assert [layers.feed(each) for each in (first, second, late)] == [None, None, None]
    again = [each._replace(ts_ns=late.ts_ns) for each in (first, second)]
    assert [isinstance(layers.feed(each), Segment) for each in again] == [False, True]


@pytest.mark.parametrize("limits", [Limits(fragments=10), Limits(fragment_bytes=200)])
def test_the_oldest_fragments_go_when_there_are_too_many(limits: Limits) -> None:
    layers = Layers(limits)
    for ident in range(30):
        assert layers.feed(fragments(ident=ident)[0]) is None
    assert len(layers.state().fragments) < 15
    assert isinstance([layers.feed(each) for each in fragments(ident=29)[1:]][-1], Segment)


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_overlap_of_the_same_bytes_gives_the_same_datagram(text: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.tuples(st.integers(0, 24), st.integers(1, 6)), max_size=12))
    pieces = [(at * 8, count * 8) for at, count in cuts if at * 8 < len(text)]
    pieces += [(at, 8) for at in range(0, len(text), 8)]
    pieces = data.draw(st.permutations(pieces))
    machine, known, got = Fragments(), set[int](), []
    for at, size in pieces:
        piece = text[at : at + size]
        more = at + size < len(text)
        whole = machine.feed(ADDRESSES, 6, Fragment(7, at, more), piece, NOON)
        known |= set(range(at, at + len(piece)))
        if whole is not None:
            got.append(whole)
            break
    assert got == [Whole(text, None)]
    assert known == set(range(len(text)))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120), st.sampled_from([IPV4, IPV6]), st.integers(0, 50))
def test_no_bytes_raise(data: bytes, ethertype: int, cut: int) -> None:
    for first in (data, b"\x45" + data, b"\x60" + data):
        found = parse(ethertype, first, 0, cut)
        if isinstance(found, Datagram):
            assert 0 <= found.start <= found.end <= len(first)
            assert 0 <= found.missing <= cut
