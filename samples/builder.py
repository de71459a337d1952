"""Build conversations: frames from the protocol table's own encoder, as the packets of a TCP connection."""

import struct
from dataclasses import dataclass

from dcpdump.wire.encode import Values, encode

STEP_NS = 250_000
MSS = 1448
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10

XATTR, COLLECTIONS, SNAPPY, JSON, XERROR, TRACING = 0x06, 0x12, 0x0A, 0x0B, 0x07, 0x0F
MAX = (1 << 64) - 1
CAS = 0x1763_0000_0000_0000
CONNECTOR = b'{"a":"kafka-connector","i":"7f"}'
UUID, OLD_UUID = 0x0000A1F3_5C2D_9E47, 0x0000_77AA_0011_2233


class Talk:
    """A TCP connection under construction: what each side sends becomes Ethernet packets with a time."""

    def __init__(self, client: str, server: str) -> None:
        self.ends = (_endpoint(client), _endpoint(server))
        self.seq = [1_000_000, 4_294_960_000]  # the server's numbers wrap soon
        self.segment = MSS
        self.packets: list[bytes | int] = []
        self._say(0, b"", SYN)
        self._say(1, b"", SYN | ACK)
        self._say(0, b"", ACK)

    def client(self, *frames: bytes) -> "Talk":
        """Send frames from the side that connected."""
        return self._send(0, b"".join(frames))

    def server(self, *frames: bytes) -> "Talk":
        """Send frames from the side that was connected to."""
        return self._send(1, b"".join(frames))

    def wait(self, seconds: float) -> "Talk":
        """Let time pass."""
        self.packets.append(round(seconds * 1_000_000_000))
        return self

    def hang_up(self) -> "Talk":
        """Close the connection from the server."""
        self._say(1, b"", FIN | ACK)
        return self

    def close(self) -> list[bytes | int]:
        """Close the connection, and return its packets."""
        self._say(0, b"", FIN | ACK)
        self._say(1, b"", FIN | ACK)
        self._say(0, b"", ACK)
        return self.packets

    def _send(self, side: int, data: bytes) -> "Talk":
        for at in range(0, len(data), self.segment):
            self._say(side, data[at : at + self.segment], PSH | ACK)
        self._say(1 - side, b"", ACK)
        return self

    def _say(self, side: int, payload: bytes, flags: int) -> None:
        (src, sport), (dst, dport) = self.ends[side], self.ends[1 - side]
        ack = self.seq[1 - side] if flags & ACK else 0
        tcp = struct.pack(">HHIIBBHHH", sport, dport, self.seq[side], ack, 0x50, flags, 0xFFFF, 0, 0) + payload
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), len(self.packets), 0x4000, 64, 6, 0, src, dst)
        self.packets.append(b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\0" + ip + tcp)
        self.seq[side] = (self.seq[side] + len(payload) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF


def _endpoint(text: str) -> tuple[bytes, int]:
    host, _, port = text.partition(":")
    return bytes(int(part) for part in host.split(".")), int(port)


def pcap(packets: list[bytes | int], start_ns: int) -> bytes:
    """Write packets as a classic pcap with microseconds, one packet every STEP_NS; a number is a pause in ns."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)]
    now = start_ns - STEP_NS
    for packet in packets:
        if isinstance(packet, int):
            now += packet
            continue
        now += STEP_NS
        seconds, ns = divmod(now, 1_000_000_000)
        out.append(struct.pack("<IIII", seconds, ns // 1000, len(packet), len(packet)) + packet)
    return b"".join(out)


# -- pieces of conversation ---------------------------------------------------------------------------------


def hello(talk: Talk, agent: bytes, asked: list[int], granted: list[int]) -> None:
    """Ask for features, and have some granted."""
    talk.client(encode("HELLO", {"features": asked}, key=agent, opaque=1))
    talk.server(encode("HELLO", {"features": granted}, response=True, opaque=1))


def log_in(talk: Talk, bucket: bytes) -> None:
    """Authenticate, and select a bucket."""
    talk.client(encode("SASL_AUTH", key=b"PLAIN", value=b"\0Administrator\0correct horse", opaque=2))
    talk.server(encode("SASL_AUTH", value=b"Authenticated", response=True, opaque=2))
    talk.client(encode("SELECT_BUCKET", key=bucket, opaque=3))
    talk.server(encode("SELECT_BUCKET", response=True, opaque=3))


def open_dcp(talk: Talk, name: bytes, flags: int, **controls: str) -> None:
    """Open a DCP connection, and set controls, which are all accepted."""
    talk.client(encode("DCP_OPEN", {"flags": flags}, key=name, opaque=4))
    talk.server(encode("DCP_OPEN", response=True, opaque=4))
    for opaque, (key, value) in enumerate(controls.items(), 5):
        talk.client(encode("DCP_CONTROL", key=key.encode(), value=value.encode(), opaque=opaque))
        talk.server(encode("DCP_CONTROL", response=True, opaque=opaque))


@dataclass(frozen=True)
class Stream:
    """One DCP stream: what its messages have in common."""

    vbucket: int
    opaque: int
    stream_id: int | None = None

    def says(
        self,
        message: str,
        values: Values | None = None,
        *,
        layout: str | None = None,
        key: bytes = b"",
        value: bytes = b"",
        cas: int = 0,
        datatype: int = 0,
    ) -> bytes:
        """Return one message of the stream."""
        return encode(
            message,
            values,
            layout=layout,
            key=key,
            value=value,
            cas=cas,
            datatype=datatype,
            vbucket=self.vbucket,
            opaque=self.opaque,
            stream_id=self.stream_id,
        )

    def request(self, start: int, *, end: int = MAX, flags: int = 0, value: bytes = b"", **other: int) -> bytes:
        """Return a stream request that resumes at ``start``."""
        fields = {
            "flags": flags,
            "start_seqno": start,
            "end_seqno": end,
            "vbucket_uuid": UUID if start else 0,
            "snap_start_seqno": start,
            "snap_end_seqno": start,
            **other,
        }
        return encode("DCP_STREAM_REQ", fields, value=value, vbucket=self.vbucket, opaque=self.opaque)

    def granted(self, seqno: int = 0) -> bytes:
        """Return the response that opens the stream, with its failover log."""
        log = [{"vbucket_uuid": UUID, "seqno": seqno}, {"vbucket_uuid": OLD_UUID, "seqno": 0}]
        return encode("DCP_STREAM_REQ", {"failover_log": log}, response=True, opaque=self.opaque)

    def refused(self, status: int) -> bytes:
        """Return the response that refuses the stream."""
        return encode("DCP_STREAM_REQ", response=True, status=status, opaque=self.opaque)

    def rolled_back(self, seqno: int) -> bytes:
        """Return the response that asks to go back to ``seqno``."""
        return encode("DCP_STREAM_REQ", {"rollback_seqno": seqno}, response=True, status=0x23, opaque=self.opaque)

    def marker(self, start: int, end: int, kind: int, **v2: int) -> bytes:
        """Return a snapshot marker: V1, or with more fields V2.0 or V2.2."""
        fields = {"start_seqno": start, "end_seqno": end, "snapshot_type": kind, **v2}
        layout = "2.2" if "purge_seqno" in v2 else "2.0" if v2 else "1"
        return self.says("DCP_SNAPSHOT_MARKER", fields, layout=layout)

    def mutation(self, seqno: int, key: bytes, value: bytes, *, datatype: int = 0) -> bytes:
        """Return the mutation of a document."""
        fields = {"by_seqno": seqno, "rev_seqno": 1}
        return self.says("DCP_MUTATION", fields, key=key, value=value, cas=CAS + seqno, datatype=datatype)


def connect(
    talk: Talk, name: bytes = b"kafka-7f", features: list[int] | None = None, agent: bytes = CONNECTOR, **controls: str
) -> None:
    """Have a connector say all that comes before its first stream request."""
    features = features or [XATTR, SNAPPY, JSON]
    hello(talk, agent, features, features)
    log_in(talk, b"shop")
    open_dcp(talk, name, 0x05, **{"enable_noop": "true", "set_noop_interval": "120", **controls})


def noop(talk: Talk, opaque: int) -> None:
    """Send a keep-alive, and answer it."""
    talk.server(encode("DCP_NOOP", opaque=opaque))
    talk.client(encode("DCP_NOOP", response=True, opaque=opaque))
