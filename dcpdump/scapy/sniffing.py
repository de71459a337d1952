"""Convert scapy's packets to frames as scapy's packets: for ``sniff``, for lists, or one by one."""

from collections.abc import Iterable, Iterator
from typing import Any

from scapy.config import conf
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet as ScapyPacket
from scapy.sessions import DefaultSession

from dcpdump.dissect import Dissector
from dcpdump.net.packet import Packet
from dcpdump.record import Record
from dcpdump.scapy.packets import DCP


def to_packet(packet: Any, number: int = 1) -> Packet:
    """Return a packet of scapy's as a Packet: its captured bytes, its time, its link type."""
    data = packet.original or bytes(packet)
    seconds = packet.time
    link_type = conf.l2types.layer2num.get(type(packet), 1)
    return Packet(number, int(seconds * 10**9), link_type, bytes(data), packet.wirelen or len(data))


def packets_of(sources: Iterable[Any]) -> Iterator[Packet]:
    """Yield scapy's packets, or lists of them, as Packets numbered from 1."""
    flat = (each for one in sources for each in ([one] if isinstance(one, ScapyPacket) else one))
    for number, packet in enumerate(flat, 1):
        if not isinstance(packet, ScapyPacket):
            what = type(packet).__name__
            raise TypeError(f"{what} is no packet of scapy's; paths of captures are given one by one: read(*paths)")
        yield to_packet(packet, number)


def to_scapy(record: Record) -> Any:
    """Return the frame of a record as a packet of scapy's, with its time."""
    raw = record.frame.raw
    packet = DCP(raw.data)
    if raw.where.ts_ns is not None:
        packet.time = raw.where.ts_ns / 10**9
    return packet


#: For larger frames the length in the IP header is 0, as with segmentation by the network card.
_MOST = 65_000
#: How many packets are kept for the headers of frames that wait for earlier bytes.
_KEPT = 1_024


class DCPSession(DefaultSession):  # type: ignore[misc]
    """A session for ``sniff``: frames of DCP instead of the segments that carried them; other packets as they are.

    A frame comes as soon as it is complete, which may be with a packet of the other direction that acknowledges earlier
    bytes. It has the headers of the packet that carried its end, or new headers with its addresses if that packet is no
    longer kept. Incomplete frames follow at the end of a capture.
    """

    def __init__(self, supersession: Any = None) -> None:
        super().__init__(supersession)
        self._dissector = Dissector()
        self._count = 0
        self._carriers: dict[int, Any] = {}  #: the last packets, by number
        self._first: dict[tuple[str, int], int] = {}  #: sequence numbers of directions' first bytes

    def recv(self, sock: Any) -> Iterator[Any]:
        """Yield the frames that the socket's next packet completes."""
        try:
            packet = sock.recv()
        except EOFError:
            yield from map(self._with_headers, self._dissector.drain())
            raise
        if not packet:
            return
        if self.supersession:
            packet = self.supersession.process(packet)
            if packet is None:
                return
        self._count += 1
        tcp = packet.getlayer(TCP)
        if tcp is not None:
            self._carriers[self._count] = packet
            if "S" in tcp.flags:
                self._first[_ends(tcp)] = tcp.seq + 1
            elif len(tcp.payload):
                self._first.setdefault(_ends(tcp), tcp.seq)
        records = self._dissector.feed(to_packet(packet, self._count))
        yield from map(self._with_headers, records)
        carried = any(record.frame.raw.where.packet == self._count for record in records)
        if not carried and not packet.haslayer(DCP):
            yield packet
        self._carriers.pop(self._count - _KEPT, None)

    def _with_headers(self, record: Record) -> Any:
        """Return a record's frame with the headers of the packet that carried its end."""
        raw = record.frame.raw
        frame = to_scapy(record)
        carrier = self._carriers.get(raw.where.packet)
        if carrier is None:
            carrier = _between(record.src, record.dst)
            carrier.time = frame.time
        ends = _ends(carrier[TCP])
        return _below(carrier, frame, self._first.get(ends, carrier[TCP].seq) + raw.offset)


def _ends(tcp: Any) -> tuple[str, int]:
    """Return the key of a direction: the sender's address and port, and the receiver's port."""
    return f"{tcp.underlayer.src if tcp.underlayer is not None else ''} {tcp.sport}", tcp.dport


def _between(src: str, dst: str) -> Any:
    """Return headers for a frame without known headers."""
    (source, sport), (target, dport) = (end.rpartition(":")[::2] for end in (src, dst))
    ip = IPv6 if ":" in source else IP
    return ip(src=source.strip("[]"), dst=target.strip("[]")) / TCP(sport=int(sport), dport=int(dport), flags="PA")


def _below(packet: Any, frame: Any, seq: int) -> Any:
    """Return a frame with the headers of a packet, as its only payload.

    So frames can be written and read again: lengths and checksums are filled in when the packet is built.
    """
    headers = packet.copy()
    headers.original = b""
    tcp = headers[TCP]
    tcp.remove_payload()
    tcp.add_payload(frame)
    tcp.seq = seq & 0xFFFFFFFF
    tcp.chksum = None
    ip = tcp.underlayer
    whole = len(frame) <= _MOST
    if isinstance(ip, IP):
        ip.len, ip.chksum = None if whole else 0, None
    elif isinstance(ip, IPv6):
        ip.plen = None if whole else 0
    headers.time, headers.wirelen = packet.time, None
    return headers
