"""Leaks: acknowledgements that do not come to what was sent, and which kind of message explains it.

A consumer that forgets a kind of message, or counts one otherwise than the producer, leaves a residue that only
grows. What is on its way makes the residue go up and down; its floor is the leak.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.streams.counted import FIRST, LAST
from dcpdump.streams.facts import Mark
from dcpdump.streams.window import CACHE_TRANSFER_END, PREPARE, Window

#: A floor is looked for in a quarter of the acknowledgements, of at least so many.
_ENOUGH = 8
#: How far a kind's bytes may be from the leak that they explain.
_TOLERANCE = 0.05


class Leak(NamedTuple):
    """What was acknowledged too little, or (negative) too much. ``kind`` is empty where none explains it."""

    bytes: int
    kind: str = ""
    frames: int = 0
    text: str = ""

    @property
    def in_words(self) -> str:
        """Return it as a sentence about whoever acknowledges."""
        how = "less than was sent" if self.bytes > 0 else "more than was sent by then"
        return f"acknowledged {abs(self.bytes):,} B {how}: {self.text or 'no kind of message explains it'}"


def leak(window: Window) -> Leak | None:
    """Return a leak; None where the counters agree.

    Of a relative account, what was outstanding when it began is unknown: only what the residue grew by counts.
    """
    marks = window.marks
    if window.off:
        return None
    if not window.complete:
        return _relative([_since(marks[0], mark) for mark in marks]) if marks else None
    if window.size is None and window.asked is None:
        return None
    return (_repeated(marks) if marks else None) or _excess(window.overacked, marks)


def _repeated(marks: Sequence[Mark]) -> Leak | None:
    """Return a leak that shows at several acknowledgements."""
    last = marks[-1]
    for suspect in _suspects(last):
        # What is merely on its way may come to the same once, but hardly twice.
        if suspect.bytes == last.outstanding and _comes_to(marks[-2:-1], suspect):
            return suspect
    return _growing(marks) if last.outstanding >= 0 else None


def _excess(overacked: int, marks: Sequence[Mark]) -> Leak | None:
    """Return what was acknowledged too much, and what explains it where that showed."""
    if not overacked:
        return None
    nearest = min(marks, key=lambda mark: abs(mark.outstanding + overacked), default=None)
    suspects = [] if nearest is None else list(_suspects(nearest))
    return _nearest(suspects, -overacked) or Leak(-overacked)


def _relative(marks: Sequence[Mark]) -> Leak | None:
    """Return a leak since the first mark: of a kind of message alone, since the rest may be on its way."""
    found, last = _growing(marks), marks[-1]
    if found is None or not found.kind:
        return None
    exact = (each for each in _suspects(last) if each.kind == found.kind and each.bytes == last.outstanding)
    return next(exact, found)


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
    )


def _growing(marks: Sequence[Mark]) -> Leak | None:
    """Return a leak that makes the floor of the residue rise."""
    if len(marks) < _ENOUGH:
        return None
    quarter = max(2, len(marks) // 4)
    head = min(marks[:quarter], key=lambda mark: mark.outstanding)
    tail = min(marks[-quarter:], key=lambda mark: mark.outstanding)
    growth = tail.outstanding - head.outstanding
    if growth <= 0 or not _grows(marks, growth):
        return None
    found = _nearest(_grown(head, tail), growth)
    return Leak(tail.outstanding) if found is None else found._replace(bytes=tail.outstanding)


def _grown(head: Mark, tail: Mark) -> list[Leak]:
    """Return what kinds would leave over from one acknowledgement to another."""
    before = {each.kind: each.bytes for each in _suspects(head)}
    return [each._replace(bytes=each.bytes - before.get(each.kind, 0)) for each in _suspects(tail)]


def _comes_to(marks: Sequence[Mark], suspect: Leak) -> bool:
    """Return whether a kind came to the residue at other acknowledgements too."""
    return bool(marks) and all(
        any(each.kind == suspect.kind and each.bytes == mark.outstanding for each in _suspects(mark)) for mark in marks
    )


def _grows(marks: Sequence[Mark], growth: int) -> bool:
    """Return whether the floor rises steadily, and is not just the window filling up once."""
    quarter = len(marks) // 4
    floors = [min(mark.outstanding for mark in marks[at * quarter : (at + 1) * quarter]) for at in range(4)]
    rises = [later - sooner for sooner, later in pairwise(floors)]
    return all(rise > 0 for rise in rises) and max(rises) < growth


def _nearest(suspects: Sequence[Leak], amount: int) -> Leak | None:
    near = [each for each in suspects if abs(each.bytes - amount) <= abs(amount) * _TOLERANCE]
    return min(near, key=lambda each: abs(each.bytes - amount), default=None)


def _suspects(mark: Mark) -> Iterator[Leak]:
    """Yield what would be left over if a kind were forgotten, or counted as the wire has it."""
    for opcode in range(FIRST, LAST + 1):
        frames, size = mark.frames[opcode - FIRST], mark.kinds[opcode - FIRST]
        if not frames:
            continue
        name = find(opcode).name
        if opcode == PREPARE:
            size += 2 * frames
            yield Leak(2 * frames, f"{name} size", frames, "counts PREPARE as on the wire, without the 2 bytes more")
        elif opcode == CACHE_TRANSFER_END:
            yield Leak(24 * frames - size, f"{name} size", frames, "counts CACHE_TRANSFER_END as on the wire")
            size = 24 * frames
        yield Leak(size, name, frames, f"{name} x {frames:,} not acknowledged")
    if mark.with_ids:
        yield Leak(3 * mark.with_ids, "stream id", mark.with_ids, "the 3 bytes of stream ids not acknowledged")
    for size, behind in ((mark.closed, "closed"), (mark.closing, "to be closed")):
        if size:
            yield Leak(size, "closed streams", 0, f"messages of streams that were {behind} not acknowledged")
    if mark.noops:
        yield Leak(-mark.noops, "DCP_NOOP", mark.noops // 24, "NOOPs acknowledged, which do not count")
    if mark.answers:
        yield Leak(-mark.answers, "DCP_STREAM_REQ", 0, "answers to stream requests acknowledged, which do not count")
