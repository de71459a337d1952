"""Captures of several networks are noticed: one connection at one time, with other bytes."""

from pathlib import Path

import pytest

from samples.builder import Talk, pcap
from samples.make import MINUTE_NS, SAMPLES, START_NS
from tests.support.console import run

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
