"""FrameService: index captures, and answer what is asked about their frames, a little of everything at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dcpdump.batch.filter import Masks
from dcpdump.browse.reader import (
    Answer,
    Choose,
    Decode,
    Describe,
    Failed,
    FoundFrames,
    FrameEnds,
    IndexNews,
    Message,
    Pick,
    Question,
)
from dcpdump.browse.rows import RowText, text_of
from dcpdump.errors import DcpdumpError
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.record import Record
from dcpdump.redact import Redactor, SettledNames

#: A question that takes longer answers in pieces, so many seconds apart, and others have their turn in between.
_PIECE_S = 0.02
#: While it is read, news of the index come so many seconds apart.
_NEWS_S = 0.1


class FrameService:
    """An index that is asked. ``masks_of`` reads a filter, ``redactor`` hides what is not to be shown."""

    def __init__(self, index: CaptureIndex, masks_of: Callable[[str], Masks], redactor: Redactor | None) -> None:
        self.index = index
        self._masks_of, self._redactor = masks_of, redactor
        self._asked: dict[int, tuple[Question, Iterator[Any]]] = {}
        self._known = (0, 0)  # ends and damages that are in the news
        self._last: IndexNews | None = None
        self._stopped = False  # by an error
        self._pending = False  # whether there are news that were not said yet
        self._due = 0.0  # when the next news are

    def ask(self, ticket: int, question: Question | None) -> None:
        """Take a question, which ``work`` answers under its ticket; None: that under the ticket is forgotten."""
        if question is None:
            self._asked.pop(ticket, None)
        else:
            self._asked[ticket] = question, self._answers(question)

    @property
    def busy(self) -> bool:
        """Return whether there is something to do at once."""
        return bool(self._asked) or (self.index.waits_for is None and not self._over)

    @property
    def patience(self) -> float | None:
        """Return after how many seconds there are news, if nothing else comes."""
        return max(0.0, self._due - time.monotonic()) if self._pending else None

    @property
    def _over(self) -> bool:
        return self.index.complete or bool(self.index.failure) or self._stopped

    def work(self) -> list[Message]:
        """Index what has come, and go on with one question: short ones first."""
        out: list[Message] = []
        try:
            if not self._stopped:
                self.index.step()
        except (DcpdumpError, OSError) as error:
            self._stopped = True
            out.append(error)
        news = self._news()
        if news is not None:
            out.append(news)
        answer = self._answer()
        if answer is not None:
            out.append(answer)
        return out

    def _news(self) -> IndexNews | None:
        index, before, now = self.index, self._last, time.monotonic()
        ends, damage = self._known
        news = IndexNews(
            index.counts,
            index.progress,
            index.begins_ns,
            index.idle,
            index.complete,
            index.failure,
            tuple(FrameEnds(each.connection, each.direction) for each in index.ends[ends:]),
            tuple(index.damage[damage:]),
            index.lost,
            index.skipped_bytes,
        )
        self._pending = news != before
        first = index.frames > 0 and (before is None or not before.counts[0])
        if not self._pending or (now < self._due and not first and not self._over):
            return None
        self._pending, self._due = False, now + _NEWS_S
        self._known = len(index.ends), len(index.damage)
        self._last = news._replace(ends=(), damage=())
        return news

    # -- answering ----------------------------------------------------------------------------------------

    def _answer(self) -> Answer | None:
        """Return the next piece of an answer."""
        if not self._asked:
            return None
        short = (ticket for ticket, (question, _) in self._asked.items() if isinstance(question, Decode | Describe))
        ticket = next(short, next(iter(self._asked)))
        question, answers = self._asked[ticket]
        done = False
        try:
            value = next(answers)
            done = isinstance(question, Decode)
        except StopIteration:
            value, done = None, True
        except (LookupError, DcpdumpError, OSError) as error:
            value, done = Failed(str(error)), True
        if done:
            del self._asked[ticket]
        return Answer(ticket, value, done) if value is not None or done else None

    def _answers(self, question: Question) -> Iterator[Any]:
        match question:
            case Decode(number):
                yield self._record(number)
            case Describe(numbers):
                yield from self._describe(numbers)
            case Choose(text, first, last):
                yield from self._choose(text, first, last)
            case Pick(text, numbers):
                yield from self._pick(text, numbers if isinstance(numbers, range) else numbers.tolist())

    def _record(self, number: int) -> Record:
        """Return a frame as it may be shown, with the names of collections as they were known then."""
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

    def _describe(self, numbers: tuple[int, ...]) -> Iterator[dict[int, RowText]]:
        texts: dict[int, RowText] = {}
        due = time.monotonic() + _PIECE_S
        for number in numbers:
            texts[number] = self._text(number)
            if time.monotonic() > due:
                yield texts
                texts, due = {}, time.monotonic() + _PIECE_S
        yield texts

    def _choose(self, text: str, first: int, last: int) -> Iterator[FoundFrames | None]:
        begin, kept, due = first, [], 0.0  # the first hits come at once
        for found in self.index.matching(self._masks_of(text), first):
            kept.append(found.wanted)
            end = min(found.last, last)
            if end < last and time.monotonic() < due:
                yield None
                continue
            wanted = np.concatenate(kept)[: end - begin + 1]
            yield FoundFrames(begin, end, np.packbits(wanted))
            if end == last:
                return
            begin, kept, due = end + 1, [], time.monotonic() + _PIECE_S

    def _pick(self, text: str, numbers: Sequence[int]) -> Iterator[int | None]:
        due = time.monotonic() + _PIECE_S
        for number in numbers:
            if text in self._text(number).words.lower():
                yield number
                return
            if time.monotonic() > due:
                yield None
                due = time.monotonic() + _PIECE_S
