"""Carved captures: the chosen frames again, with what is needed to decode them, and little else."""

import gzip
import json
import random
import re
import struct
from collections import Counter
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump import __version__
from dcpdump.capture.file import Capture
from dcpdump.net.packet import Packet
from dcpdump.rewrite.needed import ByteRanges
from tests.bench.captures import capture
from tests.rewrite.test_redaction import fragments
from tests.support.captures import Pcapng
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import SYN, flow, renumbered
from tests.support.secret_talk import disturbed, rows, saved, talk

SAMPLES = sorted(Path("samples").glob("*.pcap"))
modest = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
#: What a file with fewer packets has otherwise.
NUMBERS = ("frame", "packet", "file", "connection", "request_frame", "gap_before", "offset")
FILTERS = (
    "--seqno 9-11",
    "--opcode mutation --seqno 20",
    "--opcode deletion",
    "--key '*0000012'",
    "--kind response --opcode stream_req",
    "--status success",
    "--opcode '!mutation'",
    "--connection 1",
    "--collection 8 --seqno 4-5,23-24",
    "--problems",
    "--since +200ms",
)
CHOSEN = ("--opcode mutation", "--opcode stream_req", "--kind response", "--opcode snapshot_marker")
#: When the traffic of ``traffic`` is well under way.
TIMES = "--since 2025-11-20T12:02:11.012Z --until 2025-11-20T12:02:11.014Z"


#: What comes along, of samples.
CARVED = (
    ("replica.pcap --frame 17", "1 of 27 frames, and 16 frames of set-up · 20 of 60"),
    (
        "replica.pcap --frame 24",
        "1 of 27 frames, and 16 frames of set-up, and 1 neighbour in the same packets (1 document) · 20 of 60",
    ),
    (
        "damage.pcap --frame 18",
        "1 of 20 frames, and 8 frames of set-up, and 2 frames without which these are not found or read "
        "(2 documents), and 1 neighbour in the same packets · 16 of 38",
    ),
)


def chosen(path: Path, options: str) -> Counter[str]:
    """Return the rows that a filter chooses, without numbers and their order."""
    printed = run(f"dcpdump read {path} -f ndjson -q --value-bytes all {options}")
    out: Counter[str] = Counter()
    for line in printed.out.splitlines():
        row = json.loads(line)
        out[json.dumps({name: row[name] for name in row if name not in NUMBERS})] += 1
    return out


def carved(path: Path, options: str, code: tuple[int, ...] = (0, 4)) -> Path:
    out = path.with_suffix(".carved")
    printed = run(f"dcpdump carve {path} -w {out} --force {options}")
    assert printed.code in code, printed
    assert "decode otherwise" not in printed.err
    return out


def check(path: Path, options: str, *, any_frames: bool = True) -> Path:
    """Carve a capture: a filter chooses the same frames of the result, if it chooses any."""
    wanted = chosen(path, options)
    if not wanted and not any_frames:
        return path
    assert wanted
    out = carved(path, options)
    assert chosen(out, options) == wanted
    return out


def long_talk(number: int = 0, segment: int = 300) -> list[Packet]:
    return talk(segment, 24, flow=flow(f"10.0.0.1:{50_000 + number}")).packets


def packets_of(path: Path) -> list[tuple[int | None, bytes, int]]:
    return [(packet.ts_ns, packet.data, packet.wire_length) for packet in Capture(str(path))]


def size(path: Path) -> int:
    return len(packets_of(path))


@pytest.mark.parametrize(("options", "segment"), list(zip(FILTERS, cycle([40, 300, 1448]), strict=False)))
def test_a_filter_chooses_the_same_frames_of_what_was_carved_with_it(
    options: str, segment: int, tmp_path: Path
) -> None:
    path = saved(renumbered([*long_talk(0, segment), *long_talk(1, segment)]), tmp_path / "a.pcap")
    wanted = chosen(path, options)
    if not wanted:
        printed = run(f"dcpdump carve {path} -w {tmp_path}/none {options}")
        assert (printed.code, (tmp_path / "none").exists()) == (3, False)
        return
    out = carved(path, options)
    again = {"--connection 1": "", "--since +200ms": "--since 2025-11-20T12:00:00.201Z"}.get(options, options)
    assert chosen(out, again) == wanted if options != "--connection 1" else not wanted - chosen(out, again)
    assert size(out) < size(path)


@modest
@given(st.integers(0, 10_000), st.sampled_from([60, 400]), st.booleans(), st.sampled_from(FILTERS[:7]))
def test_whatever_tcp_did_to_it(tmp_path: Path, seed: int, segment: int, syn: bool, options: str) -> None:
    packets = renumbered(disturbed(talk(segment, 12, syn=syn).packets, random.Random(seed)))
    path = saved(packets, tmp_path / f"{seed}.pcap")
    check(path, options, any_frames=False)


def along(said: str) -> int:
    """Return how many frames come along beside the chosen ones, as carve says."""
    counts = re.findall(r", and ([0-9,]+) (?:frame|neighbour)", said)
    return sum(int(count.replace(",", "")) for count in counts)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_by_number_too_it_gives_the_frame_as_it_was_and_as_many_others_as_it_says(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.pcapng"
    count = chosen(path, "").total()
    for number in range(1, count + 1, 1 + count // 4):
        printed = run(f"dcpdump carve {path} --frame {number} -w {out} --force")
        others = chosen(out, "")
        others.subtract(chosen(path, f"--frame {number}"))
        assert (min(others.values()), others.total()) == (0, along(printed.err)), printed.err


@pytest.mark.parametrize(("options", "said"), CARVED)
def test_no_document_comes_along_that_is_not_in_the_same_packet(options: str, said: str, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    assert run(f"dcpdump carve samples/{options} -w {out}").err == f"{out}: {said} packets\n"


def test_a_chosen_answer_comes_with_its_request_and_nothing_between(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    run(f"dcpdump carve samples/stopped.pcap --frame 42 -w {out}")
    shown = run(f"dcpdump read {out} -f line -q").out.splitlines()[-2:]
    assert [line.split(" ", 2)[2] for line in shown] == [
        "c0 RX noop{}",
        "c0 TX noop-response{success} [answers #13 after 500 us]",
    ]


@pytest.mark.parametrize(("path", "options"), [*zip(SAMPLES, cycle(CHOSEN), strict=False)], ids=str)
def test_what_was_left_out_is_neither_lost_nor_judged(path: Path, options: str, tmp_path: Path) -> None:
    out = tmp_path / "piece.pcapng"
    found = {row["code"] for row in objects(f"dcpdump check {path}") if row["severity"] != "unknown"}
    if run(f"dcpdump carve {path} -w {out} {options}").code == 3:
        return
    assert {row["code"] for row in objects(f"dcpdump check {out}") if row["severity"] != "unknown"} <= found
    verdicts = {row["verdict"].split()[0] for row in objects(f"dcpdump streams {out}")}
    assert verdicts <= {"unknown", "ended", "refused", "rolled"}
    for command in ("read -f line", "conns", "streams", "check", "diagnose"):
        printed = run(f"dcpdump {command} {out}")
        assert not re.findall(r"\blost\b|\bloss|missing in|nothing missing", printed.out + printed.err), printed
        assert f"carved by dcpdump {__version__} from {path.name}: only chosen packets are in it" in printed.err
    assert run(f"dcpdump read {out} -q").code == 0


def test_what_is_carved_again_or_redacted_is_still_known_as_carved(tmp_path: Path) -> None:
    first, second, shared = (tmp_path / name for name in ("first.pcapng", "second.pcapng", "shared.pcapng"))
    run(f"dcpdump carve samples/replica.pcap --opcode mutation -w {first}")
    run(f"dcpdump carve {first} --seqno 5 -w {second}")
    run(f"dcpdump redact {second} -w {shared}")
    notes = [
        [line for line in run(f"dcpdump read {path}").err.splitlines() if "carved by" in line]
        for path in (second, shared)
    ]
    told, end = f"dcpdump: note: carved by dcpdump {__version__} from", "only chosen packets are in it"
    assert notes == [
        [f"{told} first.pcapng: {end}", f"{told} replica.pcap: {end}"],
        [f"dcpdump: note: carved by dcpdump: {end}"],
    ]


def test_the_handshake_and_the_set_up_come_with_a_frame_and_other_connections_do_not(tmp_path: Path) -> None:
    path = saved(renumbered([*long_talk(0), *long_talk(1)]), tmp_path / "a.pcap")
    out = carved(path, "--connection 1 --seqno 12 --opcode mutation")
    names = [row["name"] for row in rows(out)]
    assert names[:14] == [row["name"] for row in rows(path)][:14]
    assert {row["src"] for row in rows(out, "--kind request --opcode hello")} == {"10.0.0.1:50001"}
    flags = [packet.data[47] for packet in Capture(str(out))]
    assert (flags[0], flags[1] & SYN, flags[2] & SYN) == (SYN, SYN, 0)
    assert size(out) < size(path) // 2


def test_packets_keep_their_times_lengths_and_bytes(tmp_path: Path) -> None:
    packets = [each._replace(data=each.data[:300], wire_length=len(each.data)) for each in long_talk(0, 700)]
    path = saved(packets, tmp_path / "a.pcapng", pcapng=True)
    before, after = packets_of(path), packets_of(carved(path, "-c 3"))
    assert [each for each in before if each in after] == after
    assert len(after) > 3


def test_fragments_come_whole(tmp_path: Path) -> None:
    packets = []
    for packet in talk(900, 20).packets:
        for data in fragments(packet, 480) if len(packet.data) > 514 else [packet.data]:
            packets.append(packet._replace(data=data, wire_length=len(data)))
    path = saved(renumbered(packets), tmp_path / "fragments.pcap")
    assert size(check(path, "--seqno 14 --opcode mutation")) < size(path)


def test_several_captures_become_one_file_with_their_interfaces_and_comments(tmp_path: Path) -> None:
    packets = long_talk()
    half = len(packets) // 2
    write = Pcapng()
    blocks = [write.section(), write.interface(options=[(2, b"lo"), (9, b"\x09")])]
    blocks.append(write.interface(options=[(2, b"eth7"), (9, b"\x09")]))
    for packet in packets[half:]:
        remark = [(1, b"seen %d" % packet.number)]
        blocks.append(write.packet(packet.ts_ns or 0, packet.data, interface=1, options=remark))
    (tmp_path / "b.pcapng").write_bytes(b"".join(blocks))
    saved(packets[:half], tmp_path / "a.pcap")
    whole = saved(packets, tmp_path / "whole.pcap")
    command = f"dcpdump carve {tmp_path}/a.pcap {tmp_path}/b.pcapng --seqno 2,24 -w"
    assert run(f"{command} {tmp_path}/out.pcapng").code == 0
    assert chosen(tmp_path / "out.pcapng", "--seqno 2,24") == chosen(whole, "--seqno 2,24")
    data = (tmp_path / "out.pcapng").read_bytes()
    assert (data.count(b"eth7"), data.count(b"a.pcap"), data.count(b"b.pcapng")) == (1, 2, 2)
    assert str(tmp_path).encode() not in data
    there = [packet for packet in Capture(f"{tmp_path}/out.pcapng") if packet.interface == 1]
    assert data.count(b"seen ") == len(there) > 0
    assert (tmp_path / "out.pcapng").stat().st_mode & 0o777 == 0o600
    assert struct.unpack_from("<I", data)[0] == 0x0A0D0D0A


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    """Return four connections of replica traffic, mostly in runs."""
    return list(Capture(str(capture(tmp_path_factory.mktemp("traffic"), "wire", 2500, 64))))


@pytest.mark.parametrize(
    ("options", "first"),
    [("--vbucket 17", 0), ("--host 10.0.0.21", 900), ("--opcode snapshot_marker", 0), (TIMES, 900), ("-c 70", 900)],
)
def test_busy_connections_of_which_the_beginning_may_be_missing(
    traffic: list[Packet], first: int, options: str, tmp_path: Path
) -> None:
    check(saved(traffic[first:], tmp_path / "a.pcap"), options)


@pytest.mark.parametrize(
    ("options", "seed"), [("--vbucket 17", 1), ("--host 10.0.0.21", 2), ("--opcode stream_req,stream_end", 1)]
)
def test_busy_connections_with_losses_and_disorder(
    traffic: list[Packet], seed: int, options: str, tmp_path: Path
) -> None:
    check(saved(renumbered(disturbed(traffic, random.Random(seed))), tmp_path / "a.pcap"), options)


@pytest.mark.parametrize("options", ["--vbucket 17", ""])
def test_the_same_packets_are_taken_from_whatever_file_they_are_in(
    traffic: list[Packet], options: str, tmp_path: Path
) -> None:
    plain = saved(traffic, tmp_path / "a.pcap")
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(plain.read_bytes()))
    saved(traffic, tmp_path / "e.pcapng", pcapng=True)
    half = len(traffic) // 2
    for name, one, other in (("c", traffic[:half], traffic[half:]), ("d", traffic[::2], traffic[1::2])):
        (tmp_path / name).mkdir()
        saved(one, tmp_path / name / "1.pcap")
        saved(other, tmp_path / name / "2.pcapng", pcapng=True)
    results = [packets_of(carved(path, options)) for path in sorted(tmp_path.iterdir())]
    assert results == [results[0]] * 5


def test_damage_is_named_also_where_no_frame_matches(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(saved(talk(count=2).packets, tmp_path / "a.pcap").read_bytes()[:-10])
    printed = run(f"dcpdump carve {path} -w {tmp_path}/out --opcode stream_end")
    warning, error = printed.err.splitlines()
    assert (printed.code, " is cut short: " in warning, "no frame of the input matches" in error) == (3, True, True)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12), st.integers(0, 70), st.integers(0, 9))
def test_spans_meet_where_a_byte_is_in_both(added: list[tuple[int, int]], start: int, length: int) -> None:
    spans = ByteRanges()
    for first, size_ in added:
        spans.add(first, first + size_)
    covered = {place for first, size_ in added for place in range(first, first + size_)}
    places = np.array([start, 0, 70])
    wanted = [bool(covered & set(range(place, place + length))) for place in places.tolist()]
    assert spans.overlaps(places, places + length).tolist() == wanted
    assert spans.end == max((first + size_ for first, size_ in added if size_), default=0)
