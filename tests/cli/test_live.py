"""dcpdump sniff, top and relay, while packets come: what is captured, counted, shown and written, with what rights."""

import json
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select
from typing import Any

import pytest

from dcpdump.capture.file import Capture
from dcpdump.capture.relay import MadeConnection
from dcpdump.cli.relay import SavedPackets
from dcpdump.errors import OutputError
from dcpdump.record import Json
from dcpdump.render.top import Rate, RateMeter
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.wire.encode import encode
from tests.support.console import refusal, run
from tests.support.conversation import opening, said
from tests.support.diagnoses import objects, written
from tests.support.live import (
    PATIENCE,
    ROOT,
    Network,
    ended,
    fed,
    shown_on,
    stopped,
    wait_for,
    wait_until_idle,
    waiting_in,
)
from tests.support.schemas import validator, wrong

DOCUMENTS, VBUCKETS = 40, 3
SAMPLES = Path(__file__).parent.parent.parent / "samples"


def rows(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def counters(err: str) -> Json:
    found: Json = json.loads(err.splitlines()[-1])
    return found


def in_no_frame(of: Json) -> dict[str, int]:
    """Return the payload that is in no frame. Retransmissions are left out: a busy machine causes them."""
    again = {"frames", "retransmitted", "duplicate", "keepalive"}
    assert of["payload_bytes"] == sum(of["payload"].values())
    return {name: count for name, count in of["payload"].items() if count and name not in again}


def take(net: Network, *words: str) -> None:
    """Let the sample client take all documents."""
    client = net.talk("client", "--vbuckets", str(VBUCKETS), "--documents", str(DOCUMENTS), *words)
    out, err = client.communicate(timeout=PATIENCE)
    assert out == f"{VBUCKETS * DOCUMENTS} documents of {VBUCKETS} vbuckets\n", err


@contextmanager
def cable(net: Network) -> Iterator[None]:
    """Provide two interfaces, left and right, of which one receives what the other sends."""
    net.run("ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
    try:
        for end in ("left", "right"):
            net.run("ip", "link", "set", end, "up")
        yield
    finally:
        net.run("ip", "link", "del", "left")


def but_file(frames: list[Json]) -> list[Json]:
    return [{**frame, "file": ""} for frame in frames]


class Seen:
    """One capture of a producer and its client, which several tests use."""

    def __init__(self, net: Network, folder: Path) -> None:
        self.file = folder / "seen.pcapng"
        with (
            net.producer("--documents", str(DOCUMENTS)),
            net.sniff("-i", "lo", "-f", "ndjson", "--summary", "json", "-w", str(self.file)) as sniff,
            net.sniff("-i", "lo", "-f", "table", "--redact", "--value-bytes", "all") as hiding,
        ):
            take(net)
            self.hidden = stopped(hiding, signal.SIGINT)[1]
            self.code, out, err = stopped(sniff, signal.SIGINT)
        self.frames, self.counters = rows(out), counters(err)


@pytest.fixture(scope="module", name="seen")
def _seen(net: Network, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return Seen(net, tmp_path_factory.mktemp("sniff"))


def test_every_frame_of_a_producer_and_its_client_is_shown(seen: Seen) -> None:
    names = Counter(frame["name"] for frame in seen.frames)
    wanted = {"DCP_MUTATION": VBUCKETS * DOCUMENTS, "DCP_STREAM_REQ": 2 * VBUCKETS, "DCP_STREAM_END": VBUCKETS}
    assert {name: names[name] for name in wanted} == wanted
    assert seen.frames[0]["name"] == "HELLO"
    assert [frame for frame in seen.frames if "problems" in frame] == []


def test_a_capture_ends_with_zero_and_its_books_add_up(seen: Seen) -> None:
    of = seen.counters
    assert (seen.code, of["dropped_by_kernel"], of["dropped_by_dcpdump"], of["not_looked_at"]) == (0, 0, 0, 0)
    assert of["received"] == of["decoded"] == of["packets"]
    assert in_no_frame(of) == {}
    again = of["payload"]["duplicate"] + of["payload"]["retransmitted"]
    assert again < of["payload"]["frames"] // 4, "a loopback packet is seen twice"


def test_the_packets_written_hold_the_same_frames(seen: Seen) -> None:
    assert but_file(objects(f"dcpdump read {seen.file}")) == but_file(seen.frames)
    assert {frame["file"] for frame in seen.frames} == {"lo"}
    assert seen.file.stat().st_mode & 0o777 == 0o600


def test_what_is_to_be_hidden_is_hidden(seen: Seen) -> None:
    assert seen.hidden.count("DCP_MUTATION command") == VBUCKETS * DOCUMENTS
    assert ("user" in seen.hidden, "travel" in seen.hidden) == (False, False)


def test_the_sample_conversation_breaks_no_rule(seen: Seen) -> None:
    assert run(f"dcpdump check {seen.file} -q --fail-on suspicious").code == 0


# -- how it begins and ends ---------------------------------------------------------------------------------


def test_a_frame_is_shown_at_once_the_books_when_asked_for_and_at_the_end(net: Network) -> None:
    with net.producer("--documents", "2000"), net.sniff("-i", "lo", "-f", "line") as sniff:
        assert sniff.stdout is not None
        assert sniff.stderr is not None
        with ended(net.talk("client", "--follow")):
            # Nothing else is sent on the connection until the client has its response and continues.
            assert " TX hello{" in sniff.stdout.readline()
            wait_until_idle(sniff.pid)
            assert waiting_in(sniff.stdout) > 48_000  # its output is full, but for ends of pages: it is blocked
        sniff.send_signal(signal.SIGUSR1)
        assert select([sniff.stderr], [], [], PATIENCE)[0]
        assert sniff.stderr.readline().startswith("received ")
        code, _, err = stopped(sniff, signal.SIGTERM)
    assert (code, "dropped by the kernel 0 · dropped by dcpdump 0 · decoded " in err) == (143, True)


def test_a_count_ends_it_and_the_rest_is_accounted_for(net: Network) -> None:
    words = ("-i", "lo", "-c", "2", "--opcode", "mutation", "--seqno", "7", "-f", "ndjson", "--summary", "json")
    with net.producer("--documents", str(DOCUMENTS)), net.sniff(*words) as sniff:
        take(net)
        out, err = sniff.communicate(timeout=PATIENCE)
    assert (sniff.returncode, [frame["fields"]["by_seqno"] for frame in rows(out)]) == (0, [7, 7])
    of = counters(err)
    assert of["received"] == of["decoded"] + of["dropped_by_dcpdump"] + of["not_looked_at"]


def test_a_duration_ends_it(net: Network) -> None:
    with net.sniff("-i", "lo", "--duration", "0.2") as sniff:
        _, err = sniff.communicate(timeout=PATIENCE)
    reported = "received 0 packets · dropped by the kernel 0 · dropped by dcpdump 0 · decoded 0\n"
    assert (sniff.returncode, err) == (0, reported)


@pytest.mark.parametrize(("command", "number", "code"), [("sniff", signal.SIGHUP, 129), ("top", signal.SIGTERM, 143)])
def test_a_signal_but_ctrl_c_is_no_usual_end(net: Network, command: str, number: int, code: int) -> None:
    with net.capture(command, "-i", "lo", "-f", "ndjson") as process:
        status, _, err = stopped(process, number)
    assert (status, err.partition(" ")[0]) == (code, "received")


def test_who_does_not_read_the_output_makes_dcpdump_drop_and_count(net: Network, tmp_path: Path) -> None:
    file = tmp_path / "all.pcapng"
    words = ("-i", "lo", "-f", "table", "--buffer", "64k", "--summary", "json", "-w", str(file))
    with net.producer("--documents", "2000"), net.sniff(*words) as sniff:
        with ended(net.talk("client", "--documents", "2000", "--vbuckets", "8")) as client:
            client.communicate(timeout=PATIENCE)
        code, _, err = stopped(sniff, signal.SIGINT)
    of = counters(err)
    assert (code, of["dropped_by_dcpdump"] > 0) == (0, True)
    assert of["received"] == of["decoded"] + of["dropped_by_dcpdump"]
    # The file has them all the same.
    assert len(objects(f"dcpdump read {file} --opcode stream_end --kind request")) == 8


# -- what is captured ---------------------------------------------------------------------------------------


def test_ports_are_chosen_by_the_kernel_in_both_versions_of_ip(net: Network) -> None:
    expected = {"--port 7000-7001": 4, "--port !7001": 4, "--bpf tcp\tport\t7002": 4}
    with ExitStack() as running:
        sniffs = {
            words: running.enter_context(net.sniff("-i", "lo", "--summary", "json", *words.split(" ")))
            for words in expected
        }
        net.run(sys.executable, "-c", _CONNECT, "7001", "7002")
        received = {words: counters(stopped(sniff, signal.SIGINT)[2])["received"] for words, sniff in sniffs.items()}
    # Each connection that is refused is two packets: one asks, one refuses.
    assert received == expected


_CONNECT = """
import socket, sys
for port in sys.argv[1:]:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        socket.socket(family).connect_ex((host, int(port)))
"""


def test_any_captures_on_all_interfaces_each_with_its_own_name(net: Network, tmp_path: Path) -> None:
    file = tmp_path / "any.pcapng"
    words = ("-i", "any", "-f", "ndjson", "--summary", "json", "-w", str(file), "--port", "11210")
    with cable(net), net.producer("--documents", str(DOCUMENTS)):
        net.run("ip", "address", "add", "10.9.0.1/24", "dev", "left")
        with net.sniff(*words) as sniff:
            take(net)
            # An address that no host has is requested on the wire, and captured there.
            net.run(sys.executable, "-c", "import socket; socket.socket(2, 2).sendto(b'', ('10.9.0.9', 1))")
            _, out, err = stopped(sniff, signal.SIGINT)
    assert [frame["name"] for frame in rows(out)].count("DCP_MUTATION") == VBUCKETS * DOCUMENTS
    assert counters(err)["received"] == counters(err)["decoded"]
    written = file.read_bytes()
    assert b"\x02\0\x02\0lo\0\0" in written
    assert b"\x02\0\x04\0left" in written


def test_an_interface_that_goes_down_ends_the_capture_and_is_reported(net: Network) -> None:
    with cable(net), net.sniff("-i", "left") as sniff:
        net.run("ip", "link", "set", "left", "down")
        _, err = sniff.communicate(timeout=PATIENCE)
    assert (sniff.returncode, err.splitlines()[-1]) == (6, "dcpdump: error: the interface went down (left)")


def test_what_top_says_of_an_interface_fits_its_schema(net: Network) -> None:
    with net.producer(), net.capture("top", "-i", "lo", "--once", "-f", "ndjson") as top:
        take(net)
        printed, _ = top.communicate(timeout=PATIENCE)
    (row,) = rows(printed)
    assert (row["received"] > 0, len(row["streams"]), wrong("top", printed, validator("top"))) == (True, VBUCKETS, [])


# -- analyses -----------------------------------------------------------------------------------------------


def test_analyses_of_an_interface_end_at_ctrl_c_and_say_what_was_found(net: Network) -> None:
    commands = "streams", "conns", "flow", "check --all", "diagnose", "stats"
    with net.producer("--documents", str(DOCUMENTS)), ExitStack() as running:
        processes = [
            running.enter_context(net.capture(*command.split(), "-i", "lo", "-f", "ndjson")) for command in commands
        ]
        take(net)
        ends = [stopped(process, signal.SIGINT) for process in processes]
    assert [code for code, *_ in ends] == [0] * len(commands)
    assert all(" · decoded " in err for *_, err in ends)
    streams, connections, flows, findings, diagnosis, statistics = (rows(out) for _, out, _ in ends)
    became = [(row["vbucket"], row["mutations"], row["cause"]) for row in streams]
    assert became == [(vbucket, DOCUMENTS, "finished") for vbucket in range(VBUCKETS)]
    assert [row["name"] for row in flows] == [row["name"] for row in connections]
    assert (findings, diagnosis[0]["outcome"], diagnosis[0]["captures"]) == ([], "healthy", ["lo"])
    assert [row["frames"] for row in statistics if row.get("name") == "DCP_MUTATION"] == [VBUCKETS * DOCUMENTS]


_SPEAK = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", 11210))
client = socket.create_connection(("127.0.0.1", 11210))
ends = client, server.accept()[0]
for line in sys.stdin:
    side, data = line.split()
    ends[int(side)].sendall(bytes.fromhex(data))
    ends[1 - int(side)].recv(1 << 20)
print("said", flush=True)
time.sleep(60)
"""


@contextmanager
def spoken(net: Network, text: str) -> Iterator[None]:
    """Have a client and a producer say something, and be silent then, with the connection open, during the block."""
    with ended(net.start(sys.executable, "-c", _SPEAK, stdin=subprocess.PIPE)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.writelines(f"{frame.direction} {frame.data.hex()}\n" for frame in said(text))
        process.stdin.close()
        process.stdin = None
        assert process.stdout.readline() == "said\n"
        yield


def test_the_first_thing_that_is_wrong_ends_a_watch_of_an_interface(net: Network) -> None:
    wrong = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=5}\n"
    wrong += "RX mutation{seqno:2}\nRX mutation{seqno:1}\nTX noop\n"
    with net.capture("check", "-i", "lo", "--fail-fast") as check, spoken(net, wrong):
        out, err = check.communicate(timeout=PATIENCE)
    assert (check.returncode, "DCP402" in out) == (1, True)
    assert err.splitlines()[-1].startswith("dcpdump: --fail-fast: Seqno does not rise (DCP402), frame ")


def test_a_capture_of_an_interface_ends_when_capturing_does(net: Network) -> None:
    silent = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=5}\nRX mutation{seqno:1}\n"
    words = ("streams", "-i", "lo", "-f", "ndjson", "--idle", "0.2", "--duration", "1.5")
    with net.capture(*words) as streams, spoken(net, silent):
        out, err = streams.communicate(timeout=PATIENCE)
    (row,) = rows(out)
    assert (row["verdict"].partition(" ")[0], row["last_seqno"]) == ("stuck", 1), err


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("check", "Seqno does not rise (DCP402), frame 16: MUTATION seqno 17 after 17"),
        ("diagnose", "Seqno does not rise (DCP402)"),
    ],
)
def test_the_first_thing_that_is_wrong_ends_a_watch_of_a_pipe(command: str, what: str) -> None:
    with fed([command, "-", "--fail-fast"], (SAMPLES / "order.pcap").read_bytes()) as watch:
        assert (watch.wait(PATIENCE), watch.stderr is not None) == (1, True)
        assert watch.stderr is not None
        assert watch.stderr.read().decode().splitlines()[-1] == f"dcpdump: --fail-fast: {what}"


@pytest.mark.parametrize("command", ["streams", "conns", "diagnose", "check --all"])
def test_a_watch_of_what_is_as_it_should_be_ends_with_its_input(command: str) -> None:
    watched = run(f"dcpdump {command} {SAMPLES}/takeover.pcap --fail-fast -f ndjson")
    assert watched == run(f"dcpdump {command} {SAMPLES}/takeover.pcap -f ndjson")
    assert (watched.code, "--fail-fast" in watched.err) == (0, False)


# -- what is written ----------------------------------------------------------------------------------------


def test_files_rotate_the_newest_are_kept_and_each_is_whole_when_killed(net: Network, tmp_path: Path) -> None:
    words = ("-i", "lo", "-w", str(tmp_path / "ring.pcapng"), "-C", "0.1", "-W", "3")
    with net.producer("--documents", "1000"), net.sniff(*words, stdout=subprocess.DEVNULL) as sniff:
        client = net.talk("client", "--documents", "1000", "--vbuckets", "8")
        assert client.communicate(timeout=PATIENCE)[0] == "8000 documents of 8 vbuckets\n"
        wait_for(lambda: len(list(tmp_path.iterdir())) == 3)
        os.kill(sniff.pid, signal.SIGKILL)
        sniff.wait()
    files = sorted(tmp_path.iterdir())
    first, *others = (int(file.name.split("_")[1]) for file in files)
    assert (first > 1, others) == (True, [first + 1, first + 2])
    assert max(file.stat().st_size for file in files) <= 100_000
    summary = json.loads(run(f"dcpdump read {tmp_path} -f ndjson --summary json").err.splitlines()[-1])
    assert (summary["damage"], summary["frames"] > 0) == ([], True)


# -- rights -------------------------------------------------------------------------------------------------


_WITHOUT_RIGHTS = """
import os, sys
import csv, dcpdump.cli.sniff, dcpdump.cli.diagnose, dcpdump.batch.traffic_over_time, scapy.arch, scapy.packet
from dcpdump.cli.main import run
os.setresuid(65534, 65534, 65534)
run(sys.argv[1:])
"""


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="only Linux has packet sockets")
@pytest.mark.parametrize(("command", "reader"), [("sniff", "read"), ("diagnose", "diagnose")])
def test_without_the_right_the_ways_out_are_reported(command: str, reader: str) -> None:
    as_nobody = _WITHOUT_RIGHTS if os.geteuid() == 0 else _WITHOUT_RIGHTS.replace("os.setresuid", "(lambda *_: 0)")
    words = [sys.executable, "-c", as_nobody, command, "-i", "lo"]
    reported = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (reported.returncode, reported.stdout, reported.stderr) == refusal(
        6,
        "no right to capture here (CAP_NET_RAW) (lo)",
        f"sudo dcpdump {command} -i lo  (rights are dropped once the interface is open)",
        f"dumpcap -i lo -w - | dcpdump {reader} -  (for members of the group wireshark)",
        f"ssh root@NODE tcpdump -i lo -U --immediate-mode -B 65536 -w - port 11210 | dcpdump {reader} -",
    )


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="only Linux has packet sockets")
@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        ("-C 1", 2, "-C, -G and -W say when -w begins another file: -w FILE is missing"),
        ("-w x.pcapng -W 2", 2, "-W keeps the newest files of -C or -G; neither is given"),
        ("-i any --bpf tcp", 2, "--bpf needs to know the kind of link, and 'any' has several"),
        (
            "-i lo --bpf 'tcp prt 1'",
            2,
            "--bpf: 'tcp prt 1' is not a filter: can't parse filter expression: syntax error",
        ),
        ("-i lo9", 6, "there is no such interface (lo9)\nhint: did you mean 'lo'?"),
    ],
)
def test_what_cannot_be_meant_is_an_error(words: str, code: int, what: str) -> None:
    reported = run(f"dcpdump sniff {words}")
    if "libpcap" in reported.err:
        pytest.skip("libpcap is not installed")
    assert (reported.code, reported.err.startswith(f"dcpdump: error: {what}\n")) == (code, True), reported.err


def test_interfaces_are_listed(net: Network) -> None:
    assert net.run(sys.executable, "-m", "dcpdump", "sniff", "-D").splitlines() == ["any", "lo  127.0.0.1  ::1"]


SLOW = SAMPLES / "slow-consumer.pcap"


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
        ledger.frames, connection.sides[0].frames, connection.sides[1].bytes = at, at * at, at
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


PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def started(*words: str) -> "subprocess.Popen[str]":
    """Start a program in a session of its own."""
    return subprocess.Popen([sys.executable, *words], cwd=ROOT, start_new_session=True, **PIPES)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def producer() -> Iterator[int]:
    """The port of a producer."""
    port, numbers = free_port(), ("--documents", str(DOCUMENTS), "--vbuckets", str(VBUCKETS))
    with ended(started("samples/talk.py", "producer", "--port", str(port), *numbers)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening")
        yield port


@contextmanager
def relay(target: int, *words: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a relay to a port, and return the process and the port of the relay."""
    with ended(started("-m", "dcpdump", "relay", "--to", f"127.0.0.1:{target}", *words)) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("relaying 127.0.0.1:"), line + process.stderr.read()
        yield process, int(line.split()[1].rpartition(":")[2])


def client(port: int) -> "subprocess.Popen[str]":
    """Start the sample client."""
    numbers = ("--documents", str(DOCUMENTS), "--vbuckets", str(VBUCKETS))
    return started("samples/talk.py", "client", "--port", str(port), *numbers)


def test_what_passes_is_printed_and_written_as_it_was(producer: int, tmp_path: Path) -> None:
    written = tmp_path / "talk.pcapng"
    with relay(producer, "-f", "ndjson", "-w", str(written), "--summary", "json") as (process, port):
        with ended(client(port)) as taking:
            taken, why = taking.communicate(timeout=PATIENCE)
        assert taken == f"{VBUCKETS * DOCUMENTS} documents of {VBUCKETS} vbuckets\n", why
        code, out, err = stopped(process, signal.SIGINT)
    assert (code, run(f"dcpdump check {written} -q").code, written.stat().st_mode & 0o777) == (0, 0, 0o600)
    printed = [json.loads(line) for line in out.splitlines()]
    assert but_file(printed) == but_file(objects(f"dcpdump read {written}"))
    assert sum(each["name"] == "DCP_MUTATION" for each in printed) == VBUCKETS * DOCUMENTS
    balance = json.loads(err.splitlines()[-1])
    assert (balance["relayed_connections"], balance["payload"]["frames"]) == (1, balance["relayed_bytes"])


def test_filters_hold_and_a_count_ends_it(producer: int) -> None:
    words = ("--opcode", "mutation", "-c", "3", "-f", "line", "--summary", "none")
    with relay(producer, *words) as (process, port), ended(client(port)):
        out, err = process.communicate(timeout=PATIENCE)
    names = [line.partition("{")[0].split()[-1] for line in out.splitlines()]
    assert (process.returncode, err, names) == (0, "", ["mutation"] * 3)


def test_a_server_that_does_not_answer_is_named() -> None:
    target = free_port()
    with relay(target) as (process, port):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as refused_client:
            assert refused_client.recv(1) == b""
        code, out, err = stopped(process, signal.SIGINT)
    refused = f"dcpdump: note: 127.0.0.1:{target} does not accept a connection: connection refused"
    assert (code, out, err.splitlines()) == (0, "", [refused, "passed on 0 connections · 0 B"])


def test_a_port_that_is_taken_and_one_that_is_the_relay_s_are_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        taken = run(f"dcpdump relay --listen {port} --to localhost")
    error = f"dcpdump: error: cannot listen: address already in use (127.0.0.1:{port})"
    assert (taken.code, taken.err.splitlines()[0]) == (6, error)
    itself = refusal(6, f"the relay would connect to itself (127.0.0.1:{port})", "--listen takes another port")
    assert run(f"dcpdump relay --listen {port} --to 127.0.0.1:{port}") == itself


def test_a_file_that_cannot_grow_ends_with_a_whole_packet(tmp_path: Path) -> None:
    path, made = tmp_path / "full.pcapng", MadeConnection(("127.0.0.1", 50_000), ("127.0.0.1", 11210))
    frame = encode("SET", key=b"key", value=bytes(1_000))
    packets = [*made.opened(1), *(made.data(4 + at, 0, frame) for at in range(10))]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"cannot write: file too large"):
            list(SavedPackets(str(path), force=False).through(packets))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with Capture(str(path)) as capture:
        found = [packet.data for packet in capture]
    assert (found, capture.damage) == ([packet.data for packet in packets[:7]], [])
