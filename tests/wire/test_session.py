"""Session: what HELLO granted, what is inferred where it was not seen, which response answers which request."""

import marshal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import Frame, RawFrame, Span, Where, unpack_header
from dcpdump.wire.outstanding import Asked
from dcpdump.wire.session import Session, SessionState, Understood, session_essence

COLLECTIONS, JSON = 0x12, 0x0B
CLIENT, SERVER = 0, 1


def frame(
    name: str | int, values: dict[str, Any] | None = None, *, ts_ns: int | None = None, lost: int = 0, **given: Any
) -> Frame:
    data = encode(name, values or {}, **given)
    return decode(RawFrame(data, unpack_header(data), where=Where(1, ts_ns), gap_before=lost))


def feed(session: Session, *frames: Frame) -> list[Understood]:
    return [session.understand(each, number) for number, each in enumerate(frames, 1)]


def mutation(key: bytes, **given: Any) -> Frame:
    return frame("DCP_MUTATION", {"by_seqno": 4}, key=key, **given)


def reading(session: Session, key: bytes) -> tuple[bytes | None, int | None, bool]:
    """Return how a mutation's key is read now: (key, collection, whether that is a guess)."""
    meaning = session.understand(mutation(key)).meaning
    return meaning.key, meaning.collection, meaning.collection_inferred


# -- what HELLO says ------------------------------------------------------------------------------------------


def test_collections_are_on_where_the_answer_to_hello_grants_them() -> None:
    session = Session()
    feed(session, frame("HELLO", {"features": [JSON, COLLECTIONS]}, response=True))
    assert reading(session, b"\x08hello") == (b"hello", 8, False)


def test_collections_are_off_where_the_answer_does_not_grant_them() -> None:
    session = Session()
    feed(
        session,
        frame("HELLO", {"features": [JSON, COLLECTIONS]}),
        frame("HELLO", {"features": [JSON]}, response=True),
    )
    assert reading(session, b"\x08hello") == (b"\x08hello", None, False)


def test_each_hello_replaces_the_one_before_and_a_refused_one_grants_nothing() -> None:
    session = Session()
    feed(
        session,
        frame("HELLO", {"features": [COLLECTIONS]}, response=True),
        frame("HELLO", response=True, status=0x04),
    )
    assert session.collections is True
    feed(session, frame("HELLO", {"features": [JSON]}, response=True))
    assert session.collections is False


def test_an_answer_to_hello_of_which_bytes_were_lost_says_nothing() -> None:
    data = encode("HELLO", {"features": [JSON, COLLECTIONS]}, response=True)
    session = Session()
    session.understand(decode(RawFrame(data, unpack_header(data), holes=(Span(26, 28),))))
    session.understand(decode(RawFrame(data[:26], unpack_header(data))))
    assert session.features is None


# -- what is inferred without it ------------------------------------------------------------------------------


def test_nothing_is_inferred_from_nothing() -> None:
    assert reading(Session(), b"hello") == (b"hello", None, True)


@pytest.mark.parametrize(
    "sign",
    [
        frame("DCP_SYSTEM_EVENT", {"event": 0, "version": 0}, key=b"c"),
        frame("DCP_SEQNO_ADVANCED", {"by_seqno": 9}),
        frame("DCP_OSO_SNAPSHOT", {"flags": 1}),
        frame("DCP_CACHE_TRANSFER", {"items": [{"key": b"\0k"}]}),
        frame("DCP_STREAM_END", {"status": 0}, stream_id=3),
        frame("DCP_STREAM_REQ", value=b'{"uid":"0"}'),
        frame("DCP_SNAPSHOT_MARKER", {"version": 2, "high_prepared_seqno": 3}),
        frame("DCP_SNAPSHOT_MARKER", {"version": 2, "purge_seqno": 3}, layout="2.2-pre"),
    ],
    ids=lambda sign: f"{sign.message.name} {sign.layout.version}",
)
def test_what_only_a_connection_with_collections_carries_says_that_it_has_them(sign: Frame) -> None:
    session = Session()
    feed(session, sign)
    assert reading(session, b"hello") == (b"ello", ord("h"), True)


@pytest.mark.parametrize(
    "sign",
    [
        frame("DCP_STREAM_REQ"),
        frame("DCP_SNAPSHOT_MARKER", {"start_seqno": 1}),
        frame("DCP_SNAPSHOT_MARKER", {"version": 0, "max_visible_seqno": 3}),
        frame("DCP_STREAM_END", {"status": 0}),
        frame("DCP_NOOP"),
        frame("DCP_CONTROL", key=b"enable_noop", value=b"true"),
    ],
    ids=lambda sign: f"{sign.message.name} {sign.layout.version}",
)
def test_what_any_connection_carries_says_nothing(sign: Frame) -> None:
    session = Session()
    feed(session, sign)
    assert reading(session, b"hello") == (b"hello", None, True)


def test_markers_of_version_22_that_were_granted_say_but_not_if_refused() -> None:
    ask = frame("DCP_CONTROL", key=b"max_marker_version", value=b"2.2", opaque=7)
    for status, collections in ((0, True), (0x83, None)):
        session = Session()
        feed(session, ask, frame("DCP_CONTROL", response=True, status=status, opaque=7))
        assert session.collections is collections
    other = Session()
    feed(other, ask, frame("DCP_CONTROL", response=True, opaque=8))
    assert other.collections is None


def test_a_key_that_starts_with_the_default_collections_zero_says() -> None:
    assert reading(Session(), b"\0hello") == (b"hello", 0, True)


def test_a_key_whose_first_byte_is_no_text_says() -> None:
    assert reading(Session(), b"\x08hello") == (b"hello", 8, True)
    assert reading(Session(), b"\xd5\x0ahello") == (b"hello", 0x555, True)


def test_keys_of_plain_text_say_nothing_though_each_might_start_with_an_id() -> None:
    session = Session()
    feed(session, mutation(b"alice"), mutation(b"bob"))
    assert reading(session, b"carol") == (b"carol", None, True)


@pytest.mark.parametrize("odd", [b"\x07hello", b"\x80", b"\0", b"\x88\0k", b"\xff\xff\xff\xff\xff\xffk", b"h"])
def test_one_key_that_cannot_start_with_an_id_speaks_against_all(odd: bytes) -> None:
    session = Session()
    feed(session, mutation(odd), mutation(b"\0hello"))
    assert session.collections is None


def test_the_previews_keys_and_the_keys_of_other_messages_say_nothing() -> None:
    session = Session()
    feed(
        session,
        frame("DCP_MUTATION", {"clen": 0}, key=b"\x07k"),
        frame("DCP_OPEN", key=b"\x07k"),
        frame("DCP_CONTROL", key=b"\x07k", value=b"v"),
    )
    assert reading(session, b"\0k") == (b"k", 0, True)


def test_what_hello_granted_outweighs_every_guess() -> None:
    session = Session()
    feed(
        session,
        frame("DCP_SYSTEM_EVENT", {"event": 0, "version": 0}, key=b"c"),
        frame("HELLO", {"features": [JSON]}, response=True),
    )
    assert reading(session, b"\0hello") == (b"\0hello", None, False)


def test_a_connection_opened_to_keep_datatypes_of_values_it_leaves_out_is_remembered() -> None:
    session = Session()
    feed(session, frame("DCP_OPEN", {"flags": 0x41}, key=b"c"))
    assert session.understand(mutation(b"k", value=b"x", datatype=2)).meaning.problems == ()
    assert len(Session().understand(mutation(b"k", value=b"x", datatype=2)).meaning.problems) == 1


# -- requests and responses -----------------------------------------------------------------------------------


def test_a_response_is_paired_with_the_request_of_its_opaque_and_has_its_vbucket() -> None:
    session = Session()
    session.understand(frame("DCP_STREAM_REQ", vbucket=7, opaque=1, ts_ns=1000), 1, CLIENT)
    session.understand(frame("DCP_STREAM_REQ", vbucket=8, opaque=2, ts_ns=2000), 2, CLIENT)
    answer = frame("DCP_STREAM_REQ", response=True, opaque=1)
    understood = session.understand(answer, 3, SERVER)
    assert (understood.vbucket, understood.request) == (7, Asked(1, 1000, 7))
    assert session.understand(answer, 4, SERVER).request is None, "a request is answered once"


def exchange(session: Session, *said: tuple[str | int, int, Frame]) -> list[int | None]:
    """Return of each answer the number of the request that it is to; frames are numbered from 1."""
    answers: list[int | None] = []
    for number, (_, direction, each) in enumerate(said, 1):
        understood = session.understand(each, number, direction)
        if each.magic.response:
            answers.append(understood.request and understood.request.frame)
    return answers


def ask(name: str | int, **given: Any) -> tuple[str | int, int, Frame]:
    return name, CLIENT, frame(name, **given)


def answer(name: str | int, **given: Any) -> tuple[str | int, int, Frame]:
    return name, SERVER, frame(name, response=True, **given)


def test_requests_with_one_opaque_are_answered_in_the_order_in_which_they_were_sent() -> None:
    session = Session()
    for vbucket in (7, 8, 9):
        session.understand(frame("DCP_STREAM_REQ", vbucket=vbucket, opaque=1), vbucket, CLIENT)
    session.understand(frame("DCP_CONTROL", key=b"enable_noop", value=b"true", opaque=1), 10, CLIENT)
    given = [session.understand(frame("DCP_STREAM_REQ", response=True, opaque=1), 11, SERVER) for _ in range(4)]
    assert [(each.vbucket, each.request) for each in given] == [
        (7, Asked(7, None, 7)),
        (8, Asked(8, None, 8)),
        (9, Asked(9, None, 9)),
        (None, None),
    ]


def test_where_bytes_were_lost_it_is_not_known_which_of_several_requests_is_answered() -> None:
    said = [ask("DCP_STREAM_REQ", vbucket=7), ask("DCP_STREAM_REQ", vbucket=8), ask("DCP_CONTROL", key=b"k")]
    lossy = [answer("DCP_STREAM_REQ", lost=20), answer("DCP_STREAM_REQ"), answer("DCP_CONTROL")]
    assert exchange(Session(), *said, *lossy) == [None, None, 3]


def test_a_request_whose_answer_may_be_lost_does_not_take_the_answer_to_the_next() -> None:
    again = [ask("DCP_STREAM_REQ", vbucket=8, lost=1), ask("DCP_STREAM_REQ", vbucket=9)]
    answers = [answer("DCP_STREAM_REQ"), answer("DCP_STREAM_REQ"), answer("DCP_STREAM_REQ")]
    assert exchange(Session(), ask("DCP_STREAM_REQ", vbucket=7), *again, *answers) == [2, 3, None]


def test_an_answer_that_was_captured_before_its_request_shifts_none_after_it() -> None:
    swapped = [answer("DCP_STREAM_REQ"), ask("DCP_STREAM_REQ", vbucket=7)]
    straight = [ask("DCP_STREAM_REQ", vbucket=8), answer("DCP_STREAM_REQ")]
    assert exchange(Session(), ask("DCP_OPEN", key=b"c"), *swapped, *straight) == [None, 4]
    assert exchange(Session(), *swapped, *straight) == [None, 2], "it may be to a request from before the capture"


@pytest.mark.parametrize("alone", ["DCP_NOOP", 0x09, 0x11], ids=["DCP_NOOP", "GETQ", "SETQ"])
def test_what_is_sent_one_at_a_time_or_may_go_unanswered_is_answered_for_the_last(alone: str | int) -> None:
    assert exchange(Session(), ask(alone), ask(alone), answer(alone), answer(alone)) == [2, None]


def test_a_request_is_answered_by_the_other_side_only() -> None:
    session = Session()
    session.understand(frame("DCP_NOOP", opaque=1), 1, SERVER)
    assert session.understand(frame("DCP_NOOP", response=True, opaque=1), 2, SERVER).request is None
    assert session.understand(frame("DCP_NOOP", response=True, opaque=1), 3, CLIENT).request == Asked(1, None, 0)


def test_a_response_of_another_opcode_answers_nothing() -> None:
    session = Session()
    session.understand(frame("DCP_NOOP", opaque=1), 1, CLIENT)
    assert session.understand(frame("DCP_CONTROL", response=True, opaque=1), 2, SERVER).request is None


def test_statistics_are_answered_until_an_empty_key() -> None:
    session = Session()
    session.understand(frame("STAT", key=b"dcp", opaque=1), 1, CLIENT)
    keys = (b"a", b"b", b"", b"c")
    answers = [session.understand(frame("STAT", key=key, response=True, opaque=1), 2, SERVER) for key in keys]
    assert [answer.request is not None for answer in answers] == [True, True, True, False]


def test_statistics_that_were_asked_for_twice_with_one_opaque_are_answered_one_after_the_other() -> None:
    keys = (b"a", b"", b"b", b"", b"c")
    answers = [answer("STAT", key=key) for key in keys]
    assert exchange(Session(), ask("STAT", key=b"dcp"), ask("STAT"), *answers) == [1, 1, 2, 2, None]


def test_an_error_about_a_mutation_has_the_vbucket_of_its_stream() -> None:
    session = Session()
    session.understand(frame("DCP_STREAM_REQ", vbucket=7, opaque=1), 1, CLIENT)
    session.understand(mutation(b"k", vbucket=7, opaque=1), 2, SERVER)
    understood = session.understand(frame("DCP_MUTATION", response=True, status=0x22, opaque=1), 3, CLIENT)
    assert (understood.vbucket, understood.request) == (7, None)


def test_a_snapshot_marker_waits_for_an_answer_only_where_it_asks_for_one() -> None:
    for kind, request in ((0x09, Asked(1, None, 7)), (0x01, None)):
        session = Session()
        session.understand(frame("DCP_SNAPSHOT_MARKER", {"snapshot_type": kind}, vbucket=7, opaque=1), 1, SERVER)
        answer = session.understand(frame("DCP_SNAPSHOT_MARKER", response=True, opaque=1), 2, CLIENT)
        assert (answer.vbucket, answer.request) == (7, request)


def test_the_streams_of_a_connection_and_their_last_seqnos_are_known() -> None:
    session = Session()
    feed(session, frame("DCP_STREAM_REQ", vbucket=7, opaque=1), mutation(b"k", vbucket=7, opaque=1))
    assert (dict(session.streams), session.last_seqno(1), session.last_seqno(2)) == ({1: 7}, 4, None)
    feed(session, frame("DCP_STREAM_REQ", vbucket=7, opaque=1))
    assert session.last_seqno(1) is None, "a stream that is asked for again starts again"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.wire.outstanding.MAX_OUTSTANDING", 40)
    monkeypatch.setattr("dcpdump.wire.session.MAX_STREAMS", 60)
    session = Session()
    for opaque in range(50):
        session.understand(frame("DCP_NOOP", opaque=opaque), opaque, CLIENT)
    assert session.understand(frame("DCP_NOOP", response=True, opaque=9), 0, SERVER).request is None
    assert session.understand(frame("DCP_NOOP", response=True, opaque=10), 0, SERVER).request is not None
    for opaque in range(70):
        session.understand(mutation(b"k", opaque=opaque))
    assert list(session.streams) == list(range(10, 70))


def test_of_too_many_requests_the_oldest_is_forgotten_whatever_its_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.wire.outstanding.MAX_OUTSTANDING", 4)
    said = [ask("DCP_STREAM_REQ", opaque=opaque) for opaque in (1, 2, 1, 1, 2, 1)]
    answers = [answer("DCP_STREAM_REQ", opaque=opaque) for opaque in (1, 1, 1, 1, 2, 2)]
    assert exchange(Session(), *said, *answers) == [3, 4, 6, None, 5, None]


# -- state ------------------------------------------------------------------------------------------------------

SAID = st.one_of(
    st.builds(
        lambda name, opaque, vbucket, lost: (CLIENT, frame(name, opaque=opaque, vbucket=vbucket, lost=lost)),
        st.sampled_from(["DCP_STREAM_REQ", "DCP_NOOP", "STAT", "DCP_CONTROL", "DCP_OPEN"]),
        st.integers(1, 2),
        st.integers(1, 3),
        st.sampled_from([0, 0, 0, 0, 9]),
    ),
    st.builds(
        lambda name, opaque, key, lost: (SERVER, frame(name, opaque=opaque, key=key, lost=lost, response=True)),
        st.sampled_from(["DCP_STREAM_REQ", "DCP_NOOP", "STAT", "DCP_CONTROL"]),
        st.integers(1, 2),
        st.sampled_from([b"", b"k"]),
        st.sampled_from([0, 0, 0, 0, 9]),
    ),
    st.builds(lambda features: (SERVER, frame("HELLO", {"features": features}, response=True)), st.just([JSON])),
    st.builds(lambda key, opaque: (SERVER, mutation(key, opaque=opaque)), st.binary(max_size=3), st.integers(1, 2)),
)


@given(st.lists(SAID, max_size=12), st.lists(SAID, max_size=12))
def test_a_session_continues_from_its_state_as_if_it_had_not_stopped(
    before: list[tuple[int, Frame]], after: list[tuple[int, Frame]]
) -> None:
    one, other = Session(), Session()
    for number, (direction, each) in enumerate(before):
        one.understand(each, number, direction)
    state: SessionState = marshal.loads(marshal.dumps(cast(Any, one.state())))  # plain values
    assert state == one.state()
    other.restore(state)
    assert (other.state(), session_essence(other.state())) == (state, session_essence(state))
    for number, (direction, each) in enumerate(after, len(before)):
        assert other.understand(each, number, direction) == one.understand(each, number, direction)
    assert (other.state(), other.complete) == (one.state(), one.complete)
