"""Anatomy: where a packet's headers lie, for those who change packets. Reassembles nothing; changes nothing."""

from typing import NamedTuple

from dcpdump.net import ip, link
from dcpdump.net.ip import Datagram
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import PROTOCOL

_SHORTEST = 20


class Layer(NamedTuple):
    """One IP header at ``at``: its version as an ethertype, and what it carries."""

    ethertype: int
    at: int
    datagram: Datagram


class HeaderOffsets(NamedTuple):
    """The IP headers of a packet, outermost first, and its TCP segment, if it has one that is not in fragments."""

    layers: tuple[Layer, ...]
    segment: tuple[int, int, int] | None = None  #: where header, payload and the end are

    @property
    def fragment(self) -> Layer | None:
        """The layer that is a fragment, under which nothing can be read."""
        return self.layers[-1] if self.layers and self.layers[-1].datagram.fragment is not None else None


def anatomy(packet: Packet, limits: Limits = DEFAULT) -> HeaderOffsets:
    """Parse a packet, as far as its headers can be understood."""
    data = packet.data
    layers: list[Layer] = []
    found = link.strip(packet.link_type, data)
    cut, end_of_data = max(packet.wire_length - len(data), 0), len(data)
    for _ in range(limits.encapsulations):
        if isinstance(found, str):
            break
        datagram = ip.parse(found[0], data[:end_of_data], found[1], cut)
        if isinstance(datagram, str):
            break
        layers.append(Layer(found[0], found[1], datagram))
        if datagram.fragment is not None:
            break
        if datagram.protocol == PROTOCOL:
            return HeaderOffsets(tuple(layers), _segment(data, datagram.start, datagram.end))
        cut, end_of_data = datagram.missing, datagram.end
        found = link.strip_tunnel(datagram.protocol, data[:end_of_data], datagram.start)
    return HeaderOffsets(tuple(layers))


def _segment(data: bytes, start: int, end: int) -> tuple[int, int, int] | None:
    if end - start < _SHORTEST:
        return None
    length = (data[start + 12] >> 4) * 4
    return (start, min(start + length, end), end) if length >= _SHORTEST else None
