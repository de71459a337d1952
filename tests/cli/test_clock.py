"""Captures whose clock goes back: spans are from the earliest to the latest packet, and no time is negative."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.check_cases import items
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects
from tests.support.packets import MILLISECOND
from tests.support.secret_talk import saved

TALK = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
TALK += "WAIT 30\nTX get-failover-log{vb=5}\nRX get-failover-log-response{success, failover-log=0xa0:0}\n"
BACK = 20_000 * MILLISECOND


def gone_back(folder: Path, back_ns: int = BACK) -> Path:
    """Save a capture whose last packet, an answer, is so much earlier."""
    *before, last = packets(said(TALK))
    return saved([*before, last._replace(ts_ns=(last.ts_ns or 0) - back_ns)], folder / "back.pcap")


def test_a_capture_lasts_from_its_earliest_packet_to_its_latest(tmp_path: Path) -> None:
    path = gone_back(tmp_path, 3600_000 * MILLISECOND)
    (line,) = [line for line in run(f"dcpdump diagnose {path}").out.splitlines() if " frames · " in line]
    assert line.partition(" · ")[0] == "2025-11-20 11:00:30.018 to 12:00:30.017 UTC (60 m)"
    capture, *_ = objects(f"dcpdump diagnose {path}")
    assert (capture["first"], capture["last"]) == ("2025-11-20T11:00:30.018000Z", "2025-11-20T12:00:30.017000Z")


@pytest.mark.parametrize("form", ["table", "line", "ndjson", "csv"])
def test_an_answer_before_its_request_has_no_latency(form: str, tmp_path: Path) -> None:
    printed = run(f"dcpdump read {gone_back(tmp_path)} -f {form} -q").out
    if form in ("table", "line"):
        assert {"table": "answers #17\n", "line": "[answers #17]\n"}[form] in printed
    else:
        *_, last = csv.DictReader(io.StringIO(printed)) if form == "csv" else map(json.loads, printed.splitlines())
        assert (int(last["request_frame"]), last.get("latency_us") or None) == (17, None)


def test_an_answer_before_its_request_is_of_no_latency_that_is_asked_for(tmp_path: Path) -> None:
    found = {row["name"] for row in objects(f"dcpdump read {gone_back(tmp_path)} --latency '<5ms'")}
    assert found == {"HELLO", "SASL_AUTH", "SELECT_BUCKET", "DCP_OPEN", "DCP_CONTROL", "DCP_STREAM_REQ"}


@pytest.mark.parametrize("command", ["diagnose", "streams", "check", "conns"])
def test_a_clock_that_goes_back_is_noted_once(command: str, tmp_path: Path) -> None:
    path, count = gone_back(tmp_path), len(packets(said(TALK)))
    noted = [line for line in run(f"dcpdump {command} {path}").err.splitlines() if "clock" in line]
    back = f"packet {count} of {path} is 20 s before the one ahead of it"
    assert noted == [f"dcpdump: note: the clock goes back: {back}"]


def test_packets_out_of_order_by_less_than_a_second_are_no_clock(tmp_path: Path) -> None:
    assert "clock" not in run(f"dcpdump streams {gone_back(tmp_path, 900 * MILLISECOND)}").err
