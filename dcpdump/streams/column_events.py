"""Events of many frames, from their columns: what the ledger learns of parts."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np

from dcpdump.batch.deferred import Later
from dcpdump.batch.gather import Array
from dcpdump.batch.key_columns import keys_of
from dcpdump.batch.layouts import Group
from dcpdump.batch.part import Part
from dcpdump.net.no_time import NO_TIME
from dcpdump.spec.header import MAGICS
from dcpdump.streams.frame_event import FrameEvent, Shape, event_of, shape_of
from dcpdump.streams.opcode_kinds import DOCUMENTS

_NOTHING = Shape("", (), {}, -1)
#: Messages that are nearly all of a capture: their fields are given only to who asks for them.
NO_ROWS = np.zeros(0, np.int64)


def frame_events(part: Part, *, documents: bool = True, rows: Array | None = None) -> list[FrameEvent]:
    """Return the events of a part, or of some of its rows, which rise.

    ``documents``: mutations, deletions and expirations have their fields too (their seqno is there in any case).
    """
    everything = rows is None
    rows = np.arange(len(part)) if rows is None else rows
    count = len(rows)
    if not count:
        return []
    header = part.header if everything else part.header.taken(rows)
    groups = ((each, each.rows) for each in part.groups) if everything else _among(part.groups, rows)
    seqnos, shapes, fields = _fields(groups, count, documents=documents)
    times: list[Any] = part.ts_ns[rows].tolist()
    if (part.ts_ns[rows] == NO_TIME).any():
        times = [None if time == NO_TIME else time for time in times]
    key_at = part.start[rows] + header.key_at
    whole = np.isin(rows, list(part.odd), invert=True) if part.odd else np.ones(count, bool)
    place, magic = part.place[rows], header.magic
    columns = zip(
        (part.first + rows).tolist(),
        times,
        np.array([ends.connection for ends in part.places])[place].tolist(),
        np.array([ends.direction for ends in part.places])[place].tolist(),
        magic.tolist(),
        header.opcode.tolist(),
        RESPONSE[magic].tolist(),
        _SERVER[magic].tolist(),
        header.word.tolist(),
        header.opaque.tolist(),
        header.cas.tolist(),
        header.datatype.tolist(),
        part.length[rows].tolist(),
        stream_ids(part, rows).tolist(),
        seqnos,
        shapes,
        fields,
        repeat(part.data),
        key_at.tolist(),
        (key_at + header.key).tolist(),
        np.maximum(header.value, 0).tolist(),
        part.gap_before[rows].tolist(),
        whole.tolist(),
        (part.weak[rows] != 0).tolist(),
        repeat(None),
        repeat(None),
        strict=False,
    )
    out: list[FrameEvent] = list(map(FrameEvent._make, columns))
    for at, row in enumerate(rows.tolist() if part.records else ()):
        record = part.records.get(row)
        if record is not None and not isinstance(record, Later):
            out[at] = event_of(record)
    return out


def _fields(
    groups: Iterable[tuple[Group, Array]], count: int, *, documents: bool
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return of ``count`` frames their own seqnos, the shapes of their fields, and the fields."""
    seqnos: list[Any] = [None] * count
    shapes: list[Any] = [_NOTHING] * count
    fields: list[Any] = [()] * count
    for group, places in groups:
        plan, shape = group.plan, shape_of(group.plan.layout)
        tuples: Any = repeat(())
        if documents or plan.message.opcode not in DOCUMENTS:
            tuples = group.extras.tolist() if group.extras.dtype.names else repeat(())
            if group.value is not None:
                tuples = [extras + value for extras, value in zip(tuples, group.value.tolist(), strict=False)]
        own = plan.own_seqno
        brought: Any = group.column(own).tolist() if own is not None else repeat(None)
        if len(places) == count and own is not None and not isinstance(tuples, repeat):
            return brought, [shape] * count, tuples
        for place, values, seqno in zip(places.tolist(), tuples, brought, strict=False):
            fields[place] = values
            seqnos[place] = seqno
            shapes[place] = shape
    return seqnos, shapes, fields


def _among(groups: list[Group], rows: Array) -> Iterator[tuple[Group, Array]]:
    """Yield of each group the frames that are among some rows, and their places there."""
    for group in groups:
        begin, end = np.searchsorted(group.rows, (rows[0], rows[-1] + 1))
        places = np.searchsorted(rows, group.rows[begin:end])
        mine = np.flatnonzero(rows[places] == group.rows[begin:end])
        if len(mine):
            value = None if group.value is None else group.value[begin + mine]
            yield Group(group.plan, group.rows[begin + mine], group.extras[begin + mine], value), places[mine]


def keys(part: Part) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of planned documents, and their keys without collection prefix."""
    rows = np.concatenate([group.rows for group in part.groups if group.plan.message.collection_key] or [NO_ROWS])
    found = keys_of(part, rows)
    for row, begin, end in zip(rows.tolist(), found.start.tolist(), found.end.tolist(), strict=True):
        yield row, part.data[begin:end]


def stream_ids(part: Part, rows: Array | slice = slice(None)) -> Array:
    """Return the stream ids, 0 where there is none."""
    framing = part.header.framing[rows]
    if not framing.any():
        return np.zeros(len(framing), np.int64)
    return np.where(framing > 0, part.stream_id(rows), 0)


RESPONSE = np.array([value in MAGICS and MAGICS[value].response for value in range(256)])
_SERVER = np.array([value in MAGICS and MAGICS[value].server for value in range(256)])
