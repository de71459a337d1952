"""What a loss takes, and nothing else: records with holes give what is there, lost headers are found again."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.event import Bytes, Event, Gap
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, SERVER, Script, made
from tests.tls.feeding import feed_direction, feed_others, secrets_of

AEADS = [(0x0304, 0x1301), (0x0304, 0x1303), (0x0304, 0x1304), (0x0303, 0xC030), (0x0303, 0xCCA8), (0x0303, 0xC0A1)]


class Spoken:
    """A connection of which the server's bytes are cut and lost, and its records are known."""

    def __init__(self, version: int, suite: int, sizes: list[int]) -> None:
        self.script = Script(version, suite)
        self.script.handshake()
        before = len(self.script.flights)
        self.hello = b"".join(data for way, data in self.script.flights if way == SERVER)
        for number, size in enumerate(sizes):
            self.script.say(SERVER, made(number, size=size))
        self.records = [data for _, data in self.script.flights[before:]]
        self.sizes = sizes

    @property
    def data(self) -> bytes:
        return b"".join(self.records)

    def unsealer(self) -> Unsealer:
        """Make an Unsealer that knows the client's part."""
        unsealer = Unsealer(secrets_of(self.script.keylog))
        feed_others(unsealer, self.script.flights, SERVER)
        return unsealer

    def feed(self, pieces: list[bytes | int]) -> list[Event]:
        return feed_direction(self.unsealer(), SERVER, [self.hello, *pieces])


def all_right(events: list[Event], text: bytes) -> int:
    """Check that all bytes are those of the text at their offsets, and return how many they are."""
    offset = count = 0
    for event in events:
        assert event.offset == offset
        if isinstance(event, Bytes):
            assert event.data == text[offset : offset + len(event.data)]
            offset += len(event.data)
            count += len(event.data)
        elif isinstance(event, Gap):
            assert event.length is not None
            offset += event.length
    return count


@pytest.mark.parametrize(("version", "suite"), AEADS)
def test_a_hole_in_a_body_is_a_hole_in_the_text(version: int, suite: int) -> None:
    spoken = Spoken(version, suite, [1_000, 1_000, 1_000])
    data = spoken.data
    at = len(spoken.records[0]) + 300
    events = spoken.feed([data[:at], 200, data[at + 200 :]])
    assert all_right(events, spoken.script.texts[SERVER]) == 2_800


@pytest.mark.parametrize(("version", "suite"), AEADS)
def test_a_lost_header_costs_its_record_alone(version: int, suite: int) -> None:
    spoken = Spoken(version, suite, [1_000, 900, 800, 700, 600])
    data = spoken.data
    at = len(spoken.records[0])
    events = spoken.feed([data[:at], 10, data[at + 10 :]])
    assert all_right(events, spoken.script.texts[SERVER]) == 3_100


@pytest.mark.parametrize(("version", "suite"), AEADS)
def test_many_lost_records_are_counted_exactly(version: int, suite: int) -> None:
    spoken = Spoken(version, suite, [700] * 200)
    data = spoken.data
    one = len(spoken.records[0])
    first, last = 20 * one + 100, 150 * one + 77
    events = spoken.feed([data[:first], last - first, data[last:]])
    count = all_right(events, spoken.script.texts[SERVER])
    assert count >= (20 + 49) * 700
    assert sum(event.length or 0 for event in events if isinstance(event, Gap)) == 200 * 700 - count


def test_a_capture_of_the_first_bytes_of_each_packet_gives_the_first_bytes_of_each_record() -> None:
    spoken = Spoken(0x0304, 0x1301, [1_400] * 50)
    pieces: list[bytes | int] = []
    for record in spoken.records:
        pieces += [record[:600], len(record) - 600]
    assert all_right(spoken.feed(pieces), spoken.script.texts[SERVER]) == 50 * 595


def test_a_record_that_is_cut_by_the_end_gives_the_part_that_is_there() -> None:
    spoken = Spoken(0x0304, 0x1302, [1_000, 1_000])
    events = spoken.feed([spoken.data[:-400]])
    assert all_right(events, spoken.script.texts[SERVER]) == 1_000 + 617
    assert not any(isinstance(event, Gap) for event in events)


def test_a_damaged_record_is_a_gap_of_its_text() -> None:
    spoken = Spoken(0x0304, 0x1301, [500, 600, 700])
    data = bytearray(spoken.data)
    data[len(spoken.records[0]) + 50] ^= 1
    events = spoken.feed([bytes(data)])
    assert all_right(events, spoken.script.texts[SERVER]) == 1_200
    assert [event.length for event in events if isinstance(event, Gap)] == [600]


@pytest.mark.parametrize("version", [0x0301, 0x0302, 0x0303])
@pytest.mark.parametrize("etm", [False, True])
def test_of_cbc_the_records_behind_a_loss_come_back(version: int, etm: bool) -> None:
    script = Script(version, 0xC013, etm=etm)
    script.handshake()
    hello = b"".join(data for way, data in script.flights if way == SERVER)
    before = len(script.flights)
    for number in range(20):
        script.say(SERVER, made(number, size=300))
    records = [data for _, data in script.flights[before:]]
    spoken = Unsealer(secrets_of(script.keylog))
    feed_others(spoken, script.flights[:before], SERVER)
    data = b"".join(records)
    one = len(records[0]) + len(records[1])
    events = feed_direction(spoken, SERVER, [hello, data[: one + 30], 700, data[one + 730 :]])
    found = b"".join(event.data for event in events if isinstance(event, Bytes))
    assert found.startswith(script.texts[SERVER][:600])
    assert found.endswith(script.texts[SERVER][-300 * 13 :])
    assert any(isinstance(event, Gap) and event.length is None for event in events)


def test_a_lost_update_of_the_key_is_found_out() -> None:
    script = Script()
    script.handshake()
    hello = b"".join(data for way, data in script.flights if way == SERVER)
    before = len(script.flights)
    script.say(SERVER, made("before", size=3_000), size=500)
    middle = len(script.flights)
    script.key_update(SERVER)
    behind = len(script.flights)
    script.say(SERVER, made("after", size=3_000), size=500)
    parts = [b"".join(data for _, data in script.flights[a:b]) for a, b in ((before, middle), (middle, behind))]
    rest = b"".join(data for _, data in script.flights[behind:])
    unsealer = Unsealer(secrets_of(script.keylog))
    feed_others(unsealer, script.flights[:before], SERVER)
    events = feed_direction(unsealer, SERVER, [hello, parts[0], len(parts[1]), rest])
    assert b"".join(event.data for event in events if isinstance(event, Bytes)) == script.texts[SERVER]


@pytest.mark.parametrize("way", [CLIENT, SERVER])
@pytest.mark.parametrize("version", [0x0304, 0x0303])
def test_a_loss_in_the_handshake_costs_no_text_behind_it(way: int, version: int) -> None:
    suite = 0x1301 if version == 0x0304 else 0xC02F
    for lost in range(1, 6):
        script = Script(version, suite)
        script.handshake()
        for number in range(10):
            script.say(way, made(number, size=400))
        mine = [data for each, data in script.flights if each == way]
        pieces: list[bytes | int] = [*mine]
        if lost >= len(mine) - 10 or (version == 0x0303 and lost == 0):
            continue
        pieces[lost] = len(mine[lost])
        unsealer = Unsealer(secrets_of(script.keylog))
        feed_others(unsealer, script.flights, way)
        events = feed_direction(unsealer, way, pieces)
        found = b"".join(event.data for event in events if isinstance(event, Bytes))
        assert script.texts[way].endswith(found)
        assert len(found) >= 9 * 400, lost


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_is_lost_no_text_is_false_and_whole_records_come(data: st.DataObject) -> None:
    version, suite = data.draw(st.sampled_from(AEADS))
    dice = random.Random(data.draw(st.integers(0, 1 << 30)))
    sizes = [dice.choice((1, 40, 300, 1_400, 5_000)) for _ in range(dice.randint(5, 60))]
    spoken = Spoken(version, suite, sizes)
    whole, size = spoken.data, dice.choice((200, 1_460, 4_000))
    pieces: list[bytes | int] = []
    lost: list[tuple[int, int]] = []
    for at in range(0, len(whole), size):
        piece = whole[at : at + size]
        if dice.random() < 0.15:
            pieces.append(len(piece))
            lost.append((at, at + len(piece)))
        else:
            pieces.append(piece)
    events = spoken.feed(pieces)
    text = spoken.script.texts[SERVER]
    assert all_right(events, text) <= len(text)
    given_at = bytearray(len(text))
    for event in events:
        if isinstance(event, Bytes):
            given_at[event.offset : event.offset + len(event.data)] = b"\1" * len(event.data)
    at = place = 0
    for number, record in enumerate(spoken.records):
        end = at + len(record)
        # Whole, and its header or the one behind it was not lost: then nothing of it may be missing.
        if not any(a < end and at < b for a, b in lost) and not any(a < end + 5 and at - 5 < b for a, b in lost):
            assert given_at[place : place + sizes[number]] == b"\1" * sizes[number], number
        at, place = end, place + sizes[number]
