"""Make captures that are hostile by their shape: each of what grows, so many times.

SHAPES is the list. What is made of the same number is the same, byte by byte.
"""

import json
import random
from collections.abc import Callable

from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.support.captures import Pcapng, pcap, records_of
from tests.support.conversation import MAX
from tests.support.fields import snappy, xattr_block
from tests.support.packets import NOON, TcpTalk, flow

_STEP = 1000
_LOG = {"failover_log": [{"vbucket_uuid": 77, "seqno": 0}]}


def _talk(segment: int = 1448, *, port: int = 50_000, before: int = 0) -> TcpTalk:
    """Begin a connection behind so many packets."""
    ends = flow(f"10.{port >> 24 & 255}.{port >> 16 & 255}.9:{port & 0xFFFF}")
    start = NOON + before * _STEP
    return TcpTalk(ends, segment=segment, acks=False, step_ns=_STEP, number=1 + before, start_ns=start)


def _greeted(talk: TcpTalk, name: bytes = b"eq_dcpq:x") -> TcpTalk:
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=name, opaque=5))
    return talk.send(1, encode("DCP_OPEN", response=True, opaque=5))


def _opened(talk: TcpTalk | None = None, vbucket: int = 7) -> TcpTalk:
    talk = _greeted(talk or _talk())
    talk.send(0, encode("DCP_STREAM_REQ", {"end_seqno": MAX}, vbucket=vbucket, opaque=9))
    return talk.send(1, encode("DCP_STREAM_REQ", _LOG, response=True, opaque=9))


def _connections(count: int, speak: Callable[[TcpTalk, int], TcpTalk]) -> list[Packet]:
    """Return connections one after another, each as it is spoken."""
    out: list[Packet] = []
    for number in range(count):
        out += speak(_talk(port=20_000 + number, before=len(out)), number).packets
    return out


def mutations(count: int, *, key: bytes = b"k", size: int = 10, vbucket: int = 7, opaque: int = 9) -> bytes:
    """Return a snapshot of so many mutations."""
    marker = {"start_seqno": 1, "end_seqno": count, "snapshot_type": 1}
    frames = [encode("DCP_SNAPSHOT_MARKER", marker, vbucket=vbucket, opaque=opaque)]
    for seqno in range(1, count + 1):
        name = b"%s%d" % (key, seqno)
        given = {"by_seqno": seqno, "rev_seqno": 1}
        frames.append(encode("DCP_MUTATION", given, key=name, value=b"v" * size, vbucket=vbucket, opaque=opaque))
    return b"".join(frames)


def noops_without_answers(count: int) -> list[Packet]:
    """Return NOOPs of a producer, none answered."""
    talk = _opened()
    for number in range(count):
        talk.send(1, encode("DCP_NOOP", opaque=1000 + number))
    return talk.packets


def answers_without_noops(count: int) -> list[Packet]:
    """Return answers to NOOPs that nobody sent, many in a segment."""
    answers = b"".join(encode("DCP_NOOP", response=True, opaque=number) for number in range(count))
    return _opened().send(0, answers).packets


def many_noops(count: int) -> list[Packet]:
    """Return NOOPs of a producer, many in a segment, none answered."""
    return _opened().send(1, b"".join(encode("DCP_NOOP", opaque=number) for number in range(count))).packets


def half_of_the_segments(count: int) -> list[Packet]:
    """Return a stream of which every second segment or so was lost."""
    dice, talk = random.Random(5), _opened(_talk(100))
    data = mutations(count, size=40)
    for at in range(0, len(data), 100):
        if dice.random() < 0.5:
            talk.send(1, data[at : at + 100])
        else:
            talk.skip(1, len(data[at : at + 100]))
    return talk.packets


def cache_transfers(count: int) -> list[Packet]:
    """Return one frame of the cache's items."""
    items = [{"key": b"\x08key", "value": b"v"}] * count
    return _opened().send(1, encode("DCP_CACHE_TRANSFER", {"items": items}, vbucket=7, opaque=9)).packets


def stray_segments(count: int) -> list[Packet]:
    """Return a stream with segments that are far from where it is."""
    dice, talk = random.Random(6), _opened()
    for number in range(count):
        seq = talk.seq(1)
        talk.write(1, mutations(1), seq=(seq + (100 << 20) + dice.randrange(1 << 30)) & 0xFFFFFFFF)
        if not number % 4:
            talk.send(1, encode("DCP_NOOP", opaque=number))
    return talk.packets


def unknown_opcodes(count: int) -> list[Packet]:
    """Return requests of an opcode that nobody knows."""
    return _opened().send(0, encode(0xE9, opaque=77) * count).packets


def tiny_frames(count: int) -> list[Packet]:
    """Return answers to NOOPs that nobody sent, and as many requests of an opcode that nobody knows."""
    talk = _opened()
    talk.send(1, b"".join(encode("DCP_NOOP", response=True, opaque=number) for number in range(count)))
    return talk.send(0, encode(0xE9, opaque=77) * count).packets


def short_connections(count: int) -> list[Packet]:
    """Return connections that are opened and closed."""
    return _connections(count, lambda talk, number: _greeted(talk, b"eq_dcpq:%d" % number).fin())


def silent_connections(count: int) -> list[Packet]:
    """Return connections that are opened, and not closed."""
    return _connections(count, lambda talk, number: _greeted(talk, b"eq_dcpq:%d" % number))


def mixed_connections(count: int) -> list[Packet]:
    """Return connections one after another: every tenth has a stream, every third an answer to nothing."""

    def speak(talk: TcpTalk, number: int) -> TcpTalk:
        if number % 10 == 0:
            _opened(talk).send(1, mutations(3))
        if number % 3 == 0:
            talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"eq_dcpq:%d" % number, opaque=5))
            nothing = encode("DCP_CONTROL", response=True, opaque=9)
            talk.send(1, encode("DCP_OPEN", response=True, opaque=5) + nothing)
        return talk.send(1, encode("DCP_NOOP", opaque=3)).fin()

    return _connections(count, speak)


def gets(count: int) -> list[Packet]:
    """Return documents that are requested by key, on the port of DCP."""
    talk = _opened()
    for number in range(0, count, 32):
        few = range(number, min(count, number + 32))
        talk.send(0, b"".join(encode("GET", key=b"key-%d" % each, vbucket=7, opaque=each) for each in few))
        talk.send(1, b"".join(encode("GET", response=True, value=b"{}", opaque=each) for each in few))
    return talk.packets


def names_of_collections(count: int) -> list[Packet]:
    """Return events that create collections, of one id again and again and of many."""
    talk = _opened()
    marker = {"start_seqno": 1, "end_seqno": count, "snapshot_type": 1}
    frames = [encode("DCP_SNAPSHOT_MARKER", marker, vbucket=7, opaque=9)]
    for number in range(count):
        at = 8 if number % 2 else 100 + number
        event = {"by_seqno": number + 1, "event": 0, "version": 0, "manifest_uid": number, "scope_id": 8}
        event["collection_id"] = at
        frames.append(encode("DCP_SYSTEM_EVENT", event, layout="0", key=b"name-%d" % number, vbucket=7, opaque=9))
    return talk.send(1, b"".join(frames)).packets


def manifests(count: int) -> list[Packet]:
    """Return answers with a manifest, each with another name."""
    talk = _opened()
    for number in range(count):
        collections = [{"name": f"c{number}-{each}", "uid": f"{8 + each:x}"} for each in range(4)]
        text = json.dumps({"uid": f"{number:x}", "scopes": [{"name": "s", "uid": "8", "collections": collections}]})
        talk.send(0, encode("COLLECTIONS_GET_MANIFEST", opaque=number))
        talk.send(1, encode("COLLECTIONS_GET_MANIFEST", response=True, value=text.encode(), opaque=number))
    return talk.packets


def large_manifest(count: int) -> list[Packet]:
    """Return an answer with one manifest of so many values."""
    return _manifest(b"[" + b"[]," * count + b"[]]")


def escapes(count: int) -> list[Packet]:
    """Return an answer with one manifest of a string of so many escapes, among many brackets."""
    return _manifest(b"[" * 101 + b'"' + b"\\n" * count + b'"' + b"]" * 101)


def _manifest(text: bytes) -> list[Packet]:
    talk = _opened(_talk(60_000)).send(0, encode("COLLECTIONS_GET_MANIFEST", opaque=3))
    answer = encode("COLLECTIONS_GET_MANIFEST", response=True, value=text, opaque=3, datatype=1)
    return talk.send(1, answer).packets


def reconnects(count: int) -> list[Packet]:
    """Return a client that opens its connection and its streams again and again."""
    return _three_streams_each(count, TcpTalk.rst)


def open_streams(count: int) -> list[Packet]:
    """Return connections with three streams each, none of them closed."""
    return _three_streams_each(count, lambda talk: talk)


def _three_streams_each(count: int, end: Callable[[TcpTalk], TcpTalk]) -> list[Packet]:
    def speak(talk: TcpTalk, number: int) -> TcpTalk:
        _greeted(talk)
        for vbucket in range(3):
            asked = {"end_seqno": MAX, "start_seqno": number, "vbucket_uuid": 77}
            asked |= {"snap_start_seqno": number, "snap_end_seqno": number}
            talk.send(0, encode("DCP_STREAM_REQ", asked, vbucket=vbucket, opaque=9 + vbucket))
            talk.send(1, encode("DCP_STREAM_REQ", _LOG, response=True, opaque=9 + vbucket))
        return end(talk)

    return _connections(count, speak)


def streams_in_turn(count: int) -> list[Packet]:
    """Return streams of one connection, one after another, each opened and ended after three messages."""
    talk = _opened(_talk(), vbucket=2000)
    for number in range(count):
        vbucket, opaque = number % 1024, 1000 + number
        talk.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 2}, vbucket=vbucket, opaque=opaque))
        frames = [
            encode("DCP_STREAM_REQ", _LOG, response=True, opaque=opaque),
            mutations(2, vbucket=vbucket, opaque=opaque),
            encode("DCP_STREAM_END", {"status": 0}, vbucket=vbucket, opaque=opaque),
        ]
        talk.send(1, b"".join(frames))
    return talk.packets


def mixed_streams(count: int) -> list[Packet]:
    """Return streams of one connection, one after another: ended, refused, rolled back, closed, with a broken rule."""
    talk = _opened(_talk(), vbucket=2000)
    for number in range(count):
        kind, opaque = number % 5, 1000 + number
        vbucket = 3000 + number if number % 3 else number // 3 % 256  # every third where one was before
        asked = {"end_seqno": MAX, "start_seqno": 5, "snap_start_seqno": 5, "snap_end_seqno": 5}
        talk.send(0, encode("DCP_STREAM_REQ", asked, vbucket=vbucket, opaque=opaque))
        if kind in (0, 1):
            status = 0x22 if kind else 0x23
            value = b"" if kind else bytes(8)
            talk.send(1, encode("DCP_STREAM_REQ", response=True, status=status, value=value, opaque=opaque))
            continue
        granted = encode("DCP_STREAM_REQ", _LOG, response=True, opaque=opaque)
        talk.send(1, granted + mutations(2, vbucket=vbucket, opaque=opaque))
        if kind == 2:
            again = {"by_seqno": 1, "rev_seqno": 1}
            talk.send(1, encode("DCP_MUTATION", again, key=b"again", vbucket=vbucket, opaque=opaque))
            talk.send(0, encode("DCP_CLOSE_STREAM", vbucket=vbucket, opaque=opaque))
            talk.send(1, encode("DCP_CLOSE_STREAM", response=True, opaque=opaque))
        else:
            talk.send(1, encode("DCP_STREAM_END", {"status": 4 - kind}, vbucket=vbucket, opaque=opaque))
    return talk.packets


def requests_without_answers(count: int) -> list[Packet]:
    """Return requests of streams, each with an opaque of its own, none answered."""
    talk = _opened()
    for number in range(count):
        talk.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, vbucket=number % 65_536, opaque=1000 + number))
    return talk.packets


def failover_logs(count: int) -> list[Packet]:
    """Return answers with failover logs of a hundred entries, none known before."""
    talk = _opened()
    for number in range(max(1, count // 100)):
        entries = [{"vbucket_uuid": number * 100 + at, "seqno": 100 - at} for at in range(100)]
        talk.send(0, encode("DCP_GET_FAILOVER_LOG", vbucket=7, opaque=number + 100))
        answer = encode("DCP_GET_FAILOVER_LOG", {"failover_log": entries}, response=True, opaque=number + 100)
        talk.send(1, answer)
    return talk.packets


def one_failover_log(count: int) -> list[Packet]:
    """Return streams of one vbucket, the answer to each a failover log that is longer."""
    talk = _greeted(_talk())
    talk.send(0, encode("DCP_STREAM_REQ", {"end_seqno": MAX}, vbucket=7, opaque=9))
    log = {"failover_log": [{"vbucket_uuid": 1 + at, "seqno": count - at} for at in range(count)]}
    return talk.send(1, encode("DCP_STREAM_REQ", log, response=True, opaque=9)).send(1, mutations(8)).packets


def documents(count: int) -> list[Packet]:
    """Return a stream of plain documents."""
    return _opened().send(1, mutations(count)).packets


def one_key(count: int) -> list[Packet]:
    """Return a stream that is started again and again, with a rollback each time, and a control that is set."""
    talk = _opened()
    for number in range(count):
        talk.send(0, encode("DCP_CONTROL", key=b"set_priority", value=b"%d" % number, opaque=number))
        asked = {"end_seqno": MAX, "start_seqno": 9 + number, "vbucket_uuid": 78}
        talk.send(0, encode("DCP_STREAM_REQ", asked, vbucket=7, opaque=number + 20))
        answer = encode("DCP_STREAM_REQ", response=True, status=0x23, value=bytes(8), opaque=number + 20)
        talk.send(1, answer)
    return talk.packets


def calm_then_lists(count: int) -> list[Packet]:
    """Return a megabyte or two of documents, and then HELLOs that list a thousand features each."""
    hello = encode("HELLO", {"features": list(range(1000))}, key=b"agent")
    return _opened().send(1, mutations(2_000, size=950)).send(0, hello * count).packets


def noops_behind_a_hole(count: int) -> list[Packet]:
    """Return NOOPs that wait for one that was lost, to the end of the capture."""
    return _opened().skip(1, 24).send(1, encode("DCP_NOOP", opaque=3) * count).packets


def compressed_xattrs(count: int) -> list[Packet]:
    """Return compressed documents with 16,000 extended attributes each."""
    value = snappy(xattr_block(*[(b"a", b"1")] * 16_000) + b"{}")
    given = {"rev_seqno": 1, "by_seqno": 1}
    document = encode("DCP_MUTATION", given, key=b"k", value=value, datatype=6, vbucket=7, opaque=9)
    return _opened().send(1, document * count).packets


def large_documents(count: int) -> list[Packet]:
    """Return compressed documents of 8 MB each."""
    value = snappy(bytes(8 << 20))
    document = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=value, datatype=2, vbucket=7, opaque=9)
    return _opened(_talk(32_000)).send(1, document * count).packets


SHAPES: dict[Callable[[int], list[Packet]], int] = {
    noops_without_answers: 10_000,
    many_noops: 40_000,
    answers_without_noops: 40_000,
    half_of_the_segments: 10_000,
    cache_transfers: 16_000,
    stray_segments: 6_000,
    unknown_opcodes: 40_000,
    short_connections: 1_200,
    gets: 16_000,
    names_of_collections: 12_000,
    manifests: 2_500,
    reconnects: 600,
    failover_logs: 60_000,
    one_failover_log: 60_000,
    documents: 12_000,
    one_key: 3_000,
}
"""The shapes, each with the number that makes about a megabyte."""


def in_pcap(packets: list[Packet]) -> bytes:
    """Return a capture of packets."""
    return pcap(records_of(packets))


def in_small_blocks(packets: list[Packet]) -> bytes:
    """Return a capture of packets as pcapng, with an interface for each, and comments."""
    write = Pcapng()
    out = [write.section()]
    for each in packets:
        out.append(write.interface(options=[(9, b"\x09")]))
        out.append(write.packet(each.ts_ns or 0, each.data, wire=each.wire_length, options=[(1, b"c")]))
    return b"".join(out)
