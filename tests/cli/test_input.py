"""Input: captures of every kind are read whole, and options of reading mean the same in every command."""

import gzip
import json
import shlex
import struct
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture.file import Capture, timeline
from dcpdump.capture.source import bytes_read
from dcpdump.cli.options import Invocation
from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import contents, refusal, run
from tests.support.diagnoses import objects
from tests.support.live import PATIENCE, running
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")

Reported = list[tuple[str, int, int | None, bytes]]


def in_turn(paths: Iterable[Path]) -> Reported:
    """Return the packets of the timeline, one by one."""
    packets = timeline(opened(paths))
    return [(packet.file, packet.number, packet.ts_ns, bytes(packet.data)) for packet in packets]


def opened(paths: Iterable[Path]) -> list[Capture]:
    return [Capture(str(path)) for path in paths]


def in_blocks(captures: list[Capture]) -> Reported:
    """Return the packets that blocks have."""
    return [
        (block.files[block.file[row]], int(block.numbers[row]), int(block.ts_ns[row]), bytes(packet.data))
        for block in blocks_of(captures)
        for row, packet in enumerate(block.packets)
    ]


def records(*times: int) -> list[Record]:
    return [Record(1_700_000_000_000_000_000 + 1000 * time, b"%04d" % time * 16) for time in times]


def files(folder: Path, *captures: list[Record]) -> list[Path]:
    """Return captures as files, named in their order."""
    paths = [folder / f"{number:02d}.pcap" for number in range(len(captures))]
    for path, packets in zip(paths, captures, strict=True):
        path.write_bytes(pcap(packets))
    return paths


def test_files_that_follow_one_another_are_read_in_turn(tmp_path: Path) -> None:
    paths = files(tmp_path, records(1, 2, 3), records(3, 4), records(5))
    assert in_blocks(opened(reversed(paths))) == in_turn(paths)
    assert [block.files for block in blocks_of(opened(paths))] == [[str(path)] for path in paths]


def test_where_files_overlap_their_packets_are_gathered_and_those_behind_are_not(tmp_path: Path) -> None:
    one, two, three, four = paths = files(tmp_path, records(1, 2), records(3, 7), records(6, 8), records(9))
    assert in_blocks(opened(paths)) == in_turn(paths)
    found = [block.files for block in blocks_of(opened(paths), 16)]
    assert found == [[str(one)], [str(two)], [str(three)], [str(two)], [str(three)], [str(four)]]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_file_that_is_not_plain_is_read_by_its_own_reader(tmp_path: Path, at: int) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 4), records(5, 6))
    packed = paths[at].with_suffix(".pcap.gz")
    packed.write_bytes(gzip.compress(paths[at].read_bytes()))
    paths[at] = packed
    assert in_blocks(opened(paths)) == in_turn(paths)


def test_of_a_file_that_is_cut_short_the_last_record_alone_is_read_by_its_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap([Record(1_700_000_000_000_000_000, bytes(200_000))] * 10)[:-5])
    capture = Capture(str(path))
    before = bytes_read()
    assert [len(packet.data) for block in blocks_of([capture]) for packet in block.packets] == [200_000] * 9 + [199_995]
    assert bytes_read() - before < path.stat().st_size + 1_000_000
    assert [(each.record, each.where) for each in capture.damage] == [(10, 24 + 9 * 200_016)]


def test_a_file_that_is_cut_short_hands_on_to_the_next(tmp_path: Path) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 4), records(5, 6))
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    captures = opened(paths)
    assert [number for _, number, _, _ in in_blocks(captures)] == [1, 2, 1, 2, 1, 2]
    assert [bool(capture.damage) for capture in captures] == [False, True, False]


@pytest.mark.parametrize("deleted", [[0], [1], [0, 1, 2]])
def test_a_file_that_is_deleted_before_its_turn_is_damage_and_the_others_are_read(
    tmp_path: Path, deleted: list[int]
) -> None:
    paths = files(tmp_path, records(1, 2), records(3, 4), records(5, 6))
    captures = opened(paths)
    for at in deleted:
        paths[at].unlink()
    assert in_blocks(captures) == in_turn([path for path in paths if path.exists()])
    gone = ["this capture is not what it was: there is no such file; lost: all of it"]
    damage = [[str(each) for each in capture.damage] for capture in captures]
    assert damage == [gone * (at in deleted) for at in range(3)]


def test_a_file_that_is_deleted_before_it_is_opened_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, gone = files(tmp_path, records(1), records(2))
    gone.unlink()
    assert [capture.name for capture in Invocation({}).open([str(gone), str(path)])] == [str(path)]
    assert capsys.readouterr().err == f"dcpdump: note: {gone}: it was deleted before it was read\n"


@given(st.lists(st.lists(st.integers(0, 40), max_size=6), min_size=1, max_size=5))
def test_any_captures_give_the_packets_of_the_timeline(times: list[list[int]]) -> None:
    with TemporaryDirectory() as folder:
        paths = files(Path(folder), *(records(*each) for each in times))
        found = in_blocks(opened(paths))
        assert found == in_turn(paths)
        assert all(a != b for a, b in pairwise(sorted(found)))


READERS = ("read", "stats", "streams", "conns", "rollbacks", "flow", "key '*'", "check", "top --once")


def damaged(tmp_path: Path) -> Path:
    """Write a capture with garbage behind its third record."""
    data, at = REPLICA.read_bytes(), 24
    for _ in range(3):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data[:at] + b"\xff" * 333 + data[at:])
    return path


def frames(err: str) -> str:
    """Return how many frames a summary counts."""
    return err.split(" frames")[0].split()[-1]


@pytest.mark.parametrize("command", READERS)
def test_salvage_reads_on_behind_garbage(command: str, tmp_path: Path) -> None:
    path = damaged(tmp_path)
    without, salvaged = (run(f"dcpdump {command} {path}{option}") for option in ("", " --salvage"))
    assert (without.code in (3, 4), "--salvage" in without.err) == (True, True)
    assert (salvaged.code, "333" in salvaged.err) == (4, True)
    assert frames(salvaged.err) == frames(run(f"dcpdump {command} {REPLICA}").err)


def test_salvage_carves_what_stands_behind_garbage(tmp_path: Path) -> None:
    path, out = damaged(tmp_path), tmp_path / "out.pcapng"
    assert run(f"dcpdump carve {path} --salvage --opcode mutation -w {out}").code == 4
    found, wanted = (len(objects(f"dcpdump read {name} --opcode mutation")) for name in (out, REPLICA))
    assert found == wanted > 0


@pytest.mark.parametrize(
    "command",
    [*READERS, "diagnose", "diff samples/replica.pcap", "carve -w OUT", "redact --salt x -w OUT", "report -o OUT"],
)
def test_how_many_processes_may_be_used_is_taken_by_every_command(command: str, tmp_path: Path) -> None:
    def done(options: str) -> tuple[object, dict[str, bytes]]:
        out = tmp_path / f"out{options}"
        printed = run(f"dcpdump {command.replace('OUT', shlex.quote(str(out)))} {REPLICA}{options}")
        names = printed._replace(err=printed.err.replace(str(out), "OUT"))
        return names, contents(out) if out.exists() else {}

    assert done(" --jobs 3") == done("")


@pytest.mark.parametrize("command", ["pipeline --engine local -o OUT", "sql 'select count(*) from frames'"])
def test_how_many_processes_may_be_used_is_taken_where_tables_are_made(command: str, tmp_path: Path) -> None:
    plain, one = (run(f"dcpdump {command.replace('OUT', str(tmp_path))} {REPLICA} {more}") for more in ("", "-j 1"))
    assert (one, one.code) == (plain, 0)


def test_a_capture_that_grows_is_followed(tmp_path: Path) -> None:
    path, data = tmp_path / "grows.pcap", REPLICA.read_bytes()
    path.write_bytes(data[:1200])
    words = [sys.executable, "-m", "dcpdump", "top", "--follow", str(path), "-f", "ndjson", "--interval", "0.1"]
    with running(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["frames"]]
        with path.open("ab") as file:
            file.write(data[1200:])
        while seen[-1] < 26:
            seen.append(json.loads(process.stdout.readline())["frames"])
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert seen[0] < 26
    assert process.returncode == 143


def shown(captures: str) -> list[tuple[str, int]]:
    """Return (name, offset) of the frames of captures."""
    return [(row["name"], row["offset"]) for row in objects(f"dcpdump read {captures}")]


def test_a_connection_continues_from_one_file_into_the_next(tmp_path: Path) -> None:
    data = REPLICA.read_bytes()
    records, at = [], 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        records.append(data[at : at + 16 + size])
        at += 16 + size
    for name, part in (("b.pcap", records[:37]), ("a.pcap", records[37:])):
        (tmp_path / name).write_bytes(data[:24] + b"".join(part))
    for name in (f"{tmp_path}/a.pcap {tmp_path}/b.pcap", str(tmp_path), f"'{tmp_path}/*.pcap'"):
        assert shown(name) == shown(str(REPLICA))


def test_an_answer_has_the_vbucket_of_its_own_request_where_all_have_one_opaque(tmp_path: Path) -> None:
    talk = TcpTalk()
    for vbucket in (7, 8):
        talk.send(0, encode("DCP_STREAM_REQ", vbucket=vbucket, opaque=1))
    for status, value in ((0x23, bytes(8)), (0x07, b"")):
        talk.send(1, encode("DCP_STREAM_REQ", response=True, status=status, value=value, opaque=1))
    path = saved(talk.fin(), tmp_path / "one.pcap")
    for vbucket, answer in ((7, ("Rollback", 3, 4000)), (8, ("NotMyVbucket", 4, 4000))):
        _, row = objects(f"dcpdump read {path} --vbucket {vbucket}")
        assert (row["status_name"], row["frame"], row["latency_us"]) == answer


def test_a_healthy_capture_ends_with_0_and_its_balance() -> None:
    balance = "2 of 27 frames shown · 60 packets · 1 connection · 5,188 B of payload, all decoded\n"
    assert run(f"dcpdump read {REPLICA} --opcode noop -f line")[::2] == (0, balance)


def test_a_capture_cut_short_shows_what_is_there_and_ends_with_4(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(REPLICA.read_bytes()[:-30])
    printed = run(f"dcpdump read {cut} -f line")
    assert (printed.code, len(printed.out.splitlines()), "is cut short" in printed.err) == (4, 27, True)


def test_text_with_hex_in_it_is_sent_to_explain(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text("80 57 00 05 1f 00 02 10 00 00 00 29\n")
    printed = run(f"dcpdump read {paste}")
    assert (printed.code, "dcpdump explain" in printed.err) == (3, True)


def test_a_capture_without_dcp_says_what_is_in_it(tmp_path: Path) -> None:
    talk = TcpTalk().send(0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)))
    printed = run(f"dcpdump read {saved(talk, tmp_path / 'tls.pcap')}")
    assert (printed.code, printed.out) == (3, "")
    assert [part in printed.err for part in ("no DCP in the input", "TLS on port 11210", "\nhint: ")] == [True] * 3
    assert "11209" in printed.err.splitlines()[1]


def test_a_warning_names_the_file_where_there_are_several(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(REPLICA.read_bytes())
    (tmp_path / "b.pcap").write_bytes(REPLICA.read_bytes()[:900])
    found = run(f"dcpdump read {tmp_path} -f line").err.splitlines()
    assert [line for line in found if line.startswith("dcpdump: warning: ")] == [
        f"dcpdump: warning: {tmp_path}/b.pcap: record 10 (byte 802) is cut short: 91 bytes promised, 82 there; "
        "lost: 9 bytes, and any packet after it"
    ]


def test_read_need_not_be_said(tmp_path: Path) -> None:
    said = run(f"dcpdump read {REPLICA} -f line")
    assert len(said.out.splitlines()) == 27
    assert run(f"dcpdump {REPLICA} -f line") == said
    for command in ("dcpdump read - -f line", "dcpdump - -f line"):
        assert run(command, REPLICA.read_bytes()) == said
    missing = tmp_path / "none.pcap"
    assert run(f"dcpdump {missing}") == refusal(3, f"there is no such file ({missing})")
