"""Clauses over many frames at once choose the frames that they choose one by one."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch import dissector
from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.filter import masks, wanted_rows
from dcpdump.batch.frame_batch import FrameBatch, joined
from dcpdump.capture.file import Capture, timeline
from dcpdump.cli.options import selection
from dcpdump.conversation import Conversation
from dcpdump.dissect import Dissector
from dcpdump.filter.choices import Wanted, parse_ranges, wanted_of
from dcpdump.net.packet import Packet
from dcpdump.record import Record
from dcpdump.spec.names import COLLECTIONS
from dcpdump.spec.opcodes import DCP_MUTATION
from dcpdump.text import iso_time
from dcpdump.wire.encode import encode
from tests.bench.captures import capture
from tests.support.console import run
from tests.support.frame_by_frame import frame_by_frame
from tests.support.packets import TcpTalk, flow
from tests.support.pieces import all_pieces, parts_of
from tests.support.secret_talk import saved

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
        for packet in Capture(str(path))
    ]
    samples = list(timeline([Capture("samples/client-rollback.pcap")]))
    return traffic + samples


@pytest.fixture(scope="module")
def both(packets: list[Packet]) -> tuple[list[Record], list[FrameBatch]]:
    """Return the frames one by one, and many at once."""
    dissector, dissection = Dissector(), Dissection()
    records = [record for packet in packets for record in dissector.feed(packet)] + dissector.close()
    batches = [joined(all_pieces(dissection.feed_block(block))) for block in blocks(packets, 200_000)]
    return records, batches + all_pieces(dissection.close_blocks())


@pytest.mark.parametrize("given", CHOICES, ids=str)
def test_the_same_frames_are_chosen(
    packets: list[Packet], both: tuple[list[Record], list[FrameBatch]], given: dict[str, Any]
) -> None:
    records, batches = both
    chosen = selection(dict.fromkeys(OPTIONS) | {"problems": False} | given)
    chosen.begin(packets[0].ts_ns)
    wanted = [record.number for record in records if chosen.filter.accepts(record)]
    asked = masks(chosen.texts, chosen.filter, window=chosen.window)
    table = FrameTable(asked, 64)
    assert [batch.first + row for batch in batches for row in wanted_rows(batch, asked)] == wanted
    fed = [table.feed(batch) for batch in batches]
    assert [row for batch in fed if batch for row in batch.column("frame").to_pylist()] == wanted
    assert wanted or given in ({"seqno": "18446744073709551615"},)


def test_frames_at_both_ends_of_a_time_are_chosen(packets: list[Packet]) -> None:
    moved = [packet._replace(ts_ns=(packet.ts_ns or 0) + 1) for packet in packets[:800]]  # to the nanosecond
    batch = joined(parts_of(moved))
    row = int(np.flatnonzero(batch.header.opcode == DCP_MUTATION)[3])
    when = iso_time(int(batch.ts_ns[row]))
    chosen = selection(dict.fromkeys(OPTIONS) | {"problems": False, "since": when, "until": when})
    asked = masks(chosen.texts, chosen.filter, window=chosen.window)
    assert list(wanted_rows(batch, asked)) == np.flatnonzero(batch.ts_ns == batch.ts_ns[row]).tolist()


# -- frames that are picked by their headers are those that a filter of every decoded frame accepts ----------

FILTERS = [
    "--opcode mutation",
    "--vbucket 3",
    "--opcode mutation,deletion --vbucket 0-9",
    "--opcode '!mutation'",
    "--opcode stream_req,snapshot_marker",
    "--vbucket 528 --kind response",
    "--vbucket 5-9 --seqno 3-",
    "--opcode get,set,hello,noop",
]


@pytest.fixture(scope="module", name="traffic")
def _traffic(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return captures that are whole, that began late, and that lost packets."""
    folder = tmp_path_factory.mktemp("traffic")
    whole = capture(folder, "wire", 1000, 16)
    packets, chance = list(Capture(str(whole))), random.Random(3)

    lossy = [packet for packet in packets if chance.random() > 0.02]
    for at in chance.sample(range(len(lossy) - 1), 20):
        lossy[at], lossy[at + 1] = lossy[at + 1], lossy[at]
    late = saved(packets[len(packets) // 3 :], folder / "late.pcap")
    return {"whole": whole, "late": late, "lossy": saved(lossy, folder / "lossy.pcap")}


@pytest.fixture(params=["rows", "columns"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Decide whether blocks are gone through row by row, however much there is to decode, or never."""
    monkeypatch.setattr(dissector, "FEW", 1 << 30 if request.param == "rows" else -1)
    monkeypatch.setattr(dissector, "ONE_IN", 1 << 60)
    return str(request.param)


#: The same for both ways.
expected = cache(frame_by_frame)


@pytest.mark.parametrize("chosen", FILTERS)
@pytest.mark.parametrize("kind", ["whole", "late", "lossy"])
def test_traffic_is_picked_as_frame_by_frame(traffic: dict[str, Path], kind: str, chosen: str, way: str) -> None:
    command = f"dcpdump read {traffic[kind]} {chosen} -f ndjson"
    assert run(command) == expected(command)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_reading_ends_with_the_last_frame_that_is_wanted(traffic: dict[str, Path], count: int, way: str) -> None:
    command = f"dcpdump read {traffic['whole']} --opcode mutation --vbucket 0-9 --count {count} -f line -q"
    assert run(command) == expected(command)


@pytest.mark.parametrize("kind", ["whole", "late", "lossy"])
def test_sessions_learn_the_same_by_rows_and_by_columns(traffic: dict[str, Path], kind: str, way: str) -> None:
    packets = list(Capture(str(traffic[kind])))
    one, other = dissector.Picker(Wanted(bytes(256), bytes(65_536))), Dissection()
    for block in blocks(packets, 40_000):
        pieces = all_pieces(one.feed_block(block))
        all_pieces(other.feed_block(block))
        assert way == "columns" or all(isinstance(piece, list) for piece in pieces)
    assert _known(one.conversations) == _known(other.conversations)
    assert (one.tally, one.balance) == (other.tally, other.balance)


def _known(conversations: dict[int, Conversation]) -> dict[int, object]:
    return {number: conversation.session.state() for number, conversation in conversations.items()}


@pytest.mark.parametrize("magic", [0x80, 0x08])
def test_a_frame_that_is_shorter_than_its_sections_is_decoded(tmp_path: Path, magic: int, way: str) -> None:
    damaged = bytes((magic, DCP_MUTATION, 3, 3, 31, 0, 0, 3)) + bytes(16)
    talk = TcpTalk(flow("10.0.0.9:50001", "10.0.0.1:11210"))
    talk.send(0, encode("HELLO", {"features": [COLLECTIONS]}, opaque=1))
    talk.send(1, encode("HELLO", {"features": [COLLECTIONS]}, response=True, opaque=1))
    path = saved(talk.send(1, encode("NOOP") + damaged).fin(), tmp_path / "damaged.pcap")
    for chosen in ("--vbucket 3", "--opcode hello"):
        command = f"dcpdump read {path} {chosen} -f ndjson"
        assert run(command) == frame_by_frame(command)


def test_what_asks_nothing_of_headers_picks_nothing() -> None:
    assert wanted_of({"key": "user::*", "since": "+1s"}) is None


@pytest.mark.parametrize("text", ["7", "0-63,512", "100-", "-50", "!3", "!5-9,70000-", "0-9,!4"])
def test_a_table_of_ranges_says_what_the_ranges_say(text: str) -> None:
    ranges = parse_ranges("--vbucket", text)
    assert list(ranges.table(600)) == [int(number in ranges) for number in range(600)]
