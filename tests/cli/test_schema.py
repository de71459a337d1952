"""What commands print with -f ndjson is what --schema says, of the samples and of conversations that go wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from dcpdump.render.row_keys import COMMANDS, KEYS, OTHERWISE, ROWS
from tests.support.captures import Record, pcap
from tests.support.check_cases import CASES
from tests.support.console import run
from tests.support.conversation import packets, said

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: no row is held against its schema")

CAPTURES = [str(path) for path in sorted(Path("samples").glob("*.pcap"))]
OPTIONS = {"key": "'*'", "top": "--once", "check": "--all", "diagnose": "--all", "diff": "samples/stopped.pcap"}
#: Without a capture of their own kind: an interface, and bytes that are pasted.
OF_CAPTURES = [name for name in COMMANDS if name not in ("sniff", "explain")]


def validator(command: str) -> Any:
    found = run(f"dcpdump {command} --schema")
    assert (found.code, found.err) == (0, "")
    schema = json.loads(found.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def wrong(command: str, out: str, judge: Any) -> list[str]:
    errors = [error for line in out.splitlines() for error in judge.iter_errors(json.loads(line))]
    return [f"{command}: {error.json_path} {error.message}" for error in errors]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the samples, and a capture of each conversation that breaks a rule."""
    folder = tmp_path_factory.mktemp("broken")
    for place, case in enumerate(CASES.values()):
        record = (Record(each.ts_ns or 0, each.data) for each in packets(said(case.trips)))
        (folder / f"{place}.pcap").write_bytes(pcap(record))
    return [*CAPTURES, *map(str, sorted(folder.iterdir()))]


@pytest.mark.parametrize("command", OF_CAPTURES)
def test_rows_of_captures_fit_their_schema(command: str, captures: list[str]) -> None:
    judge = validator(command)
    rows = 0
    for capture in captures:
        printed = run(f"dcpdump {command} {OPTIONS.get(command, '')} {capture} -f ndjson -q")
        assert wrong(f"{command} {capture}", printed.out, judge) == []
        rows += len(printed.out.splitlines())
    assert rows > 5


def test_what_is_pasted_fits_its_schema() -> None:
    judge = validator("explain")
    for text in ("80570006 1f000210", "805c0000000000000000000081969800000000000000000000", "8050 ffff"):
        assert wrong("explain", run(f"dcpdump explain {text} -f ndjson -q").out, judge) == []


def test_context_fits_the_schema() -> None:
    printed = run("dcpdump read samples/stopped.pcap --opcode stream_end --context 2 -f ndjson -q").out
    assert printed.count('"context": true') == 4
    assert wrong("read", printed, validator("read")) == []


def test_a_row_that_does_not_fit_is_refused() -> None:
    judge = validator("streams")
    assert list(judge.iter_errors({"connection": 0}))
    assert list(validator("read").iter_errors({"frame": "1"}))


def test_every_key_is_explained_and_every_explanation_is_of_a_key() -> None:
    used = {key for keys in ROWS.values() for key in keys.replace("|", " ").split()}
    assert used == set(KEYS)
    assert [place for place in OTHERWISE if place[1] not in ROWS[place[0]].split()] == []
