"""Documents and markers that are taken without columns are the same events, and decoded where columns are too."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpdump.net.packet import Packet
from dcpdump.spec.names import COLLECTIONS
from dcpdump.streams.dissection import EndsWatching, RunDissection, Watching
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import DocumentRun, FrameEvent, Step, failover_log, one_by_one
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.opcode_kinds import DOCUMENTS, MARKER
from dcpdump.wire.encode import encode
from tests.support.packets import TcpTalk, flow
from tests.support.pieces import told

ORIGIN: dict[str, Any] = {"vbucket": 5, "opaque": 9}
ITEM = {"by_seqno": 0x0102030405060708, "rev_seqno": 1}
RANGE = {"start_seqno": 1, "end_seqno": 9, "snapshot_type": 1}
VISIBLE = RANGE | {"max_visible_seqno": 9, "high_completed_seqno": 0}
FRAMES = (
    encode("DCP_MUTATION", ITEM, key=b"\x08key", value=b'{"a":1}', datatype=1, **ORIGIN),
    encode("DCP_MUTATION", ITEM, key=b"\x08key", value=b"abcde", stream_id=3, **ORIGIN),
    encode("DCP_MUTATION", ITEM | {"nmeta": 2}, key=b"\x08key", value=b"abcde", **ORIGIN),
    encode("DCP_DELETION", ITEM, layout="1", key=b"\x08key", **ORIGIN),
    encode("DCP_DELETION", ITEM, layout="2", key=b"\x08key", value=b"\0\0\0\x04abcd", datatype=4, **ORIGIN),
    encode("DCP_EXPIRATION", ITEM, layout="1", key=b"\x08key", **ORIGIN),
    encode("DCP_SNAPSHOT_MARKER", RANGE, layout="1", **ORIGIN),
    encode("DCP_SNAPSHOT_MARKER", VISIBLE, layout="2.0", **ORIGIN),
    encode("DCP_SNAPSHOT_MARKER", VISIBLE | {"version": 2}, layout="2.2", stream_id=3, **ORIGIN),
    # Two that only their versions tell apart:
    encode("DCP_SNAPSHOT_MARKER", VISIBLE | {"version": 1}, layout="2.1", **ORIGIN),
    encode("DCP_SNAPSHOT_MARKER", VISIBLE | {"version": 2}, layout="2.2-pre", **ORIGIN),
)
TAKEN = (*DOCUMENTS, MARKER)


def captured(frames: list[bytes], asked: bytes = b"") -> list[Packet]:
    talk = TcpTalk(flow("10.0.0.9:50001", "10.0.0.1:11210"))
    features = {"features": [COLLECTIONS]}
    talk.send(0, encode("HELLO", features, opaque=1))
    talk.send(1, encode("HELLO", features, response=True, opaque=1))
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x", opaque=1))
    talk.send(1, encode("DCP_OPEN", response=True, opaque=1))
    if asked:
        talk.send(0, asked)
    for frame in frames:
        talk.send(1, frame)
    return talk.packets


def steps(dissection: EndsWatching[Any], packets: list[Packet], *, with_rules: bool = True) -> list[Step]:
    """Return what a ledger is fed with, by default one that is asked by rules."""
    feed = Feed(dissection, Ledger(with_rules=with_rules), with_rules=with_rules)
    return list(told(feed, dissection, packets, runs=True))


def events(dissection: EndsWatching[Any], packets: list[Packet], *, with_rules: bool = True) -> list[FrameEvent]:
    """Return the events of all frames, as a ledger is fed with them."""
    return [event for step in steps(dissection, packets, with_rules=with_rules) for event in one_by_one(step)]


def essence(event: FrameEvent) -> tuple[Any, ...]:
    """Return what an event says, wherever its bytes are.

    Of other messages, and behind what is no frame, more is decoded without columns.
    """
    if event.opcode not in TAKEN or event.response or event.server:
        return event.number, event.opcode, event.length
    facts = event._replace(data=b"", key_at=0, value_at=0, value_length=0, record=None)
    return facts, event.key, event.value, event.record is None or event.record.frame.raw.gap_before > 0 or event.weak


#: Where the length of metadata of a mutation ends, and the flags of a marker.
NMETA, FLAGS = 53, 43


@settings(max_examples=100)
@example(chosen=[FRAMES[2]], changes=[(NMETA, 200)])
@example(chosen=[FRAMES[6]], changes=[(FLAGS, 0x41)])
@given(
    chosen=st.lists(st.sampled_from(FRAMES), min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
)
def test_damaged_documents_and_markers_are_decoded_where_columns_decode_them(
    chosen: list[bytes], changes: list[tuple[int, int]]
) -> None:
    frames = [bytearray(frame) for frame in chosen]
    for place, value in changes:
        frame = frames[place % len(frames)]
        at = place // len(frames) % len(frame)
        if at not in range(8, 12):  # the length, with which frames would be others
            frame[at] = value
    packets = captured([bytes(frame) for frame in frames])
    without, columns = (
        [essence(event) for event in events(dissection, packets)] for dissection in (RunDissection(), Watching())
    )
    assert without == columns


ASKED = encode("DCP_STREAM_REQ", {"start_seqno": 3, "end_seqno": 9, "vbucket_uuid": 7, "snap_end_seqno": 3}, **ORIGIN)
LOG = [{"vbucket_uuid": 7, "seqno": 2}, {"vbucket_uuid": 1, "seqno": 0}]
GRANTED = encode("DCP_STREAM_REQ", {"failover_log": LOG}, response=True, opaque=9)


def opened(dissection: EndsWatching[Any], asked: bytes, answer: bytes) -> list[tuple[Any, ...]]:
    """Return what a request for a stream and its answer say to a ledger that no rule asks, but for where they lie."""
    found = []
    for event in steps(dissection, captured([answer], asked), with_rules=False)[4:]:
        assert isinstance(event, FrameEvent)
        facts = event._replace(data=b"", key_at=0, value_at=0, record=None)
        found.append((facts, event.key, event.value, [*failover_log(event)] if event.response else None))
    return found


@settings(max_examples=100)
@example(changes=[])
@example(changes=[(0, 5, 1), (1, 5, 2)])  # datatypes
@example(changes=[(1, 7, 0x23)])  # a rollback
@example(changes=[(1, 3, 16)])  # a key
@given(changes=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 71), st.integers(0, 255)), max_size=3))
def test_requests_and_grants_say_without_being_decoded_what_they_say_decoded(
    changes: list[tuple[int, int, int]],
) -> None:
    frames = [bytearray(ASKED), bytearray(GRANTED)]
    for which, at, value in changes:
        if at not in (1, *range(8, 12)) and at < len(frames[which]):  # with opcodes and lengths they would be others
            frames[which][at] = value
    asked, answer = map(bytes, frames)
    assert opened(RunDissection(), asked, answer) == opened(Watching(), asked, answer)


@pytest.mark.parametrize(
    ("asked", "answer", "decoded"),
    [
        (ASKED, GRANTED, [False, False]),
        (encode("DCP_STREAM_REQ", {"start_seqno": 3}, value=b"{}", **ORIGIN), GRANTED, [True, False]),
        (ASKED, encode("DCP_STREAM_REQ", {"rollback_seqno": 1}, response=True, status=0x23, opaque=9), [False, True]),
        (ASKED, GRANTED[:8] + bytes(16), [False, True]),
        (ASKED, GRANTED[:8] + bytes((0, 0, 0, 24)) + GRANTED[12:48], [False, True]),
    ],
    ids=["bare", "with JSON", "a rollback", "without a log", "an entry and a half"],
)
def test_only_bare_requests_and_grants_are_not_decoded(asked: bytes, answer: bytes, decoded: list[bool]) -> None:
    packets = captured([answer], asked)
    found = [event.record is not None for event in events(RunDissection(), packets, with_rules=False)[4:]]
    assert (found, [event.record is not None for event in events(RunDissection(), packets)[4:]]) == (
        decoded,
        [True] * 2,
    )


def test_where_hello_was_not_captured_requests_and_grants_are_decoded() -> None:
    packets = captured([GRANTED], ASKED)[-8:]  # names of collections come with what is decoded
    assert [event.record is not None for event in events(RunDissection(), packets, with_rules=False)] == [True] * 4


def content(step: Step) -> tuple[Any, ...]:
    """Return what a step says, wherever its bytes are; a run of one document is the document."""
    if not isinstance(step, DocumentRun) or step.frames == 1:
        (event,) = one_by_one(step)
        return essence(event)
    assert step.close is not None
    *facts, texts, packed = step.close
    values = [texts.data[begin:end] for begin, end in zip(texts.starts, texts.ends, strict=True)]
    return step[:14], facts, texts.rows, values, packed


KEYS = [b"", b"k", b"\x08k", b"\x08", b"\x01k", b"\x07k", b"\x80\x00k", b"\x80\x01k", b"\x80", b"\xff\xff\xff\xff\x0fk"]
KEYS += [b"\xff\xff\xff\xff\x1fk", b"\xff\xff\xff\xff\xff\x01k", b"\x80\x80\x00k", b"k" * 250]
VALUES = [b"", b"1", b"ab", b"\0\0\0\4abcd", b"\0\0\0\4abcde", b"\0\0\0\0"]


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Draw a document that is plain, or nearly."""
    kind, layout = draw(st.sampled_from([("MUTATION", "1"), ("DELETION", "1"), ("DELETION", "2"), ("EXPIRATION", "1")]))
    fields = {"by_seqno": draw(st.sampled_from([0, 1, 2, 3, 4, 1 << 32, 1 << 63, (1 << 64) - 1])), "rev_seqno": 1}
    return encode(
        f"DCP_{kind}",
        fields,
        layout=layout,
        key=draw(st.sampled_from(KEYS)),
        value=draw(st.sampled_from(VALUES)),
        datatype=draw(st.integers(0, 7)),
        stream_id=draw(st.sampled_from([None, None, None, 3])),
        **ORIGIN,
    )


@settings(max_examples=100)
@given(frames=st.lists(documents(), min_size=1, max_size=6))
def test_runs_say_without_columns_what_they_say_with_them(frames: list[bytes]) -> None:
    packets = captured([b"".join(frames)])
    assert [content(each) for each in steps(RunDissection(), packets)] == [
        content(each) for each in steps(Watching(), packets)
    ]


@pytest.mark.parametrize("opcode", TAKEN)
def test_each_message_that_is_taken_without_columns_is_tried(opcode: int) -> None:
    assert opcode in {frame[1] for frame in FRAMES}
