"""FrameSplitter: bytes of one direction → frames, in step, through damage and over gaps."""

import marshal
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame, Span, Where
from dcpdump.wire.session import Session
from dcpdump.wire.split import Cut, FrameSplitter, Skipped, SplitterState, Why
from tests.support.strategies import cut

NOT_MEMCACHED = Why.NOT_MEMCACHED
NO_BOUNDARY = Why.NO_BOUNDARY
TORN = Why.TORN_HEADER


def mutation(seqno: int, size: int = 40) -> bytes:
    return encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"key-%d" % seqno, value=b"v" * size, vbucket=1, opaque=1)


STREAM = [encode("DCP_STREAM_REQ", vbucket=1, opaque=1), *(mutation(seqno) for seqno in range(1, 12))]
WHOLE = b"".join(STREAM)


def starts(number: int) -> int:
    return sum(map(len, STREAM[:number]))


def splitter(*, late: bool = False) -> FrameSplitter:
    session = Session()
    session.streams[1] = 1
    return FrameSplitter(lambda: session, joined_late=late)


def run(*pieces: bytes | int | None, late: bool = False) -> list[Cut]:
    """Feed bytes, and gaps given as their lengths, and close."""
    machine = splitter(late=late)
    out: list[Cut] = []
    for piece in pieces:
        out += machine.feed(piece) if isinstance(piece, bytes) else machine.gap(piece)
    return out + machine.close()


def frames(cuts: list[Cut]) -> list[bytes]:
    return [piece.data for piece in cuts if isinstance(piece, RawFrame)]


def skips(cuts: list[Cut]) -> list[tuple[int, int, Why]]:
    return [(piece.offset, piece.length, piece.why) for piece in cuts if isinstance(piece, Skipped)]


# -- in step --------------------------------------------------------------------------------------------------


def test_a_frame_comes_out_with_the_packet_that_completed_it() -> None:
    machine, one = splitter(), STREAM[0]
    assert machine.feed(one[:10], Where(1, 100)) == []
    assert machine.feed(one[10:50], Where(2, 200)) == []
    found = machine.feed(one[50:] + STREAM[1] + STREAM[2][:5], Where(3, 300))
    found += machine.feed(STREAM[2][5:], Where(4, 400))
    machine.feed(one[:30], Where(7, 1))
    found += machine.gap(len(one) - 30)  # of which the last captured bytes count
    where = [(frame.where.packet, frame.where.ts_ns) for frame in found if isinstance(frame, RawFrame)]
    assert where == [(3, 300), (3, 300), (4, 400), (7, 1)]


def test_in_step_whatever_has_a_magic_and_lengths_is_a_frame() -> None:
    odd = [STREAM[0], encode(0x99, key=b"unknown opcode"), encode("DCP_NOOP", datatype=0xFF, vbucket=0xFFFF)]
    odd += [encode("DCP_MUTATION", value=b"no key"), STREAM[1]]
    assert frames(run(b"".join(odd))) == odd


def test_the_end_of_the_input_leaves_a_frame_that_is_cut_short() -> None:
    cuts = run(WHOLE[:-10])
    assert frames(cuts) == [*STREAM[:-1], STREAM[-1][:-10]]
    cuts = run(STREAM[0] + STREAM[1][:20])
    assert (frames(cuts), skips(cuts)) == (STREAM[:1], [(len(STREAM[0]), 20, TORN)])


# -- another protocol -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00" * 20, bytes(100)])
def test_another_protocol_is_passed_by(data: bytes) -> None:
    machine = splitter()
    first = machine.feed(data)
    assert skips(first) == [(0, len(data), NOT_MEMCACHED)]
    assert machine.foreign
    assert skips(machine.feed(WHOLE)) == [(len(data), len(WHOLE), NOT_MEMCACHED)]
    assert machine.gap(5) == []
    assert skips(machine.feed(b"x")) == [(len(data) + len(WHOLE) + 5, 1, NOT_MEMCACHED)]
    assert machine.close() == []


# -- damage in step -------------------------------------------------------------------------------------------


def damaged(number: int, at: int, new: str) -> list[bytes]:
    """Return the stream with one frame's bytes changed."""
    put = bytes.fromhex(new)
    frame = STREAM[number]
    return [*STREAM[:number], frame[:at] + put + frame[at + len(put) :], *STREAM[number + 1 :]]


@pytest.mark.parametrize(
    ("at", "new"), [(0, "7f"), (8, "ffffffff"), (8, "7fffffff"), (8, "01ffffff"), (8, "00000000"), (4, "ff")]
)
def test_a_wrong_magic_or_body_length_costs_one_frame_and_other_lengths_none(at: int, new: str) -> None:
    wrong = damaged(5, at, new)
    cuts = run(b"".join(wrong))
    if at == 4:
        assert (frames(cuts), skips(cuts)) == (wrong, [])
        return
    assert frames(cuts) == wrong[:5] + wrong[6:]
    if at == 0:
        assert skips(cuts) == [(starts(5), len(wrong[5]), NO_BOUNDARY)]
    after = [piece for piece in cuts if isinstance(piece, RawFrame)][5]
    assert (after.gap_before, after.confidence) == (len(wrong[5]), "")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(0, "7f"), (4, "ff"), (8, "ffffffff"), (8, "00000000"), (2, "ffff")]),
    st.lists(st.integers(0, len(WHOLE)), max_size=8),
)
def test_where_a_damaged_frame_is_cut_does_not_matter_while_more_follows(
    damage: tuple[int, str], places: list[int]
) -> None:
    data = b"".join(damaged(5, *damage))
    tail = starts(9)  # a piece that ends exactly where a frame does is evidence of its own
    pieces = [piece for piece in cut(data[:tail], places) if piece]
    ends = {sum(map(len, pieces[: number + 1])) for number in range(len(pieces))}
    if ends & {starts(number) for number in range(1, 12)} - {tail}:
        return
    assert frames(run(*pieces, data[tail:])) == frames(run(data))


# -- gaps -----------------------------------------------------------------------------------------------------


AT = starts(5)
#: Where a gap begins and ends, what comes out, and what is passed by.
GAPS: dict[str, tuple[int, int, list[bytes], list[tuple[int, int, Why]]]] = {
    "inside a body": (AT + 70, AT + 90, [*STREAM[:5], STREAM[5][:70] + bytes(20) + STREAM[5][90:], *STREAM[6:]], []),
    "to the very end of a body": (
        AT + 70, starts(6), [*STREAM[:5], STREAM[5][:70] + bytes(len(STREAM[5]) - 70), *STREAM[6:]], [],
    ),
    "over a header: that frame is lost, and the torn one before it kept": (
        AT + 80, starts(6) + 10, [*STREAM[:5], STREAM[5][:80], *STREAM[7:]],
        [(starts(6) + 10, len(STREAM[6]) - 10, NO_BOUNDARY)],
    ),
    "inside a header": (
        AT + 10, AT + 15, [*STREAM[:5], *STREAM[6:]],
        [(AT, 10, TORN), (AT + 15, len(STREAM[5]) - 15, NO_BOUNDARY)],
    ),
    "of whole frames": (starts(4), starts(7), [*STREAM[:4], *STREAM[7:]], []),
}  # fmt: skip


@pytest.mark.parametrize("name", GAPS)
def test_a_gap_costs_the_frames_whose_headers_it_takes(name: str) -> None:
    at, end, there, passed = GAPS[name]
    cuts = run(WHOLE[:at], end - at, WHOLE[end:])
    assert (frames(cuts), skips(cuts)) == (there, passed)
    found = [frame for frame in cuts if isinstance(frame, RawFrame)]
    for one, two in pairwise(found):
        assert two.gap_before == two.offset - one.offset - len(one.data)
    holes = [Span(at - AT, end - AT)] if AT + 24 < at < end <= starts(6) else []
    assert [hole for frame in found for hole in frame.holes] == holes


def test_two_gaps_inside_one_body_are_two_holes_and_one_of_unknown_length_is_searched_over() -> None:
    at = starts(5) + 60
    cuts = run(WHOLE[:at], 10, WHOLE[at + 10 : at + 20], 10, WHOLE[at + 30 :])
    (holed,) = [frame for frame in cuts if isinstance(frame, RawFrame) and frame.holes]
    assert (holed.holes, len(frames(cuts))) == ((Span(60, 70), Span(80, 90)), len(STREAM))
    at = starts(5) + 70
    cuts = run(WHOLE[:at], None, WHOLE[starts(7) + 3 :])
    assert frames(cuts) == [*STREAM[:5], STREAM[5][:70], *STREAM[8:]]


def test_a_gap_before_the_first_byte_is_a_late_start() -> None:
    cuts = run(30, WHOLE[30:])
    assert frames(cuts) == STREAM[1:]
    assert next(frame.gap_before for frame in cuts if isinstance(frame, RawFrame)) == starts(1)


def test_an_empty_stream_of_gaps_gives_nothing() -> None:
    assert run(10, 20, None) == run() == run(b"") == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE)), st.integers(1, 300), st.lists(st.integers(0, len(WHOLE)), max_size=6))
def test_after_any_one_gap_every_frame_whose_header_survived_is_there(at: int, length: int, places: list[int]) -> None:
    length = min(length, len(WHOLE) - at)
    if not length:
        return
    before, after = WHOLE[:at], WHOLE[at + length :]
    cuts = run(*cut(before, places), length, *cut(after, places))
    offsets = [frame.offset for frame in cuts if isinstance(frame, RawFrame)]
    whole = [starts(n) for n in range(len(STREAM)) if starts(n) + 24 <= at or starts(n) >= at + length]
    assert offsets == whole


# -- what does not fit into memory ----------------------------------------------------------------------------


def promise(size: int) -> bytes:
    """Return the first bytes of a mutation of ``size`` bytes."""
    head = bytearray(mutation(1, 0))
    head[8:12] = (size - 24).to_bytes(4, "big")
    return bytes(head)


PASSED_BY = Why.PASSED_BY


def test_a_hole_out_of_proportion_is_passed_by_and_costs_no_memory() -> None:
    size, head = 20 << 20, promise(20 << 20)
    machine = splitter()
    machine.feed(STREAM[0] + head)
    cuts = machine.gap(19 << 20)
    assert machine.held == 0
    left = size - len(head) - (19 << 20)
    cuts += machine.feed(b"x" * 1000) + machine.gap(left - 3000) + machine.feed(b"x" * 2000 + STREAM[1] + STREAM[2])
    assert frames(cuts) == [head, STREAM[1], STREAM[2]]
    assert [why for _, _, why in skips(cuts)] == [PASSED_BY, PASSED_BY]
    torn, after = (piece for piece in cuts[:1] + cuts[-2:-1] if isinstance(piece, RawFrame))
    assert (torn.length, after.gap_before, after.confidence) == (size, size - len(head), "")


def test_a_frame_that_is_given_up_comes_out_as_far_as_it_is_there() -> None:
    whole = mutation(9, 5000)
    machine = splitter()
    cuts = machine.feed(STREAM[0] + whole[:3000])
    assert machine.held == 3000
    cuts += machine.give_up()
    assert machine.held == 0
    cuts += machine.feed(whole[3000:4000]) + machine.feed(whole[4000:] + STREAM[1])
    assert frames(cuts) == [STREAM[0], whole[:3000], STREAM[1]]
    start = len(STREAM[0])
    assert skips(cuts) == [(start + 3000, 1000, PASSED_BY), (start + 4000, len(whole) - 4000, PASSED_BY)]


def test_what_is_given_up_while_searching_is_skipped() -> None:
    machine = splitter()
    cuts = machine.feed(STREAM[0]) + machine.gap(5) + machine.feed(STREAM[1][:40])
    assert machine.held == 40
    cuts += machine.give_up() + machine.feed(b"".join(STREAM[3:6]))
    assert machine.held == 0
    assert frames(cuts)[-3:] == STREAM[3:6]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=200), st.integers(1, 400_000), st.none()), max_size=12), st.booleans())
def test_no_history_of_pieces_gaps_and_giving_up_loses_a_byte(history: list[bytes | int | None], late: bool) -> None:
    machine = splitter(late=late)
    first = STREAM[1] + promise(300_000)
    cuts, fed, lost = machine.feed(first), len(first), 0
    for piece in history:
        if isinstance(piece, bytes):
            cuts, fed = cuts + machine.feed(piece), fed + len(piece)
        elif piece is None:
            cuts += machine.give_up()
        else:
            cuts, lost = cuts + machine.gap(piece), lost + piece
    cuts += machine.close()
    there = sum(len(cut.data) - sum(b - a for a, b in cut.holes) for cut in cuts if isinstance(cut, RawFrame))
    assert there + sum(length for _, length, _ in skips(cuts)) == fed
    assert all(
        one.offset + (one.length if isinstance(one, Skipped) else len(one.data)) <= two.offset
        for one, two in pairwise(cuts)
    )


# -- damage in the very first header --------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "new"), [(0, "7f"), (0, "00"), (1, "99"), (5, "ff"), (6, "0900"), (8, "ffffffff")])
def test_a_damaged_first_header_costs_one_frame_and_not_the_connection(at: int, new: str) -> None:
    wrong = damaged(0, at, new)
    cuts = run(b"".join(wrong))
    assert frames(cuts)[-len(STREAM) + 1 :] == wrong[1:]
    assert sum(length for _, length, _ in skips(cuts)) in (0, len(wrong[0]))


def test_a_damaged_first_header_without_frames_behind_it_is_another_protocol_after_all() -> None:
    machine = splitter()
    first = b"\x7f" + STREAM[0][1:]
    machine.feed(first)
    assert not machine.foreign
    for _ in range(8):
        machine.feed(b"no frame in here " * 600)
    assert machine.foreign


# -- state ------------------------------------------------------------------------------------------------------

BROKEN = b"".join([*STREAM[:4], b"\x00garbage", *STREAM[4:7], STREAM[7][:30]])
COMING = st.lists(
    st.one_of(
        st.builds(lambda at, size: BROKEN[at : at + size], st.integers(0, len(BROKEN)), st.integers(1, 200)),
        st.sampled_from([WHOLE, BROKEN, *STREAM]),
        st.integers(1, 80),
        st.none(),
    ),
    max_size=6,
)


@settings(max_examples=150)
@given(st.booleans(), COMING, COMING)
def test_a_splitter_continues_from_its_state_as_if_it_had_not_stopped(
    late: bool, before: list[bytes | int | None], after: list[bytes | int | None]
) -> None:
    one, other = splitter(late=late), splitter()
    for number, piece in enumerate(before):
        feed(one, piece, number)
    state: SplitterState = marshal.loads(marshal.dumps(cast(Any, one.state())))  # plain values
    assert state == one.state()
    other.restore(state)
    assert other.state() == state
    for number, piece in enumerate(after, len(before)):
        assert feed(other, piece, number) == feed(one, piece, number)
    assert (other.in_step, other.held, other.foreign) == (one.in_step, one.held, one.foreign)
    assert other.close() == one.close()


def test_a_splitter_that_continues_inside_a_frame_knows_what_was_lost_of_it() -> None:
    head = promise(2 << 20)
    one, other = splitter(), splitter()
    one.feed(STREAM[0] + head)
    one.gap(200_000)
    other.restore(one.state())
    given_up = one.gap(400_000)  # out of proportion to what was captured
    assert other.gap(400_000) == given_up
    (torn,) = given_up
    assert isinstance(torn, RawFrame)
    assert (torn.holes, len(torn.data)) == ((Span(len(head), len(head) + 200_000),), len(head) + 200_000)
    assert (one.held, other.held) == (0, 0)


def feed(machine: FrameSplitter, piece: bytes | int | None, number: int) -> list[Cut]:
    return machine.feed(piece, Where(number, number)) if isinstance(piece, bytes) else machine.gap(piece)
