"""Clauses over many frames at once choose the frames that they choose one by one."""

from typing import Any

import numpy as np
import pytest

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.filter import masks, wanted_rows
from dcpdump.batch.part import Part, joined
from dcpdump.capture import open_capture, timeline
from dcpdump.cli.options import selection
from dcpdump.dissect import Dissector
from dcpdump.net.packet import Packet
from dcpdump.record import Record
from dcpdump.spec.opcodes import DCP_MUTATION
from dcpdump.text import iso_time
from tests.bench.captures import capture
from tests.support.pieces import all_pieces, parts_of

CHOICES = [
    {"opcode": "mutation,0x56"},
    {"opcode": "!mutation"},
    {"opcode": "noop,stream_req"},
    {"vbucket": "0-31"},
    {"vbucket": "!0-31"},
    {"vbucket": "3", "opcode": "mutation", "seqno": "5-40"},
    {"seqno": "7"},
    {"seqno": "20-30,!25"},
    {"seqno": "18446744073709551615"},
    {"kind": "request"},
    {"kind": "response"},
    {"status": "!success"},
    {"key": "user::0*"},
    {"key": "!user::0*"},
    {"key": "user::0*\0/7$/\0!user::02*"},
    {"opcode": "mutation\0!deletion"},
    {"kind": "!response"},
    {"key": "/7$/", "opcode": "deletion"},
    {"collection": "0x8,300"},
    {"collection": "!8"},
    {"opaque": "0x1000-0x1003"},
    {"stream_id": "3"},
    {"connection": "1,3"},
    {"host": "10.0.0.21"},
    {"host": "!10.0.0.21"},
    {"host": "10.0.0.20/31"},
    {"port": "50001"},
    {"port": "!50001"},
    {"since": "+0.005s"},
    {"until": "+4ms", "opcode": "mutation"},
    {"problems": True},
    {"problems": True, "opcode": "mutation"},
    {"problems": True, "collection": "8", "key": "user::0*"},
]
OPTIONS = (
    "opcode vbucket seqno kind status key collection opaque stream_id connection host port since until count".split()
)


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    path = capture(tmp_path_factory.mktemp("filter"), "wire", 1200, 64)
    traffic = [
        packet._replace(data=packet.data.replace(b'{"type"', b'("type"'))  # values that are not JSON
        if packet.number % 20 == 0
        else packet
        for packet in open_capture(str(path))
    ]
    samples = list(timeline([open_capture("samples/client-rollback.pcap")]))
    return traffic + samples


@pytest.fixture(scope="module")
def both(packets: list[Packet]) -> tuple[list[Record], list[Part]]:
    """Return the frames one by one, and many at once."""
    dissector, dissection = Dissector(), Dissection()
    records = [record for packet in packets for record in dissector.feed(packet)] + dissector.close()
    parts = [joined(all_pieces(dissection.feed_block(block))) for block in blocks(packets, 200_000)]
    return records, parts + all_pieces(dissection.close_blocks())


@pytest.mark.parametrize("given", CHOICES, ids=str)
def test_the_same_frames_are_chosen(
    packets: list[Packet], both: tuple[list[Record], list[Part]], given: dict[str, Any]
) -> None:
    records, parts = both
    chosen = selection(dict.fromkeys(OPTIONS) | {"problems": False} | given)
    chosen.begin(packets[0].ts_ns)
    wanted = [record.number for record in records if chosen.accepts(record)]
    asked = masks(chosen.texts, chosen.filter, window=chosen.window)
    table = FrameTable(asked, 64)
    assert [part.first + row for part in parts for row in wanted_rows(part, asked)] == wanted
    batches = [table.feed(part) for part in parts]
    assert [row for batch in batches if batch for row in batch.column("frame").to_pylist()] == wanted
    assert wanted or given in ({"seqno": "18446744073709551615"},)


def test_frames_at_both_ends_of_a_time_are_chosen(packets: list[Packet]) -> None:
    moved = [packet._replace(ts_ns=(packet.ts_ns or 0) + 1) for packet in packets[:800]]  # to the nanosecond
    part = joined(parts_of(moved))
    row = int(np.flatnonzero(part.header.opcode == DCP_MUTATION)[3])
    when = iso_time(int(part.ts_ns[row]))
    chosen = selection(dict.fromkeys(OPTIONS) | {"problems": False, "since": when, "until": when})
    asked = masks(chosen.texts, chosen.filter, window=chosen.window)
    assert list(wanted_rows(part, asked)) == np.flatnonzero(part.ts_ns == part.ts_ns[row]).tolist()
