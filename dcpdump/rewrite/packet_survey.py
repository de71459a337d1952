"""Survey captures before they are rewritten: the payload of each packet, and the packets that open connections."""

from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.gather import Array
from dcpdump.net.batch import Segments
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.connections import Connections
from dcpdump.net.ip import CHECKSUM_AT, Fragments, checksum_is_right, pseudo_header
from dcpdump.net.layers import HeaderOffsets, anatomy
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, PROTOCOL, RST, SYN, advance
from dcpdump.tls.secrets import Secrets

if TYPE_CHECKING:
    from dcpdump.tls.side import TextOffsets


# -- the bytes of the stream that every packet carries, retransmissions included ----------------------

NOWHERE = -1  #: the number for packets of no stream
_FLAGS, _SEQ = 13, 4  #: offsets in a TCP header


def stream_number(connection: int, direction: int) -> int:
    """Return the number of one direction of a connection."""
    return 2 * connection + direction


class Carried(NamedTuple):
    """The payload of a packet: ``size`` bytes of a stream from ``offset`` on, bytes beyond the snap length included."""

    stream: int
    offset: int
    size: int = 0


class _PayloadColumns(NamedTuple):
    """The payload of each packet of a file, as in Carried: a row for each of packets 1, 2, 3 …"""

    stream: Array
    offset: Array
    size: Array


class FragmentedSegment(NamedTuple):
    """A segment sent in IP fragments: its header and payload, and the place of its payload."""

    addresses: bytes
    header: bytes
    payload: bytes
    carried: Carried
    right: bool  #: its checksum was right


class _Noted(NamedTuple):
    """The payloads of one file's packets so far."""

    streams: "array[int]"
    offsets: "array[int]"
    sizes: "array[int]"


class _Unplaced(NamedTuple):
    """A packet of a stream whose beginning is still unknown or uncertain."""

    stream: ByteStream
    offsets: "array[int]"
    row: int
    seq: int


class PayloadMap:
    """A map of packets to payload. ``note`` every packet, after ``connections`` were fed it; ask afterwards."""

    def __init__(self, connections: Connections, limits: Limits = DEFAULT) -> None:
        self._connections = connections
        self._fragments = Fragments(limits)
        self._limits = limits
        self._files: dict[str, _Noted] = {}
        self._unplaced: dict[int, list[_Unplaced]] = {}
        self._waiting: OrderedDict[tuple[bytes, int, int], list[tuple[str, int, int]]] = OrderedDict()
        #: By file and number of a fragment: its segment, and its offset there.
        self.pieces: dict[tuple[str, int], tuple[FragmentedSegment, int]] = {}

    def note(self, packet: Packet, body: HeaderOffsets) -> Carried:
        """Note a packet, and return its payload, as far as known now."""
        noted, row = self._columns(packet.file, packet.number), packet.number - 1
        carried = self._fragment(packet, body) if body.fragment else self._segment(packet.data, body, noted, row)
        noted.streams[row], noted.offsets[row], noted.sizes[row] = carried
        return carried

    def note_run(self, block: Block, start: int, stop: int, rows: list[int], offsets: list[int]) -> Array:
        """Note packets ``start`` … ``stop`` - 1 of a block that were reassembled in a batch; return their streams.

        ``rows``: those that continued their streams, at ``offsets``. Others with payload were noted before, one by one.
        """
        facts = block.facts
        flow, sizes = facts.flow[start:stop], facts.size[start:stop]
        streams = np.empty(stop - start, np.int64)
        order = np.argsort(flow, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(flow[order])) + 1):
            found = self._connections.find(facts.keys[int(flow[mine[0]])])
            if found is None:
                raise KeyError("a flow of a stretch has no connection")
            streams[mine] = stream_number(found[0].number, found[1])
        at = np.full(stop - start, -1)
        at[np.array(rows, np.int64) - start] = offsets
        for which in np.unique(block.file[start:stop]).tolist():
            mine = np.flatnonzero(block.file[start:stop] == which)
            numbers = block.numbers[start + mine] - 1
            noted = self._columns(block.files[which], int(numbers[-1]) + 1)
            _column(noted.streams)[numbers] = streams[mine]
            _column(noted.sizes)[numbers] = sizes[mine]
            known = at[mine] >= 0
            _column(noted.offsets)[numbers[known]] = at[mine[known]]
        return streams

    def set_offsets(self, number: int) -> None:
        """Set the offsets of packets that waited for a stream's beginning, if that is certain now."""
        waiting = self._unplaced.get(number)
        if waiting and waiting[0].stream.offsets_are_final:
            _set_offsets(self._unplaced.pop(number))

    def close(self) -> None:
        """End the input: set the offsets of packets that still wait."""
        for waiting in self._unplaced.values():
            _set_offsets(waiting)
        self._unplaced.clear()
        self._waiting.clear()

    @property
    def files(self) -> list[str]:
        """Return the files that packets were read from."""
        return list(self._files)

    def of(self, file: str, number: int) -> Carried:
        """Return a packet's payload; not for fragments (see ``pieces``)."""
        streams, offsets, sizes = self._files[file]
        return Carried(streams[number - 1], offsets[number - 1], sizes[number - 1])

    def columns(self, file: str, numbers: Array | None = None) -> _PayloadColumns:
        """Return the payloads of a file's packets, all or some; not for fragments (see ``pieces``)."""
        columns = (_column(column) for column in self._files[file])
        return _PayloadColumns(*(column.copy() if numbers is None else column[numbers - 1] for column in columns))

    def noted(self, file: str, numbers: Array) -> Array:
        """Return a mask of the packets of a file, given by number, that were noted."""
        noted = self._files.get(file)
        return numbers[numbers <= (0 if noted is None else len(noted.streams))]

    def _columns(self, file: str, number: int) -> _Noted:
        """Return the columns of a file, extended to hold a packet's number."""
        noted = self._files.get(file)
        if noted is None:
            noted = self._files[file] = _Noted(array("q"), array("q"), array("q"))
        more = number - len(noted.streams)
        if more > 0:
            noted.streams.extend([NOWHERE] * more)
            noted.offsets.frombytes(bytes(8 * more))
            noted.sizes.frombytes(bytes(8 * more))
        return noted

    def _segment(self, data: bytes, body: HeaderOffsets, noted: _Noted, row: int) -> Carried:
        if body.segment is None:
            return Carried(NOWHERE, 0)
        start, payload, end = body.segment
        key = body.layers[-1].datagram.addresses + data[start : start + 4]
        found = self._locate(key, data[start:payload], end - payload, (noted.offsets, row))
        # Bytes that the snap length cut off are included.
        size = end - payload + body.layers[-1].datagram.missing
        return Carried(found.stream, found.offset if size else 0, size)

    def _locate(self, key: bytes, header: bytes, size: int, row: "tuple[array[int], int] | None") -> Carried:
        """Return the place of a segment's payload, final or for now."""
        flags, seq = header[_FLAGS], int.from_bytes(header[_SEQ : _SEQ + 4], "big")
        found = self._connections.find(key)
        if found is None or (size and flags & RST):  # the payload of a reset is not part of the stream
            return Carried(NOWHERE, 0)
        connection, direction, stream = found
        number = stream_number(connection.number, direction)
        seq = advance(seq, 1) if flags & SYN else seq
        if stream.offsets_are_final:
            waiting = self._unplaced.pop(number, None)
            if waiting:
                _set_offsets(waiting)
        elif size and row is not None:
            self._unplaced.setdefault(number, []).append(_Unplaced(stream, *row, seq))
        return Carried(number, stream.offset_of(seq))

    def _fragment(self, packet: Packet, body: HeaderOffsets) -> Carried:
        addresses, protocol, start, end, _, fragment = body.layers[-1].datagram
        if fragment is None:
            return Carried(NOWHERE, 0)
        key = addresses, protocol, fragment.ident
        pieces = self._waiting.setdefault(key, [])
        pieces.append((packet.file, packet.number, fragment.offset))
        while len(self._waiting) > self._limits.fragments:
            self._waiting.popitem(last=False)
        whole = self._fragments.feed(addresses, protocol, fragment, packet.data[start:end], packet.ts_ns or 0)
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
        right = checksum_is_right(pseudo_header(addresses, protocol, len(data)), data, CHECKSUM_AT[protocol])
        split = FragmentedSegment(addresses, header, data[length:], carried, right)
        for file, number, offset in pieces:
            self.pieces[file, number] = split, offset


def _column(values: "array[int]") -> Array:
    """Return an array as a NumPy column; the array cannot grow while the column exists."""
    return np.frombuffer(values, np.int64)


def _set_offsets(waiting: list[_Unplaced]) -> None:
    for stream, offsets, row, seq in waiting:
        offsets[row] = stream.offset_of(seq)


class _Handshakes:
    """The packets that open connections, by file, in ``packets``. ``note`` every TCP segment.

    These are all with SYN, and the first without payload after a SYN-ACK.
    """

    def __init__(self) -> None:
        self.packets: dict[str, array[int]] = {}
        self._answered: set[int] = set()  # connections with SYN and SYN-ACK, but without the ACK yet

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
        """Note packets of a block, from ``start`` on, of these streams. None has SYN."""
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


class _TextSearch:
    """The TLS records of one direction with text."""

    def __init__(self, text_offsets: "TextOffsets") -> None:
        self._starts, self._ends, self._texts, self._stops = (np.array(each, np.int64) for each in text_offsets)
        self._sizes = np.concatenate(([0], np.cumsum(self._ends - self._starts)))

    def texts(self, offset: Array, size: Array) -> tuple[Array, Array, Array]:
        """Return, for payloads, the text of all records of which they have a part: its offset and size.

        Also return whether they have a part of another record, such as one of a handshake.
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


class PacketSurvey(Dissection):
    """A dissection of blocks; ask ``payloads`` and ``handshakes`` afterwards."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._unsealing.text_offsets = {}
        self.payloads = PayloadMap(self.connections, limits)
        self.handshakes = _Handshakes()

    def texts(self, stream: int) -> "_TextSearch | None":
        """Return the text offsets of a direction inside TLS; else None."""
        text_offsets = (self._unsealing.text_offsets or {}).get(stream)
        return None if text_offsets is None else _TextSearch(text_offsets)

    def _note_packet(self, packet: Packet) -> None:
        body = anatomy(packet, self._limits)
        flags = packet.data[body.segment[0] + _FLAGS] if body.segment is not None else 0
        self.handshakes.note(packet, self.payloads.note(packet, body), flags)

    def _note_batch(self, block: Block, at: int, stop: int, segments: Segments) -> None:
        for row in segments.singles:
            self.payloads.note(block.packets[row], anatomy(block.packets[row], self._limits))
        streams = self.payloads.note_run(block, at, stop, segments.rows, segments.offsets)
        for direction_id in dict.fromkeys(segments.direction_ids):
            self.payloads.set_offsets(direction_id)
        self.handshakes.note_run(block, at, streams)
