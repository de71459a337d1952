"""Join splits that were read independently. Knows no Spark: callers pass the functions that survey and decode.

First come surveys, in rounds: a survey returns how a split leaves its connections, assuming they were before it what
was guessed. What is verified is handed on; what is refused is surveyed again, with what is known now. Then comes
decoding, in rounds too, of which the first is nearly always the last: each split starts from saved connections, and
each of these has to be what the splits before it left. The correctness of the rows rests on that check alone.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from dcpdump.batch.resumable import SavedConnection, is_thin, number_of, renumbered
from dcpdump.net.endpoints import flow_of
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.spark.known_names import Ends, KnownNames, NamesState
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
    """Survey splits until the state of all connections is known, and return the works to decode.

    ``begin``: the state that an earlier input left; ``end``: the input ends here, so a last work ends all connections.
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
        self._packets: dict[int, dict[str, int]] = {}  # by file: earlier packets that a survey's numbers do not count
        self._given: dict[int, dict[Pair, bytes | None]] = defaultdict(dict)  # what a split was surveyed with
        #: Verified: by split and pair, which split left the connection, and in what state.
        self._entries: dict[int, dict[Pair, tuple[int, bytes]]] = defaultdict(dict)
        self._places: dict[Pair, list[int]] = defaultdict(list)  # the splits of a pair
        self._stand: dict[Pair, tuple[int, SavedConnection | None]] = {
            pair: (-1, SavedConnection.unpacked(saved)) for pair, saved in begin.saved_connections.items()
        }
        self._pending: set[Pair] = set(begin.saved_connections)
        self._rank: dict[int, dict[Pair, int]] = {}  # by split: its connections in the order of their last use
        self._tokens: list[tuple[int, Pair]] = []  # connections that are not numbered yet

    @property
    def guess(self) -> bool:
        """Return whether even the first split may have connections with a past."""
        return bool(self._begin.saved_connections)

    def begin(self, groups: Sequence[Group], surveyed: Sequence[Surveyed], counts: Sequence[dict[str, int]]) -> None:
        """Take the splits, and the results of their first surveys."""
        self._groups = groups
        for each, packets in zip(surveyed, counts, strict=True):
            self.take(each, packets)

    def take(self, surveyed: Surveyed, packets: dict[str, int]) -> None:
        """Take the result of a survey; ``packets``: by file, how many earlier packets its numbers do not count."""
        number = surveyed.ordinal
        if number not in self._surveyed:
            for pair in surveyed.seams:
                self._places[pair].append(number)
            self._pending.update(surveyed.seams)
        self._surveyed[number] = surveyed
        self._packets[number] = {path: count for path, count in packets.items() if count}

    def advance(self) -> list[Work]:
        """Follow all connections as far as possible; return the works that must be surveyed before it can continue."""
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
        """Follow a connection; return the split in which it has to be surveyed with what is known now, or None."""
        while True:
            stand, saved = self._stand.get(pair, (-1, None))
            number = self._next(pair, stand, saved)
            if number is None:
                return None
            before = None if saved is None else saved.packed()
            after = self._after(number, pair, saved)
            if after is None:
                self._given[number][pair] = before
                return number
            if before is not None:
                self._entries[number][pair] = stand, before
            self._stand[pair] = number, after

    def _next(self, pair: Pair, stand: int, saved: SavedConnection | None) -> int | None:
        """Return the next split that affects a connection: by its packets, or because its deadline passes there."""
        places = self._places[pair]
        at = bisect_right(places, stand)
        number = places[at] if at < len(places) else None
        deadline = None if saved is None else saved.deadline
        if deadline is not None:
            for between in range(stand + 1, len(self._groups) if number is None else number):
                last_ns = self._surveyed[between].last_ns
                if last_ns is not None and last_ns >= deadline:
                    return between
        return number

    def _after(self, number: int, pair: Pair, saved: SavedConnection | None) -> SavedConnection | None:
        packed = self._surveyed[number].seams.get(pair)
        if packed is None:
            return None
        seam = Seam.unpacked(packed)
        if self._packets[number]:
            seam = recounted(seam, self._packets[number])
        from_past = pair in self._given[number] or (number == 0 and not self.guess)
        after = seam.saved if from_past else stitched(saved, seam, self._limits)
        if after is not None and seam.born:
            self._tokens.append((number, pair))
            after = after._replace(number=_TOKENS + len(self._tokens) - 1)
        return after

    # -- what follows from it ---------------------------------------------------------------------------

    def decoding(self, *, end: bool) -> list[Work]:
        """Return the works to decode, once the state of all connections is known."""
        bases = [self._begin.opened]
        for number in range(len(self._groups)):
            bases.append(bases[-1] + self._surveyed[number].opened)
        numbers = [bases[number] + self._surveyed[number].born[pair] for number, pair in self._tokens]

        def own(saved: bytes) -> bytes:
            token = number_of(saved) - _TOKENS
            return saved if token < 0 else renumbered(saved, numbers[token])

        lasting = {
            pair: own(saved.packed())
            for pair, (_, saved) in sorted(self._stand.items(), key=lambda item: self._used(item[0], len(self._groups)))
            if saved is not None
        }
        works: list[Work] = []
        known = KnownNames(self._begin.names)
        for first, stop in self._gluing():
            entries: dict[Pair, bytes | None] = {}
            for number in reversed(range(first, stop)):
                entries |= {pair: own(saved) for pair, (left, saved) in self._entries[number].items() if left < first}
            splits = tuple(split for group in self._groups[first:stop] for split in group)
            used = {pair: entries[pair] for pair in sorted(entries, key=lambda pair: self._used(pair, first))}
            works.append(Work(len(works), splits, used, first=bases[first], names=_names(known, used)))
            for number in range(first, stop):
                known.follow(self._surveyed[number].told)
        self._promise(works, lasting if end else {})
        if end:
            last = self._begin.last
            for number in sorted(self._surveyed):
                seen = self._surveyed[number].last
                if seen.number:
                    last = seen._replace(number=seen.number + self._packets[number].get(seen.file, 0))
            names = _names(known, lasting)
            works.append(Work(len(works), (), dict(lasting), first=bases[-1], end=last, names=names))
        elif works:
            works[-1] = works[-1]._replace(whole=True)
        return works

    def _used(self, pair: Pair, before: int) -> tuple[int, int]:
        """Return when a connection was last used before a split: in which one, and its rank among the others there."""
        places = self._places[pair]
        at = bisect_left(places, before) - 1
        if at < 0:
            return -1, self._ranks(-1)[pair]
        return places[at], self._ranks(places[at])[pair]

    def _ranks(self, number: int) -> dict[Pair, int]:
        if number not in self._rank:
            pairs = self._begin.saved_connections if number < 0 else self._surveyed[number].seams
            self._rank[number] = {pair: rank for rank, pair in enumerate(pairs)}
        return self._rank[number]

    def _gluing(self) -> list[tuple[int, int]]:
        """Return ranges of splits to decode as one work: a frame spans them that no saved connection holds whole."""
        runs: list[tuple[int, int]] = []
        for number in range(len(self._groups)):
            lows = [left for left, saved in self._entries[number].values() if left >= 0 and is_thin(saved)]
            first = min([number, *lows])
            while runs and runs[-1][1] > first:
                first = min(first, runs.pop()[0])
            runs.append((first, number + 1))
        return runs

    def _promise(self, works: list[Work], lasting: dict[Pair, bytes]) -> None:
        """Set in each work the digests with which later works begin; ``lasting``: with what the input's end begins."""
        coming = {pair: SavedConnection.unpacked(saved).digest() for pair, saved in lasting.items()}
        affected: dict[int, set[Pair]] = {}
        spans = self._gluing()
        for (first, stop), work in zip(spans, works, strict=True):
            seen = {pair for number in range(first, stop) for pair in self._surveyed[number].seams}
            affected[work.ordinal] = seen | set(work.entries)
        for at in reversed(range(len(works))):
            work = works[at]
            promised = tuple((pair, coming[pair]) for pair in sorted(affected[work.ordinal]) if pair in coming)
            works[at] = work._replace(promised=promised)
            for pair in affected[work.ordinal]:
                coming.pop(pair, None)
            for pair, saved in work.entries.items():
                if saved is not None:
                    coming[pair] = SavedConnection.unpacked(saved).digest()


def verify(works: Sequence[Work], decode: Decoding, *, begin: InputState | None = None) -> InputState:
    """Decode works, and again those that did not begin where the ones before them ended, until all did.

    A later result of the same ordinal replaces the earlier one. Return the state behind the last work.
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
    """A check that each work begins in the state in which those before it ended."""

    def __init__(self, begin: InputState, works: Sequence[Work]) -> None:
        self._begin = begin
        self._works = works
        self.state = begin

    def refuted(self, works: dict[int, Work], exits: dict[int, Exit]) -> list[Work]:
        """Return the works that began in another state, corrected."""
        begin = self._begin
        saved_connections = {pair: SavedConnection.unpacked(saved) for pair, saved in begin.saved_connections.items()}
        stand: dict[Pair, tuple[int, bytes, bytes | None]] = {
            pair: (-1, saved.digest(), begin.saved_connections[pair]) for pair, saved in saved_connections.items()
        }
        deadlines = {pair: saved.deadline for pair, saved in saved_connections.items() if saved.deadline is not None}
        again: dict[int, Work] = {}
        known = KnownNames(begin.names)
        first, last = begin.opened, begin.last
        for number in sorted(works):
            work, left = works[number], exits[number]
            affected = set(stand) if work.end is not None else set(left.digests) | set(left.entered)
            affected |= {pair for pair, time in deadlines.items() if left.last_ns is not None and left.last_ns >= time}
            wrong = any(left.entered.get(pair) != (stand[pair][1] if pair in stand else None) for pair in affected)
            if wrong or first != work.first:
                entries = self._whole({pair: each for pair, each in stand.items() if pair in affected})
                again[number] = work._replace(entries=dict(entries), first=first, names=_names(known, entries))
                lows = [stand[pair][0] for pair, saved in entries.items() if is_thin(saved)]
                if lows and min(lows) >= 0:
                    again |= _glued(works, min(lows), number)
            elif work.names != (names := _names(known, work.entries)):
                again[number] = work._replace(names=names)
            known.follow(left.told)
            first = left.opened
            last = left.last if left.last.number else last
            for pair, digest in left.digests.items():
                if pair in stand and stand[pair][1] != digest:  # used again: moves to the end of the order of use
                    del stand[pair]
                stand[pair] = number, digest, left.saved_connections.get(pair)
                deadlines.pop(pair, None)
                if pair in left.deadlines:
                    deadlines[pair] = left.deadlines[pair]
        ended = any(work.end is not None for work in works.values())
        lasting = {} if ended else self._whole(stand)
        self.state = InputState(lasting, first, last, _names(known, lasting))
        return [again[number] for number in sorted(again)]

    def _whole(self, stand: dict[Pair, tuple[int, bytes, bytes | None]]) -> dict[Pair, bytes]:
        """Return packed connections; those that an exit left out as promised are taken from a later work."""
        if any(saved is None for _, _, saved in stand.values()):
            known = ((pair, saved) for work in self._works for pair, saved in work.entries.items() if saved is not None)
            promised = {(pair, SavedConnection.unpacked(saved).digest()): saved for pair, saved in known}
        return {pair: promised[pair, digest] if saved is None else saved for pair, (_, digest, saved) in stand.items()}


def _names(known: KnownNames, entries: Iterable[Pair]) -> NamesState:
    """Return what is known of the names that connections may use."""
    return known.state({_ends(pair) for pair in entries})


def _ends(pair: Pair) -> Ends:
    one, other = sorted(map(str, flow_of(pair)))
    return one, other


def _glued(works: dict[int, Work], first: int, last: int) -> dict[int, Work]:
    """Join several works to one, and leave the others empty."""
    splits = tuple(split for number in range(first, last + 1) for split in works[number].splits)
    out = {number: works[number]._replace(splits=(), entries={}) for number in range(first + 1, last + 1)}
    return {first: works[first]._replace(splits=splits), **out}
