"""Frame hashes are equal when all that is shown of frames is the same, but for the numbers that a smaller capture
changes.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.net.packet import Packet
from dcpdump.record import as_json
from dcpdump.rewrite.needed import FrameSum, frame_hashes
from dcpdump.wire.encode import encode
from tests.rewrite.test_carving import NUMBERS
from tests.support.batch_rows import files
from tests.support.packets import NOON, TcpTalk, flow
from tests.support.pieces import parts_of
from tests.support.secret_talk import disturbed, talk


def gets() -> list[Packet]:
    """Return a client's requests on the same port, which are not DCP."""
    out = TcpTalk(segment=60)
    for number in range(12):
        out.send(0, encode("GET", key=b"\x08customer::%d" % number, opaque=number))
        out.send(1, encode("GET", response=True, value=b"{}" * number, opaque=number))
    return out.fin().packets


def shown(part: Part, row: int) -> str:
    flat = as_json(part.record(row), value_bytes=None)
    return repr({name: flat[name] for name in flat if name not in NUMBERS})


def readings(packets: list[Packet]) -> Iterator[Sequence[Packet]]:
    """Yield a capture, and what others might have of the same conversation: less, and not in order."""
    yield packets
    for lost in range(3, 24, 2):  # without the answer to HELLO, to OPEN …
        yield packets[:lost] + packets[lost + 2 :]
    for seed in range(6):
        yield disturbed(packets, random.Random(seed))


@pytest.mark.parametrize("packets", [talk(300, 24).packets, talk(60, 8).packets, files("samples/replica.pcap"), gets()])
def test_frames_are_alike_where_what_is_shown_of_them_is(packets: list[Packet]) -> None:
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for reading in readings(packets):
        for part in parts_of(reading):
            for row, number in enumerate(frame_hashes(part, np.arange(len(part)))):
                numbers[shown(part, row)].add(number)
                texts[number].add(shown(part, row))
    assert {len(each) for each in numbers.values()} == {len(each) for each in texts.values()} == {1}


def last_hash(frame: bytes, flags: int = 1, way: str = "10.0.0.1:50000", at_ns: int = NOON) -> int:
    """Return the hash of the frame that a server sends last on a connection that was opened with flags."""
    made = TcpTalk(flow(way), start_ns=at_ns).send(0, encode("DCP_OPEN", {"flags": flags}, key=b"x"))
    made.send(1, encode("DCP_OPEN", response=True)).send(1, frame)
    *_, part = parts_of(made.packets)
    return int(frame_hashes(part, np.array([len(part) - 1]))[0])


@pytest.mark.parametrize(
    "frame",
    [encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"{}", datatype=1), encode("DCP_NOOP", response=True)],
    ids=["document", "answer"],
)
def test_the_same_bytes_at_another_time_or_on_another_connection_are_another_frame(frame: bytes) -> None:
    others = [last_hash(frame, way="10.0.0.1:50001"), last_hash(frame, at_ns=NOON + 1)]
    assert last_hash(frame) == last_hash(frame)
    assert len({last_hash(frame), *others}) == 3


def test_a_document_is_another_where_its_datatype_may_be_of_a_value_that_was_left_out() -> None:
    document = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"{}", datatype=1)
    assert last_hash(document) != last_hash(document, flags=0x41)


def test_sums_are_equal_where_frames_are_the_same_in_any_order() -> None:
    hashes = np.array([5, -7, 1 << 62, -(1 << 63), 5], np.int64)

    def of(*some: Array) -> FrameSum:
        found = FrameSum()
        for each in some:
            found.add(each)
        return found

    assert of(hashes) == of(hashes[::-1]) == of(hashes[:2], hashes[2:])
    others = [hashes[1:], hashes[[0, 1, 2, 3, 3]], np.append(hashes, 0), np.append(hashes[:4], 6)]
    assert [each for each in others if of(each) == of(hashes)] == []
