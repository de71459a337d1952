"""What commands print with -f ndjson is what --schema says, of the samples and of conversations that go wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.render.row_keys import COMMANDS, KEYS, OTHERWISE, ROWS
from tests.support.check_cases import CASES
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.secret_talk import saved

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
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of conversations each of which breaks a rule."""
    frames = []
    for place, case in enumerate(CASES.values()):
        frames += [replace(each, connection=10 * place + each.connection, ends="") for each in said(case.trips)]
    frames.sort(key=lambda each: each.ts_ns)
    return saved(packets(frames), tmp_path_factory.mktemp("broken") / "broken.pcap")


@pytest.mark.parametrize("command", OF_CAPTURES)
def test_rows_of_captures_fit_their_schema(command: str, broken: Path) -> None:
    judge, rows = validator(command), 0
    for capture in (*CAPTURES, broken):
        printed = run(f"dcpdump {command} {OPTIONS.get(command, '')} {capture} -f ndjson -q")
        assert wrong(f"{command} {capture}", printed.out, judge) == []
        rows += len(printed.out.splitlines())
    assert rows > 5


def test_what_is_pasted_fits_its_schema() -> None:
    judge = validator("explain")
    for text in ("80570006 1f000210", "805c0000000000000000000081969800000000000000000000", "8050 ffff"):
        assert wrong("explain", run(f"dcpdump explain {text} -f ndjson -q").out, judge) == []


def test_context_fits_the_schema_and_what_does_not_fit_is_refused() -> None:
    printed, judge = (
        run("dcpdump read samples/stopped.pcap --opcode stream_end --context 2 -f ndjson -q").out,
        validator("read"),
    )
    assert (printed.count('"context": true'), wrong("read", printed, judge)) == (4, [])
    assert list(judge.iter_errors({"frame": "1"}))


def test_every_key_is_explained_and_every_explanation_is_of_a_key() -> None:
    used = {key for keys in ROWS.values() for key in keys.replace("|", " ").split()}
    assert used == set(KEYS)
    assert [place for place in OTHERWISE if place[1] not in ROWS[place[0]].split()] == []
