"""Pending: the part that is made of the frames that completed."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array, records_at
from dcpdump.batch.layouts import HEADER, Headers, place
from dcpdump.batch.part import UNKNOWN, Part
from dcpdump.net.no_time import NO_TIME
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.frames import Frames

T = TypeVar("T")


def part_of(frames: Frames, first: int, ends_of: Callable[[int], Ends]) -> Part:
    """Make a part of frames, of which sessions have yet to learn.

    ``first`` is the number of the first; ``ends_of`` returns the direction that a place of ``frames`` stands for.
    """
    count = len(frames)
    data = frames.data()
    view = np.frombuffer(data, np.uint8)
    start = np.array(frames.starts(), np.int64)
    header = Headers.of(records_at(view, HEADER, start))
    firsts = np.array(frames.firsts, np.int64)
    sizes = np.diff(firsts, append=count)

    def spread(column: Iterable[Any], kind: Any = np.int64) -> Array:
        """Give each frame what its run has."""
        return np.repeat(np.array(column, kind), sizes)

    ends = np.append(start[1:], frames.size)
    by = np.searchsorted(np.array(frames.bounds, np.int64), ends)  # the packet that completed each frame

    gap_before = np.zeros(count, np.int64)
    gap_before[firsts] = frames.gaps
    whole = np.ones(count, bool)
    length = header.body + HEADER_LENGTH
    for row, raw in frames.odd.items():
        whole[row] = False
        length[row] = raw.length
    files, file = _numbered(frames.files)
    places, place_of = _numbered(frames.places)
    return Part(
        first,
        data,
        start,
        length,
        spread(frames.offsets) + start - spread(start[firsts]),
        gap_before,
        spread(frames.weak, bool),
        np.array(frames.packets, np.int64)[by],
        np.array([NO_TIME if ts is None else ts for ts in frames.times], np.int64)[by],
        file[by],
        files,
        spread(place_of),
        [ends_of(number) for number in places],
        header,
        place(view, start, whole, header),
        np.full(count, UNKNOWN, np.int8),
        np.zeros(count, bool),
        np.zeros(count, bool),
        frames.odd,
        {},
    )


def _numbered(things: list[T]) -> tuple[list[T], Array]:
    """Number things in the order in which they are met: return them, and of each which it is."""
    numbers = {thing: number for number, thing in enumerate(dict.fromkeys(things))}
    if len(numbers) == 1:
        return list(numbers), np.zeros(len(things), np.int64)
    return list(numbers), np.array([numbers[thing] for thing in things], np.int64)
