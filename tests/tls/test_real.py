"""Real connections of Java and Go, as tcpdump captured them."""

from pathlib import Path

import pytest

from tests.support.diagnoses import objects
from tests.tls.twins import REPLICA

CAPTURES = sorted(Path(__file__).with_name("captures").glob("*.pcap"))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_connections_of_java_and_go_open(capture: Path) -> None:
    keys = f"--keylog {capture.with_suffix('.keys')}"
    found: dict[int, list[tuple[str, int, int]]] = {}
    for row in objects(f"dcpdump read {capture} {keys}"):
        found.setdefault(row["connection"], []).append((row["name"], row["opaque"], row["offset"]))
    wanted = [(row["name"], row["opaque"], row["offset"]) for row in objects(f"dcpdump read {REPLICA}")]
    there = {"go-cbc": 1, "java-cbc": 1, "java-chacha20": 1}.get(capture.stem, 2)
    assert len(objects(f"dcpdump conns {capture} {keys}")) == there
    assert found == dict.fromkeys(range(there), wanted)
