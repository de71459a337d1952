"""FrameSplitter: cuts the bytes of one direction into frames.

It knows lengths and magics; it knows no TCP, no clock and no meaning. In step it is lenient: whatever has
a magic and consistent lengths is a frame. Loss is told to it (``gap``), and afterwards it finds its way
back: a hole inside a body needs no search, since the frame's end is known; a lost header does.
"""

from bisect import bisect_left
from typing import NamedTuple

from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.wire.frame import NOWHERE, Header, RawFrame, Span, Where, unpack_header
from dcpdump.wire.resync import SEARCH_WINDOW, Streams, Verdict, begins, find_frame, framed, known


class Skipped(NamedTuple):
    """Bytes that belong to no frame, and why."""

    offset: int
    length: int
    why: str
    where: Where = NOWHERE


Cut = RawFrame | Skipped

NO_BOUNDARY = "no frame begins there"
NOT_MEMCACHED = "not the memcached binary protocol"
TORN_HEADER = "the rest of the header was lost"
PATIENCE = 64 * 1024  #: bytes up to which a search is repeated with every segment


class FrameSplitter:
    """Feed it the bytes of one direction, in order, and its gaps; it gives frames and what it skipped.

    ``streams`` is what the connection is known to carry (it decides which candidates to believe after a
    loss); ``late``: the direction's beginning was not captured, so its first byte may be anywhere in a
    frame.
    """

    def __init__(self, streams: Streams, *, late: bool = False) -> None:
        self._streams = streams
        self._state = self._search if late else self._start
        self._data = bytearray()
        self._offset = 0  # of self._data[0]
        self._need = 1  # bytes that self._data must have before looking again is of use
        self._marks: list[tuple[int, Where]] = []  # where the bytes up to an offset came from
        self._holes: list[Span] = []  # in self._data
        self._lost = 0  # bytes lost or skipped since the last frame
        self._confidence = ""  # in the frame that self._data begins with
        self._segment = True  # self._data begins where a segment did
        self.foreign = False  # it is some other protocol; nothing more is looked for

    @property
    def in_step(self) -> bool:
        """Whether frame boundaries are known."""
        return self._state == self._cut

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
        return self._state(False)

    def gap(self, length: int | None, where: Where = NOWHERE) -> list[Cut]:
        """It hears that the next ``length`` bytes were lost (None: an unknown number)."""
        if self.foreign:
            self._offset += length or 0
            return []
        if length is not None and self._state == self._cut and self._bridge(length, where):
            return self._state(False) if len(self._data) >= self._need else []
        out = self.close()
        self._offset += length or 0
        self._lost += length or 0
        self._state = self._search
        return out

    def close(self) -> list[Cut]:
        """It ends the input: what is left is a frame cut short, or skipped."""
        out = self._state(True)
        if self._data:
            out.append(self._leftover())
        self._data = bytearray()
        self._marks.clear()
        self._need = 1
        return out

    # -- states: each takes what it can from self._data; final says that no more will come ---------------

    def _start(self, final: bool) -> list[Cut]:
        verdict = begins(self._data, final=final)
        if verdict in (Verdict.FRAME, Verdict.WEAK):
            self._state = self._cut
            return self._cut(final)
        if verdict is Verdict.NO and not final:
            self.foreign = True
            return [self._skip(len(self._data), NOT_MEMCACHED)]
        self._need = len(self._data) + 1
        return []

    def _search(self, final: bool) -> list[Cut]:
        found = find_frame(self._data, 0, self._streams, final=final, segment=self._segment)
        out: list[Cut] = []
        if found.at and (found.verdict is not Verdict.NO or not final):
            out.append(self._skip(found.at, NO_BOUNDARY))
        if found.verdict in (Verdict.FRAME, Verdict.WEAK):
            self._state = self._cut
            return out + self._cut(final, "low" if found.verdict is Verdict.WEAK else "")
        # Large buffers are looked at again only after they grew by a quarter, so that the time stays linear.
        have = len(self._data)
        self._need = have + (1 if have < PATIENCE else have // 4)
        return out

    def _cut(self, final: bool, confidence: str = "") -> list[Cut]:
        out: list[Cut] = []
        self._confidence = confidence
        data, at, end = self._data, 0, len(self._data)
        while end - at >= HEADER_LENGTH:
            header = unpack_header(data, at)
            stop = at + HEADER_LENGTH + header.body_length
            if not framed(header):
                verdict = self._illegal_but_in_step(header, stop, final)
                if verdict is Verdict.NO:
                    return out + self._out_of_step(at, final)
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
                return out + self._out_of_step(at, final)
        self._drop(at)
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

    def _out_of_step(self, at: int, final: bool) -> list[Cut]:
        """It gives the bytes at ``at`` up, and looks for the next frame behind them."""
        self._drop(at)
        out: list[Cut] = [self._skip(1, NO_BOUNDARY)]
        self._state = self._search
        self._segment = False
        out += self._search(final)
        return _merged(out)

    def _bridge(self, length: int, where: Where) -> bool:
        """It lets a hole pass that lies inside the body of the frame at hand."""
        have = len(self._data)
        if have < HEADER_LENGTH or have + length > unpack_header(self._data).frame_length:
            return False
        self._holes.append(Span(have, have + length))
        self._data += bytes(length)
        self._marks.append((self._offset + len(self._data), where))
        return True

    def _leftover(self) -> Cut:
        if self._state == self._cut and len(self._data) >= HEADER_LENGTH:
            header = unpack_header(self._data)
            frame = self._frame(header, 0, len(self._data), self._confidence)
            self._drop(len(self._data))
            return frame
        if self._state == self._start:
            return self._skip(len(self._data), NOT_MEMCACHED)
        return self._skip(len(self._data), TORN_HEADER if self.in_step else NO_BOUNDARY)

    def _skip(self, length: int, why: str) -> Skipped:
        skipped = Skipped(self._offset, length, why, self._where(self._offset + length))
        self._lost += length
        self._drop(length)
        return skipped

    def _pass_by(self, data: bytes, where: Where) -> list[Cut]:
        skipped = Skipped(self._offset, len(data), NOT_MEMCACHED, where)
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
        if len(self._marks) > 1:
            self._marks = [mark for mark in self._marks if mark[0] > self._offset]

    def _where(self, end: int) -> Where:
        """It gives the packet that brought the byte before offset ``end``."""
        if len(self._marks) == 1:
            return self._marks[0][1]
        place = bisect_left(self._marks, end, key=lambda mark: mark[0])
        return self._marks[min(place, len(self._marks) - 1)][1] if self._marks else NOWHERE


def _merged(cuts: list[Cut]) -> list[Cut]:
    """It joins neighbouring skips of one reason into one."""
    out: list[Cut] = []
    for cut in cuts:
        last = out[-1] if out else None
        if (
            isinstance(cut, Skipped)
            and isinstance(last, Skipped)
            and last.why == cut.why
            and last.offset + last.length == cut.offset
        ):
            out[-1] = Skipped(last.offset, last.length + cut.length, cut.why, cut.where)
        else:
            out.append(cut)
    return out
