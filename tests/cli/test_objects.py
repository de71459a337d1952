"""What programs get with ``-f ndjson`` is as --schema says; whole objects are in transcripts/objects.txt."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.arrow.other_tables import FILES
from dcpdump.render.column import KEYS, Column, ColumnSet
from dcpdump.render.conns import CLOSED, CONNECTIONS, GAPS
from dcpdump.render.diagnosis import DIAGNOSIS
from dcpdump.render.diff import DIFF
from dcpdump.render.findings import EXPLAINED, FINDINGS
from dcpdump.render.flow import FLOW
from dcpdump.render.history import HISTORY
from dcpdump.render.objects import SHOWN
from dcpdump.render.rollbacks import ROLLBACKS
from dcpdump.render.statistics import STATISTICS
from dcpdump.render.streams import STREAMS
from dcpdump.render.top import TOP
from tests.support.check_cases import CASES
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.schemas import validator, wrong
from tests.support.secret_talk import saved

CAPTURES = [str(path) for path in sorted(Path("samples").glob("*.pcap"))]
OPTIONS = {"key": "'*'", "top": "--once", "check": "--all", "diagnose": "--all", "diff": "samples/stopped.pcap"}
#: Without a capture of their own kind: an interface, and bytes that are pasted.
OF_CAPTURES = "read stats streams conns rollbacks flow key top check diff diagnose".split()
#: Declared columns of commands.
COLUMNS: tuple[ColumnSet[Any], ...] = (
    *(SHOWN, EXPLAINED, STREAMS, CONNECTIONS, CLOSED, FLOW, ROLLBACKS, FINDINGS, GAPS, FILES),
    *(*HISTORY, *STATISTICS, *DIAGNOSIS, *DIFF, TOP),
)


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


@pytest.mark.parametrize("command", ["conns", "streams", "flow", "diagnose", "top"])
def test_rows_of_tls_fit_their_schema(command: str) -> None:
    judge, capture = validator(command), "tests/tls/captures/java-1.3.pcap"
    for keys in ("--keylog tests/tls/captures/java-1.3.keys", "")[: 2 if command == "conns" else 1]:
        printed = run(f"dcpdump {command} {capture} {keys} -f ndjson -q").out
        assert (bool(printed), wrong(command, printed, judge)) == (True, [])


@pytest.mark.parametrize("command", [name for name in OF_CAPTURES if name not in ("read", "top")])
def test_csv_has_the_columns_of_the_objects(command: str) -> None:
    options = f"{command} {OPTIONS.get(command, '')} samples/client-rollback.pcap -q"
    objects = [json.loads(line) for line in run(f"dcpdump {options} -f ndjson").out.splitlines()]
    names, *rows = csv.reader(io.StringIO(run(f"dcpdump {options} -f csv").out))
    assert len(rows) == len(objects)
    for row, wanted in zip(rows, objects, strict=True):
        found = dict(zip(names, row, strict=True))
        assert {name: text for name, text in found.items() if text} == {
            name: text for name, value in wanted.items() if (text := cell(value))
        }


def cell(value: Any) -> str:
    """Return a value as csv has it."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "|".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
    declared = [each for columns in COLUMNS for each in all_columns(columns)]
    used = {each.key.rstrip("?") for each in declared if each.key and not (each.type and each.meaning)}
    assert used | {"type"} == set(KEYS)


def all_columns(columns: ColumnSet[Any]) -> Iterator[Column[Any]]:
    """Yield columns, and those of the rows in them."""
    for each in columns:
        yield each
        yield from () if each.columns is None else all_columns(each.columns)
