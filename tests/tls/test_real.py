"""Real connections of Java and Go, as tcpdump captured them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import run
from tests.tls.twins import REPLICA

CAPTURES = sorted(Path(__file__).with_name("captures").glob("*.pcap"))


def rows(capture: Path, command: str = "read", more: str = "") -> list[Any]:
    return list(map(json.loads, run(f"dcpdump {command} {capture} -f ndjson -q {more}").out.splitlines()))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_connections_of_java_and_go_open(capture: Path) -> None:
    keys = f"--keylog {capture.with_suffix('.keys')}"
    wanted = [(row["name"], row["opaque"], row["offset"]) for row in rows(REPLICA)]
    found = [(row["connection"], (row["name"], row["opaque"], row["offset"])) for row in rows(capture, more=keys)]
    there = {"go-cbc": 1, "java-cbc": 1, "java-chacha20": 1}.get(capture.stem, 2)
    assert len(rows(capture, "conns", keys)) == there
    for number in range(there):
        assert [each for mine, each in found if mine == number] == wanted
    assert len(found) == there * len(wanted)
