"""Make the sample captures: small conversations, each frame from the protocol table's own encoder.

    python samples/make.py [FOLDER]

writes the captures beside this script (or into FOLDER), the same bytes every time.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from dcpdump.wire.encode import encode
from dcpdump.wire.value import leb128

sys.path.insert(0, str(Path(__file__).parent.parent))  # run as a script, it is in no package

from samples.builder import (
    CAS,
    COLLECTIONS,
    JSON,
    MAX,
    OLD_UUID,
    SNAPPY,
    TRACING,
    UUID,
    XATTR,
    XERROR,
    Stream,
    Talk,
    connect,
    hello,
    log_in,
    noop,
    open_dcp,
    pcap,
)

# -- the samples --------------------------------------------------------------------------------------------


def replica(talk: Talk) -> list[bytes | int]:
    """Return a replica stream: set-up, a disk snapshot, a memory snapshot, flow control, keep-alive, the end."""
    stream = Stream(528, 0x1210)
    hello(talk, b'{"a":"ns_server","i":"replica"}', [XATTR, SNAPPY, JSON], [XATTR, SNAPPY, JSON])
    log_in(talk, b"travel")
    controls = {"enable_noop": "true", "set_noop_interval": "20", "connection_buffer_size": "10485760"}
    open_dcp(talk, b"replication:n_0->n_1:travel", 0x05, **controls)
    talk.client(stream.request(0))
    talk.server(stream.granted())
    talk.server(stream.marker(0, 4, 0x06))
    for seqno in (1, 2):
        talk.server(stream.mutation(seqno, b"user::%d" % (1000 + seqno), b'{"name":"user %d"}' % seqno, datatype=1))
    gone = {"by_seqno": 4, "rev_seqno": 2}
    talk.server(stream.says("DCP_DELETION", gone, layout="1", key=b"user::999", cas=CAS + 4))
    talk.server(encode("DCP_NOOP", opaque=0x81969800))
    talk.client(encode("DCP_NOOP", response=True, opaque=0x81969800))
    talk.client(encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": 259}, opaque=20))
    talk.server(stream.marker(5, 6, 0x05), stream.mutation(5, b"hello", b"world"))
    talk.server(stream.mutation(6, b"big", b"0123456789" * 400))
    talk.server(stream.says("DCP_STREAM_END", {"status": 2}))
    return talk.close()


def client_rollback(talk: Talk) -> list[bytes | int]:
    """Return a client with collections: rolled back, requests again with a filter and a stream id, sees a collection
    begin.
    """
    stream = Stream(12, 0x0C, stream_id=3)
    features = [XATTR, XERROR, SNAPPY, JSON, COLLECTIONS]
    hello(talk, b'{"a":"kafka-connector","i":"7f"}', [*features, TRACING], features)
    log_in(talk, b"shop")
    open_dcp(talk, b"kafka:7f", 0x25, enable_noop="true", enable_stream_id="true", enable_expiry_opcode="true")
    talk.client(stream.request(110_208, value=b'{"sid":3}'))
    talk.server(stream.rolled_back(90))
    talk.client(stream.request(90, value=b'{"collections":["8"],"sid":3,"uid":"5"}'))
    talk.server(stream.granted(90))
    began = {"by_seqno": 91, "event": 0, "version": 0, "manifest_uid": 6, "scope_id": 8, "collection_id": 8}
    expired = {"by_seqno": 93, "rev_seqno": 3, "delete_time": 1_763_640_100}
    carts = leb128(8)
    talk.server(
        stream.marker(90, 95, 0x02),
        stream.says("DCP_SYSTEM_EVENT", began, key=b"carts"),
        stream.mutation(92, carts + b"cart::1", b'{"items":2}', datatype=1),
        stream.says("DCP_EXPIRATION", expired, key=carts + b"cart::0", cas=CAS + 93),
        stream.says("DCP_SEQNO_ADVANCED", {"by_seqno": 95}),
    )
    talk.client(Stream(12, 0x33, stream_id=3).says("DCP_CLOSE_STREAM"))
    talk.server(encode("DCP_CLOSE_STREAM", response=True, opaque=0x33))
    return talk.close()


def takeover(talk: Talk) -> list[bytes | int]:
    """Return a rebalance that hands a vbucket over: acknowledged snapshot, pending, active, the end."""
    stream = Stream(77, 0x4D)
    hello(talk, b"rebalance", [XATTR], [XATTR])
    open_dcp(talk, b"rebalance:77", 0x05, enable_noop="true")
    talk.client(stream.request(100, flags=0x01))
    talk.server(stream.granted(), stream.marker(100, 101, 0x0D), stream.mutation(101, b"last", b"one"))
    talk.client(encode("DCP_SNAPSHOT_MARKER", response=True, opaque=stream.opaque))
    for state in (3, 1):
        talk.server(stream.says("DCP_SET_VBUCKET_STATE", {"state": state}))
        talk.client(encode("DCP_SET_VBUCKET_STATE", response=True, opaque=stream.opaque))
    talk.server(stream.says("DCP_STREAM_END", {"status": 0}))
    return talk.close()


def durable(talk: Talk) -> list[bytes | int]:
    """Return durable writes on a replica with markers V2.2: prepared, acknowledged, committed, aborted."""
    stream = Stream(5, 0x05)
    hello(talk, b"replica", [XATTR, COLLECTIONS], [XATTR, COLLECTIONS])
    controls = {"enable_noop": "true", "enable_sync_writes": "true", "consumer_name": "n_2"}
    open_dcp(talk, b"replication:n_0->n_2:bank", 0x05, **controls, max_marker_version="2.2")
    talk.client(stream.request(0))
    talk.server(stream.granted())
    v22 = {"max_visible_seqno": 2, "high_completed_seqno": 1, "purge_seqno": 0, "high_prepared_seqno": 1}
    first, second = b"\0account::1", b"\0account::2"
    talk.server(stream.marker(0, 2, 0x06, **v22), stream.mutation(2, first, b'{"balance":10}', datatype=1))
    talk.server(stream.marker(3, 5, 0x05, max_visible_seqno=5, high_completed_seqno=0))
    prepare = {"by_seqno": 3, "rev_seqno": 2, "durability_level": 1}
    talk.server(stream.says("DCP_PREPARE", prepare, key=first, value=b'{"balance":20}', datatype=1, cas=CAS + 3))
    talk.client(stream.says("DCP_SEQNO_ACKNOWLEDGED", {"prepared_seqno": 3}))
    talk.server(stream.says("DCP_COMMIT", {"prepared_seqno": 3, "commit_seqno": 4}, key=first))
    prepare |= {"by_seqno": 5, "durability_level": 3}
    talk.server(stream.says("DCP_PREPARE", prepare, key=second, value=b"{}", datatype=1, cas=CAS + 5))
    talk.server(stream.marker(6, 6, 0x01, max_visible_seqno=6, high_completed_seqno=0))
    talk.server(stream.says("DCP_ABORT", {"prepared_seqno": 5, "abort_seqno": 6}, key=second))
    return talk.close()


def damage(talk: Talk) -> list[bytes | int]:
    """Return damage: swapped and repeated segments, one that was never captured, a frame whose lengths are wrong."""
    talk.segment = 100
    stream = Stream(7, 0x07)
    hello(talk, b"indexer", [XATTR], [XATTR])
    open_dcp(talk, b"indexer:3f2", 0x01, enable_noop="true")
    talk.client(stream.request(0))
    talk.server(stream.granted(), stream.marker(0, 40, 0x06))
    before = len(talk.packets)
    lying = bytearray(stream.mutation(5, b"liar", b"?"))
    lying[3] = 0x40  # a key of 64 bytes in a body of 36
    frames = [stream.mutation(n, b"doc::%02d" % n, b"x" * (20 + 7 * n)) for n in range(1, 13)]
    talk.server(*frames[:4], bytes(lying), *frames[5:])
    packets = talk.packets
    packets[before], packets[before + 1] = packets[before + 1], packets[before]  # out of order
    packets.insert(before + 4, packets[before + 3])  # sent twice
    del packets[before + 9]  # lost by the capture
    return talk.close()


def stopped(talk: Talk) -> list[bytes | int]:
    """Return three vbuckets of a connector: one ended and was not requested again, one is quiet, one continues."""
    connect(talk)
    gone, quiet, busy = Stream(417, 0x1A1), Stream(12, 0x0C), Stream(13, 0x0D)
    for stream in (gone, quiet, busy):
        talk.client(stream.request(100)).server(stream.granted(90), stream.marker(100, 102, 0x05))
        talk.server(stream.mutation(101, b"a", b"{}"), stream.mutation(102, b"b", b"{}"))
    talk.wait(60).server(gone.says("DCP_STREAM_END", {"status": 4}))
    for number in range(4):
        talk.wait(30)
        noop(talk, 0x81969800 + number)
        at = 103 + number
        talk.server(busy.marker(at, at, 0x01), busy.mutation(at, b"c", b"{}"))
    return talk.packets


def rollback_loop(talk: Talk) -> list[bytes | int]:
    """Return a client with a uuid that the server does not know, which does not go back when it is asked to."""
    connect(talk)
    stream = Stream(762, 0x2FA)
    talk.client(encode("DCP_GET_FAILOVER_LOG", vbucket=762, opaque=0x99))
    log = {"failover_log": [{"vbucket_uuid": UUID, "seqno": 7}, {"vbucket_uuid": OLD_UUID, "seqno": 0}]}
    talk.server(encode("DCP_GET_FAILOVER_LOG", log, response=True, opaque=0x99))
    for _ in range(12):
        talk.client(stream.request(4, vbucket_uuid=1, snap_end_seqno=MAX)).server(stream.rolled_back(0)).wait(5)
    return talk.close()


def refused(talk: Talk) -> list[bytes | int]:
    """Return requests that a server refuses: a start outside its snapshot, and a stream that is open already."""
    connect(talk)
    wrong, twice = Stream(723, 0x2D3), Stream(5, 0x05)
    talk.client(wrong.request(110_208, snap_start_seqno=110_209, snap_end_seqno=110_209)).server(wrong.refused(0x22))
    talk.client(twice.request(0)).server(twice.granted(), twice.marker(0, 1, 0x05), twice.mutation(1, b"a", b"{}"))
    again = Stream(5, 0x06)
    talk.client(again.request(1)).server(again.refused(0x02))
    return talk.packets


def history(talk: Talk) -> list[bytes | int]:
    """Return the history of a document: stored, changed, deleted; and others around it."""
    connect(talk)
    stream = Stream(300, 0x12C)
    gone = {"by_seqno": 5530, "rev_seqno": 3}
    talk.client(stream.request(5510)).server(stream.granted(90), stream.marker(5510, 5513, 0x05))
    talk.server(
        stream.mutation(5512, b"user::1001", b'{"name":"Zoe"}', datatype=1), stream.mutation(5513, b"user::1191", b"{}")
    )
    talk.wait(20).server(stream.marker(5529, 5530, 0x01), stream.mutation(5529, b"user::1773", b"{}", datatype=1))
    talk.server(stream.says("DCP_DELETION", gone, layout="1", key=b"user::1001", cas=CAS + 5530))
    return talk.packets


def ended_at_once(talk: Talk) -> list[bytes | int]:
    """Return a client that gets a stream at last, with an end seqno that is not above its start."""
    connect(talk)
    stream = Stream(8, 0x08)
    talk.client(stream.request(9, snap_start_seqno=10, snap_end_seqno=10, vbucket_uuid=0)).server(stream.refused(0x22))
    talk.client(stream.request(9, vbucket_uuid=0)).server(stream.rolled_back(0))
    talk.client(stream.request(0, end=0)).server(stream.granted(), stream.says("DCP_STREAM_END", {"status": 0}))
    return talk.packets


def slow_consumer(talk: Talk) -> list[bytes | int]:
    """Return a consumer that never acknowledges SEQNO_ADVANCED: its window fills up for good."""
    features = [XATTR, SNAPPY, JSON, COLLECTIONS]
    connect(talk, features=features, connection_buffer_size="1900")
    stream = Stream(9, 0x09)
    talk.client(stream.request(0)).server(stream.granted(), stream.marker(0, 2, 0x05))
    size = 44
    for seqno in range(1, 121, 2):
        item = stream.mutation(seqno, b"\0order::%03d" % seqno, b"{}", datatype=1)
        if seqno > 1:
            marker = stream.marker(seqno, seqno + 1, 0x01)
            talk.server(marker)
            size += len(marker)
        talk.server(item, stream.says("DCP_SEQNO_ADVANCED", {"by_seqno": seqno + 1})).wait(0.1)
        talk.client(encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": size + len(item)}, opaque=seqno))
        size = 0
    noop(talk.wait(40), 0x81969800)
    return talk.packets


def silent(talk: Talk) -> list[bytes | int]:
    """Return a client that stops answering NOOPs; the server closes the connection."""
    connect(talk)
    stream = Stream(2, 0x02)
    talk.client(stream.request(0)).server(stream.granted(), stream.marker(0, 1, 0x05), stream.mutation(1, b"a", b"{}"))
    for number in range(2):
        noop(talk.wait(120), 0x81969800 + number)
    talk.wait(120).server(encode("DCP_NOOP", opaque=0x81969802)).wait(120.2)
    return talk.hang_up().packets


def no_end(talk: Talk) -> list[bytes | int]:
    """Return a backup that waits for the end of a stream whose items were all sent; its other streams ended."""
    connect(talk, b"cbbackupmgr", agent=b'{"a":"cbbackupmgr","i":"b1"}')
    for stream in (Stream(4, 0x04), Stream(5, 0x05)):
        talk.client(stream.request(0, end=3)).server(stream.granted(), stream.marker(0, 3, 0x06))
        talk.server(*(stream.mutation(seqno, b"doc::%d" % seqno, b"{}", datatype=1) for seqno in (1, 2, 3)))
    talk.server(Stream(4, 0x04).says("DCP_STREAM_END", {"status": 0})).wait(300)
    noop(talk, 0x81969800)
    return talk.packets


def order(talk: Talk) -> list[bytes | int]:
    """Return a seqno that comes twice: first as SEQNO_ADVANCED, then as a mutation."""
    stream = Stream(5, 0x05)
    features = [XATTR, SNAPPY, JSON, COLLECTIONS]
    hello(talk, b"app", features, features)
    log_in(talk, b"shop")
    open_dcp(talk, b"app:1", 0x05, enable_noop="true")
    talk.client(stream.request(0)).server(stream.granted(), stream.marker(0, 17, 0x05))
    talk.server(stream.mutation(16, b"\0a", b"{}", datatype=1), stream.says("DCP_SEQNO_ADVANCED", {"by_seqno": 17}))
    talk.server(stream.mutation(17, b"\0b", b"{}", datatype=1))
    return talk.packets


START_NS = 1_763_640_131_000_000_000  # 2025-11-20T12:02:11Z
MINUTE_NS = 60_000_000_000
KV, REPLICATION = 11210, 11209


class Sample(NamedTuple):
    """A capture: its conversation, and the port of the server that it is with."""

    make: Callable[[Talk], list[bytes | int]]
    port: int = KV


#: Each is of a network of its own, and begins a minute after the one before: together they are one archive.
SAMPLES: dict[str, Sample] = {
    "client-rollback": Sample(client_rollback),
    "replica": Sample(replica, REPLICATION),
    "takeover": Sample(takeover, REPLICATION),
    "durable": Sample(durable, REPLICATION),
    "damage": Sample(damage),
    "stopped": Sample(stopped),
    "rollback-loop": Sample(rollback_loop),
    "refused": Sample(refused),
    "history": Sample(history),
    "ended-at-once": Sample(ended_at_once),
    "slow-consumer": Sample(slow_consumer),
    "silent": Sample(silent),
    "no-end": Sample(no_end),
    "order": Sample(order),
}


def made() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every sample capture."""
    for place, (name, sample) in enumerate(SAMPLES.items()):
        talk = Talk(f"10.0.{place}.9:{50_312 + place}", f"10.0.{place}.1:{sample.port}")
        yield f"{name}.pcap", pcap(sample.make(talk), START_NS + place * MINUTE_NS)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, data in made():
        (folder / name).write_bytes(data)
