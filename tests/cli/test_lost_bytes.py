"""Lost bytes are one number: each command says as many as were taken out of a capture, and the same of what it has."""

import json
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from dcpdump.capture import open_capture
from dcpdump.net.packet import Packet
from dcpdump.net.seqnum import MASK
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.secret_talk import saved
from tests.support.tables import exported

SAMPLES = "replica history takeover slow-consumer damage order".split()


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


@pytest.mark.parametrize("name", SAMPLES)
def test_every_command_says_how_many_bytes_were_taken_out(name: str, tmp_path: Path) -> None:
    captured = damaged(list(open_capture(f"samples/{name}.pcap")), random.Random(name))
    said = numbers(saved(captured, tmp_path / "lossy.pcap"))
    truth = lost(captured), said["read"][1]
    assert said == dict.fromkeys(said, truth)
