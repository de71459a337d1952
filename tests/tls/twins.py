"""Twins: the connections of a capture in clear text, sealed: the same text in TLS, at the same times.

And captures of scripts, and all of them as files.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from dcpdump.capture.file import Capture
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.endpoints import Flow
from dcpdump.net.event import Bytes, End
from dcpdump.net.packet import Packet
from tests.support.captures import Record, pcap, records_of
from tests.support.console import Printed, run
from tests.support.packets import ACK, FIN, FLOW, RST, TcpTalk
from tests.tls.encoder import CLIENT, Script

SAMPLES = Path(__file__).parents[2] / "samples"
REPLICA = SAMPLES / "replica.pcap"
_MTU = 1_448


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
    connections, lines = Connections(), dict[int, tuple[TcpTalk, Script]]()
    out: list[Record] = []
    waiting: dict[tuple[int, int], bytes] = {}

    def sent(talk: TcpTalk, ts: int) -> None:
        out.extend(Record(ts, packet.data) for packet in talk.packets)
        talk.packets.clear()

    def flush(number: int, ts: int) -> None:
        talk, script = lines[number]
        for direction, flights in groupby(script.flights, key=itemgetter(0)):
            talk.send(direction, b"".join(data for _, data in flights))
        sent(talk, ts)
        script.flights.clear()
        script.texts = [b"", b""]

    def say(number: int, direction: int, ts: int) -> None:
        text = waiting.pop((number, direction), b"")
        if text:
            lines[number][1].say(direction, text, size)
            flush(number, ts)

    def take(deliveries: Iterable[Delivery]) -> None:
        for connection, direction, event in deliveries:
            number, ts = connection.number, event.seen.ts_ns or 0
            if number not in lines:
                talk = TcpTalk(connection.toward(CLIENT), segment=mtu, acks=False)
                lines[number] = talk, Script(version, suite, f"c{number}").handshake()
                flush(number, ts)
            if isinstance(event, Bytes):
                say(number, 1 - direction, ts)
                waiting[number, direction] = waiting.get((number, direction), b"") + event.data
                if len(waiting[number, direction]) > together:
                    say(number, direction, ts)
            elif isinstance(event, End):
                for way in (direction, 1 - direction):
                    say(number, way, ts)
                flags = {"fin": FIN | ACK, "rst": RST | ACK}.get(event.reason)
                if flags and not event.by_peer:
                    sent(lines[number][0].write(direction, flags=flags).skip(direction, bool(flags & FIN)), ts)

    for packet in packets:
        take(connections.feed(packet))
    take(connections.close())
    if lines:  # the capture ends when the other one does
        sent(next(iter(lines.values()))[0].write(CLIENT), connections.last.ts_ns or 0)
    return Twin(out, b"".join(script.keylog for _, script in lines.values()))


def twin(version: int = 0x0304, suite: int = 0x1301) -> Twin:
    """Seal a sample."""
    return seal(Capture(str(REPLICA)), version=version, suite=suite)


def without_syn(whole: Twin, first: int) -> Twin:
    """Leave out the first packets: the capture began later."""
    return Twin(whole.packets[first:], whole.keylog)


def of(script: Script, there: Flow = FLOW) -> Twin:
    """Make a capture of the flights of a script, which begins with its connection."""
    talk = TcpTalk(there, segment=1_400, acks=False, start_ns=0, step_ns=1_000)
    for way, data in script.flights:
        talk.send(way, data)
    return Twin(records_of(talk), script.keylog)


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
