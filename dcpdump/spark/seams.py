"""Seams: splits that were read each for itself are joined. Knows no Spark: who reads is told what, and tells.

First surveys, in rounds: a split tells how it leaves its connections, if they were before what it took them for.
What is proved is handed on; what is refused is surveyed again, with what is known now. Then decoding, in rounds
too, of which the first is nearly always the last: each split goes on from lives, and every one of these has to be
what the splits before it left. That alone is what the rows rest on.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.spark.connection_state import SavedConnection, is_thin, number_of, renumbered
from dcpdump.spark.split_plan import Group, SplitPlan
from dcpdump.spark.stitch import recounted, stitched
from dcpdump.spark.work import BEGINNING, Exit, InputState, Pair, Seam, Surveyed, Work

#: Connections that began in a split are numbered from here on, until all splits before it are known.
_TOKENS = 1 << 40

Surveying = Callable[[Sequence[Work]], Iterable[Surveyed]]
Decoding = Callable[[Sequence[Work]], Iterable[Exit]]


def settle(
    plan: SplitPlan, survey: Surveying, limits: Limits = DEFAULT, *, begin: InputState | None = None, end: bool = True
) -> list[Work]:
    """It has splits surveyed until all lives are known, and gives the works of decoding.

    ``begin``: an earlier input left off there; ``end``: nothing comes behind it, and the last work ends it.
    """
    seams = Seams(limits, begin or BEGINNING)
    seams.begin(*plan.settle(survey, guess=seams.guess))
    while works := seams.advance():
        for each in survey(works):
            seams.take(each, {})
    return seams.decoding(end=end)


class Seams:
    """What is known of all splits and all connections so far."""

    def __init__(self, limits: Limits, begin: InputState) -> None:
        self._groups: Sequence[Group] = ()
        self._limits = limits
        self._begin = begin
        self._surveyed: dict[int, Surveyed] = {}
        self._packets: dict[int, dict[str, int]] = {}  # what a survey's own numbers of packets are short of
        self._given: dict[int, dict[Pair, bytes | None]] = defaultdict(dict)  # what a split was surveyed with
        self._entries: dict[int, dict[Pair, tuple[int, bytes]]] = defaultdict(dict)  # proved: left by which, and what
        self._places: dict[Pair, list[int]] = defaultdict(list)  # the splits of a pair
        self._stand: dict[Pair, tuple[int, SavedConnection | None]] = {
            pair: (-1, SavedConnection.unpacked(life)) for pair, life in begin.lives.items()
        }
        self._pending: set[Pair] = set(begin.lives)
        self._rank: dict[int, dict[Pair, int]] = {}  # of each split, the connections in the order of their last use
        self._tokens: list[tuple[int, Pair]] = []  # of connections without a number

    @property
    def guess(self) -> bool:
        """Whether even the first split may have connections with a past."""
        return bool(self._begin.lives)

    def begin(self, groups: Sequence[Group], surveyed: Sequence[Surveyed], counts: Sequence[dict[str, int]]) -> None:
        """It hears what the splits are, and what came of their first surveys."""
        self._groups = groups
        for each, packets in zip(surveyed, counts, strict=True):
            self.take(each, packets)

    def take(self, surveyed: Surveyed, packets: dict[str, int]) -> None:
        """It hears what came of a survey, whose packets were counted without the files' earlier ones."""
        number = surveyed.ordinal
        if number not in self._surveyed:
            for pair in surveyed.seams:
                self._places[pair].append(number)
            self._pending.update(surveyed.seams)
        self._surveyed[number] = surveyed
        self._packets[number] = {path: count for path, count in packets.items() if count}

    def advance(self) -> list[Work]:
        """It follows all connections as far as it can; gives the works without which it cannot go on."""
        refused: set[int] = set()
        for pair in sorted(self._pending):
            self._places[pair].sort()
            at = self._follow(pair)
            if at is None:
                self._pending.discard(pair)
            else:
                refused.add(at)
        return [
            Work(number, self._groups[number], dict(self._given[number]), guess=self.guess or number > 0)
            for number in sorted(refused)
        ]

    def _follow(self, pair: Pair) -> int | None:
        """It follows a connection; gives the split in which it has to be surveyed with what is known now."""
        while True:
            stand, life = self._stand.get(pair, (-1, None))
            number = self._next(pair, stand, life)
            if number is None:
                return None
            before = None if life is None else life.packed()
            after = self._after(number, pair, life)
            if after is None:
                self._given[number][pair] = before
                return number
            if before is not None:
                self._entries[number][pair] = stand, before
            self._stand[pair] = number, after

    def _next(self, pair: Pair, stand: int, life: SavedConnection | None) -> int | None:
        """It gives the next split that has to do with a connection: with its packets, or its time."""
        places = self._places[pair]
        at = bisect_right(places, stand)
        number = places[at] if at < len(places) else None
        deadline = None if life is None else life.deadline
        if deadline is not None:
            for between in range(stand + 1, len(self._groups) if number is None else number):
                last_ns = self._surveyed[between].last_ns
                if last_ns is not None and last_ns >= deadline:
                    return between
        return number

    def _after(self, number: int, pair: Pair, life: SavedConnection | None) -> SavedConnection | None:
        packed = self._surveyed[number].seams.get(pair)
        if packed is None:
            return None
        seam = Seam.unpacked(packed)
        if self._packets[number]:
            seam = recounted(seam, self._packets[number])
        told = pair in self._given[number] or (number == 0 and not self.guess)
        after = seam.life if told else stitched(life, seam, self._limits)
        if after is not None and seam.born:
            self._tokens.append((number, pair))
            after = after._replace(number=_TOKENS + len(self._tokens) - 1)
        return after

    # -- what follows from it ---------------------------------------------------------------------------

    def decoding(self, *, end: bool) -> list[Work]:
        """It gives the works of decoding, once all is known."""
        bases = [self._begin.opened]
        for number in range(len(self._groups)):
            bases.append(bases[-1] + self._surveyed[number].opened)
        numbers = [bases[number] + self._surveyed[number].born[pair] for number, pair in self._tokens]

        def own(life: bytes) -> bytes:
            token = number_of(life) - _TOKENS
            return life if token < 0 else renumbered(life, numbers[token])

        lasting = {
            pair: own(life.packed())
            for pair, (_, life) in sorted(self._stand.items(), key=lambda item: self._used(item[0], len(self._groups)))
            if life is not None
        }
        works: list[Work] = []
        for first, stop in self._gluing():
            entries: dict[Pair, bytes | None] = {}
            for number in reversed(range(first, stop)):
                entries |= {pair: own(life) for pair, (left, life) in self._entries[number].items() if left < first}
            splits = tuple(split for group in self._groups[first:stop] for split in group)
            used = {pair: entries[pair] for pair in sorted(entries, key=lambda pair: self._used(pair, first))}
            works.append(Work(len(works), splits, used, first=bases[first]))
        self._promise(works, lasting if end else {})
        if end:
            last = self._begin.last
            for number in sorted(self._surveyed):
                seen = self._surveyed[number].last
                if seen.number:
                    last = seen._replace(number=seen.number + self._packets[number].get(seen.file, 0))
            works.append(Work(len(works), (), dict(lasting), first=bases[-1], end=last))
        elif works:
            works[-1] = works[-1]._replace(whole=True)
        return works

    def _used(self, pair: Pair, before: int) -> tuple[int, int]:
        """It says when a connection was last used before a split: in which one, and after how many others there."""
        places = self._places[pair]
        at = bisect_left(places, before) - 1
        if at < 0:
            return -1, self._ranks(-1)[pair]
        return places[at], self._ranks(places[at])[pair]

    def _ranks(self, number: int) -> dict[Pair, int]:
        if number not in self._rank:
            pairs = self._begin.lives if number < 0 else self._surveyed[number].seams
            self._rank[number] = {pair: rank for rank, pair in enumerate(pairs)}
        return self._rank[number]

    def _gluing(self) -> list[tuple[int, int]]:
        """It says which splits are to be decoded as one: those across which a frame lies that no life has whole."""
        runs: list[tuple[int, int]] = []
        for number in range(len(self._groups)):
            lows = [left for left, life in self._entries[number].values() if left >= 0 and is_thin(life)]
            first = min([number, *lows])
            while runs and runs[-1][1] > first:
                first = min(first, runs.pop()[0])
            runs.append((first, number + 1))
        return runs

    def _promise(self, works: list[Work], lasting: dict[Pair, bytes]) -> None:
        """It tells works what those after them begin with; ``lasting`` is what the end begins with."""
        coming = {pair: SavedConnection.unpacked(life).digest() for pair, life in lasting.items()}
        met: dict[int, set[Pair]] = {}
        spans = self._gluing()
        for (first, stop), work in zip(spans, works, strict=True):
            seen = {pair for number in range(first, stop) for pair in self._surveyed[number].seams}
            met[work.ordinal] = seen | set(work.entries)
        for at in reversed(range(len(works))):
            work = works[at]
            promised = tuple((pair, coming[pair]) for pair in sorted(met[work.ordinal]) if pair in coming)
            works[at] = work._replace(promised=promised)
            for pair in met[work.ordinal]:
                coming.pop(pair, None)
            for pair, life in work.entries.items():
                if life is not None:
                    coming[pair] = SavedConnection.unpacked(life).digest()


def verify(works: Sequence[Work], decode: Decoding, *, begin: InputState | None = None) -> InputState:
    """It has works decoded, those again that did not begin where the ones before them ended, until all did.

    A work of the same ordinal takes the place of the one before. What goes on behind the last one is given.
    """
    held = {work.ordinal: work for work in works}
    exits: dict[int, Exit] = {}
    todo = list(works)
    chain = _Chain(begin or BEGINNING, works)
    while todo:
        for left in decode(todo):
            exits[left.ordinal] = left
        todo = chain.refuted(held, exits)
        for work in todo:
            held[work.ordinal] = work
    return chain.state


class _Chain:
    """Work after work, each of which is to begin where those before it ended."""

    def __init__(self, begin: InputState, works: Sequence[Work]) -> None:
        self._begin = begin
        self._works = works
        self.state = begin

    def refuted(self, works: dict[int, Work], exits: dict[int, Exit]) -> list[Work]:
        """It gives the works that began otherwise, with what they should begin with."""
        begin = self._begin
        lives = {pair: SavedConnection.unpacked(life) for pair, life in begin.lives.items()}
        stand: dict[Pair, tuple[int, bytes, bytes | None]] = {
            pair: (-1, life.digest(), begin.lives[pair]) for pair, life in lives.items()
        }
        deadlines = {pair: life.deadline for pair, life in lives.items() if life.deadline is not None}
        again: dict[int, Work] = {}
        first, last = begin.opened, begin.last
        for number in sorted(works):
            work, left = works[number], exits[number]
            met = set(stand) if work.end is not None else set(left.digests) | set(left.entered)
            met |= {pair for pair, time in deadlines.items() if left.last_ns is not None and left.last_ns >= time}
            wrong = any(left.entered.get(pair) != (stand[pair][1] if pair in stand else None) for pair in met)
            if wrong or first != work.first:
                entries = self._whole({pair: each for pair, each in stand.items() if pair in met})
                again[number] = work._replace(entries=dict(entries), first=first)
                lows = [stand[pair][0] for pair, life in entries.items() if is_thin(life)]
                if lows and min(lows) >= 0:
                    again |= _glued(works, min(lows), number)
            first = left.opened
            last = left.last if left.last.number else last
            for pair, digest in left.digests.items():
                if pair in stand and stand[pair][1] != digest:  # it was used, so others were before it
                    del stand[pair]
                stand[pair] = number, digest, left.lives.get(pair)
                deadlines.pop(pair, None)
                if pair in left.deadlines:
                    deadlines[pair] = left.deadlines[pair]
        ended = any(work.end is not None for work in works.values())
        self.state = InputState({} if ended else self._whole(stand), first, last)
        return [again[number] for number in sorted(again)]

    def _whole(self, stand: dict[Pair, tuple[int, bytes, bytes | None]]) -> dict[Pair, bytes]:
        """It gives lives; of those that were as promised, what was promised."""
        if any(life is None for _, _, life in stand.values()):
            told = ((pair, life) for work in self._works for pair, life in work.entries.items() if life is not None)
            promised = {(pair, SavedConnection.unpacked(life).digest()): life for pair, life in told}
        return {pair: promised[pair, digest] if life is None else life for pair, (_, digest, life) in stand.items()}


def _glued(works: dict[int, Work], first: int, last: int) -> dict[int, Work]:
    """It makes one work of several, and nothing of the others."""
    splits = tuple(split for number in range(first, last + 1) for split in works[number].splits)
    out = {number: works[number]._replace(splits=(), entries={}) for number in range(first + 1, last + 1)}
    return {first: works[first]._replace(splits=splits), **out}
