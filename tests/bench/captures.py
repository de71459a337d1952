"""Captures to measure with: replica traffic of a few connections, the same bytes every time.

Wire-like ones have segments of 1,448 bytes, loopback-like ones of 32 KiB; in mislabelled ones no value that is marked
JSON is JSON, of lossy ones a packet in a thousand is missing. Every frame is the encoder's own.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam

from dcpdump.wire.encode import encode
from dcpdump.wire.value import leb128
from tests.support.captures import Record, pcap_header, pcap_record
from tests.support.conversation import MAX
from tests.support.packets import ACK, PSH, SYN, flow, segment

MISLABELLED, LOSSY = "mislabelled", "lossy"
SEGMENTS = {"wire": 1448, "loopback": 32 * 1024, MISLABELLED: 1448, LOSSY: 1448}
LOST = 0.001  #: the share of packets that is missing in a lossy capture
#: Raised when what is written changes, so that an old file is not taken for a new one.
VERSION = 3

CONNECTIONS = 4
BURST = 64 * 1024  #: what one connection sends before the next has its turn
START_NS = 1_763_640_131_000_000_000
STEP_NS = 11_000
_CONTROLS = ((b"connection_buffer_size", b"20971520"), (b"enable_noop", b"true"), (b"set_noop_interval", b"120"))
JSON, SNAPPY = 0x01, 0x02


def capture(folder: Path, kind: str, frames: int, vbuckets: int = 1024) -> Path:
    """Return the capture of a kind with so many frames, made if it is not there yet."""
    path = folder / f"{kind}-{frames}-{vbuckets}-v{VERSION}.pcap"
    if not path.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.writelines(_records(kind, frames, vbuckets))
        os.replace(part, path)
    return path


class Talk:
    """One TCP connection: bytes of either side become records of a pcap."""

    def __init__(self, number: int, size: int) -> None:
        self._size, self._seq = size, [1_000_000 * (number + 1), 4_294_000_000 - number]
        there = flow(f"10.0.0.{20 + number}:{50_000 + number}", "10.0.0.1:11210")
        self._ways = there, there.reverse

    def begun(self, vbuckets: range) -> Iterator[bytes]:
        """Yield the packets up to the last stream's response."""
        for side, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
            yield self._packet(side, b"", flags)
        for asked, answered in opening(vbuckets):
            yield from self.sent(0, asked)
            yield from self.sent(1, answered)

    def sent(self, side: int, data: bytes) -> Iterator[bytes]:
        """Yield the packets of data; every second segment and the last are acknowledged."""
        for number, at in enumerate(range(0, len(data), self._size), 1):
            yield self._packet(side, data[at : at + self._size], PSH | ACK)
            if number % 2 == 0 or at + self._size >= len(data):
                yield self._packet(1 - side, b"", ACK)

    def _packet(self, side: int, payload: bytes, flags: int) -> bytes:
        seq, ack = self._seq[side], self._seq[1 - side] if flags & ACK else 0
        self._seq[side] = (seq + len(payload) + bool(flags & SYN)) & 0xFFFFFFFF
        return segment(self._ways[side], seq, payload, flags=flags, ack=ack)


def _records(kind: str, frames: int, vbuckets: int) -> Iterator[bytes]:
    """Yield the capture piece by piece: the header of a pcap, then its records."""
    yield pcap_header()
    chance = random.Random(kind)
    for number, packet in enumerate(_packets(SEGMENTS[kind], frames, vbuckets, mislabelled=kind == MISLABELLED)):
        if kind != LOSSY or chance.random() >= LOST:
            yield pcap_record(Record(START_NS + number * STEP_NS, packet))


def _packets(size: int, frames: int, count: int, *, mislabelled: bool) -> Iterator[bytes]:
    vbuckets = [range(number, count, CONNECTIONS) for number in range(CONNECTIONS)]
    talks = [Talk(number, size) for number in range(CONNECTIONS)]
    for talk, mine in zip(talks, vbuckets, strict=True):
        yield from talk.begun(mine)
    sources = [documents(random.Random(number), mine, mislabelled=mislabelled) for number, mine in enumerate(vbuckets)]
    unread, spent = [0] * CONNECTIONS, sum(2 * len(list(opening(mine))) for mine in vbuckets)
    while spent < frames:
        for number, (talk, source) in enumerate(zip(talks, sources, strict=True)):
            run = b""
            while len(run) < BURST and spent < frames:
                run, spent = run + next(source), spent + 1
            yield from talk.sent(1, run)
            unread[number] += len(run)
            if unread[number] > 2_000_000 and spent < frames:
                spent += 1
                yield from talk.sent(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": unread[number]}))
                unread[number] = 0


def opening(vbuckets: range) -> Iterator[tuple[bytes, bytes]]:
    """Yield requests and their responses, up to the last stream's."""
    features = {"features": [0x06, 0x12, 0x0A, 0x0B]}
    yield encode("HELLO", features, key=b"bench", opaque=1), encode("HELLO", features, response=True, opaque=1)
    opening = encode("DCP_OPEN", {"flags": 5}, key=b"replication:bench-%d" % vbuckets.start, opaque=2)
    yield opening, encode("DCP_OPEN", response=True, opaque=2)
    for opaque, (name, value) in enumerate(_CONTROLS, 3):
        asked = encode("DCP_CONTROL", key=name, value=value, opaque=opaque)
        yield asked, encode("DCP_CONTROL", response=True, opaque=opaque)
    for vbucket in vbuckets:
        opaque = 0x1000 + vbucket
        asked = encode("DCP_STREAM_REQ", {"end_seqno": MAX}, vbucket=vbucket, opaque=opaque)
        log = {"failover_log": [{"vbucket_uuid": 0xA1F3_5C2D_0000 + vbucket, "seqno": 0}]}
        yield asked, encode("DCP_STREAM_REQ", log, response=True, opaque=opaque)


def documents(chance: random.Random, vbuckets: range, *, mislabelled: bool = False) -> Iterator[bytes]:
    """Yield snapshot after snapshot: a marker, then the documents that it announces."""
    seqnos = dict.fromkeys(vbuckets, 0)
    prefixes = [leb128(collection) for collection in (0, 8, 9, 300)]
    while True:
        vbucket = chance.choice(vbuckets)
        opaque, first, count = 0x1000 + vbucket, seqnos[vbucket] + 1, chance.randint(5, 60)
        marker = {"start_seqno": first, "end_seqno": first + count - 1, "snapshot_type": 1}
        yield encode("DCP_SNAPSHOT_MARKER", marker, layout="1", vbucket=vbucket, opaque=opaque)
        for seqno in range(first, first + count):
            key = chance.choice(prefixes) + b"user::%08d" % chance.randrange(10_000_000)
            cas = 0x1763_0000_0000_0000 + seqno
            if chance.random() < 0.04:
                gone = {"by_seqno": seqno, "rev_seqno": 2}
                yield encode("DCP_DELETION", gone, layout="1", key=key, vbucket=vbucket, opaque=opaque, cas=cas)
                continue
            value, datatype = _value(chance, mislabelled=mislabelled)
            given = {"by_seqno": seqno, "rev_seqno": 1}
            where: dict[str, Any] = {"vbucket": vbucket, "opaque": opaque, "cas": cas, "datatype": datatype}
            yield encode("DCP_MUTATION", given, layout="1", key=key, value=value, **where)
        seqnos[vbucket] += count


def _value(chance: random.Random, *, mislabelled: bool) -> tuple[bytes, int]:
    """Return a document and its datatype: mostly JSON, some of it compressed, some plain bytes.

    Of ``mislabelled`` JSON there is text that ends too soon, text that is something else, and bytes.
    """
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.randint(40, 500)), 0
    document = {
        "type": "user",
        "id": chance.randrange(10_000_000),
        "name": f"user {chance.randrange(10_000)}",
        "email": f"user{chance.randrange(10_000)}@example.com",
        "balance": chance.randrange(1_000_000) / 100,
        "tags": ["alpha", "beta", "gamma"][: chance.randint(0, 3)],
        "active": chance.random() < 0.5,
        "address": {"street": f"{chance.randrange(1000)} Main Street", "zip": chance.randrange(100_000)},
        "note": "lorem ipsum dolor sit amet " * chance.randint(0, 7),
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    if mislabelled:
        text = (text[:-1], b"user " + text, chance.randbytes(len(text)))[chance.randrange(3)]
    if kind < 0.15:
        return bytes(cramjam.snappy.compress_raw(text)), JSON | SNAPPY
    return text, JSON
