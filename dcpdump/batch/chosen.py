"""Chosen: which frames of a part a filter wants, and any of them as a record, for what is not done in columns."""

from collections.abc import Sequence

import dcpdump.batch.part as states
from dcpdump.batch.filter import Masks
from dcpdump.batch.gather import Array
from dcpdump.batch.key_columns import keys_of
from dcpdump.batch.part import Part
from dcpdump.record import Record
from dcpdump.wire.decode import decode
from dcpdump.wire.value import interpret


def wanted_rows(part: Part, wanted: Masks) -> Sequence[int]:
    """Return the rows that a filter wants. What their headers and fields exclude is decoded no further."""
    if not wanted.whole.clauses:
        return range(len(part))
    keep = wanted.by_header(part)
    taken = keep & False
    for group in part.groups:
        taken[group.rows] = wanted.by_fields(group)
    rows: list[int] = (keep & taken).nonzero()[0].tolist()
    if wanted.problems:
        rows = [row for row in rows if wanted.whole.accepts(record_of(part, row))]
    elif wanted.key is not None or wanted.collection is not None:
        rows = _with_keys(part, wanted, (keep & taken).nonzero()[0])
    others = [row for row in wanted.undecided(part) if wanted.whole.accepts(part.record(row))]
    return sorted(rows + others) if others else rows


def _with_keys(part: Part, wanted: Masks, rows: Array) -> list[int]:
    """Return those of planned rows whose keys and collections are wanted."""
    keys = keys_of(part, rows)
    good = wanted.by_collection(part, rows, keys.collection, keys.split)
    if wanted.key is not None:
        good &= keys.end > keys.start
        there = good.nonzero()[0]
        spans = zip(keys.start[there].tolist(), keys.end[there].tolist(), strict=True)
        good[there] = wanted.by_key([part.data[start:end] for start, end in spans])
    for place in (~keys.sound).nonzero()[0].tolist():
        good[place] = wanted.whole.accepts(record_of(part, int(rows[place])))
    found: list[int] = rows[good].tolist()
    return found


def record_of(part: Part, row: int) -> Record:
    """Return one frame of a part as a record, for everything that is not done in columns.

    What a plan took is decoded as its session would: no plan takes a credential, shown or not.
    """
    if row in part.records:
        return part.record(row)
    frame = decode(part.raw(row))
    state = int(part.collections[row])
    meaning = interpret(
        frame,
        collections=None if state == states.UNKNOWN else state == states.YES,
        inferred=bool(part.inferred[row]),
        underlying_datatype=bool(part.underlying[row]),
    )
    ends = part.places[int(part.place[row])]
    return Record(
        part.first + row,
        frame,
        meaning,
        frame.header.word,
        None,
        ends.connection,
        ends.direction,
        ends.src,
        ends.dst,
        part.names.get(ends.connection),
    )
