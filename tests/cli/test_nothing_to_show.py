"""Where there is nothing to show, and where something is asked for wrongly: what is printed says why."""

import io
import os
import sys
from pathlib import Path

import pytest

from dcpdump.cli import stderr
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

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
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((20, 24)))
    stderr.note("44 of 44 frames shown · 71 packets")
    stderr.note("hint: dcpdump read a-long-name.pcap --problems")
    assert terminal.getvalue().splitlines() == [
        "44 of 44 frames",
        "  shown · 71 packets",
        "hint: dcpdump read a-long-name.pcap --problems",
    ]
