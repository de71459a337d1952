"""Ordinary life is never called wrong, however much of it is captured; of its sick twin the cause comes first."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dcpdump.net.packet import Packet
from dcpdump.streams.causes import SITUATIONS, Degree, Situation
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.damage import WAYS, by_client
from tests.support.diagnoses import objects
from tests.support.habits import HABITS
from tests.support.healthy import HEALTHY
from tests.support.life import LIVES, connection, flowing, live, load
from tests.support.secret_talk import saved

#: Not that of a connector that moves: its first connection is not kept alive while the others talk.
ALL = {
    **{name: text for name, (text, _, _) in LIVES.items()},
    **{f"habit: {name}": text for name, text in HABITS.items() if name != "a connector that moves"},
    **HEALTHY,
}


def diagnosed(captured: Sequence[Packet], folder: Path) -> list[Any]:
    """Return the rows of ``diagnose`` on packets."""
    return objects(f"dcpdump diagnose {saved(captured, folder / 'c.pcap')}")


def wrong(rows: Sequence[Any]) -> list[str]:
    return [row["text"] for row in rows if row["type"] == "trouble" and row["severity"] == "wrong"]


def shuffled(captured: Sequence[Packet], rng: Random) -> list[Packet]:
    """Return packets of which those of one direction come up to a dozen packets earlier, each in its own order."""
    shift = rng.randint(1, 12)
    towards = captured[-1].data[26:30]
    order = sorted(range(len(captured)), key=lambda at: at - shift * (captured[at].data[26:30] == towards))
    return [captured[at] for at in order]


def damages(captured: list[Packet], rng: Random) -> Iterator[tuple[str, list[Packet]]]:
    """Yield what a capture may have: all, or a part."""
    yield "whole", captured
    yield "cut", captured[: rng.randint(len(captured) // 3, len(captured))]
    late = captured[rng.randint(0, len(captured) // 2) :]
    yield "late", late
    answer = next((each for each in late if by_client(each) is not by_client(late[0])), None)
    yield "late, without the first answer", [each for each in late if each is not answer]
    yield "lossy", [each for each in captured if rng.random() > 0.01]
    yield "shuffled", shuffled(captured, rng)
    yield "late, by two clocks", WAYS["late and shifted"](captured, rng)
    yield "lossy and shuffled", shuffled([each for each in captured if rng.random() > 0.02], rng)
    for client in (True, False):
        yield "one side", [each for each in captured if by_client(each) is client]


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_wrong_with_what_a_capture_has_of_ordinary_life(name: str, tmp_path: Path) -> None:
    captured = packets(said(ALL[name]))
    found = {
        damage: texts
        for damage, some in damages(captured, Random(name))
        if some and (texts := wrong(diagnosed(some, tmp_path)))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("seconds", "noted"), [(30, []), (90, ["frame 14, c0: no NOOP for 90 s, the interval is 20 s"])]
)
def test_a_producer_that_was_silent_until_its_client_returned_is_noted(
    seconds: int, noted: list[str], tmp_path: Path
) -> None:
    """A client that vanished would not have kept its producer from sending NOOPs."""
    text = connection(controls="set_noop_interval=20") + f"STREAM vb=1\n{live(1, 1, 3)}WAIT {seconds}\n"
    text += connection(port=50_002) + f"STREAM vb=1, start=3\n{flowing(1, 4)}"
    rows = diagnosed(packets(said(text)), tmp_path)
    assert [(row["severity"], row["detail"]) for row in rows if row["type"] == "trouble"] == [
        ("note", each) for each in noted
    ]


@pytest.mark.parametrize("name", LIVES)
def test_of_a_sick_twin_the_first_trouble_is_the_cause(name: str, tmp_path: Path) -> None:
    _, sick, code = LIVES[name]
    (first, *_) = (row for row in diagnosed(packets(said(sick)), tmp_path) if row["type"] == "trouble")
    assert (first["code"], first["severity"]) == (code, "wrong")


@pytest.mark.parametrize("name", LIVES)
def test_two_clocks_are_named_and_nothing_is_wrong(name: str, tmp_path: Path) -> None:
    captured = packets(said(LIVES[name][0]))
    later = [packet._replace(ts_ns=(packet.ts_ns or 0) + 1_500_000_000) for packet in captured]
    twice = sorted([*captured, *later], key=lambda packet: packet.ts_ns or 0)
    assert wrong(diagnosed(twice, tmp_path)) == []
    said_of_it = run(f"dcpdump streams {tmp_path / 'c.pcap'}").err.splitlines()
    assert said_of_it[0] == (
        "dcpdump: note: what was sent was captured twice, by clocks that differ by 1.5 s: times are those of what "
        "comes first; to compare two captures, dcpdump diff A B"
    )


@pytest.mark.parametrize("sorted_by_time", [False, True])
def test_answers_that_are_stamped_before_their_requests_show_two_clocks(sorted_by_time: bool, tmp_path: Path) -> None:
    captured = [
        packet._replace(ts_ns=(packet.ts_ns or 0) - 1_500_000_000 * (packet.data[34:36] == b"\x2b\xca"))
        for packet in packets(said(connection() + "STREAM vb=5\n" + live(5, 1, 9) + flowing(5, 10)))
    ]
    if sorted_by_time:
        captured.sort(key=lambda packet: packet.ts_ns or 0)
    assert wrong(diagnosed(captured, tmp_path)) == []
    assert "have different clocks, or these go back: " in run(f"dcpdump diagnose {tmp_path / 'c.pcap'}").err


def test_an_initial_load_of_1024_vbuckets_may_be_cut_anywhere(tmp_path: Path) -> None:
    captured, rng = packets(said(load(1024, 2, each=0.1))), Random(1024)
    for at in sorted(rng.sample(range(1, len(captured)), 3)):
        assert wrong(diagnosed(captured[:at], tmp_path)) == [], at


def test_of_a_rotated_capture_a_file_may_be_missing(tmp_path: Path) -> None:
    for name, (text, _, _) in LIVES.items():
        captured = packets(said(text))
        third = len(captured) // 3
        for at, part in enumerate((captured[:third], captured[2 * third :])):
            saved(part, tmp_path / f"{at}.pcap")
        assert wrong(objects(f"dcpdump diagnose {tmp_path}")) == [], name


def test_a_missing_file_of_a_rotated_capture_is_named_where_bytes_are_lost(tmp_path: Path) -> None:
    captured = packets(said(LIVES["a slow consumer for an hour"][0]))
    step = len(captured) // 8
    for at in range(8):
        saved(captured[at * step : (at + 1) * step], tmp_path / f"node_{at + 98:05}_2025112012{at * 7:04}.pcap")
    complete = [row for row in objects(f"dcpdump diagnose {tmp_path}") if row.get("cause") == "bytes-lost"]
    (tmp_path / "node_00101_20251120120021.pcap").unlink()
    (lost,) = (row for row in objects(f"dcpdump diagnose {tmp_path}") if row.get("cause") == "bytes-lost")
    between = "node_00100_20251120120014.pcap and node_00102_20251120120028.pcap"
    assert complete == []
    assert lost["detail"].startswith(f"a file may be missing between {between}, as their numbers say; ")


def test_the_page_of_verdicts_has_the_table_of_situations() -> None:
    page = Path("dcpdump/help/verdicts.md").read_text("utf-8")
    found = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \| ?([^|]*?) ?\|$", page, re.MULTILINE)
    words = {None: "", Degree.NOTE: "a note", Degree.UNKNOWN: "not judged"}
    expected = [(f"`{key.value}`", row.certain, words[row.otherwise]) for key, row in SITUATIONS.items() if row.certain]
    never = ", ".join(f"`{key.value}`" for key, row in SITUATIONS.items() if not row.certain)
    assert found[: len(expected) + 1] == [*expected, (never, "never", "a note")]
    assert list(SITUATIONS) == list(Situation)
