"""Leaks: acknowledgements that do not come to what was sent, and what explains it.

A consumer that forgets a kind of message, or counts one otherwise than the producer, leaves a residue that only
grows. What is on its way makes the residue go up and down; its floor is the leak. What explains it comes to it exactly,
at several acknowledgements.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from dcpdump.streams.facts import Mark
from dcpdump.streams.intervals import between
from dcpdump.streams.suspects import Key, Suspect, derived, everything, forgotten, partly, sums, versions
from dcpdump.streams.window import Window
from dcpdump.streams.wording import clock, span

#: A floor is looked for in a quarter of the acknowledgements, of at least so many.
_ENOUGH = 8
#: Of fewer, so many at least, each has to leave more than the one before.
_FEW = 4
#: How far a kind's bytes may be from the leak that they may explain.
_TOLERANCE = 0.05
#: An explanation is tried at so many acknowledgements, spread evenly.
_TRIED = 128
#: It has to come to so many different residues: one way alone, and with each that is added one more.
_DIFFERENT = 3
UNEXPLAINED = "no kind of message explains it"
_HIDDEN = "what explains it does not show, as the two directions are captured out of order"


class Leak(NamedTuple):
    """What was acknowledged too little, or (negative) too much. ``kind`` is empty where none explains it."""

    bytes: int
    kind: str = ""
    frames: int = 0
    text: str = ""
    explained: bool = False  #: exactly, at several acknowledgements
    by_ns: int | None = None  #: the time of the acknowledgement at which it was as much; None: it is to the end
    fills_ns: int | None = None  #: how long it takes, as it grew so far, until it is as large as the window

    @property
    def in_words(self) -> str:
        """Return it as a sentence about whoever acknowledges."""
        by = "" if self.by_ns is None else f" by {clock(self.by_ns)}"
        how = f"less than was sent{by}" if self.bytes > 0 else "more than was sent by then"
        fills = f"; at this rate it fills the window in {span(self.fills_ns)}" if self.fills_ns else ""
        return f"acknowledged {abs(self.bytes):,} B {how}: {self.text or UNEXPLAINED}{fills}"


class _Fit(NamedTuple):
    """One way to explain a leak, and where it comes to the residue."""

    parts: tuple[Suspect, ...]  #: that are added up, as they are at the last of those acknowledgements
    tried: Sequence[int]  #: what they come to at each acknowledgement at which it was tried
    first: Mark  #: of the acknowledgements at which that is the residue the first,
    first_left: int
    last: Mark  #: and the last
    left: int
    proven: bool


def leak(window: Window) -> Leak | None:
    """Return a leak; None where the counters agree.

    Of a relative account, what was outstanding when it began is unknown: only what the residue grew by counts.
    """
    marks: Sequence[Mark] = window.marks
    if window.off or (window.complete and window.size is None and window.asked is None):
        return None
    if not window.complete:
        marks = [_since(marks[0], mark) for mark in marks]
    grows = _grows(marks)
    fit = _fit(marks, fully=grows or window.overacked > 0)
    if fit is not None and window.out_of_order and any(part.derived for part in fit.parts):
        fit = None
    if fit is not None and fit.proven:
        return _explained(window, fit)
    found = next(_repeated(marks), None)
    if found is not None and window.complete:
        return _dated(window, marks[-1], found)
    if grows and marks[-1].outstanding >= 0 and len(marks) >= _ENOUGH and (window.complete or fit is not None):
        return _growing(window, marks, fit)
    return _excess(window, marks, fit) if window.complete else None


# -- what comes to it exactly -------------------------------------------------------------------------------


def _fit(marks: Sequence[Mark], *, fully: bool) -> _Fit | None:
    """Return the simplest way that comes to the residue at several acknowledgements, a proven one first.

    ``fully``: also sums, and what nobody does unless the residue grows.
    """
    chosen, near = marks[:: -max(1, -(-len(marks) // _TRIED))][::-1], None
    for anchor in (marks[-1], min(marks[-(len(marks) // 4) - 1 :], key=_outstanding)) if marks else ():
        if not anchor.outstanding:
            continue
        tables: list[Mapping[Key, Suspect]] = []
        for parts in _ways(anchor, fully=fully):
            tables = tables or [{each.key: each for each in _suspects(mark, anchor)} for mark in chosen]
            fit = _fitted(parts, chosen, tables)
            if fit is not None and fit.proven:
                return fit
            near = near or fit
    return near


def _ways(mark: Mark, *, fully: bool) -> Iterator[tuple[Suspect, ...]]:
    """Yield what comes to the residue at an acknowledgement, the simplest first."""
    left, kinds = mark.outstanding, [*forgotten(mark), *versions(mark)]
    yield from ((each,) for each in kinds if each.bytes == left)
    if fully:
        yield from ((each,) for each in (*partly(mark), *everything(mark)) if each.bytes == left)
        yield from sums(kinds, left, 2)
        yield from ((each,) for each in derived(mark, mark))
        yield from sums(kinds, left, 3)


def _singles(mark: Mark) -> Iterator[Suspect]:
    """Yield the suspects that may explain a residue alone."""
    yield from (*forgotten(mark), *versions(mark), *partly(mark), *everything(mark))


def _suspects(mark: Mark, anchor: Mark) -> Sequence[Suspect]:
    """Return all suspects at an acknowledgement, where two are the same the one that comes first last."""
    return (*_singles(mark), *derived(mark, anchor))[::-1]


def _fitted(parts: tuple[Suspect, ...], marks: Sequence[Mark], tables: Sequence[Mapping[Key, Suspect]]) -> _Fit | None:
    """Return one way, if it comes to the residue at half of the acknowledgements; ``tables``: the suspects of each."""
    tried = [sum(table[part.key].bytes for part in parts if part.key in table) for table in tables]
    same = [at for at, (mark, left) in enumerate(zip(marks, tried, strict=True)) if left == mark.outstanding]
    if 2 * len(same) < len(marks):
        return None
    different = len({tried[at] for at in same} - {0})
    free = sum(part.derived for part in parts)
    if different < len(parts) + 2 * free:
        return None
    first, last = same[0], same[-1]
    there = tuple(tables[last].get(part.key, part) for part in parts)
    proven = different >= _DIFFERENT + len(parts) - 1 + free
    return _Fit(there, tried, marks[first], tried[first], marks[last], tried[last], proven)


def _explained(window: Window, fit: _Fit) -> Leak:
    """Return a leak that one way explains, as it was at the last acknowledgement that shows it."""
    found = _said(fit)._replace(explained=True)
    grows = fit.tried[len(fit.tried) // 2] < fit.left
    return _dated(window, fit.last, found, fit.first, fit.left - fit.first_left if grows else 0)


def _said(fit: _Fit) -> Leak:
    """Return a leak as one way has it, in words."""
    kind, text = " + ".join(each.kind for each in fit.parts), "; and ".join(each.text for each in fit.parts)
    if len(fit.parts) > 1 and not any(each.how for each in fit.parts):
        text = ", ".join(f"{each.kind} x {each.frames:,}" for each in fit.parts) + " not acknowledged"
    return Leak(fit.left, kind, sum(each.frames for each in fit.parts), text)


def _repeated(marks: Sequence[Mark]) -> Iterator[Leak]:
    """Yield kinds that come to the residue at the last acknowledgements, whether it grew or not."""
    before = marks[-_ENOUGH:-1]
    for suspect in forgotten(marks[-1]) if before else ():
        if suspect.bytes == marks[-1].outstanding and _comes_to(before[-1], suspect.kind):
            # What is merely on its way may come to the same once, but hardly twice.
            sure = len(before) > 1 and all(_comes_to(mark, suspect.kind) for mark in before)
            yield Leak(suspect.bytes, suspect.kind, suspect.frames, suspect.text, explained=sure)


def _comes_to(mark: Mark, kind: str) -> bool:
    return any((each.kind, each.bytes) == (kind, mark.outstanding) for each in forgotten(mark))


# -- what is near to it -------------------------------------------------------------------------------------


def _growing(window: Window, marks: Sequence[Mark], fit: _Fit | None) -> Leak:
    """Return a leak that makes the floor of the residue rise, and what may explain it."""
    head, tail = (min(few, key=_outstanding) for few in _quarters(marks))
    if fit is not None:
        return _dated(window, fit.last, _perhaps(fit), fit.first, fit.left - fit.first_left)
    found = _near(marks) or _unexplained(window)
    return _dated(window, tail, found._replace(bytes=tail.outstanding), head, tail.outstanding - head.outstanding)


def _excess(window: Window, marks: Sequence[Mark], fit: _Fit | None) -> Leak | None:
    """Return what was acknowledged too much, and what may explain it."""
    overacked = window.overacked
    if not overacked:
        return None
    nearest = min(marks, key=lambda mark: abs(mark.outstanding + overacked), default=None)
    alike = [each for each in forgotten(nearest) if each.bytes == -overacked] if nearest is not None else []
    if alike:
        return Leak(-overacked, alike[0].kind, alike[0].frames, alike[0].text)
    if fit is not None and fit.left == -overacked:
        return _perhaps(fit)
    return (_near(marks) or _unexplained(window))._replace(bytes=-overacked)


def _unexplained(window: Window) -> Leak:
    """Return a leak that nothing is near to."""
    return Leak(0, text=_HIDDEN if window.out_of_order else "")


def _near(marks: Sequence[Mark]) -> Leak | None:
    """Return what comes nearest to what the floor of the residue rose or fell by, if it is near.

    What is on its way lies above the floor, and hides what it would be exactly.
    """
    if len(marks) < _ENOUGH:
        return None
    few = [
        [(mark.outstanding, {each.key: each for each in _singles(mark)}) for mark in each] for each in _quarters(marks)
    ]
    before, after = (min(left for left, _ in each) for each in few)
    apart: dict[Key, int] = {}
    for key in few[1][-1][1]:
        floors = [min(left - (table[key].bytes if key in table else 0) for left, table in each) for each in few]
        apart[key] = abs(floors[1] - floors[0])
    nearest = min(apart, key=apart.__getitem__, default=None)
    if nearest is None or apart[nearest] > abs(after - before) * _TOLERANCE:
        return None
    found = few[1][-1][1][nearest]
    return Leak(0, found.kind, found.frames, f"perhaps {found.text}")


def _quarters(marks: Sequence[Mark]) -> tuple[Sequence[Mark], Sequence[Mark]]:
    """Return the first and the last quarter of acknowledgements, of each some that are spread evenly."""
    quarter = len(marks) // 4
    step = -(-quarter // _TRIED)
    return marks[:quarter:step], marks[-quarter:][::step]


def _perhaps(fit: _Fit) -> Leak:
    """Return a leak that one way may explain: it comes to it, but at too few acknowledgements."""
    found = _said(fit)
    return found._replace(text=f"perhaps {found.text}")


def _grows(marks: Sequence[Mark]) -> bool:
    """Return whether the floor rises steadily, and is not just the window filling up once."""
    if len(marks) < _ENOUGH:
        left = [mark.outstanding for mark in marks]
        return len(marks) >= _FEW and all(before < after for before, after in pairwise((0, *left)))
    quarter = len(marks) // 4
    floors = [min(mark.outstanding for mark in marks[at * quarter : (at + 1) * quarter]) for at in range(4)]
    floors[-1] = min(floors[-1], *[mark.outstanding for mark in marks[-quarter:]])
    rises = [later - sooner for sooner, later in pairwise(floors)]
    return all(rise > 0 for rise in rises) and max(rises) < floors[-1] - floors[0]


# -- when, and until when -----------------------------------------------------------------------------------


def _dated(window: Window, mark: Mark, found: Leak, first: Mark | None = None, growth: int = 0) -> Leak:
    """Return a leak with the time of its acknowledgement, and when it will fill the window.

    ``first``: an acknowledgement since which it grew by ``growth``.
    """
    if window.complete and found.bytes > 0 and found.bytes != window.outstanding:
        found = found._replace(by_ns=mark.ts_ns)
    lasting = None if first is None else between(first.ts_ns, mark.ts_ns)
    if not (lasting and growth > 0 and window.size):
        return found
    return found._replace(fills_ns=max(0, window.size - found.bytes) * lasting // growth)


def _since(first: Mark, mark: Mark) -> Mark:
    """Return the counters at a mark, less those at the first one."""
    return mark._replace(
        outstanding=mark.outstanding - first.outstanding,
        kinds=tuple(map(sub, mark.kinds, first.kinds)),
        frames=tuple(map(sub, mark.frames, first.frames)),
        with_ids=mark.with_ids - first.with_ids,
        noops=mark.noops - first.noops,
        answers=mark.answers - first.answers,
        closing=mark.closing - first.closing,
        closed=mark.closed - first.closed,
        markers=tuple(map(sub, mark.markers, first.markers)),
        sent=mark.sent - first.sent,
        received=mark.received - first.received,
    )


def _outstanding(mark: Mark) -> int:
    return mark.outstanding
