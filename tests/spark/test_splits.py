"""Captures in pieces: planned, read from where records seem to begin, and corrected where a plan was wrong."""

import gzip
import io
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from dcpdump.capture import open_capture, timeline
from dcpdump.net.packet import Packet
from dcpdump.spark.decoding import decode_split
from dcpdump.spark.event_log import EventReplay
from dcpdump.spark.row_options import Options
from dcpdump.spark.split_plan import plan_splits
from dcpdump.spark.split_survey import survey_split
from dcpdump.spark.splits import FilePiece, Source, Split, planned
from dcpdump.spark.work import Work
from dcpdump.wire.encode import encode
from tests.bench.captures import capture
from tests.spark.test_seams import disturbed, documents
from tests.support.captures import Pcapng, Record, pcap, pcapng
from tests.support.packets import ACK, PSH, TcpTalk, ethernet, flow, ipv4, tcp
from tests.support.splitting import Tables, opened, split, whole

MB = 1 << 20


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic, in segments of 1,448 bytes."""
    return list(open_capture(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 1000, 64))))


def records(packets: Iterable[Packet]) -> list[Record]:
    return [Record(packet.ts_ns or 0, packet.data, packet.wire_length) for packet in packets]


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def want(*paths: str) -> Tables:
    return whole(timeline([open_capture(path) for path in paths]))


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("target", [20_000, 120_000, MB])
def test_a_pcap_is_split_inside(tmp_path: Path, traffic: list[Packet], target: int, big_endian: bool) -> None:
    path = written(tmp_path / "one.pcap", pcap(records(traffic), nano=True, big_endian=big_endian))
    found, plan = split([path], target)
    assert found.rows == want(path).rows
    assert len(found.works) == len(plan.splits) + 1 == max(1, round(Path(path).stat().st_size / target)) + 1


def leaves(value: object) -> Iterator[object]:
    """Yield what is in tuples, lists, sets and mappings, and in those."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def test_tasks_are_given_and_return_values_only(tmp_path: Path, traffic: list[Packet]) -> None:
    path = written(tmp_path / "one.pcap", pcap(records(traffic)))
    found, _ = split([path], 20_000)
    exchanged: list[object] = [survey_split(work, opened) for work in found.works if work.end is None]
    rows = 0
    for work in found.works:
        decoding = decode_split(work, Options(), opened)
        rows += len(list(decoding))
        exchanged.append(decoding.exit)
    assert rows
    # An object of a compiled class has another pickle than one of the same class where nothing is compiled.
    assert {type(each) for each in leaves([found.works, exchanged])} <= {int, str, bytes, bool, type(None)}


@pytest.mark.parametrize("target", [20_000, MB])
def test_a_pcapng_is_split_inside(tmp_path: Path, traffic: list[Packet], target: int) -> None:
    path = written(tmp_path / "one.pcapng", pcapng(records(traffic)))
    found, plan = split([path], target)
    assert found.rows == want(path).rows
    assert len(found.works) == len(plan.splits) + 1


@pytest.mark.parametrize("kind", ["simple", "old"])
def test_a_pcapng_of_packets_in_another_form_is_read_once(tmp_path: Path, traffic: list[Packet], kind: str) -> None:
    write = Pcapng()
    blocks = [write.section(), write.interface(1, 0, [(9, b"\x09")])]
    for packet in traffic[-100:]:
        ts_ns, data = packet.ts_ns or 0, packet.data
        blocks.append(write.simple_packet(data) if kind == "simple" else write.old_packet(ts_ns, data))
    path = written(tmp_path / "one.pcapng", b"".join(blocks))
    found, plan = split([path], 40_000)
    assert found.rows == want(path).rows
    assert len(plan.splits) > 1


def test_a_pcapng_with_an_interface_in_the_middle_is_one_task(tmp_path: Path, traffic: list[Packet]) -> None:
    write = Pcapng()
    blocks = [write.section(), write.interface(1, 0, [(9, b"\x09")])]
    for number, packet in enumerate(traffic[-300:]):
        if number == 200:
            blocks.append(write.interface(1, 0, [(9, b"\x06")]))
        later = number >= 200
        blocks.append(write.packet((packet.ts_ns or 0) // (1000 if later else 1), packet.data, int(later)))
    path = written(tmp_path / "two.pcapng", b"".join(blocks))
    found, plan = split([path], 20_000)
    assert found.rows == want(path).rows
    assert (len(plan.splits) > 5, len(found.works)) == (True, 2)


def test_rotated_captures_are_packed(tmp_path: Path, traffic: list[Packet]) -> None:
    paths = [
        written(tmp_path / f"{number:02}.pcap", pcap(records(traffic[at : at + 60]), nano=True))
        for number, at in enumerate(range(0, len(traffic), 60))
    ]
    found, plan = split(list(reversed(paths)), 100_000)
    assert found.rows == want(*paths).rows
    assert len(plan.splits) < len(paths) / 2


def test_compressed_captures_are_one_piece_each(tmp_path: Path, traffic: list[Packet]) -> None:
    paths = [
        written(tmp_path / f"{number}.pcap.gz", gzip.compress(pcap(records(traffic[at : at + 200]), nano=True)))
        for number, at in enumerate(range(0, len(traffic), 200))
    ]
    found, plan = split(paths, 10_000)
    assert found.rows == want(*paths).rows
    assert [[piece.path for piece in each.pieces] for each in plan.splits] == [[path] for path in paths]


@pytest.mark.parametrize("packed", [False, True])
def test_two_capture_points_are_read_in_the_order_of_time(tmp_path: Path, traffic: list[Packet], packed: bool) -> None:
    paths: list[str] = []
    for name, seed, size, late in (("a", 1, 170, 0), ("b", 2, 130, 3_000)):
        packets = disturbed(traffic, seed, 0.03)
        for number, at in enumerate(range(0, len(packets), size)):
            mine = [packet._replace(ts_ns=(packet.ts_ns or 0) + late) for packet in packets[at : at + size]]
            data = pcap(records(mine), nano=True)
            ending = ".gz" if packed else ""
            paths.append(written(tmp_path / f"{name}{number}.pcap{ending}", gzip.compress(data) if packed else data))
    found, _ = split(paths, 15_000 if packed else 60_000)
    assert found.rows == want(*paths).rows
    assert len(found.works) > 3


def test_documents_that_contain_captures_are_no_records(tmp_path: Path, traffic: list[Packet]) -> None:
    inside = pcap(records(traffic[-90:]), nano=True)
    packets = documents([inside] * 3, segment=60_000).fin().packets
    path = written(tmp_path / "nested.pcap", pcap(records(packets), nano=True))
    expected = want(path).rows
    for target in (9_000, 30_000):
        found, _ = split([path], target)
        assert found.rows == expected
        assert len(found.surveys) > 1  # something looked like a record, and was none


@pytest.mark.parametrize("damage", [b"\xff" * 40, b""])
def test_a_damaged_capture_is_read_as_one(tmp_path: Path, traffic: list[Packet], damage: bytes) -> None:
    data = bytearray(pcap(records(traffic), nano=True))
    middle = len(pcap(records(traffic[:600]), nano=True))
    data[middle : middle + len(damage)] = damage
    path = written(tmp_path / "hurt.pcap", bytes(data) if damage else bytes(data[: middle - 7]))
    found, _ = split([path], 20_000)
    assert found.rows == want(path).rows
    assert len(found.works) == 2


def test_one_unusable_file_among_many_is_reported_and_left_out(tmp_path: Path, traffic: list[Packet]) -> None:
    good = written(tmp_path / "good.pcap", pcap(records(traffic[:100]), nano=True))
    bad = written(tmp_path / "bad.pcap", b"<html>")
    gone = str(tmp_path / "gone.pcap")
    plan = plan_splits([(good, 1), (bad, 6), (gone, 0)], opened)
    assert [path for path, _, _ in plan.unusable] == [bad, gone]
    assert [source.path for source in plan.sources] == [good]


def test_captures_of_object_storage_are_read_through_their_opener(tmp_path: Path, traffic: list[Packet]) -> None:
    held = {
        "memory://a.pcap": pcap(records(traffic[:500]), nano=True),
        "memory://b.pcap.gz": gzip.compress(pcap(records(traffic[500:]), nano=True)),
    }

    def open_held(path: str) -> BinaryIO:
        return io.BytesIO(held[path])

    plan = plan_splits([(path, len(data)) for path, data in held.items()], open_held, 50_000)
    assert plan.begins_ns == traffic[0].ts_ns
    assert [source.divisible for source in plan.sources] == [True, False]
    assert len(plan.splits) == round(len(held["memory://a.pcap"]) / 50_000) + 1


def test_a_disk_that_fails_in_the_middle_is_damage(tmp_path: Path, traffic: list[Packet]) -> None:
    data = pcap(records(traffic), nano=True)
    path = written(tmp_path / "one.pcap", data)

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > len(data) // 2:
                raise OSError(5, "Input/output error")
            return super().read(size)

    surveyed = survey_split(Work(0, (Split((FilePiece(path),)),), {}), lambda _: Failing(data[: len(data) // 2 + 1]))
    assert surveyed.read[0][0].problems[0] == "this cannot be read: Input/output error"


def test_pieces_of_a_datagram_in_two_splits_are_found(tmp_path: Path) -> None:
    way = flow()
    talk = documents([bytes(5000)] * 3)
    noop = encode("DCP_NOOP", opaque=77)
    segment = tcp(way, talk.seq(0), noop, flags=PSH | ACK, ack=talk.seq(1))
    last = talk.packets[-1]
    pieces = [ethernet(ipv4(way, segment[:24], more=True)), ethernet(ipv4(way, segment[24:], fragment=24))]
    first, second = (last._replace(data=piece, wire_length=len(piece)) for piece in pieces)
    here, there = [*talk.packets, first], [second]
    paths = [
        written(tmp_path / "1.pcap", pcap(records(here), nano=True)),
        written(tmp_path / "2.pcap", pcap([Record(each.ts_ns, each.data) for each in records(there)], nano=True)),
    ]
    found, plan = split(paths, 12_000)
    assert found.rows == want(*paths).rows
    assert {row["opaque"] for row in found.frames} >= {77}
    assert len(found.works) == len(plan.splits)  # two of them are read as one, and one ends the input


def test_packets_are_numbered_in_their_own_file(tmp_path: Path, traffic: list[Packet]) -> None:
    path = written(tmp_path / "one.pcap", pcap(records(traffic), nano=True))
    found, _ = split([path], 30_000)
    packets = [row["packet"] for row in found.frames]
    assert packets == [row["packet"] for row in want(path).frames]


def test_a_plan_cuts_overlapping_captures_by_time() -> None:
    sources = [Source("a", 100 * MB, 0, 1000, True), Source("b", 100 * MB, 500, 1500, True)]
    first, second = planned(sources, 100 * MB)
    assert first == Split((FilePiece("a", until=750), FilePiece("b", until=750)), merged=True)
    assert second == Split((FilePiece("a", since=750), FilePiece("b", since=750)), merged=True)


def test_a_plan_packs_small_captures_and_cuts_large_ones() -> None:
    sources = [Source("large", 300 * MB, 0, 9, True), Source("x", 40 * MB, 20, 29, True), Source("y", 40 * MB, 30)]
    large = [(0, 100 * MB), (100 * MB, 200 * MB), (200 * MB, None)]
    assert planned(sources, 100 * MB) == [
        *(Split((FilePiece("large", start, stop),)) for start, stop in large),
        Split((FilePiece("x"), FilePiece("y"))),
    ]


# -- the ledger and the rules ---------------------------------------------------------------------------------


def judged(events: Iterable[bytes]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    replay = EventReplay()
    for each in events:
        replay.feed(each)
    judging = replay.close()
    streams: list[tuple[Any, ...]] = [
        (s.connection.number, s.vbucket, s.opaque, s.traffic.size, s.seqnos.high, s.traffic.counts)
        for s in judging.ledger.streams
    ]
    found: list[tuple[Any, ...]] = [
        (each.rule.code, each.message, each.connection, each.frame, each.severity, more)
        for each, more in judging.fold.findings()
    ]
    return streams, found


@pytest.mark.parametrize("seed", range(3))
def test_streams_and_findings_do_not_depend_on_splits(tmp_path: Path, traffic: list[Packet], seed: int) -> None:
    packets = disturbed(traffic, seed, 0.01) if seed else traffic
    path = written(tmp_path / "one.pcap", pcap(records(packets), nano=True))
    expected = judged(split([path], 100 * MB)[0].events)
    assert len(expected[0]) > 30
    for target in (15_000, 90_000):
        assert judged(split([path], target)[0].events) == expected


def test_findings_of_samples_do_not_depend_on_splits() -> None:
    for path in sorted(Path("samples").glob("*.pcap")):
        expected = judged(split([path], MB)[0].events)
        assert judged(split([path], 4_096)[0].events) == expected, path.name


@pytest.mark.parametrize(("flags", "frames"), [(0x05, [3, 4, 6]), (0x45, [6]), (None, [5])])
def test_a_value_that_is_not_what_it_says_is_found_in_any_split(
    tmp_path: Path, flags: int | None, frames: list[int]
) -> None:
    values = [(b"{}", 1), (b"{broken", 1), (b"no snappy", 2), (b"\x02\x04{}", 3), (b"\0\0\0\xff", 4), (bytes(4), 4)]
    talk = TcpTalk()
    if flags is not None:
        talk.send(0, encode("DCP_OPEN", {"flags": flags}, key=b"app"))
    for seqno, (value, datatype) in enumerate(values, 1):
        fields = {"by_seqno": seqno, "rev_seqno": 1}
        talk.send(1, encode("DCP_MUTATION", fields, layout="1", key=b"k", value=value, datatype=datatype))
    path = written(tmp_path / "odd.pcap", pcap(records(talk.fin().packets), nano=True))
    _, found = judged(split([path], MB)[0].events)
    reported = [frame for code, _, _, frame, _, _ in found if code == "DCP105"]
    assert reported == frames


def test_events_do_not_carry_documents(tmp_path: Path) -> None:
    secret = random.Random(1).randbytes(40_000)
    packets = documents([secret] * 8).fin().packets
    found, _ = split([written(tmp_path / "big.pcap", pcap(records(packets), nano=True))], MB)
    assert sum(map(len, found.events)) < 20_000
