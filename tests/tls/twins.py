"""Twins: the connections of a capture in clear text, sealed: the same text in TLS, at the same times.

And captures of scripts, and all of them as files.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from dcpdump.capture.file import Capture
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.endpoints import Connection, Flow
from dcpdump.net.event import Bytes, End
from dcpdump.net.packet import Packet
from tests.support.captures import Record, pcap
from tests.support.console import Printed, run
from tests.support.packets import ACK, FIN, FLOW, PSH, RST, SYN, segment
from tests.tls.encoder import CLIENT, SERVER, Script

SAMPLES = Path(__file__).parents[2] / "samples"
REPLICA = SAMPLES / "replica.pcap"
_MTU = 1_448


@dataclass
class _Line:
    """One connection as it is written."""

    connection: Connection
    script: Script
    seqs: list[int] = field(default_factory=lambda: [1_000, 5_000])

    def packet(self, direction: int, payload: bytes, flags: int = ACK | PSH) -> bytes:
        flow, seq = self.connection.toward(direction), self.seqs[direction]
        ack = self.seqs[1 - direction] if flags & ACK else 0
        self.seqs[direction] = (seq + len(payload) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        return segment(flow, seq, payload, flags=flags, ack=ack)


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


def twin(version: int = 0x0304, suite: int = 0x1301) -> Twin:
    """Seal a sample."""
    return seal(Capture(str(REPLICA)), version=version, suite=suite)


def without_syn(whole: Twin, first: int) -> Twin:
    """Leave out the first packets: the capture began later."""
    return Twin(whole.packets[first:], whole.keylog)


def of(script: Script, there: Flow = FLOW) -> Twin:
    """Make a capture of the flights of a script, which begins with its connection."""
    ends, seqs = (there, there.reverse), [1_000, 5_000]
    out = [Record(0, segment(ends[0], 999, flags=SYN))]
    out.append(Record(1, segment(ends[1], 4_999, flags=SYN | ACK, ack=1_000)))
    for number, (way, data) in enumerate(script.flights):
        for at in range(0, len(data), 1_400):
            piece = data[at : at + 1_400]
            out.append(Record(1_000 * number, segment(ends[way], seqs[way], piece, flags=ACK, ack=seqs[1 - way])))
            seqs[way] += len(piece)
    return Twin(out, script.keylog)


class Files:
    """A capture and a key log in a folder of a test."""

    def __init__(self, folder: Path, made: Twin, keylog: bytes | None = None) -> None:
        self.capture, self.keys = folder / "tls.pcap", folder / "keys.log"
        self.capture.write_bytes(made.pcap)
        self.keys.write_bytes(made.keylog if keylog is None else keylog)
        self.keys.chmod(0o600)

    def read(self, more: str = "", command: str = "read") -> Printed:
        """Run a command with the key log."""
        return run(f"dcpdump {command} {self.capture} --keylog {self.keys} {more}")
