"""Of connections that are over, and had no stream, no more are kept than --memory has room for."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from tests.support.console import run
from tests.support.few_kept import FEW, few_kept
from tests.support.hostile import in_pcap, mixed_connections, short_connections, silent_connections


@pytest.fixture(scope="module", autouse=True)
def _few_kept() -> Iterator[None]:
    with few_kept():
        yield


@cache
def made(shape: Callable[[int], list[Packet]], count: int) -> bytes:
    """Return a capture, which several commands read."""
    return in_pcap(shape(count))


def written(shape: Callable[[int], list[Packet]], count: int, folder: Path) -> Path:
    path = folder / "many.pcap"
    path.write_bytes(made(shape, count))
    return path


def test_connections_that_are_not_listed_are_counted_in_a_note(tmp_path: Path) -> None:
    path = written(short_connections, 250, tmp_path)
    all_of_them, some = run(f"dcpdump conns {path} -f ndjson"), run(f"dcpdump conns {path} -f ndjson {FEW}")
    listed = some.out.splitlines()
    assert len(all_of_them.out.splitlines()) == 250
    assert 125 < len(listed) < 163
    assert set(listed) <= set(all_of_them.out.splitlines())
    left = 250 - len(listed)
    note = f"{left} connections without a stream, which had ended or were silent for longest, are not listed"
    assert [line for line in some.err.splitlines() if "without a stream" in line] == [
        f"dcpdump: note: to stay within --memory, {note}"
    ]
    assert "without a stream" not in all_of_them.err


@pytest.mark.parametrize("command", ["check --all", "streams", "rollbacks"])
def test_what_is_said_of_streams_and_broken_rules_is_the_same(command: str, tmp_path: Path) -> None:
    path = written(mixed_connections, 175, tmp_path)
    name, *options = command.split()
    asked = f"dcpdump {name} {path} -f ndjson {' '.join(options)}"
    plenty, little = run(asked), run(f"{asked} {FEW}")
    assert (little.code, sorted(little.out.splitlines())) == (plenty.code, sorted(plenty.out.splitlines()))
    assert plenty.out or command == "rollbacks"


@pytest.mark.parametrize("command", ["check", "diagnose"])
def test_where_rules_are_asked_the_note_says_that_evicted_connections_were_judged(command: str, tmp_path: Path) -> None:
    path = written(short_connections, 150, tmp_path)
    text = "22 connections without a stream, which had ended or were silent for longest, are judged by the rules"
    lines = run(f"dcpdump {command} {path} {FEW}").err.splitlines()
    assert f"dcpdump: note: to stay within --memory, {text}, but not listed" in lines


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (129, "1 connection that had not ended, silent for longest, was closed: where it goes on"),
        (134, "6 connections that had not ended, silent for longest, were closed: where they go on"),
    ],
)
@pytest.mark.parametrize("command", ["read", "streams"])
def test_connections_that_are_closed_before_their_end_are_counted_in_a_note(
    command: str, count: int, text: str, tmp_path: Path
) -> None:
    path = written(silent_connections, count, tmp_path)
    note = f"dcpdump: note: to stay within --memory, {text}, frames are found again a little later"
    assert note in run(f"dcpdump {command} {path} {FEW}").err.splitlines()
    assert "had not ended" not in run(f"dcpdump {command} {path} {FEW} -q").err
    assert "had not ended" not in run(f"dcpdump {command} {path}").err
