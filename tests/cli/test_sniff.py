"""dcpdump sniff, on a network of its own: what is captured, counted, written, and with what privileges."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dcpdump.record import Json
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.live import PATIENCE, Network, ended, needs, network, stopped, wait_for

DOCUMENTS, VBUCKETS = 40, 3


@pytest.fixture(scope="module", name="net")
def _net() -> Iterator[Network]:
    with network() as inside:
        yield inside


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


def frames_but_file(frames: list[Json]) -> list[Json]:
    return [{name: value for name, value in frame.items() if name != "file"} for frame in frames]


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
    assert frames_but_file(objects(f"dcpdump read {seen.file}")) == frames_but_file(seen.frames)
    assert {frame["file"] for frame in seen.frames} == {"lo"}
    assert seen.file.stat().st_mode & 0o777 == 0o600


def test_what_is_to_be_hidden_is_hidden(seen: Seen) -> None:
    assert seen.hidden.count("DCP_MUTATION command") == VBUCKETS * DOCUMENTS
    assert ("user" in seen.hidden, "travel" in seen.hidden) == (False, False)


def test_the_sample_conversation_breaks_no_rule(seen: Seen) -> None:
    assert run(f"dcpdump check {seen.file} -q --fail-on suspicious").code == 0


# -- how it begins and ends ---------------------------------------------------------------------------------


def test_a_frame_is_shown_at_once_the_books_when_asked_for_and_at_the_end(net: Network) -> None:
    with net.producer(), net.sniff("-i", "lo", "-f", "line") as sniff:
        assert sniff.stdout is not None
        assert sniff.stderr is not None
        with ended(net.talk("client", "--follow")):
            # Nothing else is sent on the connection until the client has its response and continues.
            assert " TX hello{" in sniff.stdout.readline()
        sniff.send_signal(signal.SIGUSR1)
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
            # An address that no host has is asked for on the wire, and captured there.
            net.run(sys.executable, "-c", "import socket; socket.socket(2, 2).sendto(b'', ('10.9.0.9', 1))")
            _, out, err = stopped(sniff, signal.SIGINT)
    assert [frame["name"] for frame in rows(out)].count("DCP_MUTATION") == VBUCKETS * DOCUMENTS
    assert counters(err)["received"] == counters(err)["decoded"]
    written = file.read_bytes()
    assert b"\x02\0\x02\0lo\0\0" in written
    assert b"\x02\0\x04\0left" in written


def test_a_tag_that_the_kernel_took_out_is_in_the_file(net: Network, tmp_path: Path) -> None:
    file = tmp_path / "tagged.pcapng"
    with cable(net), net.sniff("-i", "right", "-w", str(file)) as sniff:
        net.run(sys.executable, "-c", _TAGGED)
        wait_for(lambda: b"tagged" in file.read_bytes())
        stopped(sniff, signal.SIGINT)
    assert b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x81\x00\x60\x05\x08\x00tagged" in file.read_bytes()


_TAGGED = """
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("left", 0))
link.send(bytes.fromhex("020000000002 020000000001 8100 6005 0800") + b"tagged".ljust(60))
"""


def test_an_interface_that_goes_down_ends_the_capture_and_is_reported(net: Network) -> None:
    with cable(net), net.sniff("-i", "left") as sniff:
        net.run("ip", "link", "set", "left", "down")
        _, err = sniff.communicate(timeout=PATIENCE)
    assert (sniff.returncode, err.splitlines()[-1]) == (6, "dcpdump: error: the interface went down (left)")


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


def test_an_existing_file_is_not_overwritten(net: Network, tmp_path: Path) -> None:
    file = tmp_path / "mine.pcapng"
    file.write_text("mine")
    process = net.start(sys.executable, "-m", "dcpdump", "sniff", "-i", "lo", "-w", str(file))
    out, err = process.communicate(timeout=PATIENCE)
    wanted = refusal(5, f"the output exists already ({file})", "--force replaces it")
    assert ((process.returncode, out, err), file.read_text()) == (wanted, "mine")


# -- rights -------------------------------------------------------------------------------------------------


_WITHOUT_RIGHTS = """
import os, sys
import dcpdump.cli.sniff, scapy.arch, scapy.packet
from dcpdump.cli.main import run
os.setresuid(65534, 65534, 65534)
run(sys.argv[1:])
"""


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="only Linux has packet sockets")
def test_without_the_right_the_ways_out_are_reported() -> None:
    as_nobody = _WITHOUT_RIGHTS if os.geteuid() == 0 else _WITHOUT_RIGHTS.replace("os.setresuid", "(lambda *_: 0)")
    command = [sys.executable, "-c", as_nobody, "sniff", "-i", "lo"]
    reported = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (reported.returncode, reported.stdout, reported.stderr) == refusal(
        6,
        "no right to capture here (CAP_NET_RAW) (lo)",
        "sudo dcpdump sniff -i lo  (rights are dropped once the interface is open)",
        "dumpcap -i lo -w - | dcpdump read -  (for members of the group wireshark)",
        "ssh root@NODE tcpdump -i lo -U --immediate-mode -B 65536 -w - port 11210 | dcpdump read -",
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


# -- other programs -----------------------------------------------------------------------------------------


def test_a_pipe_from_tcpdump_is_read_while_it_runs(net: Network) -> None:
    needs("tcpdump")
    command = f"tcpdump -i lo -U --immediate-mode -B 65536 -w - | {sys.executable} -u -m dcpdump read - -f line"
    with net.producer("--documents", str(DOCUMENTS)), ended(net.start("sh", "-c", command)) as pipe:
        assert pipe.stderr is not None
        assert pipe.stdout is not None
        while "listening on lo" not in pipe.stderr.readline():
            pass
        with ended(net.talk("client", "--follow")):
            seen = [pipe.stdout.readline() for _ in range(12)]  # and both continue
    assert " TX hello{" in seen[0]
    assert " RX control-response{success}" in seen[11]
