"""Getting back into step: what is believed to be a header, and what is found again after bytes were lost."""

import random
import zlib
from typing import Any, NamedTuple

import pytest

from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame, unpack_header
from dcpdump.wire.resync import Judgement, SearchResult, begins, find_frame, fits_table, framed, known, strict
from dcpdump.wire.session import Session
from dcpdump.wire.split import Cut, FrameSplitter, Skipped, Why
from tests.support.fields import changed, snappy

SEGMENT = 1448
OPAQUE, VBUCKET = 0x01000000, 528
MUTATION = encode("DCP_MUTATION", {"by_seqno": 4, "rev_seqno": 1}, key=b"hello", value=b"world", vbucket=528)


# -- evidence -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "levels"),
    [
        pytest.param(MUTATION, "framed known fits strict", id="a mutation"),
        pytest.param(encode("DCP_STREAM_END", stream_id=3), "framed known fits strict", id="with a stream id"),
        pytest.param(encode("DCP_NOOP", response=True), "framed known fits strict", id="a response"),
        pytest.param(encode("DCP_NOOP", response=True, status=4), "framed known fits strict", id="an error"),
        pytest.param(encode("HELLO", key=b"me"), "framed known fits", id="a neighbour of DCP"),
        pytest.param(encode("HELLO", response=True, framing=b"\x02\0\1"), "framed known fits", id="magic 0x18"),
        pytest.param(encode("GET", key=b"k"), "framed known", id="a message of which only the name is known"),
        pytest.param(changed(MUTATION, 4, "1d"), "framed known", id="extras of an unknown length"),
        pytest.param(encode("DCP_MUTATION", value=b"v"), "framed known", id="no key where it must be"),
        pytest.param(encode("DCP_MUTATION", key=b"k" * 252), "framed known", id="a key longer than keys are"),
        pytest.param(encode("DCP_NOOP", value=b"v"), "framed known", id="a value where none may be"),
        pytest.param(changed(MUTATION, 6, "0400"), "framed", id="vbucket 1024"),
        pytest.param(changed(MUTATION, 5, "08"), "framed", id="datatype 8"),
        pytest.param(changed(MUTATION, 1, "99"), "framed", id="an unknown opcode"),
        pytest.param(encode("DCP_NOOP", response=True, status=0x1234), "framed", id="an unknown status"),
        pytest.param(changed(MUTATION, 0, "7f"), "", id="no magic"),
        pytest.param(changed(MUTATION, 2, "0100"), "", id="a key longer than the body"),
        pytest.param(changed(MUTATION, 8, "02000000"), "", id="a body beyond the limit"),
    ],
)
def test_evidence_has_levels(data: bytes, levels: str) -> None:
    header = unpack_header(data)
    found = {"framed": framed(header), "known": known(header), "strict": strict(header)}
    found["fits"] = found["known"] and fits_table(header)
    assert {level for level, met in found.items() if met} == set(levels.split())


@pytest.mark.parametrize(
    ("data", "final", "verdict"),
    [
        (b"", False, Judgement.WAIT),
        (b"\x80", False, Judgement.WAIT),
        (b"GET / HTTP/1.1\r\n", False, Judgement.NO),
        (MUTATION[:23], False, Judgement.WAIT),
        (MUTATION[:23], True, Judgement.NO),
        (MUTATION[:24], False, Judgement.FRAME),
        (encode("GET", key=b"k"), False, Judgement.FRAME),
        (encode("GET", key=b"k")[:-1], False, Judgement.WAIT),
        (encode("GET", key=b"k")[:-1], True, Judgement.WEAK),
        (encode("GET", key=b"k") + MUTATION, False, Judgement.FRAME),
        (encode("GET", key=b"k") + b"\x80" * 24, False, Judgement.NO),
        (encode("GET", response=True, framing=bytes(40)), False, Judgement.FRAME),
        (bytes(100), False, Judgement.NO),
    ],
)
def test_a_directions_first_bytes_are_judged(data: bytes, final: bool, verdict: Judgement) -> None:
    assert begins(data, final=final) is verdict


def test_a_frame_is_searched_for_from_a_place() -> None:
    data = b"x" * 100 + MUTATION * 3
    assert find_frame(data, 0, Session, final=False) == SearchResult(100, Judgement.FRAME)
    assert find_frame(data, 101, Session, final=False) == SearchResult(100 + len(MUTATION), Judgement.FRAME)
    assert find_frame(b"x" * 100, 0, Session, final=False) == SearchResult(77, Judgement.NO)
    assert find_frame(b"x" * 100, 0, Session, final=True) == SearchResult(100, Judgement.NO)
    assert find_frame(data[:130], 0, Session, final=False) == SearchResult(100, Judgement.WAIT)
    assert find_frame(data[:130], 0, Session, final=True) == SearchResult(100, Judgement.WEAK)


def test_where_streams_are_known_a_frame_must_belong_to_one() -> None:
    session = Session()
    session.streams[1] = 528
    stranger = MUTATION * 3
    ours = mutation(9, opaque=1) * 3
    elsewhere = encode("DCP_MUTATION", {"by_seqno": 9}, key=b"k", vbucket=529, opaque=1) * 3
    # The stranger leads to ours.
    assert find_frame(stranger + ours, 0, lambda: session, final=False) == SearchResult(0, Judgement.FRAME)
    torn = b"?" + stranger + b"?"
    assert find_frame(torn + ours, 0, lambda: session, final=False) == SearchResult(len(torn), Judgement.FRAME)
    assert find_frame(elsewhere + b"?" + ours, 0, lambda: session, final=False).at == len(elsewhere) + 1


def test_where_the_connections_beginning_was_seen_no_other_stream_is_believed() -> None:
    session = Session()
    for name in ("DCP_OPEN", "DCP_STREAM_REQ"):
        session.understand(decode(RawFrame.of(encode(name, vbucket=528, opaque=1))))
    stranger = MUTATION * 3
    ours = mutation(9, opaque=1) * 3
    assert find_frame(stranger + ours, 0, lambda: session, final=False) == SearchResult(len(stranger), Judgement.FRAME)
    assert find_frame(stranger, 0, lambda: session, final=True) == SearchResult(len(stranger), Judgement.NO)


def test_frames_of_an_unseen_stream_are_believed_only_as_far_as_they_lead_on() -> None:
    session = Session()
    session.streams[1] = 528
    assert find_frame(b"?" + MUTATION * 3, 0, lambda: session, final=True) == SearchResult(1, Judgement.WEAK)
    copied = MUTATION * 3 + b"the rest of the document that holds them"
    assert find_frame(copied, 0, lambda: session, final=True) == SearchResult(len(copied), Judgement.NO)


def test_messages_with_an_opaque_of_their_own_need_no_stream() -> None:
    session = Session()
    session.streams[1] = 528
    for name in ("DCP_NOOP", "DCP_BUFFER_ACKNOWLEDGEMENT"):
        data = b"?" + encode(name, opaque=77) * 3
        assert find_frame(data, 0, lambda: session, final=False) == SearchResult(1, Judgement.FRAME)


@pytest.mark.parametrize("kind", ["noise", "zlib", "snappy", "text", "zeros", "0x80", "counting"])
def test_what_is_no_dcp_holds_no_frame(kind: str) -> None:
    dice = random.Random(7)
    size = 1 << 19
    text = b"".join(b'{"id":%d,"name":"user-%x"},' % (n, dice.getrandbits(40)) for n in range(5_000))
    data = {
        "noise": dice.randbytes(size),
        "zeros": bytes(size),
        "0x80": b"\x80" * (size // 4),
        "text": text,
        "zlib": zlib.compress(text),
        "snappy": snappy(text),
        "counting": b"".join(n.to_bytes(4, "big") for n in range(0x8057_0000, 0x8057_0000 + 50_000)),
    }[kind]
    assert find_frame(data, 0, Session, final=True) == SearchResult(len(data), Judgement.NO)
    splitter = FrameSplitter(Session, joined_late=True)
    cuts = [cut for at in range(0, len(data), 65536) for cut in splitter.feed(data[at : at + 65536])]
    assert not [cut for cut in cuts + splitter.close() if isinstance(cut, RawFrame)]


# -- a stream of which bytes are lost ---------------------------------------------------------------------------


def mutation(seqno: int, key: bytes = b"k", value: bytes = b"", opaque: int = OPAQUE) -> bytes:
    given = {"by_seqno": seqno, "rev_seqno": 1}
    return encode("DCP_MUTATION", given, key=key, value=value, vbucket=VBUCKET, opaque=opaque)


class Sent(NamedTuple):
    """A frame of the stream and where it begins."""

    offset: int
    data: bytes


def documents(count: int, dice: random.Random, *, evil: float = 0.0) -> list[Sent]:
    """Return a stream of mutations; a share of the documents are captures of DCP themselves."""
    frames = [encode("DCP_OPEN", {"flags": 1}, key=b"me"), encode("DCP_STREAM_REQ", vbucket=VBUCKET, opaque=OPAQUE)]
    for seqno in range(1, count - 1):
        size = min(60_000, int(dice.lognormvariate(5.5, 1.2)))
        value = dice.randbytes(size)
        if dice.random() < evil:
            value = embedded(dice) + value
        frames.append(mutation(seqno, b"user::%08d" % seqno, value))
    offset, out = 0, []
    for data in frames:
        out.append(Sent(offset, data))
        offset += len(data)
    return out


def embedded(dice: random.Random, *, opaque: int | None = None, first: int = 1) -> bytes:
    """Return frames as a document may hold them: perfect, and of another stream by default."""
    other = dice.getrandbits(31) | 1 if opaque is None else opaque
    return b"".join(mutation(first + n, b"evil", b"x" * 50, other) for n in range(6))


def through(pieces: list[bytes | int], *, late: bool = False) -> list[Cut]:
    """Feed segments, and gaps given as their lengths, and return the cuts; the session learns the frames."""
    session = Session()
    splitter = FrameSplitter(lambda: session, joined_late=late)
    out: list[Cut] = []
    for piece in [*pieces, None]:
        if piece is None:
            cuts = splitter.close()
        else:
            cuts = splitter.gap(piece) if isinstance(piece, int) else splitter.feed(piece)
        for cut in cuts:
            if isinstance(cut, RawFrame):
                session.understand(decode(cut))
        out += cuts
    return out


def frames_of(cuts: list[Cut]) -> list[RawFrame]:
    return [cut for cut in cuts if isinstance(cut, RawFrame)]


def lossy(data: bytes, lost: set[int]) -> list[bytes | int]:
    """Cut data into segments, of which some are lost."""
    return [
        len(data[at : at + SEGMENT]) if at // SEGMENT in lost else data[at : at + SEGMENT]
        for at in range(0, len(data), SEGMENT)
    ]


def survives(frame: Sent, lost: set[int]) -> bool:
    """Return whether no byte of the frame's header was lost."""
    return not {frame.offset // SEGMENT, (frame.offset + 23) // SEGMENT} & lost


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("evil", [0.0, 0.02])
def test_every_frame_whose_header_survived_is_found_and_no_other(rate: float, evil: float) -> None:
    dice = random.Random(f"{rate} {evil}")
    sent = documents(1500, dice, evil=evil)
    data = b"".join(frame.data for frame in sent)
    # The request is seen, so that the stream is known; the end is, so that nothing is left waiting.
    segments = range(1, len(data) // SEGMENT - 1)
    lost = {number for number in segments if dice.random() < rate} | {len(segments) // 2}
    found = frames_of(through(lossy(data, lost)))
    assert [frame.offset for frame in found] == [frame.offset for frame in sent if survives(frame, lost)]
    there = {frame.offset: frame.data for frame in sent}
    for frame in found:
        whole = there[frame.offset]
        assert frame.length == len(whole)
        assert frame.holes or frame.data == whole[: len(frame.data)]


def test_a_document_that_copies_its_own_streams_frames_does_not_fool_while_they_are_older() -> None:
    dice = random.Random(3)
    sent = documents(21, dice)
    mirror = embedded(dice, opaque=OPAQUE, first=5)  # seqnos that were seen already
    copy = mutation(20, b"user::00000020", mirror * 3)
    after = [mutation(n, b"k%d" % n) for n in range(21, 26)]
    head = b"".join(frame.data for frame in sent)
    found = frames_of(through([head, 100, copy[100:] + b"".join(after)]))
    seqnos = [decode(frame).get("by_seqno") for frame in found[2:]]
    assert seqnos == [*range(1, 20), *range(21, 26)]
    assert found[21].gap_before == len(copy)
    assert [frame.confidence for frame in found] == [""] * len(found)


def test_the_bytes_of_a_frame_that_was_under_way_are_passed_by() -> None:
    data = MUTATION[20:] + MUTATION * 4
    cuts = through([data], late=True)
    assert cuts[0] == Skipped(0, len(MUTATION) - 20, Why.BEGUN_BEFORE)
    assert [frame.data for frame in frames_of(cuts)] == [MUTATION] * 4
    assert [frame.gap_before for frame in frames_of(cuts)] == [0] * 4  # nothing of it is missing


def test_neighbours_of_dcp_are_believed_where_a_segment_begins() -> None:
    hello = encode("HELLO", key=b"me")
    data = hello + encode("SASL_LIST_MECHS") + MUTATION * 2
    assert [frame.data for frame in frames_of(through([data], late=True))][:1] == [hello]


def test_a_lonely_frame_is_believed_at_the_end_with_low_confidence() -> None:
    cuts = through([b"noise before" + MUTATION[:-3]], late=True)
    assert cuts[0] == Skipped(0, 12, Why.BEGUN_BEFORE)
    (frame,) = frames_of(cuts)
    assert (frame.offset, frame.data, frame.confidence) == (12, MUTATION[:-3], "low")


# -- documents that hold frames -----------------------------------------------------------------------------------


def copying(copies: bytes, dice: random.Random) -> bytes:
    return mutation(20, b"evil", dice.randbytes(200) + copies + dice.randbytes(400))


@pytest.mark.parametrize("seed", range(10))
def test_a_lost_header_does_not_turn_a_documents_frames_into_the_connections(seed: int) -> None:
    dice = random.Random(seed)
    sent = documents(30, dice)
    data = [frame.data for frame in sent]
    data.insert(20, copying(embedded(dice) * 3, dice))
    head = b"".join(data[:20])
    torn = data[20][dice.randrange(24, 200) :]
    cuts = through([head, len(data[20]) - len(torn), torn + b"".join(data[21:])])
    assert [frame.data for frame in frames_of(cuts)] == data[:20] + data[21:]


@pytest.mark.parametrize("seed", range(10))
def test_a_late_join_inside_such_a_document_loses_no_frame_and_trusts_no_copy_that_it_sees_end(seed: int) -> None:
    dice = random.Random(seed)
    outer = copying(embedded(dice), dice)
    data = [mutation(n) for n in range(21, 40)]
    torn = outer[dice.randrange(60, 250) :]
    found = frames_of(through([torn, *data], late=True))
    assert [frame.data for frame in found if frame.offset >= len(torn)] == data
    assert {frame.confidence for frame in found if frame.offset < len(torn)} <= {"low"}


def test_copies_of_a_streams_own_future_are_believed_less() -> None:
    dice = random.Random(5)
    sent = documents(21, dice)
    outer = copying(embedded(dice, opaque=OPAQUE, first=500), dice)
    after = [mutation(n) for n in range(21, 26)]
    head = b"".join(frame.data for frame in sent)
    found = frames_of(through([head, 100, outer[100:] + b"".join(after)]))
    assert [frame.confidence for frame in found if decode(frame).get("by_seqno") in range(500, 506)] == ["low"] * 6
    assert [frame.data for frame in found[-5:]] == after


def test_a_header_whose_seqno_was_cut_off_is_not_taken_for_an_old_one() -> None:
    frame = encode("DCP_MUTATION", {"by_seqno": 500}, key=b"k", value=b"v" * 40, vbucket=7, opaque=9)
    streams = _knows(seqno=400)
    assert find_frame(b"\0" * 50 + frame[:28], 0, lambda: streams, final=True) == SearchResult(50, Judgement.WEAK)


def test_streams_with_ids_may_share_an_opaque_each_with_its_own_seqnos() -> None:
    given: dict[str, Any] = {"key": b"k", "value": b"v", "vbucket": 7, "opaque": 9, "stream_id": 2}
    frames = b"".join(encode("DCP_MUTATION", {"by_seqno": n}, **given) for n in (5, 6, 7))
    streams = _knows(seqno=400)
    assert find_frame(b"\0" * 50 + frames, 0, lambda: streams, final=True) == SearchResult(50, Judgement.FRAME)


def _knows(seqno: int) -> Session:
    """Return a session that has seen the stream of opaque 9, vbucket 7, up to a seqno."""
    session = Session()
    frame = encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"k", vbucket=7, opaque=9)
    session.understand(decode(RawFrame.of(frame)))
    return session
