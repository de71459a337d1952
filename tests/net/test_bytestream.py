"""ByteStream: one direction's segments in, its bytes in order out, and a word for everything that went wrong."""

import marshal
import random
import time
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.bytestream import ByteStream
from dcpdump.net.counters import Counters
from dcpdump.net.event import Bytes, Conflict, Event, Gap, Seen
from dcpdump.net.limits import SECOND, Limits
from dcpdump.net.seqnum import advance
from dcpdump.net.stream_state import StreamState, stream_essence
from dcpdump.net.tcp import Segment
from tests.support.balances import accounted
from tests.support.packets import ACK, FIN, MILLISECOND, NOON, RST, SYN

ISN = 1000
FIRST = ISN + 1


class Line:
    """A ByteStream with a clock: each segment arrives a millisecond and a packet number later."""

    def __init__(self, *, syn: bool = True, isn: int = ISN, limits: Limits | None = None) -> None:
        self.balance = Counters()
        self.stream = ByteStream(limits or Limits(), self.balance)
        self.events: list[Event] = []
        self.number = 0
        self.now = NOON
        self.isn = isn
        if syn:
            self.send(-1, b"", flags=SYN)

    def send(self, offset: int, data: bytes, *, flags: int = ACK, missing: int = 0) -> "Line":
        self.events += self.stream.feed(
            Segment(b"", advance(self.isn, 1 + offset), 0, flags, 0, data, missing), self.see()
        )
        return self

    def ack(self, offset: int) -> "Line":
        self.events += self.stream.acknowledge(advance(self.isn, 1 + offset), self.see())
        return self

    def wait(self, ns: int) -> "Line":
        self.now += ns
        return self

    def tick(self) -> "Line":
        self.events += self.stream.tick(self.see())
        return self

    def reset(self) -> "Line":
        self.events += self.stream.reset(self.see())
        return self

    def close(self, reason: str = "end") -> "Line":
        self.events += self.stream.close(Seen(self.number, self.now), reason)
        return self

    def see(self) -> Seen:
        self.number += 1
        self.now += MILLISECOND
        return Seen(self.number, self.now)

    @property
    def in_short(self) -> list[str]:
        """Return the events in short: ``0 b'abc'``, ``3 gap 4 not-acked``, ``7 end fin``."""
        return [short(event) for event in self.events]

    @property
    def data(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, Bytes))


def short(event: Event) -> str:
    if isinstance(event, Bytes):
        return f"{event.offset} {event.data!r}"
    if isinstance(event, Gap):
        return f"{event.offset} gap {event.length} {event.reason}"
    if isinstance(event, Conflict):
        return f"{event.offset} conflict {event.kept!r} {event.refused!r}"
    return f"{event.offset} end {event.reason}"


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_bytes_in_order_come_at_once_and_say_which_packet_brought_them() -> None:
    line = Line().send(0, b"abc")
    assert line.events == [Bytes(0, b"abc", Seen(2, NOON + 2 * MILLISECOND), joined_late=False)]


def test_swapped_segments_are_put_in_order_and_named_by_the_packet_that_completed_them() -> None:
    line = Line().send(3, b"def").send(0, b"abc")
    seen = Seen(3, NOON + 3 * MILLISECOND)
    assert line.events == [Bytes(0, b"abc", seen), Bytes(3, b"def", seen)]


def test_sequence_numbers_wrap_and_offsets_do_not() -> None:
    line = Line(isn=0xFFFFFFFD)
    for offset in (4, 2, 0, 6):
        line.send(offset, b"abcdefgh"[offset : offset + 2])
    assert line.in_short == ["0 b'ab'", "2 b'cd'", "4 b'ef'", "6 b'gh'"]


def test_a_segment_of_nothing_says_nothing() -> None:
    assert Line().send(0, b"").events == []


def test_data_on_the_syn_itself_is_data() -> None:
    line = Line(syn=False).send(-1, b"early", flags=SYN).send(5, b"more")
    assert line.in_short == ["0 b'early'", "5 b'more'"]


# ── what comes again ────────────────────────────────────────────────────────────────────────────────────────


def test_a_retransmission_is_counted_and_not_repeated() -> None:
    line = Line().send(0, b"abc").wait(SECOND).send(0, b"abc").send(3, b"d")
    assert line.in_short == ["0 b'abc'", "3 b'd'"]
    assert line.balance.retransmitted_bytes == 3


def test_all_that_comes_again_at_one_distance_was_captured_twice_by_two_clocks() -> None:
    line = Line()
    for at in range(0, 60, 3):
        line.send(at, b"abc").wait(SECOND)
        if at:
            line.send(at - 3, b"abc")
    assert line.balance.offset_ms == 2003
    assert line.balance.retransmitted_bytes == 57


def test_what_is_sent_again_after_other_times_was_not_captured_twice() -> None:
    line = Line()
    for at in range(0, 60, 3):
        line.send(at, b"abc").wait(SECOND + at * MILLISECOND).send(at, b"abc")
    assert line.balance.offset_ms is None


def test_what_is_sent_again_in_part_was_not_captured_twice() -> None:
    line = Line()
    for at in range(0, 60, 3):
        line.send(at, b"abc")
    for at in range(0, 30, 3):
        line.wait(SECOND).send(at, b"abc")
    assert line.balance.offset_ms is None


def test_the_same_segment_within_a_moment_is_a_duplicate_of_the_capture() -> None:
    line = Line().send(0, b"abc").send(0, b"abc").send(6, b"ghi").send(6, b"ghi").send(3, b"def")
    assert line.data == b"abcdefghi"
    assert (line.balance.duplicate_bytes, line.balance.retransmitted_bytes) == (6, 0)


def test_a_duplicate_is_one_of_a_segment_that_waited_too_alone_or_below_another() -> None:
    line = Line().send(9, b"jk").send(3, b"defg").send(5, b"fghi").send(0, b"abc")
    assert line.in_short == ["0 b'abc'", "3 b'defg'", "7 b'hi'", "9 b'jk'"]
    assert (line.balance.duplicate_bytes, line.balance.retransmitted_bytes) == (0, 2)
    line.send(3, b"defg").send(9, b"jk").send(0, b"abc")
    assert (line.balance.duplicate_bytes, line.balance.retransmitted_bytes) == (9, 2)
    line.wait(SECOND).send(3, b"defg").send(9, b"jk").send(0, b"abc")
    assert (line.balance.duplicate_bytes, line.balance.retransmitted_bytes) == (9, 11)


def test_a_coalesced_retransmission_brings_what_is_new_in_it() -> None:
    line = Line().send(0, b"abc").send(0, b"abcdef")
    assert line.in_short == ["0 b'abc'", "3 b'def'"]


def test_a_keepalive_byte_is_ignored() -> None:
    line = Line().send(0, b"abc").wait(SECOND).send(2, b"\0").send(2, b"").send(3, b"def")
    assert line.in_short == ["0 b'abc'", "3 b'def'"]
    assert (line.balance.keepalive_bytes, line.balance.conflicts) == (1, 0)


def test_a_keepalive_byte_behind_a_hole_is_ignored() -> None:
    line = Line().send(3, b"def").wait(SECOND).send(5, b"\0").send(0, b"abc")
    assert line.in_short == ["0 b'abc'", "3 b'def'"]
    assert line.balance.keepalive_bytes == 1


def test_a_zero_window_probe_is_data() -> None:
    line = Line().send(0, b"abc").send(3, b"d").send(3, b"def")
    assert line.data == b"abcdef"


def test_overlapping_bytes_that_disagree_keep_the_first_and_are_reported() -> None:
    line = Line().send(0, b"abcdef").send(2, b"cXXfgh")
    assert line.in_short == ["0 b'abcdef'", "3 conflict b'def' b'XXf'", "6 b'gh'"]
    assert line.balance.conflicts == 1


def test_the_first_arrival_wins_among_waiting_segments_too() -> None:
    line = Line().send(4, b"EFGH").send(2, b"cdef").send(0, b"ab")
    assert line.in_short == ["0 b'ab'", "2 b'cd'", "4 b'EFGH'", "4 conflict b'EF' b'ef'"]
    assert line.balance.conflicts == 1


def test_a_waiting_segment_sent_again_with_other_bytes_is_a_conflict() -> None:
    line = Line().send(3, b"def").send(3, b"dXf").send(0, b"abc")
    assert line.in_short == ["4 conflict b'ef' b'Xf'", "0 b'abc'", "3 b'def'"]


# ── holes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledged_hole_is_lost_by_the_capture_after_two_seconds() -> None:
    line = Line().send(0, b"abc").send(6, b"ghi").ack(9).wait(SECOND).tick()
    assert line.in_short == ["0 b'abc'"]
    assert line.wait(SECOND).tick().in_short == ["0 b'abc'", "3 gap 3 lost-by-capture", "6 b'ghi'"]


def test_an_acknowledged_hole_is_lost_by_the_capture_after_more_bytes() -> None:
    line = Line(limits=Limits(patience_bytes=8)).send(4, b"efgh").ack(8).send(8, b"ijkl")
    assert line.in_short == []
    line.send(12, b"mnop")
    assert line.in_short == ["0 gap 4 lost-by-capture", "4 b'efgh'", "8 b'ijkl'", "12 b'mnop'"]


def test_a_late_retransmission_still_fills_an_acknowledged_hole() -> None:
    line = Line().send(3, b"def").ack(6).wait(SECOND).send(0, b"abc")
    assert line.in_short == ["0 b'abc'", "3 b'def'"]


def test_a_hole_that_the_receiver_waits_for_is_not_given_up() -> None:
    line = Line().ack(0).send(3, b"def").ack(0).wait(60 * SECOND).tick()
    assert line.in_short == []
    assert line.stream.deadline is None
    assert line.send(0, b"abc").in_short == ["0 b'abc'", "3 b'def'"]


def test_a_hole_in_a_capture_of_one_direction_is_given_up_after_two_seconds() -> None:
    line = Line().send(3, b"def")
    assert line.stream.deadline == line.now + 2 * SECOND
    assert line.wait(2 * SECOND).tick().in_short == ["0 gap 3 not-acked", "3 b'def'"]


def test_a_hole_is_given_up_when_too_much_waits_behind_it() -> None:
    line = Line(limits=Limits(pending_bytes=8)).ack(0).send(2, b"cdef").send(6, b"ghij").send(10, b"k")
    assert line.in_short == ["0 gap 2 not-acked", "2 b'cdef'", "6 b'ghij'", "10 b'k'"]


def test_too_many_waiting_segments_count_as_too_much() -> None:
    line = Line(limits=Limits(pending_segments=2)).ack(0).send(2, b"c").send(4, b"e").send(6, b"g")
    assert line.in_short == ["0 gap 2 not-acked", "2 b'c'"]


def test_the_end_of_input_turns_holes_into_gaps() -> None:
    line = Line().ack(0).send(3, b"def").send(9, b"jkl").close()
    assert line.in_short == ["0 gap 3 end", "3 b'def'", "6 gap 3 end", "9 b'jkl'", "12 end end"]


def test_at_the_end_an_acknowledged_hole_is_still_lost_by_the_capture() -> None:
    line = Line().send(3, b"def").ack(6).close()
    assert line.in_short == ["0 gap 3 lost-by-capture", "3 b'def'", "6 end end"]


def test_acknowledged_bytes_after_the_last_one_seen_were_lost_by_the_capture() -> None:
    assert Line().send(0, b"abc").ack(9).close().in_short == ["0 b'abc'", "3 gap 6 lost-by-capture", "9 end end"]
    assert Line().send(0, b"abc").ack(4).close().in_short == ["0 b'abc'", "3 end end"]  # a FIN, most likely


def test_a_direction_of_which_only_acknowledgements_were_seen_is_one_gap() -> None:
    line = Line(syn=False).ack(100).ack(600).close()
    assert line.in_short == ["0 gap 500 lost-by-capture", "500 end end"]


def test_the_snap_length_leaves_a_gap_and_the_stream_continues() -> None:
    line = Line().send(0, b"abc", missing=5).send(8, b"def")
    assert line.in_short == ["0 b'abc'", "3 gap 5 snaplen", "8 b'def'"]


def test_the_snap_length_may_cut_segments_that_wait() -> None:
    line = Line().send(8, b"ij", missing=6).send(16, b"qr").send(0, b"ab", missing=6)
    assert line.in_short == ["0 b'ab'", "2 gap 6 snaplen", "8 b'ij'", "10 gap 6 snaplen", "16 b'qr'"]


def test_bytes_under_a_cut_that_another_segment_brought_are_used() -> None:
    line = Line().send(4, b"ef").send(0, b"ab", missing=6)
    assert line.in_short == ["0 b'ab'", "2 gap 2 snaplen", "4 b'ef'", "6 gap 2 snaplen"]


def test_memory_that_must_be_given_back_makes_an_evicted_gap() -> None:
    line = Line().ack(0).send(3, b"def")
    line.events += line.stream.evict(line.see())
    assert line.in_short == ["0 gap 3 evicted", "3 b'def'"]
    assert line.stream.held > 0
    assert line.send(6, b"g").in_short[-1] == "6 b'g'"


# ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fin_ends_the_stream_after_its_own_data() -> None:
    assert Line().send(0, b"abc", flags=FIN | ACK).close().in_short == ["0 b'abc'", "3 end fin"]


def test_a_fin_behind_bytes_that_never_came_ends_the_stream_nevertheless() -> None:
    line = Line().send(0, b"abc").send(9, b"jkl", flags=FIN | ACK).close()
    assert line.in_short == ["0 b'abc'", "3 gap 6 end", "9 b'jkl'", "12 end fin"]


def test_a_fin_that_overtook_the_data_waits_for_it() -> None:
    assert Line().send(3, b"", flags=FIN | ACK).send(0, b"abc").in_short == ["0 b'abc'", "3 end fin"]


def test_a_hole_before_a_fin_is_given_up_in_time() -> None:
    line = Line().ack(0).send(3, b"", flags=FIN | ACK).wait(2 * SECOND).tick()
    assert line.in_short == ["0 gap 3 not-acked", "3 end fin"]


def test_a_forged_fin_does_not_stop_the_stream() -> None:
    line = Line().send(0, b"abc").send(3, b"", flags=FIN | ACK).send(3, b"def").close()
    assert line.in_short == ["0 b'abc'", "3 end fin", "3 b'def'", "6 end end"]


def test_a_reset_marks_and_does_not_discard() -> None:
    line = Line().send(0, b"abc").send(3, b"", flags=RST).send(3, b"def").close()
    assert line.in_short == ["0 b'abc'", "3 b'def'", "6 end end"]


def test_a_stream_that_was_reset_ends_so() -> None:
    assert Line().send(0, b"abc").send(3, b"", flags=RST).close().in_short == ["0 b'abc'", "3 end rst"]


def test_after_a_reset_a_hole_is_waited_for_two_seconds_whoever_wants_it() -> None:
    line = Line().ack(0).send(3, b"def").reset().wait(2 * SECOND).tick()
    assert line.in_short == ["0 gap 3 not-acked", "3 b'def'"]


def test_a_retransmitted_syn_begins_nothing() -> None:
    line = Line().send(0, b"abc").send(-1, b"", flags=SYN).send(3, b"def")
    assert line.in_short == ["0 b'abc'", "3 b'def'"]
    assert line.stream.begins_with(ISN)
    assert not line.stream.begins_with(ISN + 1)


# ── strays ──────────────────────────────────────────────────────────────────────────────────────────────────

FAR = 1 << 30


def test_one_segment_far_ahead_is_set_aside() -> None:
    line = Line().send(0, b"abc").send(FAR, b"forged").send(3, b"def").close()
    assert line.in_short == ["0 b'abc'", "3 b'def'", "6 end end"]
    assert line.balance.stray_bytes == 6


def test_a_second_segment_far_ahead_proves_the_first() -> None:
    line = Line().send(0, b"abc").send(FAR + 3, b"jkl").send(FAR, b"ghi").send(FAR + 6, b"m")
    assert line.in_short == [
        "0 b'abc'",
        f"3 gap {FAR - 3} not-acked",
        f"{FAR} b'ghi'",
        f"{FAR + 3} b'jkl'",
        f"{FAR + 6} b'm'",
    ]


def test_the_same_forged_segment_twice_proves_nothing() -> None:
    line = Line().send(0, b"abc").send(FAR, b"forged").send(FAR, b"forged").send(3, b"def").close()
    assert line.data == b"abcdef"
    assert line.balance.stray_bytes == 12


def test_an_acknowledgement_far_ahead_proves_a_stray() -> None:
    line = Line().send(0, b"abc").send(FAR, b"ghi").ack(FAR + 3)
    assert line.in_short == ["0 b'abc'", f"3 gap {FAR - 3} lost-by-capture", f"{FAR} b'ghi'"]


def test_a_proven_jump_backwards_is_a_gap_of_unknown_length() -> None:
    line = Line().send(0, b"abc").send(-FAR, b"ghi").send(-FAR + 3, b"jkl").send(-FAR + 6, b"m")
    assert line.in_short == ["0 b'abc'", "3 gap None not-acked", "3 b'ghi'", "6 b'jkl'", "9 b'm'"]


def test_an_acknowledgement_from_nowhere_is_not_believed() -> None:
    assert Line().send(0, b"abc").ack(FAR).close().in_short == ["0 b'abc'", "3 end end"]


# ── late joins ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_capture_that_joined_late_says_so() -> None:
    line = Line(syn=False).send(500, b"abc").ack(503)
    assert line.events == [Bytes(0, b"abc", Seen(1, NOON + MILLISECOND), joined_late=True)]


def test_a_late_join_loses_nothing_to_a_swap_at_its_start() -> None:
    line = Line(syn=False).send(503, b"def").send(500, b"abc").send(506, b"ghi").ack(509)
    assert line.in_short == ["0 b'abc'", "3 b'def'", "6 b'ghi'"]


def test_a_late_join_waits_no_longer_than_a_moment() -> None:
    line = Line(syn=False).send(500, b"abc")
    assert line.in_short == []
    assert line.stream.deadline == line.now + 200 * MILLISECOND
    assert line.wait(200 * MILLISECOND).tick().in_short == ["0 b'abc'"]


def test_a_late_join_in_a_capture_of_one_direction_continues_after_a_few_segments() -> None:
    line = Line(syn=False)
    for at in range(8):
        line.send(at, b"abcdefgh"[at : at + 1])
    assert line.data == b"abcdefgh"
    assert line.send(8, b"i").in_short[-1] == "8 b'i'"


def test_a_syn_that_came_late_is_still_the_start() -> None:
    line = Line(syn=False).send(3, b"def").send(-1, b"", flags=SYN).send(0, b"abc")
    assert line.events[0] == Bytes(0, b"abc", Seen(3, NOON + 3 * MILLISECOND), joined_late=False)
    assert line.in_short == ["0 b'abc'", "3 b'def'"]


def test_bytes_from_before_a_late_start_are_counted_and_dropped() -> None:
    line = Line(syn=False).send(500, b"abc").ack(503).send(490, b"old").send(503, b"def")
    assert line.data == b"abcdef"
    assert line.balance.late_bytes == 3


def test_a_late_join_that_ends_at_once_keeps_its_bytes() -> None:
    assert Line(syn=False).send(5, b"abc").close().in_short == ["0 b'abc'", "3 end end"]


def test_bytes_that_come_after_their_place_was_given_up_are_counted() -> None:
    line = Line().send(0, b"abc").send(6, b"ghi").ack(9).wait(2 * SECOND).tick().send(3, b"def")
    assert line.in_short == ["0 b'abc'", "3 gap 3 lost-by-capture", "6 b'ghi'"]
    assert line.balance.late_bytes == 3


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[int, bytes, list[tuple[int, bytes]]]:
    """Return an ISN near the wrap, a text, and the text in pieces: cut, swapped, doubled and overlapping."""
    text = draw(st.binary(min_size=1, max_size=300))
    isn = (1 << 32) - draw(st.integers(1, 400))
    pieces = []
    at = 0
    while at < len(text):
        size = draw(st.integers(1, 40))
        pieces.append((at, text[at : at + size]))
        at += size
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text) - 1))
        pieces.append((start, text[start : start + draw(st.integers(1, 60))]))
    random.Random(draw(st.integers(0, 1 << 16))).shuffle(pieces)
    return isn, text, pieces


@settings(max_examples=150, deadline=None)
@given(deliveries())
def test_any_arrival_of_the_same_bytes_gives_the_same_bytes(
    given_: tuple[int, bytes, list[tuple[int, bytes]]],
) -> None:
    isn, text, pieces = given_
    line = Line(isn=isn, limits=Limits(duplicate_ns=0))
    for start, data in pieces:
        line.send(start, data)
    assert line.data == text
    offset = 0
    for event in line.events:
        assert isinstance(event, Bytes)
        assert event.offset == offset
        offset += len(event.data)
    balance = line.balance
    assert balance.payload_bytes == accounted(balance)
    assert (balance.pending_bytes, balance.conflicts) == (0, 0)


@settings(max_examples=150, deadline=None)
@given(deliveries(), st.randoms(use_true_random=False))
def test_of_bytes_that_disagree_the_first_to_arrive_stands(
    given_: tuple[int, bytes, list[tuple[int, bytes]]], chance: random.Random
) -> None:
    isn, _, pieces = given_
    line = Line(isn=isn)
    known: dict[int, int] = {}  # the obviously correct machine
    for start, data in pieces:
        data = bytes(byte ^ chance.choice((0, 0, 0, 0xFF)) for byte in data)
        balance = line.balance.keepalive_bytes
        line.send(start, data)
        if line.balance.keepalive_bytes == balance:
            for at, byte in enumerate(data, start):
                known.setdefault(at, byte)
    line.close()
    reported: dict[int, int] = {}
    for event in line.events:
        if isinstance(event, Bytes):
            reported.update(enumerate(event.data, event.offset))
    assert reported == known
    assert line.balance.payload_bytes == accounted(line.balance)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 12), st.integers(0, 5), st.integers(0, 9))))
def test_the_balance_holds_and_offsets_tile_whatever_comes(moves: list[tuple[int, int, int, int]]) -> None:
    line = Line(syn=False, limits=Limits(pending_bytes=64, patience_bytes=16, jump=40, near=10, history=512))
    for offset, size, missing, kind in moves:
        flags = {1: SYN, 2: FIN, 3: RST}.get(kind, ACK)
        if kind == 4:
            line.ack(offset)
        elif kind == 5:
            line.wait(SECOND).tick()
        else:
            line.send(offset, bytes(size), flags=flags, missing=missing)
        assert line.balance.payload_bytes == accounted(line.balance)
    line.close()
    assert line.balance.payload_bytes == accounted(line.balance)
    assert line.balance.pending_bytes == 0
    assert line.stream.held == 0
    at = 0
    for event in line.events:
        if isinstance(event, Bytes | Gap):
            assert event.offset == at
            at += len(event.data) if isinstance(event, Bytes) else event.length or 0


def test_the_time_for_tiny_segments_out_of_order_is_linear() -> None:
    def took(count: int) -> float:
        line = Line(limits=Limits(pending_bytes=1 << 20))
        start = time.process_time()
        for at in range(count - 1, -1, -1):
            line.send(at * 2, b"ab")
        elapsed = time.process_time() - start
        assert line.data == b"ab" * count
        return elapsed

    small, large = (min(took(count) for _ in range(3)) for count in (2_500, 20_000))
    assert large < 24 * small  # 8 times the segments; 64 times the time if it were quadratic


# -- state ------------------------------------------------------------------------------------------------------

SENT = bytes(range(256)) * 2
MOVES = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 90), st.integers(0, 40)),
    st.tuples(st.just("send"), st.integers(0, 90), st.integers(0, 40)),
    st.tuples(st.just("cut"), st.integers(0, 90), st.integers(1, 9)),
    st.tuples(st.just("stray"), st.integers(0, 9), st.integers(1, 9)),
    st.tuples(st.just("ack"), st.integers(0, 120), st.just(0)),
    st.tuples(st.just("fin"), st.integers(60, 120), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 40), st.just(0)),
    st.tuples(st.just("reset"), st.just(0), st.just(0)),
)
TIGHT = Limits(history=0, patience_bytes=60, patience_ns=SECOND, late_segments=3, jump=1000, near=500)


def move(line: Line, kind: str, at: int, size: int) -> None:
    data = SENT[at : at + size]
    if kind == "send":
        line.send(at, data)
    elif kind == "cut":
        line.send(at, data, missing=5)
    elif kind == "stray":
        line.send(1_000_000 + at, data)
    elif kind == "ack":
        line.ack(at)
    elif kind == "fin":
        line.send(at, b"", flags=FIN | ACK)
    elif kind == "reset":
        line.reset()
    else:
        line.wait(at * SECOND // 20).tick()


@settings(max_examples=300)
@given(st.booleans(), st.lists(MOVES, max_size=12), st.lists(MOVES, max_size=12))
def test_a_stream_continues_from_its_state_as_if_it_had_not_stopped(
    syn: bool, before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    one, other = Line(syn=syn, limits=TIGHT), Line(syn=False, limits=TIGHT)
    for each in before:
        move(one, *each)
    state: StreamState = marshal.loads(marshal.dumps(cast(Any, one.stream.state())))  # plain values
    assert state == one.stream.state()
    other.stream.restore(state)
    assert (other.stream.state(), stream_essence(other.stream.state())) == (state, stream_essence(state))
    assert other.balance.pending_bytes == one.balance.pending_bytes
    one.events.clear()
    other.number, other.now = one.number, one.now
    for each in after:
        move(one, *each)
        move(other, *each)
        assert other.stream.deadline == one.stream.deadline
    assert other.close().events == one.close().events
    assert other.stream.state() == one.stream.state()
