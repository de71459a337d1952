"""Places: which bytes of which stream every captured packet carries, the ones that came again included."""

from array import array
from collections import OrderedDict
from typing import NamedTuple

from dcpdump.net.anatomy import Anatomy
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.checksum import PLACES, is_right, pseudo_header
from dcpdump.net.connections import Connections
from dcpdump.net.fragments import Fragments
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.seqnum import advance
from dcpdump.net.tcp import PROTOCOL, RST, SYN

NOWHERE = -1  #: the number of no stream
_FLAGS, _SEQ = 13, 4  #: where a TCP header has them


def stream_number(connection: int, direction: int) -> int:
    """It gives the number of one direction of a connection."""
    return 2 * connection + direction


class Carried(NamedTuple):
    """The payload of a packet: from ``offset`` of a stream on."""

    stream: int
    offset: int


class Split(NamedTuple):
    """A segment that came in fragments: its header and payload as they were, and the payload's place."""

    addresses: bytes
    header: bytes
    payload: bytes
    carried: Carried
    right: bool  #: whether its checksum was


class _Unsettled(NamedTuple):
    """A packet of a stream that does not yet know, or was not sure, where it begins."""

    stream: ByteStream
    offsets: "array[int]"
    place: int
    seq: int


class Places:
    """Tell it of every packet, after the connections have heard of it; ask it afterwards."""

    def __init__(self, connections: Connections, limits: Limits = DEFAULT) -> None:
        self._connections = connections
        self._fragments = Fragments(limits)
        self._limits = limits
        self._files: dict[str, tuple[array[int], array[int]]] = {}
        self._unsettled: dict[int, list[_Unsettled]] = {}
        self._waiting: OrderedDict[tuple[bytes, int, int], list[tuple[str, int, int]]] = OrderedDict()
        self._pieces: dict[tuple[str, int], tuple[Split, int]] = {}

    def note(self, packet: Packet, body: Anatomy) -> None:
        """It takes the next packet of its file."""
        streams, offsets = self._files.setdefault(packet.file, (array("q"), array("q")))
        carried = self._fragment(packet, body) if body.fragment else self._segment(packet.data, body, offsets)
        streams.append(carried.stream)
        offsets.append(carried.offset)

    def close(self) -> None:
        """It ends: what had to wait is settled now."""
        for waiting in self._unsettled.values():
            _settle(waiting)
        self._unsettled.clear()
        self._waiting.clear()

    def of(self, file: str, number: int) -> Carried:
        """It gives what the payload of a packet is; of a fragment it knows nothing here."""
        streams, offsets = self._files[file]
        return Carried(streams[number - 1], offsets[number - 1])

    def piece(self, file: str, number: int) -> tuple[Split, int] | None:
        """It gives the segment that a fragment belongs to, and where in it the fragment begins."""
        return self._pieces.get((file, number))

    def _segment(self, data: bytes, body: Anatomy, offsets: "array[int]") -> Carried:
        if body.segment is None:
            return Carried(NOWHERE, 0)
        start, payload, end = body.segment
        return self._locate(body.key + data[start : start + 4], data[start:payload], end - payload, offsets)

    def _locate(self, key: bytes, header: bytes, size: int, offsets: "array[int] | None") -> Carried:
        """It finds the place of a segment's payload, for now or for good."""
        flags, seq = header[_FLAGS], int.from_bytes(header[_SEQ : _SEQ + 4], "big")
        found = self._connections.find(key)
        if found is None or (size and flags & RST):  # what a reset carries is not of the stream
            return Carried(NOWHERE, 0)
        connection, direction, stream = found
        number = stream_number(connection.number, direction)
        seq = advance(seq, 1) if flags & SYN else seq
        if stream.settled:
            waiting = self._unsettled.pop(number, None)
            if waiting:
                _settle(waiting)
        elif size and offsets is not None:
            self._unsettled.setdefault(number, []).append(_Unsettled(stream, offsets, len(offsets), seq))
        return Carried(number, stream.offset_of(seq))

    def _fragment(self, packet: Packet, body: Anatomy) -> Carried:
        addresses, protocol, start, end, _, place = body.layers[-1].datagram
        if place is None:
            return Carried(NOWHERE, 0)
        key = addresses, protocol, place.ident
        pieces = self._waiting.setdefault(key, [])
        pieces.append((packet.file, packet.number, place.offset))
        while len(self._waiting) > self._limits.fragments:
            self._waiting.popitem(last=False)
        whole = self._fragments.feed(addresses, protocol, place, packet.data[start:end], packet.ts_ns or 0)
        if whole is not None:
            del self._waiting[key]
            self._complete(addresses, protocol, whole.payload, pieces)
        return Carried(NOWHERE, 0)

    def _complete(self, addresses: bytes, protocol: int, data: bytes, pieces: list[tuple[str, int, int]]) -> None:
        length = (data[12] >> 4) * 4 if protocol == PROTOCOL and len(data) >= 20 else 0
        if not 20 <= length <= len(data):
            return
        header = data[:length]
        carried = self._locate(addresses + data[:4], header, len(data) - length, None)
        right = is_right(pseudo_header(addresses, protocol, len(data)), data, PLACES[protocol])
        split = Split(addresses, header, data[length:], carried, right)
        for file, number, offset in pieces:
            self._pieces[file, number] = split, offset


def _settle(waiting: list[_Unsettled]) -> None:
    for stream, offsets, place, seq in waiting:
        offsets[place] = stream.offset_of(seq)
