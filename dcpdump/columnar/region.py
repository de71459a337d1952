"""Region: the bytes that one flow brings in a run, and the frames in them, found by hopping over their lengths."""

from struct import Struct
from typing import NamedTuple

import numpy as np

from dcpdump.columnar.block import Block
from dcpdump.columnar.plan import HEADER, Array, framed, overlapping
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.wire.frame import Where

_BODY = Struct(">I").unpack_from


class Region(NamedTuple):
    """One direction's bytes: what was held from before, and the payloads of its packets.

    All places are in ``data``, which the regions of a run share.
    """

    data: bytes
    start: int
    stop: int
    starts: Array  #: of the frames; the last is where the next one begins
    completed: Array  #: which packet of the block completed each frame
    rows: Array  #: the packets
    ends: Array  #: of their payloads

    @property
    def frames(self) -> int:
        """How many frames are whole."""
        return len(self.starts) - 1

    @property
    def rest(self) -> int:
        """Where the frame begins that is not whole yet."""
        return int(self.starts[-1])

    @property
    def used(self) -> int:
        """The bytes of whole frames."""
        return self.rest - self.start

    def marks(self, block: Block, offset: int) -> list[tuple[int, Where]]:
        """It says which packets brought what is not in frames: up to which offset of the direction, and where.

        ``offset`` is that of the region's first byte.
        """
        first = int(np.searchsorted(self.ends, self.rest, "right"))
        ends, rows = self.ends[first:].tolist(), self.rows[first:].tolist()
        return [(offset + end - self.start, block.where(row)) for end, row in zip(ends, rows, strict=True)]


def regions_of(block: Block, flows: list[tuple[Array, bytes]]) -> tuple[list[Region], int]:
    """It joins the payloads of each flow's packets to the bytes held, and finds the frames.

    The second result is the packet in which something is that is no frame of a splitter in step; the number
    of packets in the block where there is none. Before it, all is well.
    """
    view, facts = memoryview(block.data), block.facts
    pieces: list[bytes | memoryview] = []
    for rows, held in flows:
        pieces.append(held)
        starts = facts.start[rows]
        ends = starts + facts.size[rows]
        pieces += [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    data = b"".join(pieces)
    regions: list[Region] = []
    at, fault = 0, len(block.ts_ns)
    for rows, held in flows:
        ends = at + len(held) + np.cumsum(facts.size[rows])
        region, bad = _region(data, at, rows, ends)
        regions.append(region)
        fault, at = min(fault, bad), region.stop
    return regions, fault


def _region(data: bytes, start: int, rows: Array, ends: Array) -> tuple[Region, int]:
    stop = int(ends[-1])
    places = hop(data, start, stop)
    heads = overlapping(np.frombuffer(data, np.uint8), HEADER)[places[:-1]]
    bad = np.flatnonzero(~framed(heads))
    last = int(places[-1])
    fault = int(np.iinfo(np.int64).max)
    if len(bad):
        fault = int(rows[np.searchsorted(ends, places[bad[0]], "right")])
    elif stop - last < HEADER_LENGTH and last < stop and data[last] not in MAGICS:
        fault = int(rows[np.searchsorted(ends, last, "right")])
    count = int(np.count_nonzero(places[1:] <= stop))
    places = places[: count + 1]
    completed = rows[np.minimum(np.searchsorted(ends, places[1:], "left"), len(rows) - 1)]
    return Region(data, start, stop, places, completed, rows, ends), fault


def hop(data: bytes, start: int, stop: int) -> Array:
    """It goes from frame to frame. The places of all headers that are there, and where the next would be."""
    places: list[int] = []
    note, body = places.append, _BODY
    at, last = start, stop - HEADER_LENGTH
    while at <= last:
        note(at)
        at += HEADER_LENGTH + body(data, at + 8)[0]
    note(at)
    return np.array(places, np.int64)
