"""The laws of wire/: cutting, round trips, tiling, totality. Each holds for every entry of the table, and for noise."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame, unpack_header
from dcpdump.wire.resync import framed
from dcpdump.wire.session import Session
from dcpdump.wire.split import Cut, FrameSplitter, Skipped
from tests.support.fields import encoded_fields
from tests.support.strategies import PUSHED, SHAPES, Sent, Shape, cut, damaged, sent

modest = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KNOWN = [shape for shape in SHAPES + PUSHED if shape.message.known]
anything = st.one_of(damaged(), st.binary(max_size=120))


def raw(data: bytes) -> RawFrame:
    """Return all the bytes as one frame, whatever its header says."""
    return RawFrame(data, unpack_header(data.ljust(HEADER_LENGTH, b"\0")))


def split(pieces: list[bytes]) -> list[Cut]:
    splitter = FrameSplitter(Session)
    return [cut for piece in pieces for cut in splitter.feed(piece)] + splitter.close()


@modest
@given(st.lists(sent(), max_size=4), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_cutting_of_the_same_bytes_gives_the_same_frames(frames: list[Sent], places: list[int]) -> None:
    wires = [encode("DCP_NOOP"), *(frame.data for frame in frames)]
    data = b"".join(wires)
    found = split(cut(data, places))
    assert [cut.data for cut in found if isinstance(cut, RawFrame)] == wires
    assert found == split([data])


@modest
@given(anything, st.lists(st.integers(0, 10_000), max_size=12))
def test_no_cutting_loses_or_repeats_a_byte(data: bytes, places: list[int]) -> None:
    found = split(cut(data, places))
    at = 0
    for piece in found:
        assert piece.offset == at
        at += piece.length if isinstance(piece, Skipped) else len(piece.data)
    assert at == len(data)


def check_round_trip(frame: Sent) -> None:
    decoded = decode(raw(frame.data), show_secrets=True)
    assert [problem.text for problem in decoded.problems] == []
    assert (decoded.key or b"") == frame.key
    assert decoded.stream_id == frame.stream_id
    assert decoded.layout is frame.shape.layout or frame.shape.layout.version in ("raw", "error")
    single = {name: value for name, value in frame.values.items() if isinstance(value, int)}
    assert {name: decoded.lookup[name] for name in single} == single
    if not isinstance(frame.shape.layout.value, tuple):
        assert (decoded.value or b"") == frame.value
    metadata = [field.value for field in decoded.fields if field.field.name == "metadata"]
    assert metadata == ([frame.metadata] if frame.metadata else [])
    assert encoded_fields(decoded) == frame.data


@pytest.mark.parametrize("shape", KNOWN, ids=str)
def test_every_shape_of_the_table_makes_the_round_trip(shape: Shape) -> None:
    few(given(sent(shape))(check_round_trip))()


@modest
@given(anything)
def test_what_has_no_problem_is_encoded_to_the_same_bytes(data: bytes) -> None:
    frame = decode(raw(data), show_secrets=True)
    assert encoded_fields(frame) == data or frame.problems


@modest
@given(st.one_of(anything, sent().map(lambda frame: frame.data)))
def test_the_fields_tile_the_frame(data: bytes) -> None:
    at = 0
    for field in decode(raw(data)).fields:
        assert field.start == at
        assert field.end >= at
        at = field.end
    assert at == len(data)


@modest
@given(anything)
def test_no_bytes_raise_and_malformed_implies_problems(data: bytes) -> None:
    frame = decode(raw(data))
    header = frame.header
    if len(data) != frame.raw.length or not framed(header):
        assert frame.problems
    Session().understand(frame)
