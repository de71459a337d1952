"""Captures that begin within a frame, whose clock goes back, or that are of several networks."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from dcpdump.wire.encode import encode
from samples.builder import Talk, pcap
from samples.make import MINUTE_NS, SAMPLES, START_NS
from tests.support.check_cases import items
from tests.support.console import run
from tests.support.conversation import opening, packets, said
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


ENDS = "10.0.0.9:50312", "10.0.0.1:11210"
WARNING = (
    "dcpdump: warning: these files are probably not of one network: {0}/order.pcap and {0}/stopped.pcap both have "
    "10.0.0.9:50312 → 10.0.0.1:11210 at one time, with other bytes; read them one by one"
)


def write(folder: Path, *names: str, apart_ns: int = 0) -> None:
    for place, name in enumerate(names):
        data = pcap(SAMPLES[name].make(Talk(*ENDS)), START_NS + place * apart_ns)
        (folder / f"{name}.pcap").write_bytes(data)


@pytest.mark.parametrize("command", ["read", "streams", "check", "diagnose", "stats", "conns"])
def test_two_networks_with_the_same_addresses_are_noticed(tmp_path: Path, command: str) -> None:
    write(tmp_path, "stopped", "order")
    assert WARNING.format(tmp_path) in run(f"dcpdump {command} {tmp_path}").err.splitlines()
    hidden = run(f"dcpdump {command} {tmp_path} --redact-level full")
    assert "not of one network" in hidden.err
    assert [end for end in ENDS if end in hidden.out + hidden.err] == []


def test_packets_that_were_captured_twice_are_of_one_network(tmp_path: Path) -> None:
    write(tmp_path, "stopped")
    (tmp_path / "again.pcap").write_bytes((tmp_path / "stopped.pcap").read_bytes())
    assert "not of one network" not in run(f"dcpdump read {tmp_path}").err


def test_files_that_follow_one_another_are_of_one_network(tmp_path: Path) -> None:
    write(tmp_path, "stopped", "order", apart_ns=10 * MINUTE_NS)
    assert "not of one network" not in run(f"dcpdump read {tmp_path}").err
