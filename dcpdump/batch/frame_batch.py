"""Hold frames in the order in which they completed, as columns, with the state of the connection at each.

Frames with a plan are in the plan's group; every other frame has a Record.
"""

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache, cached_property
from io import BytesIO
from operator import attrgetter
from struct import Struct, pack, unpack_from
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from dcpdump.batch.block import BLOCK_BYTES
from dcpdump.batch.gather import Array, records_at
from dcpdump.batch.plans import PLANS, Plan
from dcpdump.batch.scan import (
    ID_BITS,
    ID_MASK,
    INFERRED,
    PLAN_BITS,
    SPLIT,
    START_BITS,
    UNDERLYING,
    UNKNOWN,
    DeferredRecord,
)
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Direction, Record
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.spec.names import SNAPPY
from dcpdump.startup import dataclass, field
from dcpdump.wire.collection_names import ConnectionNames
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame, Where, unpack_header
from dcpdump.wire.frames import Frames
from dcpdump.wire.value import MAX_RATIO, MAX_VALUE, interpret

# -- columns of headers, and of the fields of what plans take -----------------------------------------

HEADER = np.dtype(
    [
        ("magic", "u1"),
        ("opcode", "u1"),
        ("key", ">u2"),
        ("extras", "u1"),
        ("datatype", "u1"),
        ("vbucket_or_status", ">u2"),
        ("body", ">u4"),
        ("opaque", ">u4"),
        ("cas", ">u8"),
    ]
)


@cache
def dtype_of(fields: tuple[Field, ...]) -> np.dtype[Any]:
    """Return the NumPy type of fields that lie end to end, big-endian."""
    return np.dtype([(field.name, f">u{field.width}") for field in fields])


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of many frames, as columns."""

    magic: Array
    opcode: Array
    framing: Array
    key: Array
    extras: Array
    datatype: Array
    vbucket_or_status: Array
    body: Array
    opaque: Array
    cas: Array

    @property
    def key_at(self) -> Array:
        """Return the offset of the key in each frame."""
        return HEADER_LENGTH + self.framing + self.extras

    @property
    def value(self) -> Array:
        """Return how many bytes each header leaves for the value; negative where its lengths contradict each other."""
        return self.body - self.framing - self.extras - self.key

    @property
    def status(self) -> Array:
        """Return the statuses of responses, in the field that is the vbucket of requests."""
        return self.vbucket_or_status

    @property
    def response(self) -> Array:
        """Return a mask of the responses, by their magic."""
        found: Array = RESPONSE[self.magic]
        return found

    @property
    def server(self) -> Array:
        """Return a mask of the server's own requests and their responses, whose opcodes are others."""
        found: Array = _SERVER[self.magic]
        return found

    @classmethod
    def of(cls, raw: Array) -> "Headers":
        """Split gathered headers into columns."""
        return cls(
            raw["magic"],
            raw["opcode"],
            *_lengths(raw),
            raw["datatype"],
            raw["vbucket_or_status"].astype(np.uint16),
            raw["body"].astype(np.int64),
            raw["opaque"].astype(np.uint32),
            raw["cas"].astype(np.uint64),
        )


def _table(*values: int) -> Array:
    table = np.zeros(256, bool)
    table[list(values)] = True
    return table


_FLEXIBLE = _table(*(each.value for each in MAGICS.values() if each.flexible))
#: By magic: whether it is that of a response.
RESPONSE = _table(*(each.value for each in MAGICS.values() if each.response))
_SERVER = _table(*(each.value for each in MAGICS.values() if each.server))


def _lengths(raw: Array) -> tuple[Array, Array, Array]:
    """Return the lengths of framing extras, key and extras."""
    key, flexible = raw["key"].astype(np.int64), _FLEXIBLE[raw["magic"]]
    framing = np.where(flexible, key >> 8, 0)
    return framing, np.where(flexible, key & 0xFF, key), raw["extras"].astype(np.int64)


@dataclass(frozen=True, slots=True)
class Group:
    """The frames of one plan: their rows and their fields."""

    plan: Plan
    rows: Array
    extras: Array
    value: Array | None

    def column(self, name: str) -> Array:
        """Return one field of all the frames, in native byte order."""
        source = self.extras if name in (self.extras.dtype.names or ()) else self.value
        if source is None:
            raise KeyError(name)
        column: Array = source[name]
        return column.astype(column.dtype.newbyteorder("="))


def groups_of(plan: Array, data: Array, start: Array, header: Headers) -> list[Group]:
    """Return a group for each plan. ``plan``: the number of each frame's plan, -1 without one."""
    groups: list[Group] = []
    for number in np.flatnonzero(np.bincount(plan + 1))[1 if (plan < 0).any() else 0 :].tolist():
        rows, this = np.flatnonzero(plan == number - 1), PLANS[number - 1]
        at = start[rows] + HEADER_LENGTH + header.framing[rows]
        extras = records_at(data, dtype_of(this.layout.extras), at) if this.layout.extras else np.zeros(len(rows), "V0")
        value = None
        if this.value_fields:
            value = records_at(data, dtype_of(this.value_fields), at + header.extras[rows] + header.key[rows])
        groups.append(Group(this, rows, extras, value))
    return groups


_U32 = np.dtype(">u4")
#: By plan, and last for no plan: whether keys may begin with a collection id.
_KEYED = np.array([*(plan.keyed for plan in PLANS), False])
T = TypeVar("T")


class Numbers(Generic[T]):
    """Numbers for objects: each gets the next number when it is first seen."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def all(self) -> list[T]:
        """Return the objects, in the order of their numbers."""
        return list(self._numbers)

    def number(self, thing: T) -> int:
        """Return an object's number."""
        return self._numbers.setdefault(thing, len(self._numbers))

    def of(self, things: Sequence[T]) -> Array:
        """Return the numbers of objects."""
        if len(set(things)) == 1:
            return np.full(len(things), self.number(things[0]), np.int64)
        return np.array([self.number(thing) for thing in things], np.int64)


class Keys(NamedTuple):
    """The keys of frames with a plan: their offsets in the bytes of a batch, and their collections."""

    start: Array
    logical: Array  #: after the collection id, where there is one
    end: Array
    collection: Array
    split: Array  #: whether there is a collection id
    sound: Array  #: the id is one of documents, or there is none; if not, the frame is decoded as a record

    def of(self, rows: Array) -> "Keys":
        """Return the keys of some rows."""
        return Keys(*(column[rows] for column in self))


@dataclass(frozen=True)
class FrameBatch:
    """Frames ``first``, ``first + 1`` … of the output. Each column has an entry for each frame."""

    first: int
    data: bytes
    row: Array  #: as in ``scan``: the frame's offset in ``data``, its plan, the state for its key
    length: Array  #: by the header
    offset: Array
    gap_before: Array
    weak: Array  #: found on weak evidence
    packet: Array
    ts_ns: Array
    file: Array  #: which of ``files``
    files: list[str]
    direction: Array  #: which of ``directions``
    directions: list[Direction]
    odd: dict[int, RawFrame]  #: by row: incomplete frames
    records: dict[int, Record | DeferredRecord]  #: by row: frames without a plan
    #: names of collections, by connection, where there are any
    names: dict[int, ConnectionNames] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def view(self) -> Array:
        """Return the bytes as an array."""
        return np.frombuffer(self.data, np.uint8)

    # -- columns that are made of rows and bytes when somebody asks for them ----------------------------

    @cached_property
    def start(self) -> Array:
        """Return the offset of each frame in ``data``."""
        starts: Array = self.row & (1 << START_BITS) - 1
        return starts

    @cached_property
    def plan(self) -> Array:
        """Return the number of each frame's plan; -1 without one."""
        plans: Array = (self.row >> START_BITS & (1 << PLAN_BITS) - 1) - 1
        return plans

    @cached_property
    def header(self) -> Headers:
        """Return the headers."""
        return Headers.of(records_at(self.view, HEADER, self.start))

    @cached_property
    def groups(self) -> list[Group]:
        """Return the frames of each plan."""
        return groups_of(self.plan, self.view, self.start, self.header)

    @cached_property
    def keys(self) -> Keys:
        """Return the keys of frames with a plan."""
        size = self.row >> ID_BITS & ID_MASK
        start, length = self.start + self.header.key_at, self.header.key
        split = _KEYED[self.plan] & (length > 0) & self.knows(SPLIT)
        collection = np.zeros(len(self), np.uint32)
        for number in range(int(size.max(initial=0))):
            rows = np.flatnonzero(size > number)
            byte = self.view[start[rows] + number].astype(np.uint32)
            collection[rows] |= (byte & 0x7F) << np.uint32(7 * number)
        return Keys(start, start + size, start + length, collection, split, ~split | (size > 0))

    def knows(self, bit: int) -> Array:
        """Return a mask of the frames with one of the bits of ``scan`` set."""
        known: Array = self.row & bit > 0
        return known

    def lists(self, names: Sequence[str], rows: Sequence[int]) -> list[list[Any]]:
        """Return columns, each as a list of its values in some rows."""
        some = slice(None) if len(rows) == len(self) else np.array(rows, np.int64)
        return [getattr(self, name)[some].tolist() for name in names]

    @property
    def end(self) -> Array:
        """Return the offset in its direction of each frame's end, or of the end of its captured bytes."""
        ends: Array = self.offset + self.length
        for row, raw in self.odd.items():
            ends[row] = raw.offset + len(raw.data)
        return ends

    def stream_id(self, rows: Array | slice = slice(None)) -> Array:
        """Return the stream ids of planned frames, 0 without one. Meaningless for other frames."""
        framing = self.header.framing[rows]
        if not framing.any():
            return np.zeros(len(framing), np.int64)
        at = np.minimum(self.start[rows] + HEADER_LENGTH + 1, max(0, len(self.data) - 2))
        ids = records_at(self.view, np.dtype(">u2"), at).astype(np.int64)
        return np.where(framing > 0, ids, 0)

    def collection_path(self, row: int, collection: int) -> str | None:
        """Return the name of a collection as known at a row: ``scope.collection``."""
        names = self.names.get(self.directions[int(self.direction[row])].connection)
        return None if names is None else names.path(collection, self.first + row)

    def frames(self) -> Frames:
        """Return the frames as they were cut, for readers that take them one after another."""
        found, count = Frames(), len(self)
        ends = np.append(self.start[1:], len(self.data))
        turns, weak = self.direction[1:] != self.direction[:-1], self.weak[1:] != self.weak[:-1]
        breaks = turns | (self.gap_before[1:] > 0) | weak
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
        found.direction_ids = [self.directions[at].id for at in self.direction[firsts].tolist()]
        found.weak = (self.weak[firsts] != 0).tolist()
        return found

    def record(self, row: int) -> Record:
        """Return one frame as a record.

        Frames with a plan are decoded with the state of their row; credentials are never among them.
        """
        found = self.records.get(row)
        if isinstance(found, DeferredRecord):
            found = self.records[row] = found.record(self.raw(row))
        if found is not None:
            return found
        known = int(self.row[row])
        frame = decode(self.raw(row))
        content = interpret(
            frame,
            collections=None if known & UNKNOWN else known & SPLIT > 0,
            inferred=known & INFERRED > 0,
            underlying_datatype=known & UNDERLYING > 0,
        )
        direction = self.directions[int(self.direction[row])]
        origin = direction.connection, direction.side, direction.src, direction.dst
        names = self.names.get(direction.connection)
        return Record(self.first + row, frame, content, frame.header.vbucket_or_status, None, *origin, names)

    def raw(self, row: int) -> RawFrame:
        """Return the bytes of one frame, for the decoder."""
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


def batch_of(
    frames: Frames,
    first: int,
    rows: list[int],
    records: dict[int, Record | DeferredRecord],
    direction_of: Callable[[int], Direction],
) -> FrameBatch:
    """Make a batch of frames and the rows and records that ``scan`` made.

    ``first``: the number of the first frame; ``direction_of`` returns the direction for a number in ``frames``.
    """
    count = len(frames)
    row = np.array(rows, np.int64)
    start = row & (1 << START_BITS) - 1
    firsts = np.array(frames.firsts, np.int64)
    sizes = np.diff(firsts, append=count)

    def spread(column: Iterable[Any], kind: Any = np.int64) -> Array:
        """Return a column with each run's value for each of its frames."""
        return np.repeat(np.array(column, kind), sizes)

    ends = np.append(start[1:], frames.size)
    by = np.searchsorted(np.array(frames.bounds, np.int64), ends)  # index of the packet that completed each frame

    gap_before = np.zeros(count, np.int64)
    gap_before[firsts] = frames.gaps
    data = frames.data()
    length = records_at(np.frombuffer(data, np.uint8), _U32, start + 8) + np.int64(HEADER_LENGTH)
    for odd, raw in frames.odd.items():
        length[odd] = raw.length
    files, directions = Numbers[str](), Numbers[int]()
    file, direction = files.of(frames.files)[by], spread(directions.of(frames.direction_ids))
    return FrameBatch(
        first,
        data,
        row,
        length,
        spread(frames.offsets) + start - spread(start[firsts]),
        gap_before,
        spread(frames.weak, bool),
        np.array(frames.packets, np.int64)[by],
        np.array([NO_TIME if ts is None else ts for ts in frames.times], np.int64)[by],
        file,
        files.all,
        direction,
        [direction_of(number) for number in directions.all],
        frames.odd,
        records,
    )


def joined(batches: list[FrameBatch]) -> FrameBatch:
    """Join consecutive batches."""
    if len(batches) == 1:
        return batches[0]
    files, directions = Numbers[str](), Numbers[Direction]()
    bases = np.cumsum([0, *(len(batch.data) for batch in batches[:-1])]).tolist()
    rows = np.cumsum([0, *(len(batch) for batch in batches[:-1])]).tolist()
    plain = ("length", "offset", "gap_before", "weak", "packet", "ts_ns")
    columns: dict[str, Any] = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in plain}
    return replace(
        batches[0],
        data=b"".join([batch.data for batch in batches]),
        row=np.concatenate([batch.row + base for batch, base in zip(batches, bases, strict=True)]),
        file=np.concatenate([files.of(batch.files)[batch.file] for batch in batches]),
        files=files.all,
        direction=np.concatenate([directions.of(batch.directions)[batch.direction] for batch in batches]),
        directions=directions.all,
        odd={row + base: raw for batch, base in zip(batches, rows, strict=True) for row, raw in batch.odd.items()},
        records={
            row + base: each for batch, base in zip(batches, rows, strict=True) for row, each in batch.records.items()
        },
        names={number: names for batch in batches for number, names in batch.names.items()},
        **columns,
    )


# -- groups of batches, even by the bytes of their values: what is made of a group takes a multiple of these

#: About how many bytes a group has; a larger frame is a group of its own.
GROUP_BYTES = 2 * BLOCK_BYTES
#: The most bytes of a valid varint for the length of a decompressed value.
_CLAIM_BYTES = 4


def even_groups(batches: Iterable[FrameBatch]) -> Iterator[list[FrameBatch]]:
    """Yield consecutive batches in groups of about one size; large batches are cut."""
    group: list[FrameBatch] = []
    size = 0
    for batch in batches:
        for piece, more in _cut(batch):
            if group and size + more > GROUP_BYTES:
                yield group
                group, size = [], 0
            group.append(piece)
            size += more
    if group:
        yield group


def _cut(batch: FrameBatch) -> Iterator[tuple[FrameBatch, int]]:
    """Yield a batch in pieces that are not too large, each with its size in bytes."""
    ends = np.cumsum(_sizes(batch)).tolist()
    low = done = 0
    while low < len(batch):
        high = max(low + 1, bisect_right(ends, done + GROUP_BYTES))
        yield batch if high - low == len(batch) else _rows(batch, low, high), ends[high - 1] - done
        low, done = high, ends[high - 1]


def _sizes(batch: FrameBatch) -> Array:
    """Return the size of each frame, with compressed values counted at the length that they credibly claim."""
    sizes: Array = np.minimum(batch.length, len(batch.data))
    header = batch.header
    packed = np.flatnonzero((header.datatype & SNAPPY != 0) & (header.value > 0))
    if len(packed):
        at = batch.start[packed] + header.key_at[packed] + header.key[packed]
        claim, more = np.zeros(len(packed), np.int64), np.ones(len(packed), bool)
        for digit in range(_CLAIM_BYTES):
            byte = batch.view[np.minimum(at + digit, len(batch.data) - 1)].astype(np.int64)
            claim += np.where(more, (byte & 0x7F) << 7 * digit, 0)
            more &= byte > 0x7F
        claim[more | (claim > np.minimum(MAX_VALUE, MAX_RATIO * header.value[packed]))] = 0
        sizes[packed] += claim
    return sizes


def _rows(batch: FrameBatch, low: int, high: int) -> FrameBatch:
    """Return some rows of a batch as a batch, with only the bytes that they need."""
    some = slice(low, high)
    begin = int(batch.start[some].min())
    end = int((batch.start[some] + batch.length[some]).max())
    all_columns = ((each.name, getattr(batch, each.name)) for each in fields(batch))
    columns: dict[str, Any] = {name: each[some] for name, each in all_columns if isinstance(each, np.ndarray)}
    columns["row"] = columns["row"] - begin  # a row's lowest bits are its offset
    return replace(
        batch,
        **columns,
        first=batch.first + low,
        data=batch.data[begin:end],
        odd={row - low: raw for row, raw in batch.odd.items() if low <= row < high},
        records={row - low: each for row, each in batch.records.items() if low <= row < high},
    )


# -- batches and other data about frames, packed as bytes for another process ---------------------------
# Large arrays are not copied into the pickle: they follow it, and are used in place by the reader. Entries of the
# protocol table, and its plans, which every process has, are given by their number. The bytes are a pickle: read them
# only with the same version of dcpdump, and only where no one else could have written them.

#: Packing and unpacking a record takes as long as writing so many frames with a plan.
_FRAMES_A_RECORD = 20
_NUMBER = Struct("=Q")
_ALIGNED = 64  #: bytes: NumPy needs aligned data


def is_heavy(batch: FrameBatch) -> bool:
    """Return whether a batch is written faster than it is packed, because many frames have records."""
    return len(batch) < _FRAMES_A_RECORD * sum(isinstance(each, Record) for each in batch.records.values())


def pieces_of(thing: object) -> list[bytes | memoryview]:
    """Pack an object as pieces to be written one after another. Large pieces are the object's own memory."""
    file, buffers = BytesIO(), list[pickle.PickleBuffer]()
    _Writer(file, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append).dump(thing)
    pieces: list[bytes | memoryview] = [file.getbuffer(), *(each.raw() for each in buffers)]
    head = pack(f"={len(pieces) + 1}Q", len(pieces), *map(len, pieces))
    filled: list[bytes | memoryview] = []
    for each in (head, *pieces):
        filled += each, bytes(-len(each) % _ALIGNED)
    return filled


def thing_of(data: memoryview) -> Any:
    """Return the object packed in ``data``; its columns use this memory."""
    (count,) = _NUMBER.unpack_from(data)
    _, *sizes = unpack_from(f"={count + 1}Q", data)
    at, pieces = 0, list[memoryview]()
    for size in (_NUMBER.size * (count + 1), *sizes):
        pieces.append(data[at : at + size])
        at += size + -size % _ALIGNED
    return pickle.loads(pieces[1], buffers=pieces[2:])


def _things() -> Iterator[object]:
    """Yield all objects of the protocol table, always in the same order."""
    for message in (*MESSAGES.values(), *PUSHES.values()):
        yield message
        for layout in message.layouts:
            yield layout
            yield from layout.extras
            yield from layout.parts
    yield from PLANS


_THINGS = list(_things())
_NUMBER_OF = {id(thing): number for number, thing in enumerate(_THINGS)}


def _thing(number: int) -> object:
    return _THINGS[number]


def _by_number(thing: object) -> Any:
    number = _NUMBER_OF.get(id(thing))
    return thing.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if number is None else (_thing, (number,))


_values_of = attrgetter(*(each.name for each in fields(FrameBatch)))


def _reduced(batch: FrameBatch) -> Any:
    first, data, *others = _values_of(batch)
    return _batch, (pickle.PickleBuffer(data), first, *others)


def _batch(data: Any, first: int, *others: Any) -> FrameBatch:
    return FrameBatch(first, bytes(data), *others)


class _Writer(pickle.Pickler):
    #: By class, because a call for every single object would take most of the time.
    dispatch_table = dict.fromkeys(map(type, _THINGS), _by_number) | {FrameBatch: _reduced}
