"""Twins: the connections of a capture in clear text, sealed: the same text in TLS, at the same times."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.endpoints import Connection
from dcpdump.net.event import Bytes, End
from dcpdump.net.packet import Packet
from tests.support.captures import Record, pcap
from tests.support.packets import ACK, FIN, PSH, RST, SYN, ethernet, ipv4_tcp, ipv6_tcp
from tests.tls.encoder import CLIENT, SERVER, Script

_MTU = 1_448


@dataclass
class _Line:
    """One connection as it is written."""

    connection: Connection
    script: Script
    seqs: list[int] = field(default_factory=lambda: [1_000, 5_000])

    def packet(self, direction: int, payload: bytes, flags: int = ACK | PSH) -> bytes:
        flow = self.connection.toward(direction)
        make = ipv6_tcp if ":" in flow.src.host else ipv4_tcp
        ack = self.seqs[1 - direction] if flags & ACK else 0
        made = ethernet(make(flow, self.seqs[direction] & 0xFFFFFFFF, payload, flags=flags, ack=ack & 0xFFFFFFFF))
        self.seqs[direction] += len(payload) + bool(flags & (SYN | FIN))
        return made


@dataclass
class Twin:
    """A sealed capture, and its key log."""

    packets: list[Record]
    keylog: bytes

    @property
    def pcap(self) -> bytes:
        return pcap(self.packets)


def seal(
    packets: Iterable[Packet],
    *,
    version: int = 0x0304,
    suite: int = 0x1301,
    size: int = 16_384,
    mtu: int = _MTU,
    together: int = 0,
) -> Twin:
    """Seal what connections say, in records of at most ``size`` bytes; ``together``: text gathered into one write."""
    connections, lines = Connections(), dict[int, _Line]()
    out: list[Record] = []
    waiting: dict[tuple[int, int], bytes] = {}

    def flush(line: _Line, ts: int) -> None:
        for direction, flights in groupby(line.script.flights, key=itemgetter(0)):
            data = b"".join(data for _, data in flights)
            for at in range(0, len(data), mtu):
                out.append(Record(ts, line.packet(direction, data[at : at + mtu])))
        line.script.flights.clear()
        line.script.texts = [b"", b""]

    def say(line: _Line, direction: int, ts: int) -> None:
        text = waiting.pop((line.connection.number, direction), b"")
        if text:
            line.script.say(direction, text, size)
            flush(line, ts)

    def take(deliveries: Iterable[Delivery]) -> None:
        for connection, direction, event in deliveries:
            line = lines.get(connection.number)
            if line is None:
                line = lines[connection.number] = _Line(connection, Script(version, suite, f"c{connection.number}"))
                ts = event.seen.ts_ns or 0
                out.append(Record(ts, line.packet(CLIENT, b"", SYN)))
                out.append(Record(ts, line.packet(SERVER, b"", SYN | ACK)))
                line.script.handshake()
                flush(line, ts)
            if isinstance(event, Bytes):
                key = (connection.number, direction)
                say(line, 1 - direction, event.seen.ts_ns or 0)
                waiting[key] = waiting.get(key, b"") + event.data
                if len(waiting[key]) > together:
                    say(line, direction, event.seen.ts_ns or 0)
            elif isinstance(event, End):
                for way in (direction, 1 - direction):
                    say(line, way, event.seen.ts_ns or 0)
                flags = {"fin": FIN | ACK, "rst": RST | ACK}.get(event.reason)
                if flags and not event.by_peer:
                    out.append(Record(event.seen.ts_ns or 0, line.packet(direction, b"", flags)))

    for packet in packets:
        take(connections.feed(packet))
    take(connections.close())
    for line in lines.values():  # the capture ends when the other one does
        out.append(Record(connections.last.ts_ns or 0, line.packet(CLIENT, b"", ACK)))
        break
    return Twin(out, b"".join(line.script.keylog for line in lines.values()))
