"""Blocks of what arrives through a pipe: the packets of the file, whatever pieces it comes in, and without a thread."""

import gzip
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.batch.block import BLOCK_BYTES, BlockSize
from dcpdump.batch.read_blocks import arrives_plain, blocks_as_they_come, blocks_of
from dcpdump.capture.damage import Damage
from dcpdump.capture.file import Capture
from dcpdump.net.packet import Packet
from tests.support.captures import Pcapng, Record, pcap, pcap_header, pcapng

SECOND = 1_000_000_000
RECORDS = [Record(1_700_000_000 * SECOND + 1000 * number, b"%04d" % number * (number + 1)) for number in range(9)]
PLAIN = pcap(RECORDS)


def _of_all_kinds(big_endian: bool = False, options: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """Return a pcapng with interfaces of all resolutions, offsets and trailers; with ``options`` no packet is plain."""
    write, out = Pcapng(big_endian), list[bytes]()
    resolutions = (6, 9, 3, 12, 0x80 | 20)
    back = (-5).to_bytes(8, "big" if big_endian else "little", signed=True)
    out += [write.section(), *(write.interface(1, 0, [(9, bytes([each]))]) for each in resolutions)]
    out += [write.interface(1, 0, [(13, b"\4")]), write.interface(101, 0, [(14, back)])]
    for number, record in enumerate(RECORDS):
        for interface in range(7):
            units, wire = record.ts_ns // 1000 + number, len(record.data) + interface
            out.append(write.packet(units, record.data, interface, wire, options=options))
        out += [write.simple_packet(record.data), write.old_packet(5, record.data), write.statistics(0)]
    late = [
        write.packet(1 << shift, b"late", interface, options=options) for shift in (53, 62, 63) for interface in (0, 1)
    ]
    return b"".join([*out, *late, write.packet(5, b"longer", 0, 3, 6, options)])


#: What a capture can be besides plain from the first packet to the last.
CAPTURES = {
    "plain": PLAIN,
    "big-endian": pcap(RECORDS, big_endian=True),
    "without packets": pcap_header(),
    "a packet longer than a read": pcap([*RECORDS, RECORDS[0]._replace(data=bytes(200_000)), RECORDS[1]]),
    "cut short in a packet": PLAIN[:-7],
    "cut short in a record's header": PLAIN[: 24 + 16 + 4 + 9],
    "two in one file": PLAIN + pcap(RECORDS, nano=True),
    "a pcapng behind": PLAIN + pcapng(RECORDS),
    "an odd time": pcap([*RECORDS[:4], Record(5 * SECOND, b"1970"), *RECORDS[4:]]),
    "damaged": PLAIN[:150] + b"\xff" * 40 + PLAIN[190:],
    "pcapng": pcapng(RECORDS),
    "big-endian pcapng": pcapng(RECORDS, big_endian=True),
    "pcapng of all kinds": _of_all_kinds(),
    "pcapng, damaged": pcapng(RECORDS)[:400] + b"\xff" * 40 + pcapng(RECORDS)[440:],
    "pcapng, cut short": pcapng(RECORDS)[:-7],
}


@contextmanager
def piped(data: bytes, cuts: list[int]) -> Iterator[Capture]:
    """Open what a thread writes to a pipe, in pieces that end at ``cuts``."""
    out, into = os.pipe()

    def write() -> None:
        with os.fdopen(into, "wb") as file:
            for start, stop in pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]):
                file.write(data[start:stop])

    thread = threading.Thread(target=write, name="writer")
    thread.start()
    try:
        yield Capture(f"/dev/fd/{out}", salvage=True)
    finally:
        os.close(out)
        thread.join()


def bare(packets: Iterable[Packet]) -> list[Packet]:
    """Return packets without the name of their file."""
    return [packet._replace(file="") for packet in packets]


def health(capture: Capture) -> tuple[list[Damage], list[str], list[str], int]:
    damage = [replace(each, file="") for each in capture.damage]
    return damage, capture.health.warnings, capture.health.notes, capture.health.packets


@pytest.mark.parametrize("form", CAPTURES)
@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 2000), max_size=6))
def test_what_arrives_in_any_pieces_is_what_the_file_has(form: str, cuts: list[int]) -> None:
    with piped(CAPTURES[form], [40]) as capture:
        expected = bare(capture), health(capture)
    with piped(CAPTURES[form], cuts) as capture:
        found = [packet for block in blocks_as_they_come([capture]) if block for packet in block.packets]
        assert (bare(found), health(capture)) == expected


@pytest.mark.parametrize("size", [16, BLOCK_BYTES])
@pytest.mark.parametrize("form", CAPTURES)
def test_what_is_decompressed_has_the_same_packets_and_faults(form: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / "some.pcap.gz"
    path.write_bytes(gzip.compress(CAPTURES[form]))
    one, many = Capture(str(path)), Capture(str(path))
    expected = list(one)
    assert [packet for block in blocks_of([many], BlockSize(size)) for packet in block.packets] == expected
    assert health(many) == health(one)
    # The packets of an earlier version of pcap are read one by one.
    path.write_bytes(CAPTURES[form].replace(b"\2\0\4\0", b"\2\0\3\0").replace(b"\0\2\0\4", b"\0\2\0\3"))
    assert list(one) == expected
    assert health(many) == health(one)


def test_each_packet_is_given_before_the_next_comes() -> None:
    out, into = os.pipe()
    os.write(into, pcap_header() + PLAIN[24:][: 16 + 4])
    blocks = blocks_as_they_come([Capture(f"/dev/fd/{out}")])
    given: list[int] = []
    at = 24 + 16 + 4
    for block in blocks:
        if block is not None:
            given += block.batch.numbers
        elif len(given) < len(RECORDS):
            size = 16 + len(RECORDS[len(given)].data)
            os.write(into, PLAIN[at : at + size - 1])
            assert next(blocks) is None  # the last byte of a packet is missing
            os.write(into, PLAIN[at + size - 1 : at + size])
            at += size
        elif into >= 0:
            os.close(into)
            into = -1
    os.close(out)
    assert given == list(range(1, len(RECORDS) + 1))


def test_a_plain_pcap_is_read_without_a_thread() -> None:
    with piped(PLAIN, []) as capture:
        assert arrives_plain([capture])
        for block in capture.arriving(BLOCK_BYTES):
            assert block is None or "inflow" not in {each.name for each in threading.enumerate()}
        assert capture.health.packets == len(RECORDS)


@pytest.mark.parametrize("data", [pcapng(RECORDS), gzip.compress(PLAIN)], ids=["pcapng", "gzip"])
def test_what_cannot_say_that_nothing_came_is_read_by_a_thread(data: bytes) -> None:
    with piped(data, []) as capture:
        assert not arrives_plain([capture])


def test_what_comes_slowly_and_then_fast_is_still_given_in_blocks() -> None:
    size, read = 100_000, 65_536  # of a block, and of what a pipe gives at once
    out, into = os.pipe()
    os.write(into, PLAIN[:30])
    blocks = Capture(f"/dev/fd/{out}").arriving(size)
    assert next(blocks) is None
    for at in range(30, 39):  # of the header of a record, byte by byte
        os.write(into, PLAIN[at : at + 1])
        assert next(blocks) is None

    def write() -> None:
        with os.fdopen(into, "wb") as file:
            file.write(PLAIN[39:] + PLAIN[24:] * 5000)

    thread = threading.Thread(target=write)
    thread.start()
    sizes = [len(block.data) for block in blocks if block is not None]
    thread.join()
    os.close(out)
    assert sum(sizes) >= 5000 * len(PLAIN[24:])
    assert max(sizes) <= size + read


@pytest.mark.parametrize("big_endian", [False, True])
def test_packets_that_are_read_at_once_are_those_that_are_read_one_by_one(big_endian: bool, tmp_path: Path) -> None:
    found = []
    for options in ((), [(1, b"a comment")]):
        path = tmp_path / "some.pcapng"
        path.write_bytes(_of_all_kinds(big_endian, options))
        captures = Capture(str(path)), Capture(str(path))
        found += [
            list(captures[0]),
            [each for block in blocks_of([captures[1]], BlockSize(64)) for each in block.packets],
        ]
    assert found[1:] == found[:1] * 3
