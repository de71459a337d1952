"""Several captures of one conversation, by clocks that differ: --align makes them what one clock would have shown."""

import gzip
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpdump.capture.file import Capture
from dcpdump.compare.align import Move, moves
from dcpdump.net.packet import Packet
from tests.support.console import run
from tests.support.conversation import said
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved
from tests.support.two_captures import MS, Place, captured, stream, written

FRAMES = said(stream(range(1, 100)))
S = 1_000_000_000
#: One place is at the producer, one at the consumer, 2 ms away; and with other segments, as network cards make them.
HERE, THERE = Place(ways_ns=(2 * MS, 0)), Place(ways_ns=(0, 2 * MS))
OFFLOADED = THERE._replace(merge=True)


def at(place: Place, clock_ns: int, lost: str = "") -> list[Packet]:
    """Return what is captured at a place, by a clock that is ahead; ``lost``: without a tenth of it, chosen so."""
    dice = random.Random(lost)
    packets = [each for each in captured(FRAMES, place) if not lost or dice.random() > 0.1]
    return [each._replace(ts_ns=(each.ts_ns or 0) + 10 * S + clock_ns) for each in packets]


@pytest.mark.parametrize("lost", [("", ""), ("here", "there")], ids=["all of it", "with losses"])
@pytest.mark.parametrize("clock_ns", [1_500 * MS, -1_500 * MS])
@pytest.mark.parametrize("command", ["read -f ndjson", "streams -f ndjson", "stats -f ndjson", "diagnose", "check"])
def test_rows_are_those_of_captures_by_one_clock(
    command: str, clock_ns: int, lost: tuple[str, str], tmp_path: Path
) -> None:
    one = written(at(HERE, 0, lost[0]), tmp_path / "1.pcap")
    two = written(at(THERE, 0, lost[1]), tmp_path / "2.pcap")
    name, _, options = command.partition(" ")
    wanted = run(f"dcpdump {name} {one} {two} -q {options}")
    written(at(THERE, clock_ns, lost[1]), two)
    assert name != "read" or run(f"dcpdump {name} {one} {two} -q {options}").out != wanted.out
    aligned = run(f"dcpdump {name} {one} {two} -q {options} --align")
    assert aligned.out.replace(" --align", "") == wanted.out
    assert (aligned.code, aligned.err) == (wanted.code, wanted.err)


def offset(folder: Path, *captures: Sequence[Packet], memory: int = 1 << 28) -> list[Move]:
    """Return by how much captures are moved."""
    paths = [written(packets, folder / f"{number}.pcap") for number, packets in enumerate(captures)]
    return moves([Capture(str(path)) for path in paths], memory)


ALL = len([each for each in captured(FRAMES, HERE) if len(each.data) > 54])


def test_the_offset_is_that_of_the_clocks_whatever_packets_took_on_their_way(tmp_path: Path) -> None:
    for clock_ns in (7 * S, -7 * S, 86_400 * S):
        assert offset(tmp_path, at(HERE, 0), at(THERE, clock_ns)) == [Move(), Move(-clock_ns, 0, ALL)]
    assert offset(tmp_path, at(HERE, 0), at(OFFLOADED, 7 * S))[1].ns == pytest.approx(-7 * S, abs=4 * MS)


def test_of_one_direction_the_way_is_part_of_it(tmp_path: Path) -> None:
    one_way = [packet for packet in at(THERE, 7 * S) if packet.data[34:36] == (11210).to_bytes(2, "big")]
    assert offset(tmp_path, at(HERE, 0), one_way)[1].ns == -7 * S - 2 * MS


def test_a_capture_may_have_nothing_in_common_with_the_first_but_with_one_that_has(tmp_path: Path) -> None:
    every = at(HERE, 0)
    half = len(every) // 2
    found = offset(tmp_path, every[:half], at(HERE, 5 * S)[half:], at(HERE, -2 * S))
    assert [move.ns for move in found] == [0, -5 * S, 2 * S]
    assert [move.like for move in found] == [None, 2, 0]


def test_of_many_segments_some_are_compared_and_the_same_of_each_capture(tmp_path: Path) -> None:
    talk = TcpTalk(start_ns=S)
    for number in range(4_000):
        talk.send(number & 1, number.to_bytes(8, "big"))
    later = [packet._replace(ts_ns=(packet.ts_ns or 0) + 3 * S) for packet in talk.packets]
    (_, (ns, like, segments)) = offset(tmp_path, talk.packets, later, memory=1 << 16)
    assert (ns, like) == (-3 * S, 0)
    assert 200 < segments < 800


def test_what_is_sent_again_in_the_next_file_of_a_set_says_nothing_of_clocks(tmp_path: Path) -> None:
    every = at(HERE, 0)
    half = len(every) // 2
    again = [packet._replace(ts_ns=(packet.ts_ns or 0) + 300 * MS) for packet in every[half - 12 : half]]
    assert offset(tmp_path, every[:half], [*again, *every[half:]]) == [Move(), Move()]


def tagged(packets: Sequence[Packet]) -> list[Packet]:
    """Return packets with a VLAN tag, which are read one by one."""
    datas = [each.data[:12] + b"\x81\x00\x00\x05" + each.data[12:] for each in packets]
    return [each._replace(data=data, wire_length=len(data)) for each, data in zip(packets, datas, strict=True)]


@pytest.mark.parametrize("form", ["pcapng", "gz", "tagged"])
def test_captures_are_aligned_in_whatever_form_they_are(form: str, tmp_path: Path) -> None:
    first, second = at(HERE, 0), at(THERE, -4 * S)
    one = written(first, tmp_path / "1.pcap")
    if form == "pcapng":
        two = saved(second, tmp_path / "2.pcapng", pcapng=True)
    else:
        two = written(tagged(second) if form == "tagged" else second, tmp_path / "2.pcap")
    if form == "gz":
        packed = tmp_path / "2.pcap.gz"
        packed.write_bytes(gzip.compress(two.read_bytes()))
        two = packed
    printed = run(f"dcpdump conns {one} {two} --align")
    assert printed.err.splitlines()[0] == (
        f"dcpdump: note: {two}: times moved by +4.000000 s: {ALL} segments captured in {one} too"
    )
    assert "captured twice" in printed.err.splitlines()[-1]


def test_it_is_said_where_nothing_was_captured_twice(tmp_path: Path) -> None:
    one, two = written(at(HERE, 0), tmp_path / "1.pcap"), written(at(THERE, S), tmp_path / "2.pcap")
    other = written(captured(FRAMES, HERE._replace(src="10.0.0.8:50000")), tmp_path / "other.pcap")
    for captures in (one, f"{one} {other}"):
        printed = run(f"dcpdump streams {captures} --align")
        assert (printed.code, printed.err.splitlines()[0]) == (
            run(f"dcpdump streams {captures}").code,
            "dcpdump: note: --align: no connection was captured twice: no times are moved",
        )
    said_of_it = run(f"dcpdump streams {one} {two} {other} --align").err.splitlines()
    assert said_of_it[1] == f"dcpdump: note: {other}: captured in no other file: times are not moved"


@pytest.mark.parametrize("options", ["-", "PIPE", "1.pcap -F", "-i lo"])
def test_what_can_be_read_once_is_refused(options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(at(HERE, 0), tmp_path / "1.pcap")
    reader = -1
    if options == "PIPE":
        os.mkfifo("PIPE")
        reader = os.open("PIPE", os.O_RDWR)
        os.write(reader, path.read_bytes()[:4096])
    printed = run(f"dcpdump streams {'' if options == '-i lo' else '1.pcap'} {options} --align", path.read_bytes())
    if reader >= 0:
        os.close(reader)
    why = "is of captures, not of an interface"
    if options != "-i lo":
        why = "reads captures twice: not standard input, a pipe, or what is followed (-F)"
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.startswith(f"dcpdump: error: --align {why}\n")


@pytest.mark.parametrize("command", ["browse", "carve", "diff", "pipeline", "redact"])
def test_commands_that_do_not_move_times_have_no_such_option(command: str) -> None:
    assert "--align" not in run(f"dcpdump {command} --help").out


def test_a_diagnosis_of_captures_by_two_clocks_says_what_to_try(tmp_path: Path) -> None:
    one, two = written(at(HERE, 0), tmp_path / "1.pcap"), written(at(THERE, S), tmp_path / "2.pcap")
    said_of_it = run(f"dcpdump diagnose {one} {two}").err
    assert "; --align (of diagnose, streams, read …) makes them one timeline; to compare two captures, " in said_of_it
    assert "--align" not in run(f"dcpdump diagnose {one} {two} --align").err
    large = captured(said(stream(range(1, 400), value="v" * 1000)), HERE)  # more than is remembered to be compared
    written(large, one)
    written([packet._replace(ts_ns=(packet.ts_ns or 0) + S) for packet in large], two)
    assert "where captures have different clocks, --align (of " in run(f"dcpdump diagnose {one} {two}").err
