"""Region: the bytes that one direction was brought, and the frames in them, found by hopping over their lengths."""

from struct import Struct
from typing import NamedTuple

import numpy as np

from dcpdump.columnar.assembly import Brought
from dcpdump.columnar.block import Origins
from dcpdump.columnar.plan import HEADER, Array, framed, overlapping
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.wire.frame import Where

_BODY = Struct(">I").unpack_from
_NO_PACKET = 1 << 62


class Region(NamedTuple):
    """One direction's bytes: what was held from before, and the pieces that came.

    All places are in ``data``, which the regions of a stretch share.
    """

    data: bytes
    start: int
    stop: int
    starts: Array  #: of the frames; the last is where the next one begins
    completed: Array  #: which packet of the block completed each frame
    rows: Array  #: the packets that brought its pieces
    ends: Array  #: of the pieces

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

    def marks(self, origins: Origins, offset: int) -> list[tuple[int, Where]]:
        """It says which packets brought what is not in frames: up to which offset of the direction, and where.

        ``offset`` is that of the region's first byte.
        """
        first = int(np.searchsorted(self.ends, self.rest, "right"))
        ends, rows = self.ends[first:].tolist(), self.rows[first:].tolist()
        return [(offset + end - self.start, origins.where(row)) for end, row in zip(ends, rows, strict=True)]


def regions_of(loads: list[tuple[Brought, bytes]]) -> tuple[list[Region], int]:
    """It joins what each direction was brought to the bytes held from before, and finds the frames.

    The second result is the packet in which something is that is no frame of a splitter in step; more than any
    packet's number where there is none. Before it, all is well.
    """
    if not loads:
        return [], _NO_PACKET
    parts: list[bytes | memoryview] = []
    for (_, _, pieces), held in loads:
        parts.append(held)
        parts += pieces
    data = b"".join(parts)
    rows = np.array([row for brought, _ in loads for row in brought.rows], np.int64)
    sizes = np.array([len(piece) for brought, _ in loads for piece in brought.pieces], np.int64)
    ends = np.cumsum(sizes)
    places: list[int] = []
    spans: list[tuple[int, int, int, int]] = []  # of each direction: its bytes, and where its places are
    at, first, held_so_far, lots = 0, 0, 0, []
    for brought, held in loads:
        mine = slice(first, first + len(brought.rows))
        held_so_far += len(held)
        ends[mine] += held_so_far
        stop, begun = int(ends[mine.stop - 1]), len(places)
        places += hop(data, at, stop)
        spans.append((at, stop, begun, len(places)))
        lots.append(mine)
        at, first = stop, mine.stop
    # What asks NumPy is done once for all directions: there may be many, each with little.
    begins = np.array(places, np.int64)
    regions: list[Region] = []
    completed = rows[np.minimum(np.searchsorted(ends, begins, "left"), len(rows) - 1)]
    for (start, stop, begun, last), mine in zip(spans, lots, strict=True):
        if places[last - 1] > stop:
            last -= 1
        regions.append(
            Region(data, start, stop, begins[begun:last], completed[begun + 1 : last], rows[mine], ends[mine])
        )
    return regions, _fault(data, begins, spans, rows, ends)


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
        return _NO_PACKET
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
