"""Standard error: notes arrive whole and in order, count, say how far it is, and why there is nothing to show."""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from dcpdump.cli import reading
from dcpdump.cli.main import outcome
from dcpdump.cli.terminal import note
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import FIN, RST, SYN
from dcpdump.render.conns import ConnectionTable, rows_of
from dcpdump.render.text_columns import bytes_text
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.diagnoses import written
from tests.support.ledgers import ledger
from tests.support.packets import TcpTalk, flow
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("read", "size", "seconds", "text"),
    [
        (0, 141_000_000, 1.0, "0 B of 141 MB · 0 % · 0 B/s"),
        (47_000_000, 141_000_000, 2.0, "47 MB of 141 MB · 33 % · 23.5 MB/s · 4 s left"),
        (141_000_000, 141_000_000, 6.0, "141 MB of 141 MB · 100 % · 23.5 MB/s"),
        (200_000_000, 150_000_000, 10.0, "pass 2: 50 MB of 150 MB · 33 % · 20 MB/s · 5 s left"),
        (999_600, 1_500_000_000, 1.0, "1 MB of 1.5 GB · 0 % · 1 MB/s · 1,500 s left"),
    ],
)
def test_it_says_how_far_how_fast_and_how_long(read: int, size: int, seconds: float, text: str) -> None:
    assert reading.progress_text(read, size, seconds).startswith(text)


@pytest.mark.parametrize("command", ["streams", "carve -w /dev/null"])
def test_a_line_appears_on_a_terminal_and_goes(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name in ("_FIRST_S", "_EVERY_S"):
        monkeypatch.setattr(reading, name, 0.0)
    assert outcome([*command.split(), str(REPLICA)]) == 0
    size = bytes_text(REPLICA.stat().st_size)
    *shown, last, _ = terminal.getvalue().split("\r")
    assert (shown[-1].startswith(f"{size} of {size} · 100 %"), last.isspace()) == (True, True)


def test_nothing_is_said_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_FIRST_S", 0.0)
    assert "\r" not in run(f"dcpdump streams {REPLICA}").err


TALK = "RX noop\n"
MANY_OF_ONE = re.compile(r"(?<![\d,.])1 (?:frame|packet|connection|stream)s\b")


@pytest.mark.parametrize(
    "command",
    [
        *("read", "streams", "check", "diagnose", "flow", "conns", "stats", "rollbacks", "top"),
        *("carve -w {}/out.pcapng", "carve --vbucket 9 -w {}/none.pcapng"),
    ],
)
def test_no_command_prints_a_plural_of_one(command: str, tmp_path: Path) -> None:
    path = written(TALK, tmp_path / "one.pcap")
    printed = run(f"dcpdump {command.format(tmp_path)} {path}")
    assert "1 frame" in printed.out + printed.err
    assert MANY_OF_ONE.findall(printed.out + printed.err) == []


def test_the_card_of_a_connection_has_no_plural_of_one() -> None:
    *_, last = ConnectionTable(rows_of(ledger(TALK).connections.values())).lines(80)
    assert last.text == "  traffic   1 frame · 24 B · streams: 0"


STOPPED = "samples/stopped.pcap"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("conns --connection 4", "no connection matches: there is 1 connection in the capture"),
        ("flow --port 80", "no connection matches: there is 1 connection in the capture"),
        ("streams --vbucket 999", "no stream matches: there are 3 streams in the capture\n0 streams · 1 connection"),
        ("rollbacks --vbucket 999", "no stream matches: there are 3 streams in the capture"),
        ("key a --vbucket 999", "no stream matches: there are 3 streams in the capture"),
        ("rollbacks", "no rollbacks in 3 stream requests"),
        ("stats --vbucket 999", "no frame matches"),
    ],
)
def test_what_matched_nothing_is_said(command: str, says: str) -> None:
    assert run(f"dcpdump {command} {STOPPED} -q") == (0, f"{says}\n", "")
    assert run(f"dcpdump {command} {STOPPED} -q -f ndjson") == (0, "", "")


@pytest.mark.parametrize("command", ["streams", "flow", "rollbacks", "key a"])
def test_other_commands_of_a_server_are_not_called_dcp(tmp_path: Path, command: str) -> None:
    talk = TcpTalk()
    for number in range(9):
        talk.send(0, encode("GET", opaque=number, key=b"a")).send(1, encode("GET", response=True, opaque=number))
    name = saved(talk.fin(), tmp_path / "kv.pcap")
    assert run(f"dcpdump {command} {name} -q").out.splitlines()[0] == "no DCP: 18 frames of other KV commands"


def test_times_of_day_may_pass_midnight() -> None:
    assert run(f"dcpdump read {STOPPED} -q --since 23:00:00 --until 01:00:00").code == 0


def test_noops_without_the_other_direction_are_not_called_unanswered(tmp_path: Path) -> None:
    talk, marker = TcpTalk(acks=False, syn=False), encode("DCP_SNAPSHOT_MARKER", {"start_seqno": 1, "end_seqno": 2})
    for number in range(3):
        talk.send(1, encode("DCP_NOOP", opaque=number) + marker)
    printed = run(f"dcpdump conns {saved(talk, tmp_path / 'half.pcap')} -q").out
    assert "3 seen, the other direction was not captured" in printed
    assert "answered" not in printed


@pytest.mark.parametrize("text", ["80", "ff"])
def test_a_frame_without_its_opcode_has_no_name(text: str) -> None:
    assert run(f"dcpdump explain {text} -q").out.splitlines()[0] == "the beginning of a header, without the opcode"


def test_lines_on_a_terminal_are_folded_between_words_but_hints_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((20, 24)))
    note("44 of 44 frames shown · 71 packets")
    note("hint: dcpdump read a-long-name.pcap --problems")
    assert terminal.getvalue().splitlines() == [
        "44 of 44 frames",
        "  shown · 71 packets",
        "hint: dcpdump read a-long-name.pcap --problems",
    ]


FILTERED = (
    "hint: a capture filter may have left them out, by flags of TCP or by length; capture all packets of a connection: "
    "tcpdump -s 0 -w out.pcap port 11210 or port 11209\n"
)
SILENT = "hint: nothing was sent meanwhile; capture for longer, best from before the connection opens\n"


def said(folder: Path, packets: Iterable[Packet], command: str = "read") -> str:
    result = run(f"dcpdump {command} {saved(packets, folder / 'capture.pcap')}")
    assert (result.code, result.out) == (3, "")
    return result.err


def talked(size: int = 226) -> TcpTalk:
    return TcpTalk().send(0, bytes(388)).send(1, bytes(size))


def with_flags(talk: TcpTalk) -> list[Packet]:
    return [each for each in talk if each.data[14 + 20 + 13] & (SYN | FIN | RST)]


@pytest.mark.parametrize("command", ["read", "diagnose", "conns", "streams", "stats"])
@pytest.mark.parametrize(
    ("talk", "packets", "to", "back"),
    [
        (talked().fin(), 4, 388, 226),
        *((talked().rst(who), 3, 388, 226) for who in (0, 1)),
        (talked().write(0, ack=0, flags=RST), 3, 388, 0),  # it acknowledges nothing
        (talked().skip(1, 900_000_000).fin(), 4, 388, 900_000_226),
    ],
    ids=["fin", "rst", "its rst", "rst alone", "much"],
)
def test_packets_with_flags_alone_show_how_much_was_sent(
    talk: TcpTalk, packets: int, to: int, back: int, command: str, tmp_path: Path
) -> None:
    assert said(tmp_path, with_flags(talk), command) == unseen(packets, to, back)


def unseen(packets: int, to: int, back: int) -> str:
    return (
        f"dcpdump: error: no DCP in the input: {packets} packets; 1 TCP connection; they carry no data; "
        f"sequence numbers show that at least {to + back:,} B were sent, which are not in the capture "
        f"({to:,} B to port 11210, {back:,} B from it)\n{FILTERED}"
    )


def test_acknowledgements_alone_of_a_connection_that_was_joined_show_it(tmp_path: Path) -> None:
    talk = TcpTalk(syn=False).write(0).write(1).send(1, bytes(5_000)).write(0)
    empty = [each for each in talk.packets if len(each.data) <= 54]
    assert said(tmp_path, empty) == unseen(len(empty), 0, 5_000)


@pytest.mark.parametrize("end", [TcpTalk.__iter__, TcpTalk.fin, TcpTalk.rst], ids=["none", "fin", "rst"])
def test_a_connection_on_which_nothing_was_sent_is_said_to_be_silent(
    end: Callable[[TcpTalk], object], tmp_path: Path
) -> None:
    talk = TcpTalk()
    end(talk)
    silent = f"{len(talk.packets)} packets; 1 TCP connection; they carry no data\n{SILENT}"
    assert said(tmp_path, talk) == f"dcpdump: error: no DCP in the input: {silent}"


def test_another_protocol_beside_is_named_too(tmp_path: Path) -> None:
    other = TcpTalk(flow("10.0.0.1:50001", "10.0.0.2:8091")).send(0, b"GET /pools HTTP/1.1\r\n\r\n").fin()
    err = said(tmp_path, [*with_flags(talked().fin()), *other.packets])
    assert "there is HTTP or memcached text on port 8091; sequence numbers show that at least 614 B were sent" in err
    assert err.endswith(FILTERED)


def test_packets_that_were_cut_are_no_filter(tmp_path: Path) -> None:
    err = said(tmp_path, [each._replace(data=each.data[:54]) for each in talked()])
    assert err == (
        f"dcpdump: error: no DCP in the input: {len(talked().packets)} packets; 1 TCP connection; packets were "
        "cut when they were captured: 614 B of what they carry are missing\n"
        "hint: capture TCP, whole packets: tcpdump -s 0 -w out.pcap port 11210 or port 11209\n"
    )
