"""The parts of a page: elements, pictures, maps, ladders, colours."""

import json
import re
import struct
import zlib
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.batch.block import BLOCK_BYTES
from dcpdump.batch.traffic_over_time import Axis, TrafficOverTime
from dcpdump.clock import UTC, Clock, clock_in_use, writing_times, zone_of
from dcpdump.escape import safe
from dcpdump.report import vbuckets
from dcpdump.report.draw import DrawnMark, TimeAxis, area, marks, png
from dcpdump.report.gathered import Gathered, Levels
from dcpdump.report.html import element
from dcpdump.report.page import in_script
from dcpdump.report.vbuckets import COLOURS, ENDED, LEVELS, consumers, silence_map
from dcpdump.streams.dissection import Watching
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import NO_FRAME
from dcpdump.streams.ledger import Ledger
from tests.batch.test_traffic_over_time import batches
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import ledger
from tests.support.pages import parsed
from tests.support.pieces import fed

SECOND = 1_000_000_000
LIVE = "RX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\n"
anything = st.text(st.characters(codec=None), max_size=20)
VALUES = st.recursive(
    st.none() | st.integers() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)


@given(anything, anything)
def test_any_text_is_found_again_as_text_and_nothing_else(text: str, value: str) -> None:
    root = parsed(element("p", text, element("b", value), title=value))
    (paragraph,) = root.children
    (bold,) = paragraph.children
    assert (paragraph.name, bold.name, bold.children) == ("p", "b", [])
    assert paragraph.attributes == {"title": safe(value)}
    assert (paragraph.text, bold.text) == (safe(text) + safe(value), safe(value))


@given(VALUES)
def test_what_a_script_gets_is_what_it_was_given(value: object) -> None:
    text = in_script(value)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == json.loads(json.dumps(value))


def test_what_is_false_or_nothing_is_no_attribute() -> None:
    made = element("input", disabled=True, checked=False, class_=None, data_at=0.5, aria_label='"<')
    assert made == '<input disabled data-at="0.5" aria-label="&quot;&lt;">'


def test_a_picture_has_the_colours_of_its_cells() -> None:
    cells = np.array([[0, 1, 14], [13, 2, 0]])
    data = png(cells, COLOURS)
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert data[at + 8 + length : at + 12 + length] == struct.pack(">I", zlib.crc32(kind + body))
        chunks[kind] = body
        at += 12 + length
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (3, 2, 4, 3, 0, 0, 0)
    rows = zlib.decompress(chunks[b"IDAT"])
    assert [rows[begin + 1 : begin + 3].hex() for begin in (0, 3)] == ["01e0", "d200"]
    assert [colour[3] for colour in COLOURS[: LEVELS + 1]] == sorted(colour[3] for colour in COLOURS[: LEVELS + 1])
    assert COLOURS[ENDED][0] == COLOURS[ENDED][1] == COLOURS[ENDED][2]


@given(st.integers(0, 4 * 10**18), st.integers(1, 10**16))
def test_an_axis_has_few_labels_that_do_not_touch(first: int, length: int) -> None:
    ticks = TimeAxis(first, first + length).ticks()
    places = [tick.fraction for tick in ticks]
    assert 2 <= len(ticks) <= 12
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0.0, 1.0)


def test_an_axis_says_milliseconds_of_short_times_and_dates_of_long_ones() -> None:
    first = 1_763_640_131 * SECOND
    assert TimeAxis(first, first + SECOND).ticks()[0].label == "12:02:11.000"
    assert TimeAxis(first, first + 60 * SECOND).ticks()[0].label == "12:02:11"
    assert TimeAxis(first, first + 10 * 86_400 * SECOND).ticks()[0].label == "11-20 12:02"


def test_an_axis_is_in_the_zone_in_use_and_knows_when_its_clocks_are_changed() -> None:
    changed = 1_761_440_400 * SECOND  # 2025-10-26T01:00Z, when clocks in Berlin are set back
    times = TimeAxis(changed - 40 * 86_400 * SECOND, changed + 50 * 86_400 * SECOND)
    with writing_times(Clock(zone=zone_of("Europe/Berlin")), None, None):
        (begins, summer), (change, winter) = times.offsets()
        assert (times.ticks()[0].label, times.ticks()[1].label[-5:]) == ("09-16 03:00", "00:00")
        assert [clock_in_use().zone.name(each) for each in times] == ["UTC+02:00", "UTC+01:00"]
    assert (begins, summer, winter) == (times.first_ns, 7200 * SECOND, 3600 * SECOND)
    assert 0 <= change - changed <= 1_000_000
    assert (times.offsets(), UTC.name(changed)) == ([(times.first_ns, 0)], "UTC")


def test_no_event_is_dropped_however_near_they_are() -> None:
    times = TimeAxis(0, 1000 * SECOND)
    found = [DrawnMark(at * SECOND, "ended", f"at {at}") for at in (1, 2, 3, 500)] + [
        DrawnMark(2 * SECOND, "lost", "there")
    ]
    drawn = parsed(marks(times, found))
    titles = [node.text for node in drawn.all("title")]
    assert titles == ["at 1\nat 2\nat 3", "at 500", "there"]
    assert [node.text for node in drawn.all("text")] == ["3"]


def test_an_area_keeps_a_peak_of_one_step() -> None:
    values = np.zeros(1200, np.int64)
    values[777] = 5
    line = area(values, 50, 5, "hue0")[1]
    assert "L647.5 2.0L" in line


def test_a_level_stays_until_it_changes_and_its_peak_is_kept() -> None:
    axis = Axis()
    axis.cover(0, 500 * SECOND)
    levels = Levels(axis)
    for at, level in ((0, 10), (1, 5 << 30), (2, 20), (500, 30)):
        levels.note(7, at * SECOND, level)
    line = levels.line(7).tolist()
    assert max(line) == 5 << 30
    assert line[-1] == 30
    assert line[len(line) // 2] == 20


def test_levels_are_kept_of_the_connections_that_may_be_pictured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.batch.traffic_over_time.CONNECTIONS", 2)
    begun = opening(controls="connection_buffer_size=1000") + f"STREAM vb=1\n{LIVE}"
    text = "".join(f"CONNECT 10.0.0.9:5000{at} 10.0.0.1:11210\n{begun}" for at in range(4))
    gathered, kept = Gathered(), ledger(text)
    gathered.consume(batches(text), ())
    for number in kept.connections:
        gathered.learnt(NO_FRAME._replace(connection=number, ts_ns=SECOND), kept)
    assert list(gathered.levels.rows) == [0, 1]


def levels_of(text: str, size: int) -> list[int]:
    """Return the line of the only connection of a conversation that is read in blocks of ``size`` bytes."""
    dissection, kept, gathered = Watching(), Ledger(), Gathered()
    feed = Feed(dissection, kept)
    for found in fed(dissection, packets(said(text)), size):
        gathered.consume(found, ())
        for step in feed.steps(found):
            kept.feed_step(step)
            gathered.learnt(step, kept)
    return list(gathered.levels.line(0))


def test_a_level_is_the_same_wherever_a_block_ends() -> None:
    documents = "".join(f"RX mutation{{vb=1, seqno={seqno}}}\nWAIT 0.7\n" for seqno in range(1, 30))
    begun = opening(controls="connection_buffer_size=10000") + "STREAM vb=1\n"
    text = f"{begun}RX snapshot-marker{{vb=1, start=0, end=30, flags=0x5}}\n{documents}"
    whole = levels_of(text, BLOCK_BYTES)
    assert len(set(whole)) == 29
    assert [levels_of(text, size) for size in (1, 500, 1_700)] == [whole] * 3


def test_the_connections_of_one_client_with_their_own_vbuckets_are_one_consumer() -> None:
    def connection(at: int, name: str, vbucket: int) -> str:
        return f"CONNECT 10.0.0.9:5000{at} 10.0.0.{at}:11210\n{opening(name=name)}STREAM vb={vbucket}\n{LIVE}"

    kept = ledger(connection(1, "kafka/A1B2C3D4/0001", 1) + connection(2, "kafka/A1B2C3D4/0002", 2))
    assert [[each.number for each in group] for group in consumers(list(kept.connections.values()))] == [[0, 1]]
    kept = ledger(connection(1, "kafka/A1B2C3D4/0001", 1) + connection(2, "kafka/A1B2C3D4/0002", 1))
    assert [[each.number for each in group] for group in consumers(list(kept.connections.values()))] == [[0], [1]]
    kept = ledger(connection(1, "one", 1) + connection(2, "other", 2))
    assert len(consumers(list(kept.connections.values()))) == 2


def test_a_client_that_is_restarted_under_another_id_is_one_consumer() -> None:
    def connection(at: int, client: str, vbucket: int) -> str:
        name = "#" + f'{{"i":"{client}/01","a":"connector"}}'.encode().hex()
        return f"CONNECT 10.0.0.9:5000{at} 10.0.0.1:11210\n{opening(name=name)}STREAM vb={vbucket}\n{LIVE}"

    lives = connection(1, "A1B2", 1) + connection(2, "A1B3", 2) + "ON 0\nRST TX\nON 1\nRST TX\n"
    kept = ledger(lives + connection(3, "A1B4", 2) + connection(4, "A1B5", 1))
    assert [[each.number for each in group] for group in consumers(list(kept.connections.values()))] == [[0, 3], [1, 2]]


def test_of_more_vbuckets_than_a_picture_has_rows_each_row_has_the_largest_of_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = "".join(f"STREAM vb={at}\n{LIVE}" + f"WAIT {at}\nRX mutation{{seqno:2}}\n" * (at % 2) for at in range(5))
    kept, traffic = ledger(opening() + streams), TrafficOverTime()
    for batch in batches(opening() + streams):
        traffic.feed(batch)
    group = list(kept.connections.values())
    times = TimeAxis(traffic.axis.origin_ns or 0, kept.last_ns or 0)
    whole = silence_map(traffic, group, times)
    monkeypatch.setattr(vbuckets, "ROWS", 3)
    few = silence_map(traffic, group, times)
    assert (len(whole.silence), len(few.silence)) == (5, 3)
    assert (few.vbuckets, few.limits, few.most) == (whole.vbuckets, whole.limits, whole.most)
    for all_rows, rows in ((whole.silence, few.silence), (whole.messages, few.messages)):
        assert rows.tolist() == [all_rows[at : at + 2].max(axis=0).tolist() for at in (0, 2, 4)]
        assert rows.any()


# -- colours ------------------------------------------------------------------------------------------------------

CSS = files("dcpdump.report").joinpath("page.css").read_text("utf-8")


def themes() -> dict[str, dict[str, str]]:
    light = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,8})", CSS.partition("}")[0]))
    dark = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,8})", CSS.partition("[data-theme=dark]{")[2].partition("}")[0]))
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [
        *((front, back, 4.5) for front in ("ink", "dim", "link", "wrong") for back in ("card", "bg")),
        ("ink", "mark", 4.5),
        ("wrong", "wrong-bg", 4.5),
        ("odd", "odd-bg", 4.5),
        ("good", "good-bg", 4.5),
        *((hue, "card", 3) for hue in ("h0", "h1", "h2", "h3", "h4")),
    ],
)
def test_text_and_lines_stand_out_on_both_themes(theme: str, front: str, back: str, least: float) -> None:
    colours = themes()[theme]
    assert contrast(colours[front], colours[back]) >= least


def test_both_ways_to_the_dark_theme_have_the_same_colours() -> None:
    by_system = re.search(r":root:not\(\[data-theme=light\]\)\{(.*?)\}", CSS)
    by_button = re.search(r":root\[data-theme=dark\]\{color-scheme:dark;(.*?)\}", CSS)
    assert by_system is not None
    assert by_button is not None
    assert by_system[1] == by_button[1]
