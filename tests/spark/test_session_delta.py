"""Session deltas: applied to a session, a stretch does what it does to the session itself, or is refused."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.spark.session_delta import WatchedSession
from dcpdump.spec.opcodes import DCP_NOOP, DCP_OPEN, DCP_STREAM_REQ
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import Frame, RawFrame, unpack_header
from dcpdump.wire.session import Asked, Session

Said = list[tuple[int, Frame]]
SAID = st.lists(
    st.builds(
        lambda direction, opcode, opaque, response, vbucket, lost: (
            direction,
            decoded(encode(opcode, opaque=opaque, response=response, vbucket=0 if response else vbucket), lost),
        ),
        st.integers(0, 1),
        st.sampled_from([DCP_STREAM_REQ] * 4 + [DCP_NOOP, DCP_NOOP, 0x00, 0x00, DCP_OPEN]),
        st.integers(1, 2),
        st.booleans(),
        st.integers(1, 9),
        st.sampled_from([0] * 9 + [7]),
    ),
    max_size=8,
)


def decoded(data: bytes, lost: int = 0) -> Frame:
    return decode(RawFrame(data, unpack_header(data), gap_before=lost))


def fed(session: Session, said: Said, first: int = 1) -> Session:
    for number, (direction, frame) in enumerate(said, first):
        header = frame.header
        if header.opcode:
            session.understand(frame, number, direction)
            continue
        if frame.raw.gap_before:
            session.lose()
        asked = None if frame.magic.response else Asked(number, None, header.word)
        session.pair(direction, header.opcode, header.opaque, asked)
    return session


@settings(max_examples=400)
@given(SAID, SAID)
def test_a_stretch_has_the_same_effects_on_a_session_that_comes_later(before: Said, stretch: Said) -> None:
    session = fed(Session(), before)
    watched = fed(WatchedSession(), stretch, 100)
    assert isinstance(watched, WatchedSession)
    found = watched.effects().upon(session.state())
    if found is not None:
        assert found == fed(session, stretch, 100).state()


@given(SAID, SAID)
def test_directions_may_be_exchanged(before: Said, stretch: Said) -> None:
    session = fed(Session(), before)
    watched = fed(WatchedSession(), [(1 - direction, frame) for direction, frame in stretch], 100)
    assert isinstance(watched, WatchedSession)
    found = watched.effects().turned().upon(session.state())
    if found is not None:
        assert found == fed(session, stretch, 100).state()


def stream_request(opaque: int, *, response: bool = False, lost: int = 0) -> tuple[int, Frame]:
    return int(response), decoded(encode(DCP_STREAM_REQ, opaque=opaque, response=response), lost)


def after(before: Said, stretch: Said) -> list[int] | None:
    """Return the numbers of the requests that wait after a stretch; None where that is not known."""
    watched = WatchedSession()
    fed(watched, stretch, 100)
    found = watched.effects().upon(fed(Session(), before).state())
    return None if found is None else [each[3] for each in found["outstanding"]["requests"]]


def test_an_answer_is_to_the_oldest_of_the_requests_before_the_stretch() -> None:
    before = [stream_request(1), stream_request(2), stream_request(1)]
    answer = stream_request(1, response=True)
    assert after(before, [answer]) == [2, 3]
    assert after(before, [answer, answer, stream_request(1)]) == [2, 102]
    assert after(before, [stream_request(1), answer]) is None, "it was taken for the answer to the stretch's own"


def test_after_a_loss_one_request_may_be_answered_and_of_several_none() -> None:
    lossy = [stream_request(3, lost=1)]
    assert after([stream_request(1), stream_request(2), stream_request(1)], lossy) == [2, 100]
