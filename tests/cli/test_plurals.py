"""A capture of one frame has one frame, not "1 frames"."""

import re
from pathlib import Path

import pytest

from dcpdump.render.conns import ConnectionTable
from tests.support.console import run
from tests.support.diagnoses import written
from tests.support.ledgers import ledger

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
    *_, last = ConnectionTable(list(ledger(TALK).connections.values())).lines(80)
    assert last.text == "  traffic   1 frame · 24 B · streams: 0"
