"""A conversation in TLS, read with its secrets, gives what it gives in clear text, in every command."""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from dcpdump.capture.file import Capture
from tests.support.console import run
from tests.tls.twins import SAMPLES, Files, seal, twin

#: What was lost of a capture in clear text has other places in a sealed one.
WHOLE = sorted(path for path in SAMPLES.glob("*.pcap") if path.stem != "damage")
WAYS = {"1.3": (0x0304, 0x1301, 16_384), "1.2 in small records": (0x0303, 0xC02F, 100), "CBC": (0x0303, 0xC014, 700)}
COMMANDS = ("read", "streams", "check", "flow", "key '*'", "rollbacks", "conns", "stats")
#: What is another in a twin: its packets, and what became of TLS.
OTHERS = {"packet", "packets", "file", "tls"}


def rows(command: str, capture: Path, more: str = "") -> tuple[int, list[Any]]:
    """Run a command and return its exit code and its objects, without what may differ."""
    result = run(f"dcpdump {command} {capture} -f ndjson -q {more}")
    found = [json.loads(line) for line in result.out.splitlines()]
    return result.code, [{name: value for name, value in row.items() if name not in OTHERS} for row in found]


@pytest.mark.parametrize(
    ("sample", "way"), [*zip(WHOLE, cycle(WAYS), strict=False)], ids=lambda value: getattr(value, "stem", value)
)
def test_a_sealed_capture_gives_what_the_clear_one_gives(sample: Path, way: str, tmp_path: Path) -> None:
    version, suite, size = WAYS[way]
    files = Files(tmp_path, seal(Capture(str(sample)), version=version, suite=suite, size=size))
    for command in COMMANDS:
        assert rows(command, files.capture, f"--keylog {files.keys}") == rows(command, sample), command


def test_the_books_of_a_sealed_capture_add_up(tmp_path: Path) -> None:
    result = Files(tmp_path, twin()).read("--summary json -f ndjson")
    books = json.loads(result.err.splitlines()[-1])
    assert books["payload_bytes"] == sum(books["payload"].values())
    assert books["payload"]["pending"] == books["payload"]["encrypted"] == 0
    assert books["payload"]["tls"] > 1_000
    assert books["tls"] == [
        {"connection": 0, "version": "TLS 1.3", "suite": "AES-128-GCM", "server_name": "cb.example", "why": ""}
        | {"opened_bytes": books["payload"]["frames"], "encrypted_bytes": 0, "lost_records": 0, "failure": None}
    ]
