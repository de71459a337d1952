"""Concealed packets: which headers stay, which addresses are replaced, and what a spill returns."""

import struct
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.errors import CaptureError
from dcpdump.net.ip import CHECKSUM_AT, checksum_is_right, mend_checksum
from dcpdump.net.layers import anatomy
from dcpdump.redact import Pseudonyms
from dcpdump.rewrite.rebuilt_packet import Addresses, conceal_packet
from dcpdump.rewrite.spill import Spill
from tests.support.packets import FLOW, FLOW6, ethernet, ipv4, ipv6, packet, tcp
from tests.support.secret_talk import words

ADDRESSES = Addresses(Pseudonyms(b"salt"))
modest = settings(max_examples=60, deadline=None)


def shared_bits(one: bytes, other: bytes) -> int:
    size = 8 * len(one)
    return size - (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_length()


@modest
@given(st.binary(min_size=4, max_size=4), st.integers(0, 32), st.binary(min_size=4, max_size=4))
def test_hosts_that_begin_alike_continue_to_begin_alike(address: bytes, bits: int, noise: bytes) -> None:
    mask = (1 << 32 - bits) - 1
    number = int.from_bytes(address, "big") & ~mask | int.from_bytes(noise, "big") & mask
    other = number.to_bytes(4, "big")
    if 127 in (address[0], other[0]) or b"\0\0\0\0" in (address, other) or b"\xff\xff\xff\xff" in (address, other):
        return
    assert shared_bits(ADDRESSES.ip(address), ADDRESSES.ip(other)) == shared_bits(address, other)


def test_addresses_that_name_nobody_stay() -> None:
    for address in (b"\x7f\0\0\1", b"\0\0\0\0", b"\xff\xff\xff\xff", bytes(16), bytes(15) + b"\1"):
        assert ADDRESSES.ip(address) == address
    assert ADDRESSES.mac(b"\xff" * 6) == b"\xff" * 6
    assert ADDRESSES.mac(bytes(6)) == bytes(6)
    several = ADDRESSES.mac(bytes.fromhex("01005e000001"))
    single = ADDRESSES.mac(bytes.fromhex("001122334455"))
    assert (several[0] & 3, single[0] & 3) == (3, 2)
    assert single == ADDRESSES.mac(bytes.fromhex("001122334455")) != bytes.fromhex("001122334455")


@modest
@given(st.binary(min_size=20, max_size=61), st.binary(max_size=16))
def test_a_mended_checksum_is_right_and_says_what_adding_word_by_word_says(data: bytes, before: bytes) -> None:
    before = before[: len(before) // 2 * 2]
    mended = bytearray(data)
    mend_checksum(before, mended, CHECKSUM_AT[6])
    assert checksum_is_right(before, mended, CHECKSUM_AT[6])
    assert words(before + bytes(mended)) in (0, 0xFFFF)
    assert bytes(mended[:16]) + bytes(mended[18:]) == data[:16] + data[18:]


def test_options_that_a_stream_needs_stay_and_others_are_blank() -> None:
    kept = b"\x02\x04\x05\xb4\x03\x03\x07\x01\x08\x0a\0\0\0\1\0\0\0\2\x04\x02"
    cookie = b"\x22\x0aCOOKIE42\x01\x01\x00\xaa\xbb\xcc\xdd\xee"
    segment = tcp(FLOW, 1, b"payload", options=kept + cookie + b"\0" * (-len(kept + cookie) % 4))
    each = packet(ethernet(ipv4(FLOW, segment, options=b"\x07\x07\x04\x0a\x01\x02\x03\x00")))
    out = conceal_packet(each, anatomy(each), b"PAYLOAD", None)
    assert out[34:42] == b"\x01" * 7 + b"\0", "a recorded route has addresses"
    assert out[62 : 62 + len(kept)] == kept
    assert out[62 + len(kept) : -7] == b"\x01" * 12 + bytes(len(cookie) - 12 + -len(kept + cookie) % 4)
    assert out[-7:] == b"PAYLOAD"


def test_routes_of_ipv6_go_with_its_addresses() -> None:
    routing = b"\x06\x02\x00\x01\0\0\0\0" + bytes.fromhex("fd00") + b"secret-router!"
    each = packet(ethernet(ipv6(FLOW6, routing + tcp(FLOW6, 1, b"x"), protocol=43)))
    partial = conceal_packet(each, anatomy(each), b"y", None)
    full = conceal_packet(each, anatomy(each), b"y", ADDRESSES)
    assert b"secret-router" in partial
    assert full[54:78] == b"\x06\x02\x00\x01\0\0\0\0" + bytes(16)
    assert full[22:38] == ADDRESSES.ip(each.data[22:38]) != each.data[22:38]


def test_a_link_whose_addresses_are_not_known_is_refused() -> None:
    data = struct.pack(">BBHH", 0, 1, 2, 3) + bytes(10) + ipv4(FLOW, tcp(FLOW, 1, b"x"))
    each = packet(data, link_type=6)
    with pytest.raises(CaptureError, match="link type 6 is not known"):
        conceal_packet(each, anatomy(each), b"y", ADDRESSES)


@modest
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 70_000)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200_000), st.integers(0, 90_000)), max_size=6),
)
def test_a_spool_gives_back_what_was_put_and_zeros_for_the_rest(
    put: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    there: dict[int, bytearray] = {}
    with Spill(tempfile.gettempdir()) as spill:
        for turn, (number, gap, size) in enumerate(put, 1):
            stream = there.setdefault(number, bytearray())
            stream += bytes(gap)
            spill.put(number, len(stream), bytes((turn,)) * size)
            stream += bytes((turn,)) * size
        for number, start, size in asked:
            known = bytes(there.get(number, b""))[start : start + size]
            assert spill.get(number, start, start + size) == known.ljust(size, b"\0")
