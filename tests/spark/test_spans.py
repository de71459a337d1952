"""Any chain, cut anywhere by checkpoints, has exactly the rows of one reading of the whole."""

import gzip
import pickle
import random
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.capture.file import Capture
from dcpdump.errors import CaptureError, DcpdumpError
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import advance
from dcpdump.spark.chain import INDEX, Chain, ChainCheckpoint, chains, index_row, read_spans, read_state
from dcpdump.spark.decoding import Decoding, Options
from dcpdump.spark.filesystem import Input
from dcpdump.spark.indexing import Indexing
from dcpdump.wire.encode import encode
from tests.bench.captures import capture
from tests.cli.test_collections import CARTS, DROP, GET_MANIFEST, SCOPE, STREAM, document
from tests.support.archives import with_tls
from tests.support.captures import Pcapng, Record, pcap, pcapng, records_of
from tests.support.conversation import opening, packets, said
from tests.support.damage import disturbed
from tests.support.packets import ACK, PSH, TcpTalk, ethernet, flow, ipv4, tcp
from tests.support.spans import FAST, JUDGED, differences, in_spans, whole

Forms = Callable[[list[Packet]], bytes]
SAMPLES = sorted(Path("samples").glob("*.pcap"))


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic, in segments of 1,448 bytes."""
    return list(Capture(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 400, 64))))


def saved(path: Path, some: Iterable[Packet | Record], form: str = "pcap") -> Path:
    """Write packets to a file of a form."""
    records = [each if isinstance(each, Record) else Record(each.ts_ns or 0, each.data) for each in some]
    data = pcapng(records) if form.startswith("pcapng") else pcap(records, nano=True, big_endian=form == "pcap-be")
    path.write_bytes(gzip.compress(data, 1) if form.endswith("gz") else data)
    return path


def two_forms(some: list[Packet]) -> bytes:
    """Return a pcapng with packets in two forms, and another interface in the middle."""
    write = Pcapng()
    blocks = [write.section(), write.interface(1, 0, [(9, b"\x09")])]
    for at, packet in enumerate(some):
        if at == len(some) // 2:
            blocks.append(write.interface(1, 0, [(9, b"\x06")]))
        later = at >= len(some) // 2
        units = (packet.ts_ns or 0) // (1000 if later else 1)
        blocks.append((write.packet if at % 9 else write.old_packet)(units, packet.data, int(later)))
    return b"".join(blocks)


def assert_any_cut(paths: list[Path], distances: Iterable[int] = (1, 30_000), options: Options | None = None) -> int:
    """Assert that spans have the rows of the whole; return how many spans there were at most."""
    expected, most = whole(paths, options), 0
    for distance in distances:
        found = in_spans(paths, max(distance, 2048), options)
        assert differences(found.tables, expected) == [], distance
        assert [(a.first + a.frames, a.number + 1) for a in found.spans[:-1]] == [
            (b.first, b.number) for b in found.spans[1:]
        ]
        most = max(most, len(found.spans))
    return most


@pytest.mark.parametrize("form", ["pcap", "pcap-be", "pcapng", "pcap.gz", "pcapng.gz"])
def test_a_file_of_any_form_is_entered_anywhere(form: str, traffic: list[Packet], tmp_path: Path) -> None:
    spans = assert_any_cut([saved(tmp_path / f"one.{form}", disturbed(traffic, random.Random(1), loss=0.01), form)])
    assert spans > (40 if form in ("pcap", "pcap-be") else 1)  # the others are read in larger pieces


def test_a_pcapng_of_packets_in_two_forms_is_entered_anywhere(traffic: list[Packet], tmp_path: Path) -> None:
    path = tmp_path / "two.pcapng"
    path.write_bytes(two_forms(traffic))
    assert assert_any_cut([path]) > 10


@pytest.mark.parametrize("form", ["pcap", "pcapng.gz"])
@pytest.mark.parametrize("late_ns", [0, 3_000])
def test_rotated_files_of_two_capture_points_are_one_timeline(
    form: str, late_ns: int, traffic: list[Packet], tmp_path: Path
) -> None:
    paths = []
    for name, seed, size, late in (("a", 1, 170, 0), ("b", 2, 130, late_ns)):
        some = disturbed(traffic, random.Random(seed), loss=0.03)
        moved = [packet._replace(ts_ns=(packet.ts_ns or 0) + late) for packet in some]
        paths += [
            saved(tmp_path / f"{name}{at:04}.{form}", moved[at : at + size], form) for at in range(0, len(moved), size)
        ]
    random.Random(3).shuffle(paths)
    assert assert_any_cut(paths) > 7


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 30), st.integers(2048, 60_000), st.sampled_from([0.0, 0.003, 0.03, 0.2]), st.booleans())
def test_lost_repeated_and_reordered_packets_give_the_rows_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, traffic: list[Packet], seed: int, distance: int, loss: float, late: bool
) -> None:
    some = disturbed(traffic[300 if late else 0 :], random.Random(seed), loss=loss, again=0.02, cut=0.005)
    assert_any_cut([saved(tmp_path_factory.getbasetemp() / "lossy.pcap", some)], [distance])


@pytest.mark.parametrize("seed", range(4))
def test_memory_that_is_freed_is_freed_again(seed: int, traffic: list[Packet], tmp_path: Path) -> None:
    path = saved(tmp_path / "little.pcap", disturbed(traffic * 2, random.Random(seed), loss=0.03, again=0.02))
    options = Options(memory=64 * 1024, block_bytes=4096)
    found = in_spans([path], 4096, options)
    assert differences(found.tables, whole([path], options)) == []
    # What is freed depends on all that was held, so what comes before is one span.
    assert found.spans[0].packets > 10 * min(span.packets for span in found.spans[:-1] or found.spans)


@pytest.mark.parametrize("damage", [b"\xff" * 40, b""])
@pytest.mark.parametrize("salvage", [False, True])
def test_a_damaged_capture_is_read_as_far_as_it_is_by_all(
    damage: bytes, salvage: bool, traffic: list[Packet], tmp_path: Path
) -> None:
    data = pcap(records_of(traffic), nano=True)
    middle = len(pcap(records_of(traffic[: len(traffic) // 2]), nano=True))
    path = tmp_path / "hurt.pcap"
    path.write_bytes(data[:middle] + damage + data[middle:] if damage else data[: middle - 7])
    assert assert_any_cut([path], options=Options(salvage=salvage, block_bytes=4096)) > 3


def test_tls_and_other_traffic_between_changes_nothing(traffic: list[Packet], tmp_path: Path) -> None:
    assert assert_any_cut([saved(tmp_path / "one.pcap", with_tls(records_of(traffic)))]) > 40


def test_datagrams_in_pieces_sequence_numbers_that_come_round_and_holes_are_carried_over(tmp_path: Path) -> None:
    talk = TcpTalk(isn=(advance(0, -700), advance(0, -20_000)), step_ns=10_000)
    for seqno in range(1, 60):
        fields = {"by_seqno": seqno, "rev_seqno": 1}
        talk.send(1, encode("DCP_MUTATION", fields, layout="1", key=b"\x00k", value=bytes(900)))
        if seqno == 30:
            talk.skip(1, 100).write(0)  # acknowledged, never captured
    segment = tcp(flow(), talk.seq(0), encode("DCP_NOOP", opaque=77), flags=PSH | ACK, ack=talk.seq(1))
    last = talk.packets[-1]
    pieces = [ethernet(ipv4(flow(), segment[:24], more=True)), ethernet(ipv4(flow(), segment[24:], fragment=24))]
    some = [*talk.packets, *(last._replace(data=piece) for piece in pieces)]
    path = saved(tmp_path / "odd.pcap", some)
    found = in_spans([path], 128, Options(block_bytes=128))
    assert differences(found.tables, whole([path])) == []
    assert (len(found.spans) > 50, len(found.tables["gaps"])) == (True, 1)
    assert 77 in {row["opaque"] for row in found.tables["frames"]}


def test_names_of_collections_are_those_of_the_whole_wherever_it_is_cut(tmp_path: Path) -> None:
    """They are said on one connection and used on another, change, and end with the connection that said them."""
    begin, again = opening(collections=True), CARTS.replace("seqno:2", "seqno:4").replace("carts", "baskets")
    one, other = "CONNECT 10.0.0.9:1 10.0.0.1:11210\n", "CONNECT 10.0.0.9:2 10.0.0.1:11210\n"
    text = one + begin + GET_MANIFEST + STREAM + document(3, 9, "a") + again + document(5, 9, "b")
    text += other + begin + STREAM + document(3, 10, "c") + document(4, 9, "d")
    unnamed = begin.partition("select-bucket")[0].rpartition("\n")[0] + "\n"
    text += one + unnamed + STREAM + document(1, 9, "e") + SCOPE + CARTS + document(3, 9, "f") + "ON 1\n" + DROP
    path = saved(tmp_path / "named.pcap", packets(said(text + document(9, 9, "g") + "ON 2\n" + document(9, 9, "h"))))
    found = in_spans([path], 1, Options(block_bytes=1))
    assert differences(found.tables, whole([path])) == []
    assert len(found.spans) > 40
    names = [row.get("collection_name") for row in found.tables["frames"] if row["name"] == "DCP_MUTATION"]
    assert names == [f"shop.{name}" if name else None for name in "carts baskets orders baskets".split()] + [
        None,
        "shop.carts",
        "shop.baskets",
        "shop.carts",
    ]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_verdicts_of_samples_and_their_frames_do_not_depend_on_checkpoints(path: Path) -> None:
    options = Options(block_bytes=512)
    expected = whole([path], options, JUDGED)
    judged = in_spans([path], 512, options, JUDGED)
    assert differences(judged.tables, expected) == []
    fast = in_spans([path], 512, options, FAST)
    assert differences(fast.tables, {name: expected[name] for name in fast.tables}) == []
    assert fast.spans == judged.spans


def test_a_capture_that_was_changed_after_it_was_indexed_is_an_error(traffic: list[Packet], tmp_path: Path) -> None:
    path, options = saved(tmp_path / "one.pcap", traffic), Options()
    found = Indexing(Chain("", (Input(str(path), 1),)), options, FAST, 1 << 30)
    list(found.rows())
    saved(path, traffic[:-9])
    with pytest.raises(CaptureError, match="changed or cut after it was indexed"):
        list(Decoding(found.indexed.spans[0], ChainCheckpoint(), options))


# -- checkpoints as rows ---------------------------------------------------------------------------------------


def test_spans_and_their_checkpoints_are_read_again_from_a_table(traffic: list[Packet], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = saved(tmp_path / "one.pcap", traffic)
    found = Indexing(Chain("node", (Input(str(path), 1),)), Options(block_bytes=5_000), FAST, 20_000)
    rows = [batch for name, batch in found.rows() if name == "index"]
    with pq.ParquetWriter(tmp_path / "index.parquet", INDEX) as writer:
        for row in [*rows, index_row(found.indexed.spans[1]._replace(ends=True), b"")]:
            writer.write_table(pa.Table.from_batches([row]))
    spans = read_spans(tmp_path / "index.parquet", "index.parquet")
    assert len(rows) > 4
    # One that begins before others takes their place.
    assert spans[0] == found.indexed.spans[0]._replace(file="index.parquet")
    assert [(span.number, span.ends, span.row) for span in spans[1:]] == [(1, True, len(rows))]
    state = read_state(tmp_path / "index.parquet", found.indexed.spans[2])
    assert (state.spans, state.dissection is not None and state.dissection.first) == (2, found.indexed.spans[2].first)
    # Where its parts have other names, its version is to be increased.
    version = pickle.loads(zlib.decompress(state.packed()))[0]
    assert (version, zlib.crc32(" ".join(sorted(_parts(state))).encode())) == (5, 2007345051)


def _parts(state: object) -> set[str]:
    """Return the names of the parts of a state."""
    if isinstance(state, dict):
        return {key for key in state if isinstance(key, str)}.union(*map(_parts, state.values()))
    return set(getattr(state, "_fields", ())).union(*map(_parts, state)) if isinstance(state, tuple | list) else set()


@pytest.mark.parametrize("kept", [zlib.compress(pickle.dumps((2, None))), zlib.compress(b"("), b"", b"\x80"])
def test_what_another_version_kept_is_refused(kept: bytes) -> None:
    with pytest.raises(DcpdumpError) as refused:
        ChainCheckpoint.unpacked(kept, "out/.watch-x/left/1")
    text = "what was kept of the connections is of another version (out/.watch-x/left/1)"
    assert (str(refused.value), bool(refused.value.hint)) == (text, True)


class _Harm:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("harm",)


def test_nothing_that_could_run_is_read_from_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DcpdumpError, match="another version"):
        ChainCheckpoint.unpacked(zlib.compress(pickle.dumps(_Harm())), "state")
    assert capsys.readouterr().out == ""


def test_chains_have_names_that_do_not_depend_on_what_else_is_there() -> None:
    paths = ["in/a.pcap", "in/n 1/b.pcap", "in/n 1/c.pcap", "in/n2/x/d.pcap"]
    found = [Input(path, 1) for path in paths]
    named = {by: {each.name: len(each.captures) for each in chains(found, by, ["in/"])} for by in ("folder", "all")}
    assert named == {"folder": {"": 1, "n-1": 2, "n2~x": 1}, "all": {"": 4}}
    assert [each.name for each in chains(found, "file", ["in"])] == [
        "a.pcap",
        "n-1~b.pcap",
        "n-1~c.pcap",
        "n2~x~d.pcap",
    ]
    assert [each.name for each in chains(found[3:], "folder", ["in"])] == ["n2~x"]
    assert [each.name for each in chains(found[1:], "folder", ["in/n*/**.pcap"])] == ["n-1", "n2~x"]
    both = [Input("s3://b/n1/a.pcap?region=x", 1), Input("s3://b/n2/a.pcap?region=x", 1)]
    assert [each.name for each in chains(both, "folder", ["s3://b/n1?region=x", "s3://b/n2?region=x"])] == ["n1", "n2"]
