"""What the screen is made of, without a screen: fields and their bytes, rows and their frames, places, filters."""

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.browse.browser import History, Position
from dcpdump.browse.frame_panes import field_lines, line_at
from dcpdump.browse.frame_service import FrameService, troubled
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.rows import ListedFrames, TimeColumn, time_text
from dcpdump.browse.search import ChosenFrames, FrameSearch, RowSearch
from dcpdump.browse.topline import density
from dcpdump.capture.file import Capture
from dcpdump.cli.browse import commands_of, completions, filter_of, filter_words, with_clause
from dcpdump.filter import FilterError
from dcpdump.index.building import IndexOptions
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.index.columns import Columns
from dcpdump.net.packet import NO_TIME
from dcpdump.render import table
from dcpdump.render.style import LineKind
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

SAMPLES = sorted((Path(__file__).parent.parent.parent / "samples").glob("*.pcap"))
COMMANDS = commands_of(["a b.pcap"], ["a b.pcap"], [], None)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_lines_are_those_of_read_and_each_byte_is_of_one_field(path: Path) -> None:
    with CaptureIndex([Capture(str(path))]) as index:
        index.finish()
        for number in range(1, index.frames + 1):
            record = index.record(number)
            lines = field_lines(record, 64)
            printed = [line.text for line in table.lines(record, 64)]
            assert [line.text for line in lines] == printed[2:]
            assert any(line.kind is LineKind.PROBLEM for line in lines) == bool(record.problems)
            for byte in range(len(record.frame.raw.data)):
                at = line_at(lines, byte)
                assert at is not None
                assert lines[at].start <= byte < lines[at].end
            for at, line in enumerate(lines):
                if line.field is not None:
                    assert {line_at(lines, byte) for byte in range(line.start, line.end)} <= {at}


@given(st.lists(st.booleans(), max_size=60), st.booleans())
def test_rows_and_frames_lead_to_each_other(gaps: list[bool], everything: bool) -> None:
    numbers = [number if everything else 3 * number for number in range(1, len(gaps) + 1)]
    listed = all_frames(gaps) if everything else chosen_frames(numbers, gaps)
    expected = [(number, lost) for number, gap in zip(numbers, gaps, strict=True) for lost in [True, False][not gap :]]
    assert [listed.at(row) for row in range(listed.rows)] == expected
    assert [expected[listed.row_of(number)] for number in numbers] == [(number, False) for number in numbers]
    assert (listed.frames, list(listed.numbers)) == (len(gaps), numbers)


@given(st.integers(0, 60), st.booleans(), st.integers(0, 200), st.integers(0, 200), st.integers(1, 9))
def test_the_frames_around_one_are_found_whether_it_is_listed_or_not(
    count: int, everything: bool, number: int, other: int, most: int
) -> None:
    numbers = [each if everything else 3 * each for each in range(1, count + 1)]
    listed = all_frames([False] * count) if everything else chosen_frames(numbers, [False] * count)
    assert list(listed.near(number, 1, most)) == [each for each in numbers if each > number][:most]
    assert list(listed.near(number, -1, most)) == [each for each in numbers[::-1] if each < number][:most]
    assert list(listed.between(number, other)) == [each for each in numbers if number <= each <= other]
    assert listed.has(number) == (number in numbers)


def all_frames(gaps: list[bool]) -> ListedFrames:
    listed = ListedFrames()
    listed.grow(len(gaps), [number for number, gap in enumerate(gaps, 1) if gap])
    return listed


def chosen_frames(numbers: list[int], gaps: list[bool]) -> ChosenFrames:
    listed, middle = ChosenFrames(), len(gaps) // 2
    for half in (slice(0, middle), slice(middle, None)):
        torn = [number for number, gap in zip(numbers[half], gaps[half], strict=True) if gap]
        lost = [each for number in torn for each in (number - 1, number)]  # the first of them is not listed
        listed.extend(np.array(numbers[half], np.int64), np.array(lost, np.int64))
    return listed


def test_a_frame_that_is_not_listed_leads_to_the_next_one() -> None:
    listed = chosen_frames([3, 7, 9], [False, True, False])
    assert [listed.row_of(number) for number in (1, 3, 4, 8, 9, 12)] == [0, 0, 2, 3, 3, 3]


def test_a_place_is_returned_to_and_left_again() -> None:
    places = History()
    first, second, third = Position("frames", "", 1), Position("frames", "x", 5), Position("streams", "", 5)
    places.leave(first)
    places.leave(second)
    assert [places.step(each, -1) for each in (third, second, first)] == [second, first, None]
    assert [places.step(each, 1) for each in (first, second, third)] == [second, third, None]


def test_times_count_from_what_is_asked() -> None:
    noon = 1_763_640_000_000_000_000
    assert time_text(TimeColumn.CLOCK, noon + 1_500, None, wide=True) == "12:00:00.000001"
    assert time_text(TimeColumn.CLOCK, noon, None, wide=False) == "12:00:00.000"
    assert time_text(TimeColumn.START, noon + 61_000_000_000, noon, wide=True).strip() == "+61.000000"
    assert time_text(TimeColumn.MARKED, noon, noon + 2_000_000_000, wide=False).strip() == "-2.000"
    assert time_text(TimeColumn.CLOCK, NO_TIME, None, wide=True).strip() == ""


def test_density_counts_frames_over_time() -> None:
    times = np.array([NO_TIME, 0, 5, 10, 95, 99])
    found = density(times, chosen_frames([5], [False]), 10)
    assert found is not None
    assert found.counts == (2, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    assert found.listed == (0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
    assert [found.bar(ts) for ts in (0, 9, 10, 99)] == [0, 0, 1, 9]
    assert density(np.array([NO_TIME]), ListedFrames(), 10) is None


# -- filters as texts ---------------------------------------------------------------------------------------


def test_a_filter_is_the_options_of_read_with_or_without_dashes() -> None:
    words = ["--opcode", "mutation,deletion", "--problems", "--seqno", "-50", "--key", "a b"]
    assert filter_words("opcode mutation,deletion --problems seqno=-50 --key 'a b'") == words


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("opcdoe x", "no such option: 'opcdoe'", "did you mean opcode?"),
        ("opcode", "--opcode: a value is missing", "--opcode NAMES: Messages: mutation,deletion · 0x57 · '!noop'."),
        ("status rolback", "unknown status 'rolback' for --status", "did you mean Rollback?"),
        ("key 'a", 'a quotation mark has no second one in "key \'a"', ""),
        ("since noon", "--since: 'noon' is not a time", None),
    ],
)
def test_a_wrong_filter_is_said_in_the_words_of_read(text: str, error: str, hint: str | None) -> None:
    with pytest.raises(FilterError) as raised:
        filter_of(text)
    assert str(raised.value) == error
    assert hint is None or raised.value.hint == hint


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("opc", ["opcode "]),
        ("--vb", ["--vbucket "]),
        ("problems sta", ["problems status "]),
        ("opcode snapshot_m", ["opcode snapshot_marker"]),
        ("opcode noop,!stream-e", ["opcode noop,!stream_end"]),
        ("status !rollb", ["status !rollback"]),
        ("kind ", ["kind request", "kind response"]),
        ("key 'a", []),
    ],
)
def test_options_and_names_are_completed(text: str, found: list[str]) -> None:
    assert completions(text) == found


def test_a_clause_replaces_the_one_of_its_name() -> None:
    assert with_clause("opcode noop problems", "opcode", "0x57") == "--problems --opcode 0x57"
    assert with_clause("not understood", "key", "a b") == "--key 'a b'"


def test_a_command_is_shown_with_the_captures_as_they_were_given() -> None:
    words = COMMANDS.words("read", "opcode noop", "1-3", ())
    assert words[words.index("dcpdump") :] == ["dcpdump", "read", "a b.pcap", "--opcode", "noop", "--frame", "1-3"]


FILTERS = (
    "opcode mutation,stream_req",
    "vbucket 0-600",
    "seqno 2-",
    "status '!success'",
    "key 'u*'",
    "problems",
    "latency '>1us'",
    "kind response --connection 0",
    "since +1ms",
)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_filter_lists_what_read_prints_while_the_index_grows(path: Path) -> None:
    for text in FILTERS[SAMPLES.index(path) % 4 :: 4]:
        with closing(IndexedFrames(lambda columns: service_of(path, columns))) as frames:
            frames.step()
            search = FrameSearch(frames, text)
            while not (frames.complete and search.done):
                frames.step(0.1)
                search.step()
            printed = run(f"dcpdump read {path} {text if text.startswith('-') else '--' + text} -f ndjson -q").out
            assert list(search.listed.numbers) == [json.loads(line)["frame"] for line in printed.splitlines()], text


def test_a_search_that_was_ended_searches_no_more_of_what_comes() -> None:
    with closing(IndexedFrames(lambda columns: service_of(SAMPLES[0], columns))) as frames:
        while not frames.count:
            frames.step(0.1)
        search = FrameSearch(frames, "kind request")
        assert not search.done
        search.close()
        while not frames.complete:
            frames.step(0.1)
            search.step()
        assert (search.done, search.ended_at, search.listed.frames) == (True, 0, 0)


@pytest.mark.parametrize("rows", [1, 3, 10_000])
@pytest.mark.parametrize("text", ["", "seqno=1"])
def test_the_next_row_with_something_is_found_from_everywhere(
    text: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpdump.browse.search._TEXTS", rows)
    monkeypatch.setattr("dcpdump.browse.search._PROBLEMS", rows)
    path = SAMPLES[0].with_name("damage.pcap")
    with closing(IndexedFrames(lambda columns: service_of(path, columns))) as frames:
        while not frames.complete:
            frames.step(0.1)
        listed = all_frames([False] * frames.count)
        if text:
            lines = run(f"dcpdump read {path} -f line -q --color never").out.splitlines()
            wanted = [number for number, line in enumerate(lines, 1) if text in line]
        else:
            wanted = (np.flatnonzero(troubled(frames.columns, listed.numbers)) + 1).tolist()
        assert len(wanted) > 2
        for start in range(1, frames.count + 1):
            assert searched(frames, listed, start, 1, text) == min((n for n in wanted if n > start), default=None)
            assert searched(frames, listed, start, -1, text) == max((n for n in wanted if n < start), default=None)


@pytest.mark.parametrize("rows", [2, 10_000])
def test_of_several_problems_that_only_values_show_the_nearest_is_found(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpdump.browse.search._PROBLEMS", rows)
    path = tmp_path / "values.pcap"
    talk = TcpTalk().send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x")).send(1, encode("DCP_OPEN", response=True))
    for seqno, value in enumerate([b"{}", b"x", b"{}", b"x", b"x", b"{}"], 1):
        talk.send(1, encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"k", value=value, datatype=1))
    saved(talk.packets, path)
    with closing(IndexedFrames(lambda columns: service_of(path, columns))) as frames:
        while not frames.complete:
            frames.step(0.1)
        listed = all_frames([False] * frames.count)
        assert not troubled(frames.columns, listed.numbers).any()
        below = [searched(frames, listed, start, 1, "") for start in range(1, 9)]
        above = [searched(frames, listed, start, -1, "") for start in range(1, 9)]
        sound = ChosenFrames()
        sound.extend(np.array([3, 5, 8]), np.array([], int))
        assert [searched(frames, sound, 3, 1, ""), searched(frames, sound, 8, -1, "")] == [None, None]
    assert (below, above) == ([4, 4, 4, 6, 6, 7, None, None], [None, None, None, None, 4, 4, 6, 7])


def searched(frames: IndexedFrames, listed: ListedFrames, start: int, step: int, text: str) -> int | None:
    search = RowSearch(frames, listed, start, step, text)
    while not search.done:
        frames.step(0.1)
    return search.found


def service_of(path: Path, columns: Columns) -> FrameService:
    index = CaptureIndex([Capture(str(path))], IndexOptions(block_bytes=2048), columns=columns)
    return FrameService(index, lambda words: filter_of(words).masks, None)
