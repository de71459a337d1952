"""TLS is read many records at once and one by one: both give the same, whatever was lost, and all bytes are counted."""

import random
from collections.abc import Sequence
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.batch.block import gathered
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.capture.file import Capture
from dcpdump.dissect import Dissector
from dcpdump.net.packet import Packet
from tests.support.balances import accounted
from tests.support.pieces import all_pieces
from tests.tls.feeding import secrets_of
from tests.tls.twins import SAMPLES, Twin, seal

WAYS = [(0x0304, 0x1301, 16_384), (0x0304, 0x1303, 300), (0x0303, 0xC02F, 700), (0x0303, 0xC014, 900)]
Frame = tuple[int | None, int, int, int, bytes]


def packets_of(twin: Twin) -> list[Packet]:
    return [
        Packet(number, each.ts_ns, 1, each.data, len(each.data), "t.pcap")
        for number, each in enumerate(twin.packets, 1)
    ]


def one_by_one(packets: Sequence[Packet], keylog: bytes) -> tuple[list[Frame], Dissector]:
    dissector = Dissector(show_secrets=True, secrets=secrets_of(keylog))
    records = [record for packet in packets for record in dissector.feed(packet)]
    records += dissector.drain()
    frames = [
        (each.connection, each.direction, each.frame.raw.offset, each.frame.raw.gap_before, each.frame.raw.data)
        for each in records
    ]
    return frames, dissector


def many_at_once(packets: Sequence[Packet], keylog: bytes, size: int) -> tuple[list[Frame], Dissection]:
    dissection = Dissection(show_secrets=True, secrets=secrets_of(keylog))
    batches: list[FrameBatch] = []
    for at in range(0, len(packets), size):
        batches += all_pieces(dissection.feed_block(gathered(packets[at : at + size])))
    batches += all_pieces(dissection.close_blocks())
    frames: list[Frame] = []
    for batch in batches:
        for row in range(len(batch)):
            direction, raw = batch.directions[int(batch.direction[row])], batch.raw(row)
            frames.append((direction.connection, direction.side, raw.offset, raw.gap_before, raw.data))
    return frames, dissection


def alike(packets: Sequence[Packet], keylog: bytes, size: int) -> None:
    single, dissector = one_by_one(packets, keylog)
    batch, dissection = many_at_once(packets, keylog, size)
    assert batch == single
    assert dissection.tally == dissector.tally
    assert dissection.tls_reports == dissector.tls_reports
    tally, net = dissector.tally, dissector.balance
    assert net.payload_bytes == accounted(net)
    used = tally.frame_bytes + tally.joined_bytes + tally.skipped_bytes + tally.foreign_bytes
    assert used + tally.tls_bytes + tally.encrypted_bytes == net.delivered_bytes


@cache
def sealed(sample: str, version: int, suite: int, size: int) -> Twin:
    return seal(Capture(str(SAMPLES / f"{sample}.pcap")), version=version, suite=suite, size=size)


@given(st.sampled_from(["replica", "takeover"]), st.sampled_from(WAYS), st.integers(0, 1 << 30))
@settings(max_examples=80, deadline=None)
def test_both_ways_of_reading_give_the_same_of_losses_repeats_and_disorder_too(
    sample: str, way: tuple[int, int, int], seed: int
) -> None:
    dice, twin = random.Random(seed), sealed(sample, *way)
    packets, lossless = [], dice.random() < 0.2
    for each in packets_of(twin)[dice.choice((0, dice.randrange(40))) :]:
        fate = 1.0 if lossless else dice.random()
        if fate < 0.05:
            continue
        data = each.data
        if 0.05 < fate < 0.08:
            data = data[: max(54, len(data) - dice.randint(1, 600))]
        elif 0.08 < fate < 0.10 and len(data) > 54:
            at = dice.randrange(54, len(data))
            data = data[:at] + bytes((data[at] ^ 0x55,)) + data[at + 1 :]
        packets.append(each._replace(data=data))
        if 0.10 < fate < 0.13:
            packets.append(packets[-1])
    for at in range(len(packets) - 1):
        if dice.random() < 0.05:
            packets[at], packets[at + 1] = packets[at + 1], packets[at]
    packets = [each._replace(number=number) for number, each in enumerate(packets, 1)]
    alike(packets, twin.keylog if dice.random() < 0.9 else b"", dice.choice((1, 7, 1_000)))
