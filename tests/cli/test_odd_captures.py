"""Captures that lack bytes, begin within a frame, whose clock goes back, or that are of several networks."""

import csv
import io
import json
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from dcpdump.capture.file import Capture
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import MASK
from dcpdump.wire.encode import encode
from samples.builder import Talk, pcap
from samples.make import MINUTE_NS, SAMPLES, START_NS
from tests.support.check_cases import items
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects
from tests.support.packets import MILLISECOND, TcpTalk
from tests.support.secret_talk import saved
from tests.support.tables import exported


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


LOSSY = "replica history takeover slow-consumer damage order".split()


class Sent(NamedTuple):
    """What a packet shows of a direction: where its payload is, how much of it is there, and what is acknowledged."""

    way: tuple[str, str]
    start: int
    size: int
    there: int
    flags: str
    acked: int


def sent(packet: Packet) -> Sent:
    """Return what a packet shows, as scapy reads it."""
    ip = Ether(packet.data)[IP]
    tcp = ip[TCP]
    head = 14 + 4 * ip.ihl + 4 * tcp.dataofs
    start, size = tcp.seq + ("S" in str(tcp.flags)), ip.len - 4 * ip.ihl - 4 * tcp.dataofs
    there = min(size, max(0, len(packet.data) - head))
    return Sent((f"{ip.src}:{tcp.sport}", f"{ip.dst}:{tcp.dport}"), start, size, there, str(tcp.flags), tcp.ack)


def lost(captured: list[Packet]) -> int:
    """Return how many bytes are proven to have been sent, behind the SYN of their direction, and are not there."""
    begin: dict[tuple[str, str], int] = {}
    end: dict[tuple[str, str], int] = {}
    last: Counter[tuple[str, str]] = Counter()
    there: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for each in map(sent, captured):
        here, back = each.way, each.way[::-1]
        at = (each.start - begin.setdefault(here, each.start)) & MASK
        there[here].update(range(at, at + each.there))
        last[here] = max(last[here], at + each.size)
        if "F" in each.flags:
            end[here] = at + each.size
        if "A" in each.flags and (acked := (each.acked - begin[back]) & MASK) > last[back] + 1:  # one may be a FIN
            last[back] = acked
    return sum(len(set(range(end.get(way, last[way]))) - there[way]) for way in begin)


def damaged(captured: list[Packet], dice: random.Random) -> list[Packet]:
    """Take out packets with payload, and cut the ends of others off."""
    out = []
    for packet in captured:
        size = sent(packet).there
        if not size or dice.random() < 0.8:
            out.append(packet)
        elif dice.random() < 0.5:
            out.append(packet._replace(data=packet.data[: len(packet.data) - dice.randrange(1, size + 1)]))
    return out


def first(pattern: str, text: str) -> int:
    """Return the first number that is said so; 0 where none is."""
    match = re.search(pattern, text)
    return int(match[1].replace(",", "")) if match else 0


def numbers(path: Path) -> dict[str, tuple[int, int]]:
    """Return of each command how many bytes it calls lost, and how many skipped."""
    folder = path.parent
    balance = json.loads(run(f"dcpdump read {path} -f line --summary json").err.splitlines()[-1])
    assert sum(balance["payload"].values()) == balance["payload_bytes"]
    skipped = balance["payload"]["skipped"]
    said = {"read": (sum(balance["lost_bytes"].values()), skipped)}
    rows = objects(f"dcpdump diagnose {path}")
    said["diagnose"] = rows[0]["lost_bytes"], rows[0]["skipped_bytes"]
    said["diagnose, of connections"] = sum(row["lost_bytes"] for row in rows if row["type"] == "connection"), skipped
    rows = objects(f"dcpdump conns {path}")
    said["conns"] = sum(row["lost_bytes"] for row in rows), sum(row["skipped_bytes"] for row in rows)
    assert sum(row["losses"] for row in rows) == balance["gaps"]
    run(f"dcpdump export {path} -o {folder}/export -q --tables gaps")
    said["gaps"] = sum(row["bytes"] for row in exported(folder / "export", "gaps")), skipped
    for command in (f"streams {path}", f"diagnose {path}", f"report {path}", f"pipeline {path} -o {folder}/out"):
        printed = run(f"dcpdump {command}")
        text = printed.out or printed.err
        said[f"{command.split()[0]}, in words"] = first(r"([\d,]+) (?:B|bytes?) lost", text), skipped
        if " not in the capture" in text and "report" not in command:
            said["its sentence"] = first(r"([\d,]+) bytes? of .* not in the capture", text), skipped
    return said


@pytest.mark.parametrize("name", LOSSY)
def test_every_command_says_how_many_bytes_were_taken_out(name: str, tmp_path: Path) -> None:
    captured = damaged(list(Capture(f"samples/{name}.pcap")), random.Random(name))
    said = numbers(saved(captured, tmp_path / "lossy.pcap"))
    truth = lost(captured), said["read"][1]
    assert said == dict.fromkeys(said, truth)
