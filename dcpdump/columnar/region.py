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
    if not flows:
        return [], len(block.ts_ns)
    view, facts = memoryview(block.data), block.facts
    pieces: list[bytes | memoryview] = []
    for rows, held in flows:
        pieces.append(held)
        starts = facts.start[rows]
        ends = starts + facts.size[rows]
        pieces += [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    data = b"".join(pieces)
    places: list[int] = []
    spans: list[tuple[int, int, int, int]] = []  # of each flow: its bytes, and where its places are
    ends_of: list[Array] = []
    at = 0
    for rows, held in flows:
        ends_of.append(at + len(held) + np.cumsum(facts.size[rows]))
        stop, first = int(ends_of[-1][-1]), len(places)
        places += hop(data, at, stop)
        spans.append((at, stop, first, len(places)))
        at = stop
    # What asks NumPy is done once for all flows: there may be many, each with little.
    begins = np.array(places, np.int64)
    rows, ends = np.concatenate([rows for rows, _ in flows]), np.concatenate(ends_of)
    regions: list[Region] = []
    completed = rows[np.minimum(np.searchsorted(ends, begins, "left"), len(rows) - 1)]
    for (start, stop, first, last), (mine, _), ends_mine in zip(spans, flows, ends_of, strict=True):
        if places[last - 1] > stop:
            last -= 1
        regions.append(Region(data, start, stop, begins[first:last], completed[first + 1 : last], mine, ends_mine))
    return regions, min(len(block.ts_ns), _fault(data, begins, spans, rows, ends))


def _fault(data: bytes, places: Array, spans: list[tuple[int, int, int, int]], rows: Array, ends: Array) -> int:
    """It gives the packet in which the first of those is that cannot be the beginning of a frame."""
    last = np.array([last - 1 for _, _, _, last in spans])
    is_head = np.ones(len(places), bool)
    is_head[last] = False
    heads = places[is_head]
    bad = heads[~framed(overlapping(np.frombuffer(data, np.uint8), HEADER)[heads])].tolist()
    for (_, stop, _, _), place in zip(spans, places[last].tolist(), strict=True):
        if stop - place < HEADER_LENGTH and place < stop and data[place] not in MAGICS:
            bad.append(place)
    if not bad:
        return int(np.iinfo(np.int64).max)
    return int(rows[np.searchsorted(ends, bad, "right")].min())


def hop(data: bytes, start: int, stop: int) -> list[int]:
    """It goes from frame to frame. The places of all headers that are there, and where the next would be."""
    places: list[int] = []
    note, body = places.append, _BODY
    at, last = start, stop - HEADER_LENGTH
    while at <= last:
        note(at)
        at += HEADER_LENGTH + body(data, at + 8)[0]
    note(at)
    return places
