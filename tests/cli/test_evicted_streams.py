"""Of streams that are over, no more are kept than --memory has room for. What is said of the others stays the same."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dcpdump.net.packet import Packet
from tests.support.console import Printed, run
from tests.support.few_kept import FEW, LEAST, few_kept
from tests.support.hostile import in_pcap, mixed_streams, open_streams, reconnects, requests_without_answers

#: What may turn out otherwise later, when a stream is asked for again.
_VERDICT = ("verdict", "cause", "why", "trouble")

Shape = Callable[[int], list[Packet]]


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
    path = folder / f"{shape.__name__}.pcap"
    path.write_bytes(in_pcap(shape(count)))
    return path


@cache
def both(command: str, shape: Shape, count: int, folder: Path) -> tuple[Printed, Printed]:
    """Return what a command says with plenty of memory, and with little."""
    path = made(shape, count, folder)
    name, *options = command.split()
    asked = f"dcpdump {name} {path} {' '.join(options)}"
    return run(f"{asked} --memory 1G"), run(f"{asked} {FEW}")


@cache
def exported(shape: Shape, count: int, folder: Path, *options: str) -> list[list[dict[str, Any]]]:
    """Return the rows of streams with plenty of memory, and with little, in one order."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path, tables = made(shape, count, folder), []
    for number, memory in enumerate(("--memory 1G", FEW)):
        out = folder / f"{shape.__name__}-{len(options)}-{number}"
        run(f"dcpdump export {path} -o {out} --tables streams,findings {memory} {' '.join(options)}")
        rows = parquet.read_table(out / "streams.parquet").to_pylist()
        tables.append(sorted(rows, key=lambda row: (row["last_at"], row["connection"], row["vbucket"])))
    return tables


@pytest.mark.parametrize(("shape", "count"), [(mixed_streams, 500), (reconnects, 150)])
def test_check_finds_the_same_and_counts_all_streams(shape: Shape, count: int, folder: Path) -> None:
    plenty, little = both("check --all", shape, count, folder)
    assert little.out == plenty.out
    assert "that were over are judged by the rules, but not listed: a larger" in little.err
    assert "were over" not in plenty.err


@pytest.mark.parametrize(("shape", "count"), [(mixed_streams, 500), (reconnects, 150)])
def test_streams_that_are_listed_have_the_same_verdicts_and_the_others_are_counted_in_a_note(
    shape: Shape, count: int, folder: Path
) -> None:
    plenty, little = both("streams -f ndjson", shape, count, folder)
    rows, listed = plenty.out.splitlines(), little.out.splitlines()
    assert LEAST <= len(listed) < len(rows)
    assert set(listed) <= set(rows)
    note = f"dcpdump: note: to stay within --memory, {len(rows) - len(listed):,} streams"
    assert [line for line in little.err.splitlines() if line.startswith(note)]
    assert "--memory" not in plenty.err


def words(line: str) -> list[str]:
    """Return what a line says: of verdicts that are equally many, the first that came is named first."""
    return sorted(re.split("[:,] ", line))


@pytest.mark.parametrize(("shape", "count"), [(mixed_streams, 500), (reconnects, 150)])
def test_the_last_line_of_streams_counts_those_that_are_not_listed(shape: Shape, count: int, folder: Path) -> None:
    plenty, little = both("streams", shape, count, folder)
    assert words(little.out.splitlines()[-1]) == words(plenty.out.splitlines()[-1])
    assert len(little.out) < len(plenty.out)


def test_export_has_the_rows_of_streams_that_were_evicted(folder: Path) -> None:
    plenty, little = exported(mixed_streams, 500, folder)
    early = sum(any(mine[name] != its[name] for name in _VERDICT) for mine, its in zip(plenty, little, strict=True))
    assert 0 < early < len(plenty) / 2
    lasting = [[{name: row[name] for name in row if name not in _VERDICT} for row in rows] for rows in (plenty, little)]
    assert lasting[0] == lasting[1]


def test_what_was_asked_for_again_has_the_same_row_though_it_was_evicted(folder: Path) -> None:
    plenty, little = exported(reconnects, 150, folder)
    assert len(plenty) == 3 * 150
    assert little == plenty


def test_rows_of_streams_that_were_evicted_are_redacted_too(folder: Path) -> None:
    plenty, little = exported(reconnects, 150, folder, f"--redact-level full --salt-file {folder / 'salt'}")
    assert little == plenty
    assert not any(row["name"] == "eq_dcpq:x" or row["src"].startswith("10.0.0.9:") for row in little)


def test_a_verdict_on_what_was_not_asked_for_again_says_that_it_was_made_early(folder: Path) -> None:
    _, rows = exported(mixed_streams, 500, folder)
    early = [row["why"] for row in rows if "as it was not kept in memory" in row["why"]]
    assert early
    assert all("the capture ends" not in why for why in early)


def test_requests_that_were_never_answered_are_evicted_once_they_are_forgotten(folder: Path) -> None:
    plenty, little = both("streams -f ndjson", requests_without_answers, 3_200, folder)
    listed = little.out.splitlines()
    assert len(plenty.out.splitlines()) == 3_201
    assert len(listed) < 2_400
    assert set(listed) <= set(plenty.out.splitlines())


def test_where_too_much_is_open_the_connections_that_are_silent_for_longest_are_closed(folder: Path) -> None:
    # There is room for 192 connections, but not with three streams each: then only for the least, 128.
    path = made(open_streams, 188, folder)
    plenty, little = (run(f"dcpdump streams {path} -f ndjson --memory {size}") for size in ("1G", "6M"))
    assert (len(plenty.out.splitlines()), "--memory" in plenty.err) == (564, False)
    assert little.out.splitlines() == plenty.out.splitlines()[-3 * LEAST :]
    assert "60 connections that had not ended, silent for longest, were closed: where" in little.err
    assert "180 streams and 60 connections that were over are not listed" in little.err


def test_a_connection_and_a_diagnosis_count_all_streams(folder: Path) -> None:
    plenty, little = both("conns -f ndjson", mixed_streams, 500, folder)
    assert little.out == plenty.out
    assert "--memory" not in little.err
    plenty, little = both("diagnose", mixed_streams, 500, folder)
    for every, some in zip(plenty.out.splitlines()[1:3], little.out.splitlines()[1:3], strict=True):
        assert words(some) == words(every)
    assert "more streams that may be in trouble" in little.out
    plenty, little = both("diagnose -f ndjson", mixed_streams, 500, folder)
    for every, some in zip(plenty.out.splitlines()[:2], little.out.splitlines()[:2], strict=True):
        assert json.loads(some)["states"] == json.loads(every)["states"]


def test_a_history_has_the_changes_of_streams_that_were_evicted(folder: Path) -> None:
    path = made(mixed_streams, 500, folder)
    plenty, little = (run(f"dcpdump key k* {path} -f ndjson {memory}") for memory in ("--memory 1G", FEW))
    changes, some = (
        [line for line in printed.out.splitlines() if json.loads(line)["type"] == "change"]
        for printed in (plenty, little)
    )
    assert len(changes) > 500
    assert some == changes
    assert set(little.out.splitlines()) < set(plenty.out.splitlines())
    assert "that were over are shown by their changes alone: a larger --memory lists more" in little.err
    assert "--memory" not in plenty.err


def test_a_history_is_shown_where_all_streams_of_its_vbucket_were_evicted(folder: Path) -> None:
    path = made(mixed_streams, 500, folder)
    plenty, little = (
        run(f"dcpdump key k* {path} --vbucket 3002 {memory}").out.splitlines() for memory in ("--memory 1G", FEW)
    )
    assert [line.split()[0] for line in plenty] == ["key", "k1", "k2", "capture"]
    assert little == plenty[:3]


@pytest.mark.parametrize("command", ["streams --vbucket 3002", "rollbacks --vbucket 3002"])
def test_a_stream_that_matches_and_was_evicted_is_not_denied(command: str, folder: Path) -> None:
    path = made(mixed_streams, 500, folder)
    printed = run(f"dcpdump {command} {path} {FEW}").out
    assert printed.splitlines()[0] == "1 stream matches, which was over and is not kept in memory"


def test_a_key_without_a_change_may_have_been_in_a_stream_that_was_evicted(folder: Path) -> None:
    path = made(requests_without_answers, 3_200, folder)
    assert run(f"dcpdump key nobody10 {path} {FEW}").out == (
        "no message about such a key: it belongs to vb 3 (of 1,024), of which a stream was evicted\n"
    )


def test_the_stream_that_is_open_is_kept_though_it_is_the_oldest(folder: Path) -> None:
    _, little = both("streams -f ndjson", mixed_streams, 500, folder)
    first = json.loads(little.out.splitlines()[0])
    assert (first["vbucket"], first["state"]) == (2000, "quiet")
