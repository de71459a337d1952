"""Of connections and streams that are over, no more are kept than --memory has room for. What is said of the others,
and of broken rules, stays the same.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dcpdump.net.packet import Packet
from tests.support import hostile
from tests.support.console import Printed, run
from tests.support.few_kept import FEW, LEAST, few_kept
from tests.support.hostile import (
    mixed_connections,
    mixed_streams,
    reconnects,
    requests_without_answers,
    short_connections,
    silent_connections,
)
from tests.support.secret_talk import saved

#: What may turn out otherwise later, when a stream is requested again.
_VERDICT = ("verdict", "cause", "why", "trouble")
PLENTY = "--memory 1G"
NOTE = "dcpdump: note: to stay within --memory,"

Shape = Callable[[int], list[Packet]]
STREAMS = pytest.mark.parametrize(("shape", "count"), [(mixed_streams, 500), (reconnects, 150)])


@pytest.fixture(scope="module", autouse=True)
def _few_kept() -> Iterator[None]:
    with few_kept():
        yield


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evicted")


@cache
def made(shape: Shape, count: int, folder: Path) -> Path:
    """Return a capture, which several commands read."""
    return saved(shape(count), folder / f"{shape.__name__}-{count}.pcap")


@cache
def both(command: str, shape: Shape, count: int, folder: Path) -> tuple[Printed, Printed]:
    """Return what a command says with plenty of memory, and with little."""
    path = made(shape, count, folder)
    plenty, little = (run(f"dcpdump {command.replace('PATH', str(path))} {memory}") for memory in (PLENTY, FEW))
    assert "--memory" not in plenty.err
    return plenty, little


@cache
def exported(shape: Shape, count: int, folder: Path, *options: str) -> list[list[dict[str, Any]]]:
    """Return the rows of streams with plenty of memory, and with little, in one order."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path, tables = made(shape, count, folder), []
    for number, memory in enumerate((PLENTY, FEW)):
        out = folder / f"{shape.__name__}-{len(options)}-{number}"
        run(f"dcpdump export {path} -o {out} --tables streams,findings {memory} {' '.join(options)}")
        rows = parquet.read_table(out / "streams.parquet").to_pylist()
        tables.append(sorted(rows, key=lambda row: (row["last_at"], row["connection"], row["vbucket"])))
    return tables


def words(line: str) -> list[str]:
    """Return what a line says: of verdicts that are equally many, the first that came is named first."""
    return sorted(re.split("[:,] ", line))


# -- streams ------------------------------------------------------------------------------------------------


@STREAMS
def test_check_finds_the_same_and_counts_all_streams(shape: Shape, count: int, folder: Path) -> None:
    plenty, little = both("check --all PATH", shape, count, folder)
    assert little.out == plenty.out
    assert "that were over are judged by the rules, but not listed: a larger" in little.err


@STREAMS
def test_streams_that_are_listed_have_the_same_verdicts_and_the_others_are_counted(
    shape: Shape, count: int, folder: Path
) -> None:
    plenty, little = both("streams -f ndjson PATH", shape, count, folder)
    rows, listed = plenty.out.splitlines(), little.out.splitlines()
    assert LEAST <= len(listed) < len(rows)
    assert set(listed) <= set(rows)
    assert f"{NOTE} {len(rows) - len(listed):,} streams" in little.err
    plenty, little = both("streams PATH", shape, count, folder)
    assert words(little.out.splitlines()[-1]) == words(plenty.out.splitlines()[-1])


def test_export_has_the_rows_of_streams_that_were_evicted(folder: Path) -> None:
    plenty, little = exported(mixed_streams, 500, folder)
    early = [its["why"] for mine, its in zip(plenty, little, strict=True) if any(mine[x] != its[x] for x in _VERDICT)]
    assert 0 < len(early) < len(plenty) / 2
    lasting = [[{name: row[name] for name in row if name not in _VERDICT} for row in rows] for rows in (plenty, little)]
    assert lasting[0] == lasting[1]
    # A verdict on what was not requested again says that it was made early.
    early = [row["why"] for row in little if "as it was not kept in memory" in row["why"]]
    assert (early != [], [why for why in early if "the capture ends" in why]) == (True, [])


@pytest.mark.parametrize("options", ["", "--redact-level full --salt-file {}/salt"])
def test_what_was_asked_for_again_has_the_same_row_though_it_was_evicted(options: str, folder: Path) -> None:
    (folder / "salt").write_text("pepper")  # a name of one letter stays as it is by one salt in sixty
    plenty, little = exported(reconnects, 150, folder, *[options.format(folder)] * bool(options))
    assert (len(plenty), little == plenty) == (3 * 150, True)
    clear = any(row["name"] == "eq_dcpq:x" or row["src"].startswith("10.0.0.9:") for row in little)
    assert clear == (not options)


def test_requests_that_were_never_answered_are_evicted_once_they_are_forgotten(folder: Path) -> None:
    plenty, little = both("streams -f ndjson PATH", requests_without_answers, 3_200, folder)
    rows, listed = plenty.out.splitlines(), little.out.splitlines()
    assert (len(rows), len(listed) < 2_400, set(listed) <= set(rows)) == (3_201, True, True)
    nobody = run(f"dcpdump key nobody10 {made(requests_without_answers, 3_200, folder)} {FEW}").out
    place = "it belongs to vb 3 (of 1,024), of which a stream was evicted"
    assert nobody == f"no message about such a key: {place}\n"


def test_where_too_much_is_open_the_connections_that_are_silent_for_longest_are_closed(folder: Path) -> None:
    # There is room for 192 connections, but not with three streams each: at the last look only for the least, 128.
    path = made(hostile.open_streams, 188, folder)
    plenty, little = (run(f"dcpdump streams {path} -f ndjson --memory {size}") for size in ("1G", "6M"))
    assert (len(plenty.out.splitlines()), "--memory" in plenty.err) == (564, False)
    kept = len(little.out.splitlines()) // 3
    assert LEAST <= kept < 150
    assert little.out.splitlines() == plenty.out.splitlines()[-3 * kept :]
    assert "60 connections that had not ended, silent for longest, were closed: where" in little.err
    assert f"{3 * (188 - kept)} streams and {188 - kept} connections that were over are not listed" in little.err


def test_a_connection_and_a_diagnosis_count_all_streams(folder: Path) -> None:
    plenty, little = both("conns -f ndjson PATH", mixed_streams, 500, folder)
    assert (little.out, "--memory" in little.err) == (plenty.out, False)
    plenty, little = both("diagnose PATH", mixed_streams, 500, folder)
    assert [*map(words, little.out.splitlines()[1:3])] == [*map(words, plenty.out.splitlines()[1:3])]
    assert "more streams that may be in trouble" in little.out


def test_a_history_has_the_changes_of_streams_that_were_evicted(folder: Path) -> None:
    plenty, little = both("key k* PATH -f ndjson", mixed_streams, 500, folder)
    changes, some = (
        [line for line in printed.out.splitlines() if '"type": "change"' in line] for printed in (plenty, little)
    )
    assert (len(changes) > 500, some == changes) == (True, True)
    assert set(little.out.splitlines()) < set(plenty.out.splitlines())
    assert "that were over are shown by their changes alone: a larger --memory lists more" in little.err
    # Where all streams of its vbucket were evicted it is shown too.
    lines, fewer = (each.out.splitlines() for each in both("key k* --vbucket 3002 PATH", mixed_streams, 500, folder))
    assert [line.split()[0] for line in lines] == ["key", "k1", "k2", "capture"]
    assert fewer == lines[:3]


@pytest.mark.parametrize("command", ["streams --vbucket 3002", "rollbacks --vbucket 3002"])
def test_a_stream_that_matches_and_was_evicted_is_not_denied(command: str, folder: Path) -> None:
    printed = run(f"dcpdump {command} {made(mixed_streams, 500, folder)} {FEW}").out
    assert printed.splitlines()[0] == "1 stream matches, which was over and is not kept in memory"


def test_the_stream_that_is_open_is_kept_though_it_is_the_oldest(folder: Path) -> None:
    first = json.loads(both("streams -f ndjson PATH", mixed_streams, 500, folder)[1].out.splitlines()[0])
    assert (first["vbucket"], first["state"]) == (2000, "quiet")


# -- connections without a stream ---------------------------------------------------------------------------


def test_connections_that_are_not_listed_are_counted_in_a_note(folder: Path) -> None:
    plenty, little = both("conns -f ndjson PATH", short_connections, 250, folder)
    rows, listed = plenty.out.splitlines(), little.out.splitlines()
    assert (len(rows), 125 < len(listed) < 163, set(listed) <= set(rows)) == (250, True, True)
    left = f"{250 - len(listed)} connections without a stream, which had ended or were silent for longest"
    assert [line for line in little.err.splitlines() if "without a" in line] == [f"{NOTE} {left}, are not listed"]


@pytest.mark.parametrize("command", ["check --all", "streams", "rollbacks"])
def test_what_is_said_of_streams_and_broken_rules_is_the_same(command: str, folder: Path) -> None:
    plenty, little = both(f"{command} PATH -f ndjson", mixed_connections, 175, folder)
    assert (little.code, sorted(little.out.splitlines())) == (plenty.code, sorted(plenty.out.splitlines()))
    assert plenty.out or command == "rollbacks"


@pytest.mark.parametrize("command", ["check", "diagnose"])
def test_where_rules_are_asked_the_note_says_that_evicted_connections_were_judged(command: str, folder: Path) -> None:
    text = "connections without a stream, which had ended or were silent for longest, are judged by the rules"
    lines = run(f"dcpdump {command} {made(short_connections, 150, folder)} {FEW}").err.splitlines()
    assert [line for line in lines if re.fullmatch(f"{NOTE} [1-9][0-9]? {text}, but not listed", line)] == lines[:1]


@pytest.mark.parametrize(
    ("command", "count", "text"),
    [
        ("read", 129, "1 connection that had not ended, silent for longest, was closed: where it goes on"),
        ("streams", 134, "6 connections that had not ended, silent for longest, were closed: where they go on"),
    ],
)
def test_connections_that_are_closed_before_their_end_are_counted_in_a_note(
    command: str, count: int, text: str, folder: Path
) -> None:
    path = made(silent_connections, count, folder)
    note = f"{NOTE} {text}, frames are found again a little later"
    assert note in run(f"dcpdump {command} {path} {FEW}").err.splitlines()
    for options in (f"{FEW} -q", ""):
        assert "had not ended" not in run(f"dcpdump {command} {path} {options}").err
