"""Cut the bytes of one direction into frames.

Knows lengths and magics; knows no TCP, no clock and no meaning. While frame boundaries are known, any header with a
magic and consistent lengths begins a frame. The caller reports lost bytes (``gap``). A hole inside a body needs no
search, since the frame's end is known; after a lost header the next frame is searched for.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import Any, Final, NamedTuple

from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.wire.frame import NOWHERE, Header, RawFrame, Span, Where, unpack_header
from dcpdump.wire.frames import Frames
from dcpdump.wire.resync import SEARCH_WINDOW, Judgement, begins, find_frame, framed, known, nearly
from dcpdump.wire.session import Session

# -- bytes of a direction that wait for the rest of a frame -------------------------------------------

#: About how many bytes of memory a packet that brought bytes takes, and about how many a hole takes.
_MARK: Final = 256
_HOLE: Final = 128


class PendingBytes:
    """The bytes that wait in a splitter, from ``offset`` of their direction on. Zeros stand for lost bytes."""

    __slots__ = ("data", "hole_bytes", "holes", "least", "marks", "offset", "segment")

    def __init__(self) -> None:
        self.data = bytearray()
        self.offset = 0  #: of the first byte
        self.marks: list[tuple[int, Where]] = []  #: where the bytes up to an offset came from
        self.least = 0  #: only the last of the packets that brought the bytes before this offset is needed
        self.holes: list[Span] = []  #: lost bytes, as places in ``data``
        self.hole_bytes = 0  #: all of them together
        self.segment = True  #: the first byte is that of a segment

    @property
    def weight(self) -> int:
        """Return the memory that the bytes and their packets take; of one-byte segments the packets cost more."""
        return len(self.data) + _MARK * len(self.marks) + _HOLE * len(self.holes)

    def add(self, data: bytes, where: Where) -> None:
        """Add the next bytes, which a packet brought."""
        self.begin()
        self.data += data
        self.mark(self.offset + len(self.data), where)

    def begin(self) -> None:
        """Note that a segment begins; where no bytes wait, the first byte that waits is the segment's first."""
        if not self.data:
            self.segment = True
            self.marks.clear()

    def mark(self, end: int, where: Where) -> None:
        """Note that a packet brought the bytes up to an offset."""
        if self.marks and self.marks[-1][0] < self.least:
            self.marks.clear()
        self.marks.append((end, where))

    def wait(self, size: int) -> None:
        """Note that the first ``size`` bytes are one frame, whose end is still to come; 0: its size is not known."""
        self.least = self.offset + size if size else 0
        if size:
            del self.marks[:-1]

    def lose(self, length: int) -> None:
        """Let zeros stand for lost bytes. The packet that made the loss known may have come long after them."""
        have = len(self.data)
        self.holes.append(Span(have, have + length))
        self.hole_bytes += length
        self.data += bytes(length)
        self.mark(self.offset + len(self.data), self.marks[-1][1])

    def drop(self, count: int) -> None:
        """Drop the first bytes."""
        if not count:
            return
        del self.data[:count]
        self.offset += count
        self.least = 0
        self.segment = False
        if self.holes:
            self.fill([Span(max(0, a - count), b - count) for a, b in self.holes if b > count])
        if len(self.marks) > 1:
            del self.marks[: bisect_right(self.marks, self.offset, key=itemgetter(0))]

    def keep_after(self, data: bytes, used: int) -> None:
        """Replace the held bytes by those of ``data`` after its first ``used``; the caller then calls ``mark``."""
        if used:
            self.offset += used
            self.segment = False
            self.marks.clear()
        self.data = bytearray(data[used:] if used else data)

    def fill(self, holes: list[Span]) -> None:
        """Set which bytes were lost."""
        self.holes = holes
        self.hole_bytes = sum([end - start for start, end in holes])

    def clear(self) -> None:
        """Forget the bytes; the offset stays that of the first of them."""
        self.data = bytearray()
        self.least = 0
        self.marks.clear()
        self.fill([])

    def holes_in(self, start: int, stop: int) -> tuple[Span, ...]:
        """Return the holes between two offsets, counted from the first of these."""
        return tuple([Span(a - start, b - start) for a, b in self.holes if a < stop and b > start])

    def where(self, end: int) -> Where:
        """Return the packet that brought the byte before an offset."""
        if len(self.marks) == 1:
            return self.marks[0][1]
        at = bisect_left(self.marks, end, key=itemgetter(0))
        return self.marks[min(at, len(self.marks) - 1)][1] if self.marks else NOWHERE


# -- what is cut: a frame, or bytes that belong to none -----------------------------------------------


class Why(Enum):
    """Reasons for which bytes belong to no frame."""

    NO_BOUNDARY = "no frame begins there"
    NOT_MEMCACHED = "not the memcached binary protocol"
    TORN_HEADER = "the rest of the header was lost"
    BEGUN_BEFORE = "the rest of a frame that began before the capture"
    PASSED_BY = "the rest of a frame of which too much was lost or too much waits"


class Skipped(NamedTuple):
    """Bytes that belong to no frame, and why."""

    offset: int
    length: int
    why: Why
    where: Where = NOWHERE


Cut = RawFrame | Skipped


def merged(cuts: list[Cut]) -> list[Cut]:
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


# -- the state of a splitter: all that decides where it cuts the bytes that come next -----------------

#: The states of a splitter: wait for the first bytes of its direction, search for a frame, cut frame after frame, or
#: skip the rest of a frame that was given up.
START: Final = "start"
SEARCH: Final = "search"
CUT: Final = "cut"
PASS: Final = "pass"

#: The state of a splitter, and of its bytes, as plain values.
SplitterState = dict[str, Any]
_PLAIN: Final = ("_state", "_need", "_joining", "_lost", "_confidence", "_passing", "_doubtful", "foreign")
_PLAIN_PENDING: Final = ("offset", "least", "segment")

PATIENCE: Final = 64 * 1024  #: up to this many bytes a search is repeated whenever bytes come
HOLE: Final = 256 * 1024  #: zeros for lost bytes that a frame may hold beyond as many as were captured of it
DOUBT: Final = 64 * 1024  #: after a damaged first header: if so many bytes hold no frame, this is another protocol


class FrameSplitter:
    """A splitter is fed the bytes of one direction, in order, and its gaps; it returns frames and the bytes it skipped.

    ``session`` returns what is known of the connection, which decides which candidates to believe after a loss.
    ``joined_late``: the direction's beginning was not captured, so its first byte may be anywhere in a frame.
    """

    def __init__(self, session: Callable[[], Session], *, joined_late: bool = False) -> None:
        self._session = session
        self._state = SEARCH if joined_late else START
        self._pending = PendingBytes()
        self._need = 1  # bytes that must be held before another attempt can succeed
        self._joining = joined_late  # the bytes skipped next are the end of an earlier frame: they are no loss
        self._lost = 0  # bytes lost or skipped since the last frame
        self._confidence = ""  # of the next frames: "low" after a search with weak evidence
        self._passing = 0  # bytes that are left of a frame that was given up
        self._doubtful = False  # no frame has been seen, and the first header was damaged
        self.foreign = False  # this is another protocol; no frames are searched for

    def state(self) -> SplitterState:
        """Return all that decides where it cuts the next bytes, as plain values, for ``restore``."""
        pending = self._pending
        state: SplitterState = {name: getattr(self, name) for name in _PLAIN}
        state |= {name: getattr(pending, name) for name in _PLAIN_PENDING}
        state |= {"data": bytes(pending.data), "holes": [(*hole,) for hole in pending.holes]}
        return state | {"marks": [(end, (*where,)) for end, where in pending.marks]}

    def restore(self, state: SplitterState) -> None:
        """Restore a state."""
        pending = self._pending
        for name in _PLAIN:
            setattr(self, name, state[name])
        for name in _PLAIN_PENDING:
            setattr(pending, name, state[name])
        pending.data = bytearray(state["data"])
        pending.fill([Span(*hole) for hole in state["holes"]])
        pending.marks = [(end, Where(*where)) for end, where in state["marks"]]

    @property
    def in_step(self) -> bool:
        """Return whether frame boundaries are known."""
        return self._state in (CUT, PASS)

    @property
    def held(self) -> int:
        """Return the bytes that wait here for the rest of a frame, lost ones in it included."""
        return len(self._pending.data)

    @property
    def weight(self) -> int:
        """Return the memory that these take."""
        return self._pending.weight

    def begin(self, offset: int) -> None:
        """Set the offset in its direction of the first byte to come; without this it is 0."""
        self._pending.offset = offset

    def feed(self, data: bytes, where: Where = NOWHERE) -> list[Cut]:
        """Take the next bytes; ``where`` is the packet that brought them."""
        if self.foreign:
            return self._pass_by(data, where)
        self._pending.add(data, where)
        if len(self._pending.data) < self._need:
            return []
        return self._run(False)

    @property
    def ready(self) -> bool:
        """Return whether ``cut_many`` may be called: boundaries are known, and no held byte was lost."""
        return self._state == CUT and not (self._pending.holes or self._confidence or self.foreign)

    def cut_many(self, pieces: list[bytes], frames: Frames, direction_id: int) -> int:
        """Take contiguous pieces as ``feed`` does, but cut many frames at once, and add them to ``frames``.

        Only for a splitter that is ``ready``. Return how many bytes the frames have, those held before included; -1
        where a header is not ordinary: then nothing was taken. ``frames`` notes ``direction_id``.
        Afterwards the caller names with ``mark`` the packet that brought the bytes that are still pending.
        """
        pending, have = self._pending, len(self._pending.data)
        pending.begin()
        if have + sum([len(piece) for piece in pieces]) < self._need:
            pending.data += pieces[0] if len(pieces) == 1 else b"".join(pieces)
            return 0
        if have:
            pieces = [bytes(pending.data), *pieces]
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        used = frames.cut(data, pending.offset, self._lost, direction_id)
        if used < 0:
            return used
        if used:
            self._lost = 0
        pending.keep_after(data, used)
        self._need = frames.need
        pending.wait(frames.need if frames.need > HEADER_LENGTH else 0)
        return used

    def mark(self, end: int, where: Where) -> None:
        """Note that a packet brought the held bytes up to an offset."""
        self._pending.mark(end, where)

    @property
    def offset(self) -> int:
        """Return the offset of the first byte that is held, or of the next."""
        return self._pending.offset

    def pass_by(self, size: int) -> None:
        """Let bytes of another protocol pass, where ``foreign``."""
        self._pending.offset += size

    def gap(self, length: int | None, *, joins: bool = False) -> list[Cut]:
        """Report that the next ``length`` bytes were lost (None: an unknown number).

        ``joins``: the file leaves these bytes out on purpose. They are no loss, and bytes skipped after them are the
        end of a frame that began in them.
        """
        if self.foreign:
            self._pending.offset += length or 0
            return []
        if length is not None and self._within_frame(length):
            return self._bridge(length)
        out = self.close()
        self._pending.offset += length or 0
        self._lost += 0 if joins else length or 0
        self._passing, self._joining = 0, joins
        self._state = SEARCH
        return out

    def give_up(self) -> list[Cut]:
        """Release all memory: return the captured part of the current frame, and skip its rest."""
        if self._within_frame(0):
            return self._leave_frame(0)
        out = self.close()
        if not self.foreign:
            self._state = SEARCH
        return out

    def close(self) -> list[Cut]:
        """End the input: the bytes left are a frame cut short, or are skipped."""
        out = self._run(True)
        if self._pending.data:
            out.append(self._leftover())
        self._pending.clear()
        self._need = 1
        return out

    def _run(self, final: bool) -> list[Cut]:
        """Change states until more bytes are needed. A loop, not recursion: there may be a change for each byte."""
        out: list[Cut] = []
        searched = False
        while True:
            state = self._state
            if state == CUT:
                out += self._cut(final)
            elif state == SEARCH:
                out += self._search(final)
            else:
                out += self._start(final) if state == START else self._pass(final)
            if self._state == state or self.foreign:
                return merged(out) if searched else out
            searched = searched or self._state == SEARCH

    # -- states: each takes what it can of what is held; final says that no more will come ---------------

    def _start(self, final: bool) -> list[Cut]:
        verdict = begins(self._pending.data, final=final)
        if verdict in (Judgement.FRAME, Judgement.WEAK):
            self._state = CUT
        elif verdict is Judgement.WAIT:
            self._need = len(self._pending.data) + 1
        elif not final and len(self._pending.data) >= HEADER_LENGTH and nearly(unpack_header(self._pending.data)):
            self._doubtful = True
            self._state = SEARCH
        elif not final:
            self.foreign = True
            return [self._skip(len(self._pending.data), Why.NOT_MEMCACHED)]
        return []

    def _search(self, final: bool) -> list[Cut]:
        found = find_frame(self._pending.data, 0, self._session, final=final, segment=self._pending.segment)
        out: list[Cut] = []
        if found.at and (found.verdict is not Judgement.NO or not final):
            out.append(self._skip(found.at, Why.NO_BOUNDARY))
        if found.verdict in (Judgement.FRAME, Judgement.WEAK):
            self._state = CUT
            self._confidence = "low" if found.verdict is Judgement.WEAK else ""
            self._doubtful = self._joining = False
            return out
        if self._doubtful and self._lost > DOUBT:
            self.foreign = True
            return [*out, self._skip(len(self._pending.data), Why.NOT_MEMCACHED)]
        # Bytes are searched again only after they grew by a fixed share, so that the time stays linear.
        have = len(self._pending.data)
        self._need = have + max(1, have // (16 if have < PATIENCE else 4))
        return out

    def _cut(self, final: bool) -> list[Cut]:
        out: list[Cut] = []
        data, at, end, confidence = self._pending.data, 0, len(self._pending.data), self._confidence
        waits = 0
        while end - at >= HEADER_LENGTH:
            header = unpack_header(data, at)
            stop = at + HEADER_LENGTH + header.body_length
            if not framed(header):
                verdict = self._illegal_but_in_step(header, stop, final)
                if verdict is Judgement.NO:
                    return self._out_of_step(out, at)
                if verdict is Judgement.WAIT:
                    self._need = stop + HEADER_LENGTH - at
                    break
            if stop > end:
                self._need = waits = stop - at
                break
            out.append(self._frame(header, at, stop, confidence))
            at = stop
        else:
            self._need = HEADER_LENGTH
            if at < end and data[at] not in MAGICS:
                return self._out_of_step(out, at)
        self._pending.drop(at)
        self._pending.wait(waits)
        if out and not final:
            self._confidence = ""  # the frames in later segments do not depend on this guess
        return out

    def _pass(self, final: bool) -> list[Cut]:
        count = min(self._passing, len(self._pending.data))
        out: list[Cut] = [self._skip(count, Why.PASSED_BY)] if count else []
        self._passing -= count
        self._need = 1
        if not self._passing:
            self._state = CUT
        return out

    # -- the pieces -------------------------------------------------------------------------------------

    def _frame(self, header: Header, at: int, stop: int, confidence: str = "") -> RawFrame:
        pending = self._pending
        gap, self._lost = self._lost, 0
        offset = pending.offset + at
        data, holes = bytes(memoryview(pending.data)[at:stop]), pending.holes_in(at, stop) if pending.holes else ()
        return RawFrame(data, header, offset, pending.where(offset + stop - at), gap, holes, confidence)

    def _illegal_but_in_step(self, header: Header, following: int, final: bool) -> Judgement:
        """Judge a header with sections longer than its body: a damaged frame if the next frame begins at its end."""
        if header.magic not in MAGICS or header.frame_length > SEARCH_WINDOW:
            return Judgement.NO
        if following + HEADER_LENGTH <= len(self._pending.data):
            return Judgement.FRAME if known(unpack_header(self._pending.data, following)) else Judgement.NO
        if final:
            return Judgement.FRAME if following == len(self._pending.data) else Judgement.NO
        return Judgement.WAIT

    def _out_of_step(self, out: list[Cut], at: int) -> list[Cut]:
        """Skip the byte at ``at``, and search for the next frame after it."""
        self._pending.drop(at)
        self._state = SEARCH
        self._confidence = ""
        out.append(self._skip(1, Why.NO_BOUNDARY))
        self._pending.segment = False
        return out

    def _within_frame(self, length: int) -> bool:
        """Return whether the next ``length`` bytes all belong to the current frame, whose end is known."""
        if self._state == PASS:
            return length <= self._passing
        have = len(self._pending.data)
        if self._state != CUT or have < HEADER_LENGTH:
            return False
        return have + length <= unpack_header(self._pending.data).frame_length

    def _bridge(self, length: int) -> list[Cut]:
        """Let zeros stand for a hole inside the current frame's body; for a huge one, leave the frame."""
        pending, have = self._pending, len(self._pending.data)
        # A hole stands as zeros. Two forged packets can make one of any size, so it must be in proportion.
        if self._state == PASS or pending.hole_bytes + length > HOLE + have:
            return self._leave_frame(length)
        pending.lose(length)
        return self._run(False) if have + length >= self._need else []

    def _leave_frame(self, length: int) -> list[Cut]:
        """Return the captured part of the current frame, and skip its rest, of which ``length`` bytes are lost."""
        out: list[Cut] = []
        if self._state == CUT:
            self._passing = unpack_header(self._pending.data).frame_length - len(self._pending.data)
            out.append(self._leftover())
        self._passing -= length
        self._pending.offset += length
        self._lost += length
        self._state = PASS if self._passing else CUT
        self._need = 1
        return out

    def _leftover(self) -> Cut:
        if self._state == CUT and len(self._pending.data) >= HEADER_LENGTH:
            header = unpack_header(self._pending.data)
            frame = self._frame(header, 0, len(self._pending.data), self._confidence)
            self._pending.drop(len(self._pending.data))
            return frame
        if self._state == START:
            return self._skip(len(self._pending.data), Why.NOT_MEMCACHED)
        return self._skip(len(self._pending.data), Why.TORN_HEADER if self.in_step else Why.NO_BOUNDARY)

    def _skip(self, length: int, why: Why) -> Skipped:
        if self._joining:
            why = Why.BEGUN_BEFORE
        else:
            self._lost += length
        skipped = Skipped(self._pending.offset, length, why, self._pending.where(self._pending.offset + length))
        self._pending.drop(length)
        return skipped

    def _pass_by(self, data: bytes, where: Where) -> list[Cut]:
        self._pending.offset += len(data)
        return [Skipped(self._pending.offset - len(data), len(data), Why.NOT_MEMCACHED, where)]
