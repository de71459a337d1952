"""Lag as each command shows it: of one capture, in which a client asks for seqnos on a second connection."""

from pathlib import Path
from typing import Any

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written

_SEQNOS = [{"vbucket": 1, "seqno": 9}, {"vbucket": 2, "seqno": 1600}]
_ANSWER = encode("GET_ALL_VB_SEQNOS", {"seqnos": _SEQNOS}, response=True, opaque=77).hex()
#: Of vbucket 1 the client has all, of 2 some, of 3 the server says nothing, and of 4 not either, but a marker does.
TEXT = (
    opening(collections=True)
    + "".join(
        f"STREAM vb={vbucket}\nRX snapshot-marker{{start=0, end={end}, flags=1}}\nRX mutation{{seqno:9}}\n"
        for vbucket, end in ((1, 9), (2, 9), (3, 9), (4, 30))
    )
    + f"CONNECT\n{opening(collections=True)}TX get-all-vb-seqnos{{opaque=77}}\nHEX RX {_ANSWER}\n"
    + "ON 0\nWAIT 2\nRX noop\n"
)
AT = "2025-11-20T12:00:00."


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return written(TEXT, tmp_path / "lag.pcap")


def lag(row: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("vbucket", "lag", "lag_exact", "high_seqno", "high_seqno_from")
    return *(row.get(key) for key in keys), (row.get("high_seqno_at") or "")[:20]


BEHIND = [(2, 1591, True, 1600, "GET_ALL_VB_SEQNOS", AT), (4, 21, False, 30, "DCP_SNAPSHOT_MARKER", AT)]
LAGS = [*BEHIND, (1, 0, True, 9, "GET_ALL_VB_SEQNOS", AT), (3, None, None, None, None, "")]


def test_objects_have_the_lag_and_what_it_rests_on(path: Path) -> None:
    assert [lag(row) for row in objects(f"dcpdump streams {path} --sort lag")] == LAGS
    assert sorted(map(lag, objects(f"dcpdump top {path}")[0]["streams"])) == sorted(LAGS)
    assert [lag(row) for row in objects(f"dcpdump diagnose {path}") if row["type"] == "lag"] == BEHIND
    table = objects(f"dcpdump sql 'select vbucket, lag, lag_exact, high_seqno from streams order by lag desc' {path}")
    assert sorted(str(tuple(row.values())) for row in table) == sorted(str(each[:4]) for each in LAGS)


def test_people_see_what_is_not_exact_and_what_is_unknown(path: Path) -> None:
    shown = run(f"dcpdump streams {path} -q --vbucket 1-4").out.splitlines()
    column = shown[0].index("lag") + 3
    assert [row[:column].split("  ")[-1].strip() for row in shown[1:5]] == ["0", "1,591", "?", "≥ 21"]


def test_a_diagnosis_names_the_worst_and_finds_nothing_wrong_with_a_lag(path: Path) -> None:
    found = run(f"dcpdump diagnose {path} -q")
    assert found.code == 0
    said_of = "is behind by ≥ 1,612 seqnos in 2 streams: vb 2: 1,591, vb 4: ≥ 21"
    assert f"lag          app (c0) {said_of}" in found.out.splitlines()
