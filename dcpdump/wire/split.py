"""FrameSplitter: cuts the bytes of one direction into frames.

It knows lengths and magics; it knows no TCP, no clock and no meaning. In step it is lenient: whatever has
a magic and consistent lengths is a frame. Loss is told to it (``gap``), and afterwards it finds its way
back: a hole inside a body needs no search, since the frame's end is known; a lost header does.
"""

from bisect import bisect_left, bisect_right

from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.wire.cut import Cut, Skipped, Why
from dcpdump.wire.frame import NOWHERE, Header, RawFrame, Span, Where, unpack_header
from dcpdump.wire.resync import SEARCH_WINDOW, Streams, Verdict, begins, find_frame, framed, known, nearly

PATIENCE = 64 * 1024  #: bytes up to which a search is repeated as soon as there is something to see
HOLE = 256 * 1024  #: lost bytes in a frame, beyond as many as are there, that may stand as zeros
DOUBT = 64 * 1024  #: bytes without a frame after a damaged first header, that make it another protocol after all


class FrameSplitter:
    """Feed it the bytes of one direction, in order, and its gaps; it gives frames and what it skipped.

    ``streams`` is what the connection is known to carry (it decides which candidates to believe after a
    loss); ``late``: the direction's beginning was not captured, so its first byte may be anywhere in a
    frame.
    """

    __slots__ = (
        "_confidence",
        "_data",
        "_doubtful",
        "_hole_bytes",
        "_holes",
        "_lost",
        "_marks",
        "_need",
        "_offset",
        "_passing",
        "_segment",
        "_state",
        "_streams",
        "foreign",
    )

    def __init__(self, streams: Streams, *, late: bool = False) -> None:
        self._streams = streams
        self._state = self._search if late else self._start
        self._data = bytearray()
        self._offset = 0  # of self._data[0]
        self._need = 1  # bytes that self._data must have before looking again is of use
        self._marks: list[tuple[int, Where]] = []  # where the bytes up to an offset came from
        self._holes: list[Span] = []  # in self._data
        self._hole_bytes = 0  # all of them together
        self._lost = 0  # bytes lost or skipped since the last frame
        self._confidence = ""  # in the frames that the next cut finds
        self._passing = 0  # bytes that are left of a frame that was given up
        self._doubtful = False  # there has been no frame, and the first header was damaged
        self._segment = True  # self._data begins where a segment did
        self.foreign = False  # it is some other protocol; nothing more is looked for

    @property
    def in_step(self) -> bool:
        """Whether frame boundaries are known."""
        return self._state in (self._cut, self._pass)

    @property
    def held(self) -> int:
        """The bytes that wait here for the rest of a frame, lost ones in it included."""
        return len(self._data)

    def begin(self, offset: int) -> None:
        """It hears where in its direction the first byte that it gets stands; without this, at its beginning."""
        self._offset = offset

    def feed(self, data: bytes, where: Where = NOWHERE) -> list[Cut]:
        """It takes the next bytes; ``where`` is the packet that brought them."""
        if self.foreign:
            return self._pass_by(data, where)
        if not self._data:
            self._segment = True
            if self._marks:
                self._marks.clear()
        self._data += data
        self._marks.append((self._offset + len(self._data), where))
        if len(self._data) < self._need:
            return []
        return self._run(False)

    def gap(self, length: int | None) -> list[Cut]:
        """It hears that the next ``length`` bytes were lost (None: an unknown number)."""
        if self.foreign:
            self._offset += length or 0
            return []
        if length is not None and self._within_frame(length):
            return self._bridge(length)
        out = self.close()
        self._offset += length or 0
        self._lost += length or 0
        self._passing = 0
        self._state = self._search
        return out

    def give_up(self) -> list[Cut]:
        """It gives its memory back: what is there of the frame at hand comes out, the rest is passed by."""
        if self._within_frame(0):
            return self._leave_frame(0)
        out = self.close()
        if not self.foreign:
            self._state = self._search
        return out

    def close(self) -> list[Cut]:
        """It ends the input: what is left is a frame cut short, or skipped."""
        out = self._run(True)
        if self._data:
            out.append(self._leftover())
        self._data = bytearray()
        self._marks.clear()
        self._holes.clear()
        self._hole_bytes = 0
        self._need = 1
        return out

    def _run(self, final: bool) -> list[Cut]:
        """It goes from state to state until one stays: a loop, since there may be as many as there are bytes."""
        out: list[Cut] = []
        searched = False
        while True:
            state = self._state
            out += state(final)
            if self._state == state or self.foreign:
                return _merged(out) if searched else out
            searched = searched or self._state == self._search

    # -- states: each takes what it can from self._data; final says that no more will come ---------------

    def _start(self, final: bool) -> list[Cut]:
        verdict = begins(self._data, final=final)
        if verdict in (Verdict.FRAME, Verdict.WEAK):
            self._state = self._cut
        elif verdict is Verdict.WAIT:
            self._need = len(self._data) + 1
        elif not final and len(self._data) >= HEADER_LENGTH and nearly(unpack_header(self._data)):
            self._doubtful = True
            self._state = self._search
        elif not final:
            self.foreign = True
            return [self._skip(len(self._data), Why.NOT_MEMCACHED)]
        return []

    def _search(self, final: bool) -> list[Cut]:
        found = find_frame(self._data, 0, self._streams, final=final, segment=self._segment)
        out: list[Cut] = []
        if found.at and (found.verdict is not Verdict.NO or not final):
            out.append(self._skip(found.at, Why.NO_BOUNDARY))
        if found.verdict in (Verdict.FRAME, Verdict.WEAK):
            self._state = self._cut
            self._confidence = "low" if found.verdict is Verdict.WEAK else ""
            self._doubtful = False
            return out
        if self._doubtful and self._lost > DOUBT:
            self.foreign = True
            return [*out, self._skip(len(self._data), Why.NOT_MEMCACHED)]
        # What was searched is searched again only after it grew by a part of itself, so that time stays linear.
        have = len(self._data)
        self._need = have + max(1, have // (16 if have < PATIENCE else 4))
        return out

    def _cut(self, final: bool) -> list[Cut]:
        out: list[Cut] = []
        confidence = self._confidence
        data, at, end = self._data, 0, len(self._data)
        while end - at >= HEADER_LENGTH:
            header = unpack_header(data, at)
            stop = at + HEADER_LENGTH + header.body_length
            if not framed(header):
                verdict = self._illegal_but_in_step(header, stop, final)
                if verdict is Verdict.NO:
                    return self._out_of_step(out, at)
                if verdict is Verdict.WAIT:
                    self._need = stop + HEADER_LENGTH - at
                    break
            if stop > end:
                self._need = stop - at
                break
            out.append(self._frame(header, at, stop, confidence))
            at = stop
        else:
            self._need = HEADER_LENGTH
            if at < end and data[at] not in MAGICS:
                return self._out_of_step(out, at)
        self._drop(at)
        if out and not final:
            self._confidence = ""  # what follows in later segments was not guessed
        return out

    def _pass(self, final: bool) -> list[Cut]:
        count = min(self._passing, len(self._data))
        out: list[Cut] = [self._skip(count, Why.PASSED_BY)] if count else []
        self._passing -= count
        self._need = 1
        if not self._passing:
            self._state = self._cut
        return out

    # -- the pieces -------------------------------------------------------------------------------------

    def _frame(self, header: Header, at: int, stop: int, confidence: str = "") -> RawFrame:
        holes: tuple[Span, ...] = ()
        if self._holes:
            holes = tuple(Span(a - at, b - at) for a, b in self._holes if a < stop and b > at)
        gap, self._lost = self._lost, 0
        offset = self._offset + at
        return RawFrame(
            bytes(memoryview(self._data)[at:stop]),
            header,
            offset,
            self._where(offset + stop - at),
            gap,
            holes,
            confidence,
        )

    def _illegal_but_in_step(self, header: Header, following: int, final: bool) -> Verdict:
        """Sections longer than the body: a damaged frame, if the next one begins where its body ends."""
        if header.magic not in MAGICS or header.frame_length > SEARCH_WINDOW:
            return Verdict.NO
        if following + HEADER_LENGTH <= len(self._data):
            return Verdict.FRAME if known(unpack_header(self._data, following)) else Verdict.NO
        if final:
            return Verdict.FRAME if following == len(self._data) else Verdict.NO
        return Verdict.WAIT

    def _out_of_step(self, out: list[Cut], at: int) -> list[Cut]:
        """Skip the byte at ``at``; the next frame is to be searched for behind it."""
        self._drop(at)
        self._state = self._search
        self._confidence = ""
        out.append(self._skip(1, Why.NO_BOUNDARY))
        self._segment = False
        return out

    def _within_frame(self, length: int) -> bool:
        """Whether the next ``length`` bytes are all of the frame at hand, whose end is known."""
        if self._state == self._pass:
            return length <= self._passing
        have = len(self._data)
        if self._state != self._cut or have < HEADER_LENGTH:
            return False
        return have + length <= unpack_header(self._data).frame_length

    def _bridge(self, length: int) -> list[Cut]:
        """Let a hole pass that lies inside the body of the frame at hand, which has the packet before it at most.

        The packet that made the hole known may have come long after.
        """
        have = len(self._data)
        # A hole stands as zeros. Two forged packets can make one of any size, so it must be in proportion.
        if self._state == self._pass or self._hole_bytes + length > HOLE + have:
            return self._leave_frame(length)
        self._holes.append(Span(have, have + length))
        self._hole_bytes += length
        self._data += bytes(length)
        self._marks.append((self._offset + len(self._data), self._marks[-1][1]))
        return self._run(False) if len(self._data) >= self._need else []

    def _leave_frame(self, length: int) -> list[Cut]:
        """It gives what is there of the frame at hand, and passes by its rest, of which ``length`` bytes are lost."""
        out: list[Cut] = []
        if self._state == self._cut:
            self._passing = unpack_header(self._data).frame_length - len(self._data)
            out.append(self._leftover())
        self._passing -= length
        self._offset += length
        self._lost += length
        self._state = self._pass if self._passing else self._cut
        self._need = 1
        return out

    def _leftover(self) -> Cut:
        if self._state == self._cut and len(self._data) >= HEADER_LENGTH:
            header = unpack_header(self._data)
            frame = self._frame(header, 0, len(self._data), self._confidence)
            self._drop(len(self._data))
            return frame
        if self._state == self._start:
            return self._skip(len(self._data), Why.NOT_MEMCACHED)
        return self._skip(len(self._data), Why.TORN_HEADER if self.in_step else Why.NO_BOUNDARY)

    def _skip(self, length: int, why: Why) -> Skipped:
        skipped = Skipped(self._offset, length, why, self._where(self._offset + length))
        self._lost += length
        self._drop(length)
        return skipped

    def _pass_by(self, data: bytes, where: Where) -> list[Cut]:
        skipped = Skipped(self._offset, len(data), Why.NOT_MEMCACHED, where)
        self._offset += len(data)
        return [skipped]

    def _drop(self, count: int) -> None:
        if not count:
            return
        del self._data[:count]
        self._offset += count
        self._segment = False
        if self._holes:
            self._holes = [Span(max(0, a - count), b - count) for a, b in self._holes if b > count]
            self._hole_bytes = sum(end - start for start, end in self._holes)
        if len(self._marks) > 1:
            del self._marks[: bisect_right(self._marks, self._offset, key=_end)]

    def _where(self, end: int) -> Where:
        """It gives the packet that brought the byte before offset ``end``."""
        if len(self._marks) == 1:
            return self._marks[0][1]
        place = bisect_left(self._marks, end, key=_end)
        return self._marks[min(place, len(self._marks) - 1)][1] if self._marks else NOWHERE


def _end(mark: tuple[int, Where]) -> int:
    return mark[0]


def _merged(cuts: list[Cut]) -> list[Cut]:
    """Join neighbouring skips of one reason into one."""
    out: list[Cut] = []
    for cut in cuts:
        last = out[-1] if out else None
        if (
            isinstance(cut, Skipped)
            and isinstance(last, Skipped)
            and last.why is cut.why
            and last.offset + last.length == cut.offset
        ):
            out[-1] = Skipped(last.offset, last.length + cut.length, cut.why, cut.where)
        else:
            out.append(cut)
    return out
