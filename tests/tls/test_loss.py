"""What a loss takes, and nothing else: records with holes give what is there, lost headers are found again."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.event import Bytes, Event, Gap
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, SERVER, connected, made
from tests.tls.feeding import feed, feed_direction, secrets_of

AEADS = [(0x0304, 0x1301), (0x0304, 0x1303), (0x0304, 0x1304), (0x0303, 0xC030), (0x0303, 0xCCA8), (0x0303, 0xC0A1)]


class Spoken:
    """A connection of which one side's bytes are cut and lost, and its records are known."""

    def __init__(self, version: int, suite: int, sizes: list[int], way: int = SERVER, *, etm: bool = False) -> None:
        self.script, self.way = connected(version, suite, etm=etm), way
        self.hello = self.script.sent(way)
        for number, size in enumerate(sizes):
            self.script.say(way, made(number, size=size))
        self.records = self.script.sent(way)[len(self.hello) :]
        self.data, self.text = b"".join(self.records), self.script.texts[way]

    def feed(self, pieces: list[bytes | int], hello: list[bytes | int] | None = None) -> list[Event]:
        """Feed what the other side says, and then the pieces."""
        unsealer = Unsealer(secrets_of(self.script.keylog))
        feed(unsealer, [each for each in self.script.flights if each[0] != self.way], ends=())
        return feed_direction(unsealer, self.way, [*(hello or self.hello), *pieces])


def text_of(events: list[Event]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Bytes))


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
def test_a_hole_in_a_body_is_a_hole_in_the_text_and_a_lost_header_costs_its_record_alone(
    version: int, suite: int
) -> None:
    spoken = Spoken(version, suite, [1_000, 900, 800, 700, 600])
    for behind, lost, left in ((300, 200, 3_800), (0, 10, 3_100)):  # in a body; of a header, which costs its record
        at = len(spoken.records[0]) + behind
        events = spoken.feed([spoken.data[:at], lost, spoken.data[at + lost :]])
        assert all_right(events, spoken.text) == left


@pytest.mark.parametrize(("version", "suite"), AEADS)
def test_many_lost_records_are_counted_exactly(version: int, suite: int) -> None:
    spoken = Spoken(version, suite, [700] * 200)
    data = spoken.data
    one = len(spoken.records[0])
    first, last = 20 * one + 100, 150 * one + 77
    events = spoken.feed([data[:first], last - first, data[last:]])
    count = all_right(events, spoken.text)
    assert count >= (20 + 49) * 700
    assert sum(event.length or 0 for event in events if isinstance(event, Gap)) == 200 * 700 - count


def test_a_capture_of_the_first_bytes_of_each_packet_gives_the_first_bytes_of_each_record() -> None:
    spoken = Spoken(0x0304, 0x1301, [1_400] * 50)
    pieces: list[bytes | int] = []
    for record in spoken.records:
        pieces += [record[:600], len(record) - 600]
    assert all_right(spoken.feed(pieces), spoken.text) == 50 * 595


def test_a_record_that_is_cut_by_the_end_gives_the_part_that_is_there() -> None:
    spoken = Spoken(0x0304, 0x1302, [1_000, 1_000])
    events = spoken.feed([spoken.data[:-400]])
    assert all_right(events, spoken.text) == 1_000 + 617
    assert not any(isinstance(event, Gap) for event in events)


def test_a_damaged_record_is_a_gap_of_its_text() -> None:
    spoken = Spoken(0x0304, 0x1301, [500, 600, 700])
    data = bytearray(spoken.data)
    data[len(spoken.records[0]) + 50] ^= 1
    events = spoken.feed([bytes(data)])
    assert all_right(events, spoken.text) == 1_200
    assert [event.length for event in events if isinstance(event, Gap)] == [600]


@pytest.mark.parametrize("version", [0x0301, 0x0302, 0x0303])
@pytest.mark.parametrize("etm", [False, True])
def test_of_cbc_the_records_behind_a_loss_come_back(version: int, etm: bool) -> None:
    spoken = Spoken(version, 0xC013, [300] * 20, etm=etm)
    data, one = spoken.data, len(spoken.records[0]) + len(spoken.records[1])
    events = spoken.feed([data[: one + 30], 700, data[one + 730 :]])
    found = text_of(events)
    assert found.startswith(spoken.text[:600])
    assert found.endswith(spoken.text[-300 * 13 :])
    assert any(isinstance(event, Gap) and event.length is None for event in events)


def test_a_lost_update_of_the_key_is_found_out() -> None:
    spoken = Spoken(0x0304, 0x1301, [500] * 6)
    script = spoken.script
    script.key_update(SERVER)
    *_, update = script.sent(SERVER)
    script.say(SERVER, made("after", size=3_000), size=500)
    assert text_of(spoken.feed([spoken.data, len(update), *script.sent(SERVER)[-6:]])) == script.texts[SERVER]


@pytest.mark.parametrize("way", [CLIENT, SERVER])
@pytest.mark.parametrize(("version", "suite"), [(0x0304, 0x1301), (0x0303, 0xC02F)])
def test_a_loss_in_the_handshake_costs_no_text_behind_it(way: int, version: int, suite: int) -> None:
    spoken = Spoken(version, suite, [400] * 10, way)
    for lost in range(1, min(6, len(spoken.hello))):
        hello: list[bytes | int] = [*spoken.hello[:lost], len(spoken.hello[lost]), *spoken.hello[lost + 1 :]]
        found = text_of(spoken.feed([*spoken.records], hello))
        assert spoken.text.endswith(found)
        assert len(found) >= 9 * 400, lost


@given(st.data())
@settings(max_examples=100, deadline=None)
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
    text = spoken.text
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
