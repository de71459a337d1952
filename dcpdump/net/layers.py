"""Layers: a packet to its TCP segment, through link, IP, fragments and tunnels. Knows nothing of streams."""

import struct
from typing import Final, NamedTuple

from dcpdump.net import ip, link, tcp
from dcpdump.net.exported_pdu import LINK_TYPE, ExportedPdus
from dcpdump.net.ip import DatagramKey, Fragments, Puzzle
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import Segment

#: Both headers of a plain packet at once; the fourth or third value is a segment's key, addresses and ports.
_IPV4_TCP: Final = struct.Struct(">BxH2xHxB2x12sIIBBH").unpack_from
_IPV6_TCP: Final = struct.Struct(">IHBx36sIIBBH").unpack_from

_FRAGMENT: Final = 0x3FFF
_LEAST_HEADER: Final = 5 << 4  #: the byte with the length of a TCP header of 20 bytes

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


class LayersState(NamedTuple):
    """The fragments that wait, and where the streams of exported records stand."""

    fragments: dict[DatagramKey, Puzzle]
    exported: dict[bytes, int]


class Layers:
    """Opens packets. Holds only the IP fragments that wait for others."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._fragments = Fragments(limits)
        self._exported = ExportedPdus(limits.connections)

    @property
    def waiting(self) -> int:
        """How many datagrams wait for the rest of their fragments."""
        return self._fragments.waiting

    def state(self) -> LayersState:
        """Return the state for ``restore``."""
        return LayersState(self._fragments.state(), self._exported.state())

    def restore(self, state: LayersState) -> None:
        """Continue from a state."""
        self._fragments.restore(state.fragments)
        self._exported.restore(state.exported)

    def feed(self, packet: Packet) -> Segment | str | None:
        """Return the packet's segment, the reason why there is none, or None for a fragment that waits."""
        data = packet.data
        link_type = packet.link_type
        try:
            if link_type == 1:
                at, ethertype = 14, data[12:14]
            elif link_type == 113:
                at, ethertype = 16, data[14:16]
            else:
                return self._open(packet)
            # The plain cases, in one step each. All that is in any way unusual is opened layer by layer.
            if ethertype == b"\x08\x00":
                version, length, fragment, protocol, key, seq, ack, header, flags, window = _IPV4_TCP(data, at)
                if version == 0x45 and protocol == 6 and not fragment & _FRAGMENT and header >= _LEAST_HEADER:
                    end = at + length
                    at += 20 + (header >> 4 << 2)
                    if at <= end <= len(data):
                        return _row(Segment, (key, seq, ack, flags, window, data[at:end], 0, None))
            elif ethertype == b"\x86\xdd":
                version, length, protocol, key, seq, ack, header, flags, window = _IPV6_TCP(data, at)
                if version >> 28 == 6 and protocol == 6 and header >= _LEAST_HEADER and length:
                    end = at + 40 + length
                    at += 40 + (header >> 4 << 2)
                    if at <= end <= len(data):
                        return _row(Segment, (key, seq, ack, flags, window, data[at:end], 0, None))
        except struct.error:  # shorter than both headers; the slow way says which
            pass
        return self._open(packet)

    def _open(self, packet: Packet) -> Segment | str | None:
        data = packet.data
        cut = max(packet.wire_length - len(data), 0)
        if packet.link_type == LINK_TYPE:
            return self._exported.feed(data, cut)
        found = link.strip(packet.link_type, data)
        disagreement: tuple[bytes, bytes] | None = None
        for _ in range(self._limits.encapsulations):
            if isinstance(found, str):
                return found
            datagram = ip.parse(found[0], data, found[1], cut)
            if isinstance(datagram, str):
                return datagram
            addresses, protocol, start, end, missing, place = datagram
            if place is not None:
                whole = self._fragments.feed(addresses, protocol, place, data[start:end], packet.ts_ns or 0)
                if whole is None:
                    return None
                data, disagreement = whole
                start, end, missing = 0, len(data), 0
            if protocol == tcp.PROTOCOL:
                segment = tcp.parse(addresses, data, start, end, missing)
                if disagreement is not None and not isinstance(segment, str):
                    return segment._replace(disagreement=disagreement)
                return segment
            data = data[:end]  # what is inside cannot be longer than the outside
            cut = missing
            found = link.strip_tunnel(protocol, data, start)
        return found if isinstance(found, str) else "too deep (IP in IP)"
