"""dcpdump top: what it shows of captures that are complete, of pipes and of an interface."""

import json
import os
import pty
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from select import select

import pytest

from dcpdump.streams.ledger import Ledger
from dcpdump.streams.rates import Rate, RateMeter
from dcpdump.streams.state import ConnectionState
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written
from tests.support.live import PATIENCE, Network, ended, fed, network, shown_on, stopped

SAMPLES = Path(__file__).parent.parent.parent / "samples"
SLOW = SAMPLES / "slow-consumer.pcap"


def test_a_blocked_stream_is_shown_with_what_its_client_did_not_acknowledge() -> None:
    shown = run(f"dcpdump top {SAMPLES}/slow-consumer.pcap -q")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.partition(" · ")[2].splitlines() == [
        "12:12:57.099 · 1 connection · 1 stream, 1 blocked by flow control · 258 frames · rates of the last 5 s",
        "conn  client    server           streams  frames/s  kB/s  unacked  buffer   full",
        "0     kafka-7f  10.0.10.1:11210        1       0.4   0.0    1,920   1,900  101 %  BLOCKED",
        "",
        "conn  client    vb  frames/s  kB/s  last seqno  lag  state",
        "0     kafka-7f   9         0     0         120    ?  blocked by flow control "
        "(1,920 of 1,900 bytes not acknowledged since 12:12:16.997)",
    ]


def test_a_pipe_ends_with_the_same_as_the_file() -> None:
    sample = SAMPLES / "rollback-loop.pcap"
    whole = run(f"dcpdump top {sample} -q").out.partition(" · ")[2]
    piped = run("dcpdump top - -q", sample.read_bytes()).out
    assert piped.rpartition("- · ")[2].rstrip("\n") == whole.rstrip("\n")
    assert "rolled back (to 0, 12 times in 55 s: a loop)" in whole


def test_what_does_not_fit_is_counted() -> None:
    shown = run(f"dcpdump top {SAMPLES}/takeover.pcap {SAMPLES}/no-end.pcap {SAMPLES}/stopped.pcap -q -n 2").out
    assert shown.count("more streams, slower and without trouble\n") == 1


@pytest.mark.parametrize("every_ms", [10, 700, 3_000])
def test_rates_are_those_of_the_last_five_seconds_whether_frames_come_often_or_not(every_ms: int) -> None:
    ledger, rates, ms = Ledger(), RateMeter(), 1_000_000
    connection = ledger.connections[0] = ConnectionState(0)
    assert rates.of(connection) == Rate(0, 0)
    for at in range(0, 30_001, every_ms):  # faster and faster
        ledger.first_ns = ledger.first_ns or 1_000 * ms
        rates.pass_to(ledger, (1_000 + at) * ms)
        ledger.frames, connection.frames, connection.bytes = at, [at * at, 0], [0, at]
        connection.last_ns = (1_000 + at) * ms
    rates.look(ledger, 31_000 * ms)
    last_ms, rate = rates.lasting_ns // ms, rates.of(connection)
    assert 4_000 <= last_ms <= 5_000
    before = (30_000 - last_ms) // every_ms * every_ms  # the last frame before these
    assert rate.frames == pytest.approx((at * at - before * before) / last_ms * 1_000, rel=0.01)
    rates.look(ledger, 60_000 * ms)
    assert (rates.of(connection), rates.lasting_ns // ms) == (Rate(0, 0), 5_000)


def test_a_pipe_that_pauses_is_drawn_again_and_again_with_all_that_came() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "20"}
    with fed(["top", "-", "--interval", "0.1"], SLOW.read_bytes(), stdout=theirs, env=environment) as top:
        os.close(theirs)
        drawn = b""
        while drawn.count(b"1 blocked by flow control") < 3 or b"258 frames" not in drawn:
            assert select([ours], [], [], PATIENCE)[0], "nothing is drawn any more"
            drawn += os.read(ours, 4096)
        top.send_signal(signal.SIGINT)
        shown_on(ours)
        assert top.wait(PATIENCE) == 130
    assert b"\x1b[1A" in drawn  # back up, over what was drawn before


def test_time_continues_while_a_pipe_pauses() -> None:
    with fed(["top", "-", "-f", "ndjson", "--interval", "0.1"], SLOW.read_bytes()) as top:
        assert top.stdout is not None
        looks = [json.loads(top.stdout.readline())]
        while looks[-1]["frames"] < 258:
            looks = [json.loads(top.stdout.readline())]
        looks += [json.loads(top.stdout.readline()) for _ in range(3)]
        top.send_signal(signal.SIGTERM)
        # What was read ahead of the lines above is not lost: ``communicate`` would not know of it.
        looks += [json.loads(line) for line in top.stdout]
        _, err = top.communicate(timeout=PATIENCE)
    assert [look["frames"] for look in looks] == [258] * len(looks)
    assert looks[-1]["time"] > looks[1]["time"] > looks[0]["time"] >= "2025-11-20T12:12:57.099000Z"
    assert {look["streams"][0]["state"] for look in looks} == {"blocked by flow control"}
    assert (top.returncode, err.decode().partition(" · ")[0]) == (143, "interrupted")


@pytest.fixture(scope="module", name="net")
def _net() -> Iterator[Network]:
    with network() as inside:
        yield inside


def test_an_interface_is_shown_once_or_again_and_again(net: Network) -> None:
    command = (sys.executable, "-m", "dcpdump", "top", "-i", "lo")
    with net.producer("--rate", "500"), ended(net.talk("client", "--follow", "--vbuckets", "3")):
        once = net.start(*command, "--once", "--duration", "0.5", "-q")
        again = net.start(*command, "-f", "ndjson", "--interval", "0.1", "--port", "11210")
        with ended(once), ended(again):
            out, err = once.communicate(timeout=PATIENCE)
            assert again.stdout is not None
            looks = [json.loads(again.stdout.readline()) for _ in range(4)]
            code, _, summary = stopped(again, signal.SIGINT)
    title, _, connection, _, heads, *streams = out.splitlines()
    assert (once.returncode, err) == (0, "")
    assert title.endswith(" · dropped by the kernel 0 · dropped by dcpdump 0")
    assert ("3 streams, 3 open and flowing" in title, "127.0.0.1:11210" in connection) == (True, True)
    assert heads.split() == ["conn", "client", "vb", "frames/s", "kB/s", "last", "seqno", "lag", "state"]
    assert [line.split()[2] for line in streams] == ["0", "1", "2"]
    assert (code, "dropped by the kernel 0 · dropped by dcpdump 0" in summary) == (0, True)
    assert sorted(each["vbucket"] for each in looks[-1]["streams"]) == [0, 1, 2]
    assert looks[-1]["frames"] > looks[0]["frames"]
    assert all(look["received"] >= look["decoded"] > 0 for look in looks[1:])


def test_a_producer_that_sends_into_a_full_window_exceeds_it_and_is_not_blocked(tmp_path: Path) -> None:
    spoken = opening(controls="connection_buffer_size=1000") + "STREAM vb=5\n"
    spoken += "RX snapshot-marker{start=0, end=99, flags=5}\n"
    spoken += "".join(f"RX mutation{{seqno:{seqno}}}\n" for seqno in range(1, 61))
    path = written(spoken, tmp_path / "exceeded.pcap")
    ((connection,),) = [row["connections"] for row in objects(f"dcpdump top {path}")]
    assert (connection["blocked"], connection["exceeded"]) == (False, True)
    assert "EXCEEDED" in run(f"dcpdump top {path} -q --once").out
