"""Make conversations full of secrets, in packets with true checksums, and the texts to search for afterwards."""

import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.support.captures import pcap, records_of
from tests.support.captures import pcapng as write_pcapng
from tests.support.console import run
from tests.support.fields import snappy, xattr_block
from tests.support.packets import TcpTalk

KEYS = [b"customer::%07d" % number for number in range(7_000_001, 7_000_025)]
NAME, TEXT, USER, PASSWORD = b"_crm-tags-field", b"gold-member-of-2019", b"Admin-Margarete", b"Tr0ub4dor&3-xyz"
BUCKET, COLLECTION, AGENT, CONNECTION = b"travel-sample", b"invoices-eu-1", b"orders-feed/1.4", b"eq_dcpq:xdcr-77"
HOST = b"db-17.corp.example.com"
#: What is gone in any case, and what names things.
PRIVATE = (*KEYS, NAME, TEXT, USER, PASSWORD)
#: Names of buckets and what may have them in it; and other names.
OF_BUCKETS = (BUCKET, AGENT, CONNECTION.removeprefix(b"eq_dcpq:"))
METADATA = (COLLECTION, HOST)


def document(number: int) -> bytes:
    """Return a JSON document with a secret."""
    return json.dumps({"owner": f"Ingeborg Nr {number}", "iban": f"DE89-3704-{number:08d}", "amount": 7000.5}).encode()


def xattrs(body: bytes) -> bytes:
    """Return a body behind an xattr."""
    return xattr_block((NAME, TEXT)) + body


def login() -> list[tuple[int, bytes]]:
    """Return the frames of both sides up to the first stream: (direction, bytes)."""
    features = {"features": [6, 0xA, 0xB, 0x12]}
    cluster = json.dumps({"rev": 7, "name": BUCKET.decode(), "nodesExt": [{"hostname": HOST.decode(), "n": 11210}]})
    return [
        (0, encode("HELLO", features, key=AGENT, opaque=1)),
        (1, encode("HELLO", features, response=True, opaque=1)),
        (0, encode("SASL_AUTH", key=b"PLAIN", value=b"\0" + USER + b"\0" + PASSWORD, opaque=2)),
        (1, encode("SASL_AUTH", response=True, value=b"Authenticated", opaque=2)),
        (0, encode("SELECT_BUCKET", key=BUCKET, opaque=3)),
        (1, encode("SELECT_BUCKET", response=True, opaque=3)),
        (0, encode("GET_CLUSTER_CONFIG", opaque=4, framing=bytes((0x4F, len(USER) - 15)) + USER)),
        (1, encode("GET_CLUSTER_CONFIG", response=True, value=cluster.encode(), datatype=1, opaque=4)),
        (0, encode("DCP_OPEN", {"flags": 5}, key=CONNECTION, value=b'{"consumer_name":"' + HOST + b'"}', opaque=5)),
        (1, encode("DCP_OPEN", response=True, opaque=5)),
        (0, encode("DCP_CONTROL", key=b"connection_buffer_size", value=b"10485760", opaque=6)),
        (1, encode("DCP_CONTROL", response=True, opaque=6)),
        (0, encode("DCP_STREAM_REQ", {"end_seqno": (1 << 64) - 1}, vbucket=7, opaque=9)),
        (1, encode("DCP_STREAM_REQ", {"failover_log": [{"vbucket_uuid": 77, "seqno": 0}]}, response=True, opaque=9)),
    ]


def documents(count: int = len(KEYS)) -> list[bytes]:
    """Return what the producer sends: all kinds of values, deletions, an event."""
    marker = {"start_seqno": 1, "end_seqno": count, "snapshot_type": 1}
    out = [encode("DCP_SNAPSHOT_MARKER", marker, vbucket=7, opaque=9)]
    event = {"by_seqno": 1, "event": 0, "version": 0, "manifest_uid": 3, "scope_id": 8, "collection_id": 9}
    out.append(encode("DCP_SYSTEM_EVENT", event, layout="0", key=COLLECTION, vbucket=7, opaque=9))
    for number in range(count):
        body = document(number)
        forms = ((body, 1), (snappy(body), 3), (xattrs(body), 5), (snappy(xattrs(body)), 7), (b"raw " + body[::-1], 0))
        value, datatype = forms[number % len(forms)]
        key = b"\x08" + KEYS[number % len(KEYS)]
        where: dict[str, Any] = {"vbucket": 7, "opaque": 9, "cas": 0x1234567890000 + number}
        if number % 7 == 6:
            gone = {"by_seqno": number + 2}
            out.append(encode("DCP_DELETION", gone, key=key, value=xattrs(b""), datatype=4, **where))
        else:
            given = {"by_seqno": number + 2, "rev_seqno": 1}
            out.append(encode("DCP_MUTATION", given, key=key, value=value, datatype=datatype, **where))
    return out


def talk(segment: int = 300, count: int = len(KEYS), **options: Any) -> TcpTalk:
    """Return a whole connection, from its first packet to its last."""
    out = TcpTalk(segment=segment, **options)
    for direction, data in login():
        out.send(direction, data)
    return out.send(1, b"".join(documents(count))).fin()


def words(data: bytes) -> int:
    """Return the sum of 16-bit words in ones' complement, one by one."""
    sum_ = 0
    for (word,) in struct.iter_unpack(">H", data + b"\0" * (len(data) % 2)):
        sum_ = (sum_ + word) % 0x10000 + (sum_ + word) // 0x10000
    return sum_


def checked(packet: Packet) -> Packet:
    """Return an Ethernet, IPv4 or IPv6, TCP packet with its checksums."""
    data = bytearray(packet.data)
    if data[12:14] == b"\x08\x00":
        data[24:26] = b"\0\0"
        data[24:26] = (0xFFFF - words(bytes(data[14:34]))).to_bytes(2, "big")
        start, addresses = 34, bytes(data[26:34])
    else:
        start, addresses = 54, bytes(data[22:54])
    data[start + 16 : start + 18] = b"\0\0"
    pseudo = addresses + struct.pack(">II", len(data) - start, 6)
    data[start + 16 : start + 18] = (0xFFFF - words(pseudo + bytes(data[start:]))).to_bytes(2, "big")
    return packet._replace(data=bytes(data))


def checksums_are_right(data: bytes) -> tuple[bool, bool]:
    """Return whether the IP header's and TCP's checksums are right, of Ethernet and IPv4."""
    pseudo = data[26:34] + struct.pack(">II", len(data) - 34, 6)
    return words(data[14:34]) == 0xFFFF, words(pseudo + data[34:]) == 0xFFFF


def saved(packets: Iterable[Packet], path: Path, *, pcapng: bool = False) -> Path:
    """Write packets into a file, with the lengths that they had on the wire."""
    path.write_bytes((write_pcapng if pcapng else pcap)(records_of(packets)))
    return path


def rows(path: Path, options: str = "") -> list[dict[str, Any]]:
    """Return what ``read`` prints of a capture, frame by frame."""
    printed = run(f"dcpdump read {path} -f ndjson -q {options}")
    return [json.loads(line) for line in printed.out.splitlines()]


def disturbed(packets: list[Packet], dice: random.Random) -> list[Packet]:
    """Lose, repeat and swap packets, and send some again with what came before them."""
    out: list[Packet] = []
    for packet in packets:
        fate = dice.random()
        if fate > 0.05 or len(packet.data) < 60:
            out.append(packet)
        if fate > 0.85:
            out.append(packet)
        if fate > 0.93 and len(out) > 4:
            out[-1], out[-3] = out[-3], out[-1]
    return out
