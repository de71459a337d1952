"""Many requests that wait for their answers at once: more than are remembered of other kinds than stream requests."""

from pathlib import Path

import pytest

from dcpdump.check.rules import RULES
from dcpdump.streams import exchanges
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

MOST, MANY = 500, 600
GRANT = {"failover_log": [{"vbucket_uuid": 77, "seqno": 0}]}


def written(path: Path, requests: list[bytes], answers: list[bytes]) -> Path:
    """Write a capture of requests that were all sent before the first answer, and return its path."""
    talk = TcpTalk(acks=False)
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"app", opaque=5))
    talk.send(1, encode("DCP_OPEN", response=True, opaque=5))
    talk.send(0, b"".join(requests)).send(1, b"".join(answers))
    return saved(talk, path)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember fewer requests than usually, so that fewer are more than those."""
    monkeypatch.setattr(exchanges, "MOST", MOST)


@pytest.mark.parametrize("opaques", [range(100, 100 + MANY), [7] * MANY])
def test_of_streams_every_answer_finds_its_request(opaques: list[int], tmp_path: Path) -> None:
    asked = {"end_seqno": (1 << 64) - 1}
    requests = [encode("DCP_STREAM_REQ", asked, vbucket=at, opaque=each) for at, each in enumerate(opaques)]
    answers = [encode("DCP_STREAM_REQ", GRANT, response=True, opaque=each) for each in opaques]
    path = written(tmp_path / "many.pcap", requests, answers)
    assert run(f"dcpdump streams {path} -q").out.splitlines()[-1] == (
        f"{MANY:,} streams · {MANY:,} quiet · 1 connection"
    )
    assert run(f"dcpdump check {path} -q").out == (
        f"{MANY:,} streams checked by {len(RULES)} rules: 0 violations, 0 suspicious, 0 info, 0 unknown\n"
    )


def test_no_answer_is_said_to_be_unasked_where_requests_are_forgotten(tmp_path: Path) -> None:
    requests = [encode("DCP_GET_FAILOVER_LOG", vbucket=at % 1024, opaque=100 + at) for at in range(MANY)]
    answers = [encode("DCP_GET_FAILOVER_LOG", GRANT, response=True, opaque=100 + at) for at in range(MANY)]
    path = written(tmp_path / "many.pcap", requests, answers)
    assert run(f"dcpdump check {path} -q").out == (
        f"0 streams checked by {len(RULES)} rules: 0 violations, 0 suspicious, 0 info, 0 unknown\n"
    )
