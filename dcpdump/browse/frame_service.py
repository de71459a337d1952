"""Index captures, and answer questions about their frames, in small steps that take turns."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcpdump.batch.filter import Masks
from dcpdump.browse.indexed_frames import Answer, Failed, FoundFrames, IndexState, Message
from dcpdump.browse.rows import RowText, text_of
from dcpdump.errors import DcpdumpError
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.index.columns import GAP_BEFORE, ODD, PROBLEM, REFUSED, Columns
from dcpdump.record import Record
from dcpdump.redact import Redactor, SettledNames

if TYPE_CHECKING:
    from dcpdump.browse.rows import Numbers

#: The filter of frames with a problem, and the flags of frames with trouble that the columns know of.
_WITH_PROBLEM, _TROUBLE = "problems", PROBLEM | ODD | REFUSED | GAP_BEFORE
#: Short questions, which are answered before others.
_SHORT = ("decode", "describe")
#: Seconds of work on a question before others have their turn.
_PIECE_S = 0.02
#: Seconds between two news of the index while the capture is read.
_NEWS_S = 0.1


class FrameService:
    """An index that answers questions. ``masks_of`` parses a filter, ``redactor`` hides data."""

    def __init__(self, index: CaptureIndex, masks_of: Callable[[str], Masks], redactor: Redactor | None) -> None:
        self.index = index
        self._masks_of, self._redactor = masks_of, redactor
        self._asked: dict[int, tuple[str, Iterator[Any]]] = {}  # by ticket: a method, and what it still yields
        self._known = (0, 0)  # how many directions and damages were in news so far
        self._last = IndexState()
        self._stopped = False  # by an error
        self._due = 0.0  # the time of the next news

    def ask(self, ticket: int, method: str, *arguments: Any) -> None:
        """Have ``work`` answer with what a method yields; without a method, drop the question of the ticket."""
        if method:
            self._asked[ticket] = method, getattr(self, method)(*arguments)
        else:
            self._asked.pop(ticket, None)

    @property
    def busy(self) -> bool:
        """Return whether there is work to do."""
        return bool(self._asked) or not self._over

    @property
    def _over(self) -> bool:
        return self.index.building.complete or self._stopped

    def work(self) -> list[Message]:
        """Continue with one question, and index more: short questions first, which are answered at once."""
        out: list[Message] = []
        try:
            if not self._stopped and self._soon is None:
                self.index.step()
        except (DcpdumpError, OSError) as error:
            self._stopped = True
            out.append(error)
        news = self._news()
        return [*out, *([] if news is None else [news]), *self._answer()]

    def _news(self) -> IndexState | None:
        index, building, now = self.index, self.index.building, time.monotonic()
        directions, damage = self._known
        news = IndexState(
            building.counts,
            index.progress,
            building.begins_ns,
            building.idle,
            building.complete,
            tuple(index.directions[directions:]),
            tuple(building.damage[damage:]),
            building.lost,
            building.skipped_bytes,
        )
        first = index.frames > 0 and not self._last.counts[0]
        if news == self._last or (now < self._due and not first and not self._over):
            return None
        self._due = now + _NEWS_S
        self._known = len(index.directions), len(building.damage)
        self._last = news._replace(directions=(), damage=())
        return news

    # -- answering ----------------------------------------------------------------------------------------

    def _answer(self) -> Iterator[Answer]:
        """Yield the pieces of an answer found in one turn."""
        if not self._asked:
            return
        soon = self._soon
        ticket = next(iter(self._asked)) if soon is None else soon
        due = time.monotonic() + _PIECE_S
        try:
            for value in self._asked[ticket][1]:
                if value is not None:
                    yield Answer(ticket, value)
                if time.monotonic() > due:
                    return
            yield Answer(ticket, None)
        except (LookupError, DcpdumpError, OSError) as error:
            yield Answer(ticket, Failed(str(error)))
        del self._asked[ticket]

    @property
    def _soon(self) -> int | None:
        """Return the ticket of a short question; None without one."""
        return next((ticket for ticket, (method, _) in self._asked.items() if method in _SHORT), None)

    # -- questions: each yields pieces of its answer, after little work; None if there is none yet --------

    def decode(self, number: int) -> Iterator[Record]:
        """Yield a frame."""
        yield self._record(number)

    def describe(self, numbers: Sequence[int]) -> Iterator[dict[int, RowText]]:
        """Yield the texts of frames by number, the first frames first."""
        yield from ({number: self._text(number)} for number in numbers)

    def choose(self, text: str, first: int, last: int) -> Iterator[FoundFrames]:
        """Yield the frames from ``first`` to ``last`` that pass a filter."""
        for found in self.index.matching(self._masks_of(text), first):
            end = min(found.last, last)
            yield FoundFrames(found.first, end, np.packbits(found.wanted[: end - found.first + 1]))
            if end == last:
                return

    def pick(self, text: str, numbers: "Numbers") -> Iterator[int | None]:
        """Yield the first of some frames whose text contains a text in lower case.

        Without a text, yield the first one with a problem, a refusal, or lost bytes before it.
        """
        if not text:
            yield from self._pick_troubled(np.asarray(numbers))
            return
        for number in numbers:
            if text in self._text(number).words.lower():
                yield number
                return
            yield None

    def _record(self, number: int) -> Record:
        """Return a frame, redacted if required, with the names of collections known at it."""
        record = self.index.record(number)
        if self._redactor is not None:
            record = self._redactor.record(record)
        names = record.names
        if names is None:
            return record
        paths = {each: path for each, _ in names.known() if (path := names.path(each, number)) is not None}
        scopes = {each: name for each, _ in names.known_scopes() if (name := names.scope(each, number)) is not None}
        return replace(record, names=SettledNames(paths, scopes))

    def _text(self, number: int) -> RowText:
        try:
            return text_of(self._record(number))
        except (LookupError, DcpdumpError, OSError):
            return RowText("no longer kept")

    def _pick_troubled(self, numbers: "npt.NDArray[np.integer[Any]]") -> Iterator[int | None]:
        """Yield the first of some frames that has a problem, refuses a request, or follows lost bytes."""
        known = np.flatnonzero(troubled(self.index.columns, numbers))
        asked = numbers[: known[0]] if len(known) else numbers
        hits: list[int] = []
        if len(asked):
            first, last = sorted((int(asked[0]), int(asked[-1])))
            for found in self.choose(_WITH_PROBLEM, first, last):
                hits += found.numbers[np.isin(found.numbers, asked)].tolist()
                if hits and first == asked[0]:
                    break
                yield None
        if hits:
            yield hits[0 if first == asked[0] else -1]
        elif len(known):
            yield int(numbers[known[0]])


def troubled(columns: Columns, numbers: "Numbers | npt.NDArray[np.integer[Any]]") -> "npt.NDArray[np.bool_]":
    """Return a mask of the frames that have a problem, refuse a request, or follow lost bytes."""
    found: npt.NDArray[np.bool_] = columns.flags[np.asarray(numbers) - 1] & _TROUBLE != 0
    return found
