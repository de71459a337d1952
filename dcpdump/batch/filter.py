"""Apply the clauses of a filter to many frames at once, with the results that they have one by one.

Clauses on headers come first, then those on fields, then those on keys: a frame that one refuses is decoded no further.
Frames that were decoded as records are tested as records.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from dcpdump.batch.frame_batch import RESPONSE, FrameBatch, Group
from dcpdump.batch.gather import Array
from dcpdump.filter import Clause, FrameFilter, TimeWindow, clauses
from dcpdump.filter.choices import (
    CollectionChoice,
    Ranges,
    collection_choice,
    named_opcodes,
    named_statuses,
    parse_ranges,
)
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Direction, blank_record
from dcpdump.spec.header import STREAM_ID_LENGTH
from dcpdump.startup import dataclass


class HeaderColumns(Protocol):
    """The columns of headers that masks read. ``status``: of responses what ``vbucket_or_status`` has."""

    @property
    def magic(self) -> Array: ...
    @property
    def opcode(self) -> Array: ...
    @property
    def vbucket_or_status(self) -> Array: ...
    @property
    def status(self) -> Array: ...
    @property
    def opaque(self) -> Array: ...
    @property
    def framing(self) -> Array: ...


class FrameRows(Protocol):
    """The columns of frames that masks read: a batch's, or those of an index."""

    def __len__(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def header(self) -> HeaderColumns: ...
    @property
    def ts_ns(self) -> Array: ...
    @property
    def direction(self) -> Array: ...
    @property
    def directions(self) -> Sequence[Direction]: ...
    def stream_id(self) -> Array: ...


HeaderMask = Callable[[FrameRows], Array]


@dataclass(frozen=True, slots=True)
class Masks:
    """The clauses of a filter, as masks. ``frame_filter``: the same for records."""

    frame_filter: FrameFilter
    header: tuple[HeaderMask, ...] = ()
    any_frame: tuple[HeaderMask, ...] = ()  #: of those, the ones that hold for frames without a plan, too
    seqno: Ranges | None = None
    collection: CollectionChoice | None = None
    key: Clause | None = None
    window: TimeWindow | None = None
    problems: bool = False
    vbucket: bool = False  #: there is a clause on vbuckets
    latency: bool = False  #: there is a clause on latencies

    @property
    def header_only(self) -> bool:
        """Return whether headers, connections and times decide everything."""
        nothing_else = self.seqno is None and self.collection is None and self.key is None
        return nothing_else and not self.problems and not self.latency

    def by_header(self, batch: FrameRows) -> Array:
        """Return a mask of the frames whose header, connection and time pass."""
        keep = np.ones(len(batch), bool)
        for mask in self.header:
            keep &= mask(batch)
        if self.window is not None:
            since, until, begins = self.window.since, self.window.until, self.window.start_ns
            keep &= batch.ts_ns != NO_TIME
            if since is not None:
                keep &= batch.ts_ns >= since.at(begins)
            if until is not None:
                keep &= batch.ts_ns <= until.end(begins)
        return keep

    def undecided(self, batch: FrameBatch) -> list[int]:
        """Return the rows with records that have to be tested as records."""
        if not len(batch.records) or not self.any_frame:
            return list(batch.records)
        rows = np.fromiter(batch.records, np.int64, len(batch.records))
        keep = np.ones(len(batch), bool)
        for mask in self.any_frame:
            keep &= mask(batch)
        keep |= batch.header.server  # server messages have opcodes of their own
        keep[list(batch.odd)] = True  # damaged frames may lack even a header
        found: list[int] = rows[keep[rows]].tolist()
        return found

    def by_fields(self, group: Group) -> Array:
        """Return a mask of the group's frames whose fields pass."""
        if self.seqno is None:
            return np.ones(len(group.rows), bool)
        if group.plan.has("start_seqno") and group.plan.has("end_seqno"):
            return _overlap(self.seqno, group.column("start_seqno"), group.column("end_seqno"))
        found = np.zeros(len(group.rows), bool)
        for field in group.plan.fields:
            if field.seqno:
                found |= _inside(self.seqno, group.column(field.name))
        return found

    def by_collection(self, batch: FrameBatch, rows: Array, collection: Array, split: Array) -> Array:
        """Return a mask of the rows whose collection passes; ``split``: whether the key has one."""
        chosen = self.collection
        if chosen is None:
            return np.ones(len(split), bool)
        if not chosen.by_name:
            return split & _inside(chosen.ids, collection)
        found: Array = split.copy()
        for at in split.nonzero()[0].tolist():
            number = int(collection[at])
            found[at] = chosen.accepts(number, batch.collection_path(int(rows[at]), number))
        return found

    def by_key(self, keys: Sequence[bytes]) -> Array:
        """Return a mask of the keys that pass."""
        if self.key is None:
            return np.ones(len(keys), bool)
        return np.array([self.key(blank_record(key)) for key in keys], bool)


def masks(texts: Mapping[str, str], frame_filter: FrameFilter, *, window: TimeWindow | None = None) -> Masks:
    """Parse the options of a filter, by name; ``whole`` was made from the same options."""
    header = tuple(build(texts[name]) for name, build in _HEADER.items() if name in texts)
    return Masks(
        frame_filter,
        header,
        tuple(build(texts[name]) for name, build in _HEADER.items() if name in texts and name in _OF_ANY_FRAME),
        parse_ranges("--seqno", texts["seqno"]) if "seqno" in texts else None,
        collection_choice(texts["collection"]) if "collection" in texts else None,
        clauses.by_key(texts["key"]) if "key" in texts else None,
        window,
        clauses.with_problems in frame_filter.clauses,
        "vbucket" in texts,
        "latency" in texts,
    )


def _opcode(text: str) -> HeaderMask:
    wanted, excluded = named_opcodes(text)
    table = np.array([(False, op) not in excluded and (not wanted or (False, op) in wanted) for op in range(256)])
    return lambda batch: table[batch.header.opcode]


def _vbucket(text: str) -> HeaderMask:
    ranges = parse_ranges("--vbucket", text, 0xFFFF)
    return lambda batch: _inside(ranges, batch.header.vbucket_or_status)


def _kind(text: str) -> HeaderMask:
    kinds = clauses.parse_kinds(text)
    table = np.array(["request" in kinds, "response" in kinds])
    return lambda batch: table[RESPONSE[batch.header.magic].astype(np.intp)]


def _status(text: str) -> HeaderMask:
    wanted, excluded = named_statuses(text)
    table = np.full(65_536, not wanted)
    table[list(wanted)] = True
    table[list(excluded)] = False
    return lambda batch: RESPONSE[batch.header.magic] & table[batch.header.status]


def _latency(_text: str) -> HeaderMask:
    """Pass responses, the only frames with a latency; the record decides about each."""
    return lambda batch: RESPONSE[batch.header.magic]


def _opaque(text: str) -> HeaderMask:
    ranges = parse_ranges("--opaque", text, 0xFFFFFFFF)
    return lambda batch: _inside(ranges, batch.header.opaque)


def _stream_id(text: str) -> HeaderMask:
    ranges = parse_ranges("--stream-id", text, 0xFFFF)
    return lambda batch: (batch.header.framing == STREAM_ID_LENGTH) & _inside(ranges, batch.stream_id())


def _frame(text: str) -> HeaderMask:
    ranges = parse_ranges("--frame", text)
    return lambda batch: _inside(ranges, np.arange(batch.first, batch.first + len(batch), dtype=np.uint64))


def _by_direction(parse: Callable[[str], Clause]) -> Callable[[str], HeaderMask]:
    """Return a mask for a clause on connections and addresses: evaluated once for each direction."""

    def build(text: str) -> HeaderMask:
        clause = parse(text)

        def accepts(direction: Direction) -> bool:
            return clause(blank_record(None, direction.connection, direction.side, direction.src, direction.dst))

        return lambda batch: np.array([accepts(direction) for direction in batch.directions], bool)[batch.direction]

    return build


_HEADER: Mapping[str, Callable[[str], HeaderMask]] = {
    "opcode": _opcode,
    "vbucket": _vbucket,
    "kind": _kind,
    "status": _status,
    "latency": _latency,
    "opaque": _opaque,
    "stream-id": _stream_id,
    "frame": _frame,
    "connection": _by_direction(clauses.by_connection),
    "host": _by_direction(clauses.by_host),
    "port": _by_direction(clauses.by_port),
}


_OF_ANY_FRAME = frozenset({"opcode", "opaque", "frame", "connection", "host", "port"})


def _inside(ranges: Ranges, numbers: Array) -> Array:
    found = np.full(len(numbers), not ranges.spans)
    for low, high in ranges.spans:
        found |= _between(numbers, low, high)
    for low, high in ranges.excluded:
        found &= ~_between(numbers, low, high)
    return found


def _between(numbers: Array, low: int, high: int) -> Array:
    top = int(np.iinfo(numbers.dtype).max)
    if low > top:
        return np.zeros(len(numbers), bool)
    inside: Array = (numbers >= numbers.dtype.type(low)) & (numbers <= numbers.dtype.type(min(high, top)))
    return inside


def _overlap(ranges: Ranges, start: Array, end: Array) -> Array:
    found = np.full(len(start), not ranges.spans)
    for low, high in ranges.spans:
        found |= (end >= start.dtype.type(low)) & (start <= start.dtype.type(high))
    for low, high in ranges.excluded:
        found &= ~((start >= start.dtype.type(low)) & (end <= start.dtype.type(high)))
    return found


# -- which frames of a batch a filter wants ------------------------------------------------------------


def wanted_rows(batch: FrameBatch, wanted: Masks) -> Sequence[int]:
    """Return the rows that pass a filter. Rows that headers and fields exclude are decoded no further."""
    if not wanted.frame_filter.clauses:
        return range(len(batch))
    keep = wanted.by_header(batch)
    taken = keep & False
    for group in batch.groups:
        taken[group.rows] = wanted.by_fields(group)
    rows: list[int] = (keep & taken).nonzero()[0].tolist()
    if wanted.problems:
        rows = [row for row in rows if wanted.frame_filter.accepts(batch.record(row))]
    elif wanted.key is not None or wanted.collection is not None:
        rows = _with_keys(batch, wanted, (keep & taken).nonzero()[0])
    others = [row for row in wanted.undecided(batch) if wanted.frame_filter.accepts(batch.record(row))]
    return sorted(rows + others) if others else rows


def _with_keys(batch: FrameBatch, wanted: Masks, rows: Array) -> list[int]:
    """Return those of the planned rows whose keys and collections pass."""
    keys = batch.keys.of(rows)
    good = wanted.by_collection(batch, rows, keys.collection, keys.split)
    if wanted.key is not None:
        good &= keys.end > keys.logical
        there = good.nonzero()[0]
        spans = zip(keys.logical[there].tolist(), keys.end[there].tolist(), strict=True)
        good[there] = wanted.by_key([batch.data[start:end] for start, end in spans])
    for at in (~keys.sound).nonzero()[0].tolist():
        good[at] = wanted.frame_filter.accepts(batch.record(int(rows[at])))
    found: list[int] = rows[good].tolist()
    return found
