"""Problems: each kind of what is wrong with a frame has a code, beside the words."""

import json

import pytest

from dcpdump.record import Record, as_json
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import Fault, RawFrame, Span, unpack_header
from dcpdump.wire.value import interpret

DELETION_WITHOUT_COUNT = bytes.fromhex(
    "08580006150000000000001e000010000000000000000001220047000000000000000500000000000000015f000000000068656c6c6f"
)
MUTATION = encode("DCP_MUTATION", {"by_seqno": 4}, key=b"hello", value=b"world")


def changed(at: int, new: str, data: bytes = MUTATION) -> bytes:
    put = bytes.fromhex(new)
    return data[:at] + put + data[at + len(put) :]


def event_without_table() -> bytes:
    head = encode("DCP_SYSTEM_EVENT", {"event": 0, "version": 2}, layout="2", key=b"k")[: 24 + 13 + 1]
    return changed(8, f"{14 + 4:08x}", head) + bytes(4)


#: A frame for each kind, and all the kinds that are found in it.
EXAMPLES: dict[Fault, tuple[bytes, list[Fault]]] = {
    Fault.UNKNOWN_MAGIC: (changed(0, "7f"), [Fault.UNKNOWN_MAGIC]),
    Fault.UNKNOWN_OPCODE: (changed(1, "99"), [Fault.UNKNOWN_OPCODE]),
    Fault.UNKNOWN_DATATYPE: (changed(5, "08"), [Fault.UNKNOWN_DATATYPE]),
    Fault.UNKNOWN_FRAME_INFO: (
        encode("DCP_NOOP", framing=bytes.fromhex("8101")),
        [Fault.UNKNOWN_FRAME_INFO],
    ),
    Fault.UNKNOWN_VALUE: (encode("DCP_STREAM_END", {"status": 9}), [Fault.UNKNOWN_VALUE]),
    Fault.UNKNOWN_LAYOUT: (changed(4, "1d"), [Fault.UNKNOWN_LAYOUT]),
    Fault.LENGTHS_CONTRADICT: (changed(2, "0100"), [Fault.LENGTHS_CONTRADICT]),
    Fault.TOO_LARGE: (changed(8, "7f000029"), [Fault.TOO_LARGE, Fault.CUT]),
    Fault.MUST_BE_EMPTY: (
        encode("DCP_NOOP", key=b"k", value=b"vv"),
        [Fault.MUST_BE_EMPTY, Fault.MUST_BE_EMPTY],
    ),
    Fault.MUST_BE_PRESENT: (encode("DCP_MUTATION", {"by_seqno": 4}), [Fault.MUST_BE_PRESENT]),
    Fault.WRONG_LENGTH: (changed(52, "0006"), [Fault.WRONG_LENGTH]),
    Fault.LEFT_OVER: (MUTATION + b"!", [Fault.LEFT_OVER]),
    Fault.STREAM_ID_NOT_COUNTED: (DELETION_WITHOUT_COUNT, [Fault.STREAM_ID_NOT_COUNTED]),
    Fault.CUT: (MUTATION[:-1], [Fault.CUT]),
    Fault.LOST: (MUTATION, [Fault.LOST]),
    Fault.COLLECTION_ID: (
        encode("DCP_MUTATION", {"by_seqno": 4}, key=b"\x07k"),
        [Fault.COLLECTION_ID],
    ),
    Fault.NOT_SNAPPY: (
        encode("DCP_MUTATION", {"by_seqno": 4}, key=b"\x00k", value=b"\xff" * 9, datatype=2),
        [Fault.NOT_SNAPPY],
    ),
    Fault.NOT_XATTRS: (
        encode("DCP_MUTATION", {"by_seqno": 4}, key=b"\x00k", value=b"v", datatype=4),
        [Fault.NOT_XATTRS],
    ),
    Fault.NOT_JSON: (
        encode("DCP_MUTATION", {"by_seqno": 4}, key=b"\x00k", value=b"{", datatype=1),
        [Fault.NOT_JSON],
    ),
    Fault.NOT_FLATBUFFERS: (event_without_table(), [Fault.NOT_FLATBUFFERS]),
}


def record(kind: Fault, data: bytes) -> Record:
    """Decode an example; keys have collection ids where a kind is about what keys and values mean."""
    holes = (Span(30, 42),) if kind is Fault.LOST else ()
    frame = decode(RawFrame(data, unpack_header(data), holes=holes))
    means = kind in (Fault.COLLECTION_ID, Fault.NOT_SNAPPY, Fault.NOT_XATTRS, Fault.NOT_JSON)
    return Record(1, frame, interpret(frame, collections=means), None)


def test_each_kind_of_problem_has_an_example() -> None:
    assert set(EXAMPLES) == set(Fault)


@pytest.mark.parametrize("kind", Fault, ids=lambda kind: kind.value)
def test_a_problem_carries_the_code_of_its_kind(kind: Fault) -> None:
    data, kinds = EXAMPLES[kind]
    assert [problem.code for problem in record(kind, data).problems] == kinds


def test_ndjson_has_a_problems_code_beside_its_words() -> None:
    frame = decode(RawFrame.of(changed(2, "0100")))
    row = as_json(Record(1, frame, interpret(frame, collections=False), None))
    assert json.loads(json.dumps(row["problems"])) == [
        {
            "code": "lengths_contradict",
            "text": "key length says 256 (bytes 2,3) but total body leaves 10",
            "offset": 2,
            "length": 2,
        }
    ]
