"""Part: frames in the order in which they completed, as columns, with what the connection's state says of each.

Frames that a plan takes are in a group; of the others there is the Record that the decoder for one frame made.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from dcpdump.batch.deferred import Later
from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array, records_at
from dcpdump.batch.layouts import HEADER, Group, Headers, groups_of
from dcpdump.batch.learning import INFERRED, PLAN_BITS, SPLIT, START_BITS, UNDERLYING
from dcpdump.batch.learning import UNKNOWN as NOT_KNOWN
from dcpdump.batch.plans import Plan
from dcpdump.net.no_time import NO_TIME
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.record import Record
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.collection_names import ConnectionNames
from dcpdump.wire.frame import RawFrame, Where, unpack_header
from dcpdump.wire.frames import Frames

NO, YES, UNKNOWN = 0, 1, 2  #: whether keys have a collection id


T = TypeVar("T")


class Numbers(Generic[T]):
    """Things by number: each gets the next one when it is first seen."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def all(self) -> list[T]:
        """The things, in the order of their numbers."""
        return list(self._numbers)

    def number(self, thing: T) -> int:
        """Return a thing's number."""
        return self._numbers.setdefault(thing, len(self._numbers))

    def of(self, things: Sequence[T]) -> Array:
        """Return the numbers of things."""
        if len(set(things)) == 1:
            return np.full(len(things), self.number(things[0]), np.int64)
        return np.array([self.number(thing) for thing in things], np.int64)


@dataclass(frozen=True, slots=True)
class Part:
    """Frames ``first``, ``first + 1`` … of the output. All columns are as long as there are frames."""

    first: int
    data: bytes
    start: Array  #: of the frame, in ``data``
    length: Array  #: that the header promises
    offset: Array
    gap_before: Array
    weak: Array  #: found on weak evidence
    packet: Array
    ts_ns: Array
    file: Array  #: which of ``files``
    files: list[str]
    place: Array  #: which of ``places``
    places: list[Ends]
    header: Headers
    groups: list[Group]
    collections: Array  #: NO, YES or UNKNOWN
    inferred: Array
    underlying: Array  #: the datatype may describe a value that was left out
    odd: dict[int, RawFrame]  #: by row: frames that are not whole
    records: dict[int, Record | Later]  #: by row: what no plan took
    #: of collections, by connection; of those that have any
    names: dict[int, ConnectionNames] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def view(self) -> Array:
        """The bytes, as NumPy sees them."""
        return np.frombuffer(self.data, np.uint8)

    @property
    def end(self) -> Array:
        """Where in its direction each frame ends, as far as it is there."""
        ends: Array = self.offset + self.length
        for row, raw in self.odd.items():
            ends[row] = raw.offset + len(raw.data)
        return ends

    def stream_id(self, rows: Array | slice = slice(None)) -> Array:
        """Return the stream ids of planned frames, 0 where there is none. Elsewhere: nonsense."""
        framing = self.header.framing[rows]
        if not framing.any():
            return np.zeros(len(framing), np.int64)
        at = np.minimum(self.start[rows] + HEADER_LENGTH + 1, max(0, len(self.data) - 2))
        ids = records_at(self.view, np.dtype(">u2"), at).astype(np.int64)
        return np.where(framing > 0, ids, 0)

    def collection_path(self, row: int, collection: int) -> str | None:
        """Return the name of a collection as known at a row: ``scope.collection``."""
        names = self.names.get(self.places[int(self.place[row])].connection)
        return None if names is None else names.path(collection, self.first + row)

    @property
    def times(self) -> tuple[int, int, bool]:
        """The time of its first frame, NO_TIME where that has none; the latest time; whether times never go back."""
        return int(self.ts_ns[0]), int(self.ts_ns.max()), bool((np.diff(self.ts_ns) >= 0).all())

    def sources(self) -> Iterator[tuple[str, Ends, bool]]:
        """Yield each file with each direction, and whether bytes are missing before its first frame, in order."""
        pairs = self.file * len(self.places) + self.place
        for row in sorted(np.unique(pairs, return_index=True)[1].tolist()):
            yield self.files[int(self.file[row])], self.places[int(self.place[row])], bool(self.gap_before[row])

    def gaps(self) -> dict[int, int]:
        """Return the rows before which bytes are no frame, and how many."""
        rows = np.flatnonzero(self.gap_before)
        return dict(zip(rows.tolist(), self.gap_before[rows].tolist(), strict=True))

    def offsets_of(self, place: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return the rows of one of ``places``, and where each begins in its direction."""
        rows = np.flatnonzero(self.place == place)
        return rows.tolist(), self.offset[rows].tolist()

    def frames(self) -> Frames:
        """Return the frames as they were cut, for who takes them one after another."""
        found, count = Frames(), len(self)
        ends = np.append(self.start[1:], len(self.data))
        breaks = (self.place[1:] != self.place[:-1]) | (self.gap_before[1:] > 0) | (self.weak[1:] != self.weak[:-1])
        breaks |= (self.offset[1:] != self.end[:-1]) | self.weak[1:]
        firsts = np.flatnonzero(np.concatenate(([True], breaks))) if count else np.zeros(0, np.int64)
        found.count, found.size = count, len(self.data)
        found.odd = self.odd
        found.bounds, found.packets = ends.tolist(), self.packet.tolist()
        found.times = [None if ts == NO_TIME else ts for ts in self.ts_ns.tolist()]
        found.files = [self.files[file] for file in self.file.tolist()]
        found.firsts, found.begins = firsts.tolist(), self.start[firsts].tolist()
        stops = np.append(self.start[firsts[1:]], len(self.data)).tolist()
        found.pieces = [self.data[begin:stop] for begin, stop in zip(found.begins, stops, strict=True)]
        found.offsets, found.gaps = self.offset[firsts].tolist(), self.gap_before[firsts].tolist()
        found.places = [self.places[place].place for place in self.place[firsts].tolist()]
        found.weak = (self.weak[firsts] != 0).tolist()
        return found

    def record(self, row: int) -> Record:
        """Return the record of a frame that no plan took."""
        found = self.records[row]
        if isinstance(found, Later):
            found = self.records[row] = found.record(self.raw(row))
        return found

    def raw(self, row: int) -> RawFrame:
        """Cut one frame out, for the decoder of one frame."""
        if row in self.odd:
            return self.odd[row]
        start, length = int(self.start[row]), int(self.length[row])
        ts = int(self.ts_ns[row])
        return RawFrame(
            self.data[start : start + length],
            unpack_header(self.data, start),
            int(self.offset[row]),
            Where(int(self.packet[row]), None if ts == NO_TIME else ts, self.files[self.file[row]]),
            int(self.gap_before[row]),
            (),
            "low" if self.weak[row] else "",
        )


def part_of(
    frames: Frames, first: int, rows: list[int], records: dict[int, Record | Later], ends_of: Callable[[int], Ends]
) -> Part:
    """Make a part of frames, given what ``Learning`` found.

    ``first`` is the number of the first; ``ends_of`` returns the direction that a place of ``frames`` stands for.
    """
    count = len(frames)
    data = frames.data()
    view = np.frombuffer(data, np.uint8)
    row = np.array(rows, np.int64)
    start = row & (1 << START_BITS) - 1
    plan = (row >> START_BITS & (1 << PLAN_BITS) - 1) - 1
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
    length = header.body + HEADER_LENGTH
    for odd, raw in frames.odd.items():
        length[odd] = raw.length
    files, places = Numbers[str](), Numbers[int]()
    file, place = files.of(frames.files)[by], spread(places.of(frames.places))
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
        file,
        files.all,
        place,
        [ends_of(number) for number in places.all],
        header,
        groups_of(plan, view, start, header),
        np.where(row & SPLIT > 0, YES, np.where(row & NOT_KNOWN > 0, UNKNOWN, NO)).astype(np.int8),
        row & INFERRED > 0,
        row & UNDERLYING > 0,
        frames.odd,
        records,
    )


def joined(parts: list[Part]) -> Part:
    """Join parts that follow one another."""
    if len(parts) == 1:
        return parts[0]
    files, places = Numbers[str](), Numbers[Ends]()
    bases = np.cumsum([0, *(len(part.data) for part in parts[:-1])]).tolist()
    rows = np.cumsum([0, *(len(part) for part in parts[:-1])]).tolist()
    plain = ("length", "offset", "gap_before", "weak", "packet", "ts_ns", "collections", "inferred", "underlying")
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in plain}
    return replace(
        parts[0],
        data=b"".join([part.data for part in parts]),
        start=np.concatenate([part.start + base for part, base in zip(parts, bases, strict=True)]),
        file=np.concatenate([files.of(part.files)[part.file] for part in parts]),
        files=files.all,
        place=np.concatenate([places.of(part.places)[part.place] for part in parts]),
        places=places.all,
        header=Headers.joined([part.header for part in parts]),
        groups=_joined_groups(parts, rows),
        odd={row + base: raw for part, base in zip(parts, rows, strict=True) for row, raw in part.odd.items()},
        records={
            row + base: each for part, base in zip(parts, rows, strict=True) for row, each in part.records.items()
        },
        names={number: names for part in parts for number, names in part.names.items()},
        **columns,
    )


def _joined_groups(parts: list[Part], bases: list[int]) -> list[Group]:
    found: dict[Plan, list[Group]] = {}
    for part, base in zip(parts, bases, strict=True):
        for group in part.groups:
            moved = Group(group.plan, group.rows + base, group.extras, group.value)
            found.setdefault(group.plan, []).append(moved)
    return [
        Group(
            plan,
            np.concatenate([group.rows for group in groups]),
            np.concatenate([group.extras for group in groups]),
            None
            if not plan.value_fields
            else np.concatenate([group.value for group in groups if group.value is not None]),
        )
        for plan, groups in found.items()
    ]
