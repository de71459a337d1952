"""A capture that begins in the middle of a frame lacks nothing: it is read as one that begins with the next frame."""

from pathlib import Path
from typing import Any

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import MILLISECOND, TcpTalk
from tests.support.secret_talk import saved


def mutation(seqno: int) -> bytes:
    where: dict[str, Any] = {"layout": "1", "vbucket": 5, "opaque": 7, "key": b"key-%d" % seqno}
    return encode("DCP_MUTATION", {"by_seqno": seqno, "rev_seqno": 1}, value=b'{"n":%d}' % seqno, **where)


def joined(folder: Path, tail: int, lost: int = 0) -> Path:
    """Write a capture that begins in the last bytes of a frame, and lacks so many behind them."""
    talk = TcpTalk(syn=False)
    talk.skip(1, 200 - tail)
    _ = talk.send(1, mutation(9)[len(mutation(9)) - tail :]) if tail else talk.wait(2 * MILLISECOND)
    talk.skip(1, lost)
    for start in (10, 15):
        values = {"start_seqno": start, "end_seqno": start + 4, "snapshot_type": 1}
        talk.send(1, encode("DCP_SNAPSHOT_MARKER", values, layout="1", vbucket=5, opaque=7))
        for seqno in range(start, start + 5):
            talk.send(1, mutation(seqno))
    return saved(talk, folder / f"joined-{tail}-{lost}.pcap")


def without_places(path: Path, command: str) -> list[dict[str, Any]]:
    """Return what a command says, without where it was seen."""
    rows = objects(f"dcpdump {command} {path}")
    return [{key: value for key, value in row.items() if key not in ("packet", "offset", "file")} for row in rows]


@pytest.mark.parametrize("tail", [1, 12, 23, 24, 50])
@pytest.mark.parametrize("command", ["read", "check", "conns", "streams"])
def test_the_end_of_a_frame_from_before_the_capture_is_no_loss(command: str, tail: int, tmp_path: Path) -> None:
    assert without_places(joined(tmp_path, tail), command) == without_places(joined(tmp_path, 0), command)


@pytest.mark.parametrize("tail", [1, 12, 50])
def test_it_is_named_in_the_balance_and_the_diagnosis_misses_nothing(tail: int, tmp_path: Path) -> None:
    result = run(f"dcpdump diagnose {joined(tmp_path, tail)}")
    assert (result.code, "· nothing missing\n" in result.out, "lost" in result.out) == (0, True, False)
    assert result.err.endswith(f" + {tail} of frames begun before the capture\n")


def test_what_is_lost_behind_it_is_missing(tmp_path: Path) -> None:
    (row,) = without_places(joined(tmp_path, 12, lost=100), "conns")
    assert row["lost_bytes"] == 100
