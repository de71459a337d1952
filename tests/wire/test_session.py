"""Session: what HELLO granted, what is inferred where it was not seen, which response answers which request."""

import marshal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import Frame, RawFrame, Span, Where, unpack_header
from dcpdump.wire.session import Interpretation, Session, SessionRequest, SessionState

COLLECTIONS, JSON = 0x12, 0x0B
CLIENT, SERVER = 0, 1


def frame(
    name: str | int, values: dict[str, Any] | None = None, *, ts_ns: int | None = None, lost: int = 0, **given: Any
) -> Frame:
    data = encode(name, values or {}, **given)
    return decode(RawFrame(data, unpack_header(data), where=Where(1, ts_ns), gap_before=lost))


def feed(session: Session, *frames: Frame) -> list[Interpretation]:
    return [session.understand(each, number) for number, each in enumerate(frames, 1)]


def mutation(key: bytes, **given: Any) -> Frame:
    return frame("DCP_MUTATION", {"by_seqno": 4}, key=key, **given)


def reading(session: Session, key: bytes) -> tuple[bytes | None, int | None, bool]:
    """Return how a mutation's key is read now: (key, collection, whether that is a guess)."""
    meaning = session.understand(mutation(key)).content
    return meaning.key, meaning.collection, meaning.collection_inferred


# -- what HELLO says ------------------------------------------------------------------------------------------


def hello(*features: int, **given: Any) -> Frame:
    return frame("HELLO", {"features": [*features]} if features else None, **given)


@pytest.mark.parametrize(
    ("said", "collections"),
    [
        ([hello(JSON, COLLECTIONS, response=True)], True),
        ([hello(JSON, COLLECTIONS), hello(JSON, response=True)], False),
        ([hello(COLLECTIONS, response=True), hello(response=True, status=0x04)], True),
        ([hello(COLLECTIONS, response=True), hello(JSON, response=True)], False),
        ([frame("DCP_SYSTEM_EVENT", {"event": 0, "version": 0}, key=b"c"), hello(JSON, response=True)], False),
    ],
    ids=["granted", "not granted", "then refused, which grants nothing", "replaced", "outweighs every guess"],
)
def test_collections_are_on_where_the_last_answer_to_hello_grants_them(said: list[Frame], collections: bool) -> None:
    session = Session()
    feed(session, *said)
    assert reading(session, b"\x08hello") == ((b"hello", 8, False) if collections else (b"\x08hello", None, False))
    assert reading(session, b"\0hello")[2] is False


def test_an_answer_to_hello_of_which_bytes_were_lost_says_nothing() -> None:
    data = encode("HELLO", {"features": [JSON, COLLECTIONS]}, response=True)
    session = Session()
    session.understand(decode(RawFrame(data, unpack_header(data), holes=(Span(26, 28),))))
    session.understand(decode(RawFrame(data[:26], unpack_header(data))))
    assert session.features is None


# -- what is inferred without it ------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("key", "logical", "collection"),
    [(b"\0hello", b"hello", 0), (b"\x08hello", b"hello", 8), (b"\xd5\x0ak", b"k", 0x555)],
)
def test_a_key_whose_first_byte_is_no_text_says(key: bytes, logical: bytes, collection: int) -> None:
    assert reading(Session(), key) == (logical, collection, True)


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
    session, key = Session(), b"\x07k"
    feed(session, frame("DCP_MUTATION", {"clen": 0}, key=key), frame("DCP_OPEN", key=key))
    feed(session, frame("DCP_CONTROL", key=key, value=b"v"))
    assert reading(session, b"\0k") == (b"k", 0, True)


def test_a_connection_opened_to_keep_datatypes_of_values_it_leaves_out_is_remembered() -> None:
    session = Session()
    feed(session, frame("DCP_OPEN", {"flags": 0x41}, key=b"c"))
    assert session.understand(mutation(b"k", value=b"x", datatype=2)).content.problems == ()
    assert len(Session().understand(mutation(b"k", value=b"x", datatype=2)).content.problems) == 1


# -- requests and responses -----------------------------------------------------------------------------------


def test_a_response_is_paired_with_the_request_of_its_opaque_and_has_its_vbucket() -> None:
    session = Session()
    session.understand(frame("DCP_STREAM_REQ", vbucket=7, opaque=1, ts_ns=1000), 1, CLIENT)
    session.understand(frame("DCP_STREAM_REQ", vbucket=8, opaque=2, ts_ns=2000), 2, CLIENT)
    answer = frame("DCP_STREAM_REQ", response=True, opaque=1)
    interpretation = session.understand(answer, 3, SERVER)
    assert (interpretation.vbucket, interpretation.request) == (7, SessionRequest(1, 1000, 7))
    assert session.understand(answer, 4, SERVER).request is None, "a request is answered once"


def exchange(*said: tuple[int, Frame]) -> list[int | None]:
    """Return of each answer the number of the request that it is to; frames are numbered from 1."""
    session, answers = Session(), list[int | None]()
    for number, (direction, each) in enumerate(said, 1):
        interpretation = session.understand(each, number, direction)
        if each.magic.response:
            answers.append(interpretation.request and interpretation.request.frame)
    return answers


def ask(name: str | int, side: int = CLIENT, **given: Any) -> tuple[int, Frame]:
    return side, frame(name, **given)


def answer(name: str | int, side: int = SERVER, **given: Any) -> tuple[int, Frame]:
    return side, frame(name, response=True, **given)


REQ, CONTROL = "DCP_STREAM_REQ", "DCP_CONTROL"
SEVEN, EIGHT, NINE = (ask(REQ, vbucket=vbucket) for vbucket in (7, 8, 9))
ANSWERED: dict[str, tuple[list[tuple[int, Frame]], list[int | None]]] = {
    "with one opaque in the order in which they were sent":
        ([SEVEN, EIGHT, NINE, ask(CONTROL, key=b"k"), *4 * [answer(REQ)]], [1, 2, 3, None]),
    "where bytes were lost it is not known of several which": (
        [SEVEN, EIGHT, ask(CONTROL, key=b"k"), answer(REQ, lost=20), answer(REQ), answer(CONTROL)], [None, None, 3]
    ),
    "one whose answer may be lost does not take that to the next":
        ([SEVEN, ask(REQ, vbucket=8, lost=1), NINE, *3 * [answer(REQ)]], [2, 3, None]),
    "captured before its request it shifts none after it":
        ([ask("DCP_OPEN", key=b"c"), answer(REQ), SEVEN, EIGHT, answer(REQ)], [None, 4]),
    "it may be to a request from before the capture": ([answer(REQ), SEVEN, EIGHT, answer(REQ)], [None, 2]),
    "what is sent one at a time": ([*2 * [ask("DCP_NOOP")], *2 * [answer("DCP_NOOP")]], [2, None]),
    "GETQ may go unanswered": ([*2 * [ask(0x09)], *2 * [answer(0x09)]], [2, None]),
    "SETQ may go unanswered": ([*2 * [ask(0x11)], *2 * [answer(0x11)]], [2, None]),
    "by the other side only":
        ([ask("DCP_NOOP", SERVER), answer("DCP_NOOP", SERVER), answer("DCP_NOOP", CLIENT)], [None, 1]),
    "by its own opcode": ([ask("DCP_NOOP"), answer(CONTROL)], [None]),
    "statistics until an empty key":
        ([ask("STAT", key=b"dcp"), *(answer("STAT", key=key) for key in (b"a", b"b", b"", b"c"))], [1, 1, 1, None]),
    "statistics twice, one after the other": (
        [ask("STAT", key=b"dcp"), ask("STAT"), *(answer("STAT", key=key) for key in (b"a", b"", b"b", b"", b"c"))],
        [1, 1, 2, 2, None],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERED)
def test_a_request_is_answered(name: str) -> None:
    said, answers = ANSWERED[name]
    assert exchange(*said) == answers


def test_an_error_about_a_mutation_has_the_vbucket_of_its_stream() -> None:
    session = Session()
    session.understand(frame("DCP_STREAM_REQ", vbucket=7, opaque=1), 1, CLIENT)
    session.understand(mutation(b"k", vbucket=7, opaque=1), 2, SERVER)
    interpretation = session.understand(frame("DCP_MUTATION", response=True, status=0x22, opaque=1), 3, CLIENT)
    assert (interpretation.vbucket, interpretation.request) == (7, None)


def test_a_snapshot_marker_waits_for_an_answer_only_where_it_asks_for_one() -> None:
    for kind, request in ((0x09, SessionRequest(1, None, 7)), (0x01, None)):
        session = Session()
        session.understand(frame("DCP_SNAPSHOT_MARKER", {"snapshot_type": kind}, vbucket=7, opaque=1), 1, SERVER)
        answer = session.understand(frame("DCP_SNAPSHOT_MARKER", response=True, opaque=1), 2, CLIENT)
        assert (answer.vbucket, answer.request) == (7, request)


def test_the_streams_of_a_connection_and_their_last_seqnos_are_known() -> None:
    session = Session()
    feed(session, frame("DCP_STREAM_REQ", vbucket=7, opaque=1), mutation(b"k", vbucket=7, opaque=1))
    assert (dict(session.streams), session.seqnos.get(1), session.seqnos.get(2)) == ({1: 7}, 4, None)
    feed(session, frame("DCP_STREAM_REQ", vbucket=7, opaque=1))
    assert session.seqnos.get(1) is None, "a stream that is requested again starts again"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.wire.session.MAX_OUTSTANDING", 40)
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
    monkeypatch.setattr("dcpdump.wire.session.MAX_OUTSTANDING", 4)
    said = [ask(REQ, opaque=opaque) for opaque in (1, 2, 1, 1, 2, 1)]
    answers = [answer(REQ, opaque=opaque) for opaque in (1, 1, 1, 1, 2, 2)]
    assert exchange(*said, *answers) == [3, 4, 6, None, 5, None]


# -- state ------------------------------------------------------------------------------------------------------

LOST, OPAQUE = st.sampled_from([0, 0, 0, 0, 9]), st.integers(1, 2)
NAMES = ["DCP_STREAM_REQ", "DCP_NOOP", "STAT", CONTROL]
SAID = st.one_of(
    st.builds(ask, st.sampled_from([*NAMES, "DCP_OPEN"]), opaque=OPAQUE, vbucket=st.integers(1, 3), lost=LOST),
    st.builds(answer, st.sampled_from(NAMES), opaque=OPAQUE, key=st.sampled_from([b"", b"k"]), lost=LOST),
    st.just((SERVER, hello(JSON, response=True))),
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
    assert other.state() == state
    for number, (direction, each) in enumerate(after, len(before)):
        assert other.understand(each, number, direction) == one.understand(each, number, direction)
    assert (other.state(), other.complete) == (one.state(), one.complete)
