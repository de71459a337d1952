"""A capture that begins in the middle of a frame lacks nothing: it is read as one that begins with the next frame."""

import json
from pathlib import Path
from typing import Any

import pytest

from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.packets import MILLISECOND, TcpTalk


def mutation(seqno: int) -> bytes:
    values = {"by_seqno": seqno, "rev_seqno": 1}
    return encode(
        "DCP_MUTATION", values, layout="1", vbucket=5, opaque=7, key=b"key-%d" % seqno, value=b'{"n":%d}' % seqno
    )


def marker(start: int, end: int) -> bytes:
    values = {"start_seqno": start, "end_seqno": end, "snapshot_type": 1}
    return encode("DCP_SNAPSHOT_MARKER", values, layout="1", vbucket=5, opaque=7)


def captured(folder: Path, tail: int, lost: int = 0) -> Path:
    """Write a capture that begins in the last bytes of a frame, and lacks so many behind them."""
    talk = TcpTalk(syn=False)
    talk.skip(1, 200 - tail)
    _ = talk.send(1, mutation(9)[len(mutation(9)) - tail :]) if tail else talk.wait(2 * MILLISECOND)
    talk.skip(1, lost)
    for start in (10, 15):
        talk.send(1, marker(start, start + 4))
        for seqno in range(start, start + 5):
            talk.send(1, mutation(seqno))
    path = folder / f"joined-{tail}-{lost}.pcap"
    path.write_bytes(pcap([Record(each.ts_ns or 0, each.data) for each in talk.packets]))
    return path


def said(path: Path, command: str) -> list[dict[str, Any]]:
    """Return what a command says, without where it was seen."""
    out = run(f"dcpdump {command} {path} -f ndjson").out.replace(str(path), "FILE")
    rows = [json.loads(line) for line in out.splitlines()]
    return [{key: value for key, value in row.items() if key not in ("packet", "offset")} for row in rows]


@pytest.mark.parametrize("tail", [1, 12, 23, 24, 50])
@pytest.mark.parametrize("command", ["read", "check", "conns", "streams"])
def test_the_end_of_a_frame_from_before_the_capture_is_no_loss(command: str, tail: int, tmp_path: Path) -> None:
    assert said(captured(tmp_path, tail), command) == said(captured(tmp_path, 0), command)


@pytest.mark.parametrize("tail", [1, 12, 50])
def test_it_is_named_in_the_balance_and_the_diagnosis_misses_nothing(tail: int, tmp_path: Path) -> None:
    result = run(f"dcpdump diagnose {captured(tmp_path, tail)}")
    assert "· nothing missing\n" in result.out
    assert "lost" not in result.out
    assert result.err.endswith(f" + {tail} of frames begun before the capture\n")
    assert result.code == 0


def test_what_is_lost_behind_it_is_missing(tmp_path: Path) -> None:
    (row,) = said(captured(tmp_path, 12, lost=100), "conns")
    assert row["lost_bytes"] == 100
