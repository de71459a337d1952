"""Dissect, and remember what every packet carries, and which packets open connections."""

from array import array
from typing import TYPE_CHECKING

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.gather import Array
from dcpdump.net.batch import Segments
from dcpdump.net.layers import anatomy
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, SYN
from dcpdump.rewrite.payload_map import NOWHERE, Carried, PayloadMap
from dcpdump.tls.secrets import Secrets

if TYPE_CHECKING:
    from dcpdump.tls.side import Places


class Handshakes:
    """The packets that open connections, by file, in ``packets``. ``note`` every TCP segment.

    They are all with SYN, and the first without payload that follows a SYN-ACK.
    """

    def __init__(self) -> None:
        self.packets: dict[str, array[int]] = {}
        self._answered: set[int] = set()  # connections that sent SYN and SYN-ACK, but not the ACK yet

    def note(self, packet: Packet, carried: Carried, flags: int) -> None:
        """Note the next packet."""
        if carried.stream == NOWHERE:
            return
        connection = carried.stream // 2
        if flags & SYN and flags & ACK:
            self._answered.add(connection)
        elif not carried.size and connection in self._answered:
            self._answered.discard(connection)
        elif not flags & SYN:
            return
        self._add(packet.file, packet.number)

    def note_run(self, block: Block, start: int, streams: Array) -> None:
        """Note packets of a block, from ``start`` on, that belong to these streams. None of them has SYN."""
        if not self._answered:
            return
        mine = np.isin(streams // 2, list(self._answered)) & (block.facts.size[start : start + len(streams)] == 0)
        for row in np.flatnonzero(mine).tolist():
            connection = int(streams[row]) // 2
            if connection in self._answered:
                self._answered.discard(connection)
                where = block.where(start + row)
                self._add(where.file, where.packet)

    def _add(self, file: str, number: int) -> None:
        self.packets.setdefault(file, array("q")).append(number)


class TextPlaces:
    """The records of one direction that have text."""

    def __init__(self, places: "Places") -> None:
        self._starts, self._ends, self._texts, self._stops = (np.array(each, np.int64) for each in places)
        self._sizes = np.concatenate(([0], np.cumsum(self._ends - self._starts)))

    def texts(self, offset: Array, size: Array) -> tuple[Array, Array, Array]:
        """Return of payloads the text of all records that they have a part of: its offset and size.

        And whether they have a part of any other record, such as one of a handshake.
        """
        if not len(self._starts):
            return offset, np.zeros_like(size), size > 0
        first = np.searchsorted(self._ends, offset, side="right")
        last = np.searchsorted(self._starts, offset + size, side="left")
        some = (last > first) & (size > 0)
        at, until = np.minimum(first, len(self._starts) - 1), np.maximum(last - 1, 0)
        text = np.where(some, self._texts[at], 0)
        covered = np.minimum(self._ends[until], offset + size) - np.maximum(self._starts[at], offset)
        holes = (self._ends[until] - self._starts[at]) - (self._sizes[until + 1] - self._sizes[at])
        others = (size > 0) & (~some | (covered - holes < size))
        return text, np.where(some, self._stops[until] - text, 0), others


_FLAGS = 13  #: offset in a TCP header


class PacketSurvey(Dissection):
    """A dissection of blocks; ask ``places`` and ``handshakes`` afterwards."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._unsealing.places = {}
        self.places = PayloadMap(self._connections, limits)
        self.handshakes = Handshakes()

    def texts(self, stream: int) -> "TextPlaces | None":
        """Return where a direction has its text, where that is inside TLS."""
        places = (self._unsealing.places or {}).get(stream)
        return None if places is None else TextPlaces(places)

    def _fed(self, packet: Packet) -> None:
        body = anatomy(packet, self._limits)
        flags = packet.data[body.segment[0] + _FLAGS] if body.segment is not None else 0
        self.handshakes.note(packet, self.places.note(packet, body), flags)

    def _took(self, block: Block, at: int, stop: int, segments: Segments) -> None:
        for row in segments.singles:
            self.places.note(block.packets[row], anatomy(block.packets[row], self._limits))
        streams = self.places.note_run(block, at, stop, segments.rows, segments.offsets)
        for place in dict.fromkeys(segments.places):
            self.places.settle(place)
        self.handshakes.note_run(block, at, streams)
