"""Read from the beginning of a plain capture what holds for all of it, and find a record in its middle.

What is found is a guess: documents can hold captures themselves. The piece before it knows where it really ended.
"""

from collections.abc import Callable
from struct import Struct
from typing import BinaryIO

import numpy as np

from dcpdump.batch.gather import overlapping
from dcpdump.capture.pcap import (
    DAY,
    HEADER_SIZE,
    LOOKED_AT,
    ORDERS,
    PACKET_USUAL,
    PCAPNG_MAGIC,
    YEAR,
    PcapHeader,
    begins_like,
)
from dcpdump.capture.pcapng import BLOCK_KEPT, OLD_PACKET, PACKET, SECTION, SIMPLE_PACKET
from dcpdump.capture.plain_pcap import boundaries, is_plain

RECORD = 16  #: bytes of a pcap record's header
_CHAIN = 5  #: records that must follow one another before a place is believed
_WINDOW = 1 << 20
Unpack = Callable[[bytes, int], tuple[int, ...]]


class PcapForm:
    """What the beginning of a plain file says about all of it: byte order, header, interfaces."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.seek(0)
        start = file.read(HEADER_SIZE + RECORD)
        self.pcap = PcapHeader.of(start)
        self.head = start[:HEADER_SIZE]
        self.interfaces = 0
        self._seconds = 0
        self._order = "<"
        if self.pcap is not None:
            self._order = self.pcap.order
            if len(start) == HEADER_SIZE + RECORD:
                (self._seconds,) = Struct(self._order + "I").unpack_from(start, HEADER_SIZE)
        elif start[:4] == PCAPNG_MAGIC:
            self._read_sections()

    @property
    def divisible(self) -> bool:
        """Return whether pieces of it can be read without the rest."""
        return self.interfaces > 0 if self.pcap is None else is_plain(self.pcap)

    def find(self, start: int, stop: int | None) -> int | None:
        """Return the offset at which a record seems to begin, in [``start``, ``stop``); None where none is found."""
        at = start if self.pcap is not None else start + -start % 4
        while stop is None or at < stop:
            self._file.seek(at)
            data = self._file.read(_WINDOW + PACKET_USUAL)
            found = self._records(data) if self.pcap is not None else self._blocks(data)
            if found is not None and found < _WINDOW:
                place = at + found
                return place if stop is None or place < stop else None
            if len(data) < _WINDOW + PACKET_USUAL:
                return None
            at += _WINDOW
        return None

    def last_time(self, size: int) -> int | None:
        """Return about the time (ns) of the last record, where that is cheap to find; else None."""
        if self.pcap is None:
            return None
        header = self.pcap
        at = self.find(max(HEADER_SIZE, size - 64 * 1024), None) if size > 128 * 1024 else HEADER_SIZE
        if at is None:
            return None
        self._file.seek(at)
        data = self._file.read(_WINDOW)
        places = boundaries(data, header.order == ">")
        if len(places) < 2:
            return None
        seconds, fraction = Struct(header.order + "II").unpack_from(data, places[-2])
        return int(seconds) * 1_000_000_000 + int(fraction) * (1_000_000_000 // header.fractions)

    def _records(self, data: bytes) -> int | None:
        header = self.pcap
        if header is None or len(data) < RECORD:
            return None
        record = np.dtype([(name, f"{header.order}u4") for name in ("seconds", "fraction", "length", "wire")])
        heads = overlapping(np.frombuffer(data, np.uint8), record)
        seconds = heads["seconds"].astype(np.int64)
        good = (seconds >= self._seconds - DAY) & (seconds <= self._seconds + YEAR)
        places = np.flatnonzero(good)
        rest = heads[places]
        good = (rest["fraction"] < header.fractions) & (rest["length"] <= rest["wire"]) & (rest["length"] > 0)
        good &= rest["wire"] <= PACKET_USUAL
        unpack = Struct(header.order + "IIII").unpack_from
        for place in places[good].tolist():
            if self._follow(data, place, unpack, header):
                return int(place)
        return None

    def _follow(self, data: bytes, at: int, unpack: Unpack, header: PcapHeader) -> bool:
        """Return whether plausible records follow one another from an offset, or end where the data does."""
        for number in range(_CHAIN):
            if at == len(data):
                return number > 0
            if at + RECORD > len(data):
                return number > 1
            seconds, fraction, length, wire = unpack(data, at)
            if not (self._seconds - DAY <= seconds <= self._seconds + YEAR and fraction < header.fractions):
                return False
            if not 0 < length <= wire <= PACKET_USUAL:
                return False
            packet = data[at + RECORD : at + RECORD + min(length, LOOKED_AT)]
            if packet and not begins_like(header.link_type, packet):
                return False
            at += RECORD + length
        return True

    def _blocks(self, data: bytes) -> int | None:
        """Return the offset of a packet block that two more blocks follow; None where there is none."""
        words = np.frombuffer(data[: len(data) // 4 * 4], f"{self._order}u4")
        for word in np.flatnonzero(words[:-1] == PACKET).tolist():
            at = 4 * word
            for number in range(3):
                if at == len(data):
                    if number:
                        return 4 * int(word)
                    break
                if at + 12 > len(data):
                    if number > 1:
                        return 4 * int(word)
                    break
                length = int(words[at // 4 + 1])
                if length % 4 or not 12 <= length <= BLOCK_KEPT:
                    break
                if at + length > len(data):
                    if number > 1:
                        return 4 * int(word)
                    break
                if words[(at + length) // 4 - 1] != length:
                    break
                at += length
            else:
                return 4 * int(word)
        return None

    def _read_sections(self) -> None:
        """Read the section header and the interface descriptions that follow it."""
        self._file.seek(0)
        data = self._file.read(256 * 1024)
        order = ORDERS.get(data[8:12])
        if order is None:
            return
        self._order = order
        at = 0
        head = Struct(order + "II")
        while at + 12 <= len(data):
            kind, length = head.unpack_from(data, at)
            if length < 12 or length % 4 or at + length > len(data):
                break
            if kind == 1:
                self.interfaces += 1
            elif kind in (PACKET, SIMPLE_PACKET, OLD_PACKET) or (kind == SECTION and at):
                break
            at += length
        self.head = data[:at]
