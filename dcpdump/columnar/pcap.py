"""Blocks of a plain pcap, read without a step for each packet's bytes.

Only what every well-made file has is read here: at anything else it stops, and says how many packets it gave;
the capture's own reader goes on from there, and reports what is wrong.
"""

from collections.abc import Iterator
from itertools import repeat
from struct import Struct

import numpy as np

from dcpdump.capture.pcap import DAY, HEADER_SIZE, MAGICS, PACKET_USUAL, PCAPNG_MAGIC, YEAR, Header
from dcpdump.columnar.block import BLOCK_BYTES, Block, facts
from dcpdump.columnar.plan import Array, overlapping
from dcpdump.columnar.records import Records

_SIZE = 16  #: bytes of a record's header


class PlainPcap:
    """A pcap file, as far as it is plain. A block is good until the next one is asked for: they share memory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.packets = 0  #: given so far
        self.ended = False  #: the file was plain to its end

    def blocks(self, size: int = BLOCK_BYTES, rooms: Iterator[memoryview] | None = None) -> Iterator[Block]:
        """It gives the packets, up to the end or to the first that is not plain.

        ``rooms``: where the bytes of each block are to be; at least ``room_for(size)`` each.
        """
        with open(self._path, "rb", buffering=0) as file:
            head = file.read(HEADER_SIZE)
            if len(head) < HEADER_SIZE or head[:4] not in MAGICS:
                return
            header = Header.read(head)
            if header.record_size != _SIZE or header.fcs or header.version != (2, 4):
                return
            rooms = rooms or repeat(memoryview(bytearray(room_for(size))))
            rest, before = b"", None
            while True:
                room = next(rooms)
                room[: len(rest)] = rest
                got = file.readinto(room[len(rest) : len(rest) + size])
                have = len(rest) + (got or 0)
                block, used, before = self._block(room[:have], header, before)
                if block is not None:
                    self.packets += len(block.ts_ns)
                    yield block
                if before is None or (not got and used < have):
                    return
                if not got:
                    self.ended = True
                    return
                rest = bytes(room[used:have])

    def _block(self, data: memoryview, header: Header, before: int | None) -> tuple[Block | None, int, int | None]:
        """It makes a block of the whole records in ``data``: with it, the bytes used, and the last record's seconds.

        No seconds: what follows is not plain.
        """
        places = _hop(data, Struct(header.order + "I"))
        view = np.frombuffer(data, np.uint8)
        if not len(places) - 1:
            return None, 0, before if len(data) < _SIZE + PACKET_USUAL else None
        record = np.dtype([(name, f"{header.order}u4") for name in ("seconds", "fraction", "length", "wire")])
        heads = overlapping(view, record)[places[:-1]]
        seconds, fraction, length, wire = (heads[name].astype(np.int64) for name in record.names or ())
        step = np.diff(seconds, prepend=seconds[0] if before is None else before)
        plain = (step >= -DAY) & (step <= YEAR) & (fraction < header.fractions)
        plain &= (length <= wire) & (wire <= PACKET_USUAL)
        if before is None and bytes(data[:4]) in (*MAGICS, PCAPNG_MAGIC):
            plain[0] = False
        bad = np.flatnonzero(~plain)
        count = int(bad[0]) if len(bad) else len(plain)
        if not count:
            return None, 0, None
        ts_ns = (seconds * 1_000_000_000 + fraction * (1_000_000_000 // header.fractions))[:count]
        starts = places[:count] + _SIZE
        ends = starts + length[:count]
        numbers = np.arange(self.packets + 1, self.packets + count + 1)
        links = np.full(count, header.link_type)
        records = Records(data, numbers, ts_ns, links, starts, ends, wire[:count], self._path)
        file = np.zeros(count, np.int64)
        block = Block(numbers, ts_ns, file, [self._path], records, data, facts(view, starts, ends, links))
        return block, int(places[count]), None if len(bad) else int(seconds[-1])


def room_for(size: int) -> int:
    """It says how much room a block of about ``size`` bytes may take."""
    return size + 2 * PACKET_USUAL


def _hop(data: memoryview, length: Struct) -> Array:
    """It goes from record to record. The places of those that are whole, and where the next begins."""
    places: list[int] = []
    note, read = places.append, length.unpack_from
    at, last = 0, len(data) - _SIZE
    while at <= last:
        note(at)
        at += _SIZE + read(data, at + 8)[0]
    note(at)
    if at > len(data):
        places.pop()
    return np.array(places, np.int64)
