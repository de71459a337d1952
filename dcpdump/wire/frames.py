"""Frames: whole frames of any directions, one behind the other in the order in which they completed.

It knows where each frame begins, which packet completed it, and for each run of frames (those that follow one another
in one direction) where they stand in it. What their bytes mean is for others.
"""

from typing import Final

from dcpdump.big_endian import be16, be32
from dcpdump.spec.header import HEADER_LENGTH, MAGICS, MAX_FRAME
from dcpdump.wire.frame import RawFrame

_MOST: Final = MAX_FRAME - HEADER_LENGTH
#: By first byte: 0 is not a magic, 1 is a classic header's, 2 a flexible one's.
_KIND: Final = bytes([(1 + MAGICS[byte].flexible) if byte in MAGICS else 0 for byte in range(256)])


class Frames:
    """Frames since it was made: their bytes, one behind the other, and what is known of them, frame, packet and run."""

    __slots__ = (
        "bounds",
        "fault",
        "files",
        "firsts",
        "gaps",
        "need",
        "odd",
        "offsets",
        "packets",
        "pieces",
        "places",
        "size",
        "starts",
        "times",
        "weak",
    )

    def __init__(self) -> None:
        self.pieces: list[bytes] = []  #: the bytes of all frames
        self.size = 0  #: how many bytes they are
        self.starts: list[int] = []  #: in these bytes, of each frame
        self.odd: dict[int, RawFrame] = {}  #: by number: frames that are not whole

        self.bounds: list[int] = []  #: of each packet: it completed the frames that end up to here, and not before
        self.packets: list[int] = []  #: its number
        self.times: list[int | None] = []  #: its capture time in ns
        self.files: list[str] = []  #: and its file

        self.firsts: list[int] = []  #: of each run: the number of its first frame
        self.offsets: list[int] = []  #: where that frame begins in its direction
        self.gaps: list[int] = []  #: bytes that were lost or skipped before it
        self.places: list[int] = []  #: the direction, by the number that whoever fills this gives it
        self.weak: list[bool] = []  #: found on weak evidence

        self.need = HEADER_LENGTH  #: after ``cut``: how many bytes from the first that is left are needed to go on
        self.fault = 0  #: after ``cut`` gave -1: where what is not ordinary begins

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, raw: RawFrame, place: int) -> None:
        """Add one frame, which need not be whole."""
        if raw.holes or len(raw.data) < raw.length:
            self.odd[len(self.starts)] = raw
        self._run(len(self.starts), raw.offset, raw.gap_before, place, raw.confidence == "low")
        self.starts.append(self.size)
        self.pieces.append(raw.data)
        self.size += len(raw.data)
        self.bound(self.size, raw.where.packet, raw.where.ts_ns, raw.where.file)

    def bound(self, end: int, packet: int, ts_ns: int | None, file: str) -> None:
        """Note that a packet completed what ends at ``end`` or before, of what was added last."""
        self.bounds.append(end)
        self.packets.append(packet)
        self.times.append(ts_ns)
        self.files.append(file)

    def cut(self, data: bytes, offset: int, gap: int, place: int) -> int:
        """Add the whole frames at the beginning of ``data``, which stands at ``offset`` in its direction.

        Return how many bytes they are; -1 where anything is no header of a frame: then nothing is added.
        """
        starts, base, kinds = self.starts, self.size, _KIND
        at, end, first = 0, len(data), len(starts)
        self.need = HEADER_LENGTH
        last = end - HEADER_LENGTH
        sound = True
        while at <= last:
            kind = kinds[data[at]]
            body = be32(data, at + 8)
            sections = data[at + 4]
            if kind == 1:
                sections += be16(data, at + 2)
            else:
                sections += data[at + 2] + data[at + 3]
            if not kind or body > _MOST or sections > body:
                sound = False
                break
            stop = at + HEADER_LENGTH + body
            if stop > end:
                self.need = stop - at
                break
            starts.append(base + at)
            at = stop
        else:
            sound = at == end or kinds[data[at]] != 0
        if not sound:
            self.fault = at
            del starts[first:]
            return -1
        if at:
            self._run(first, offset, gap, place, False)
            self.pieces.append(data if at == end else data[:at])
            self.size += at
        return at

    def _run(self, first: int, offset: int, gap: int, place: int, weak: bool) -> None:
        self.firsts.append(first)
        self.offsets.append(offset)
        self.gaps.append(gap)
        self.places.append(place)
        self.weak.append(weak)
