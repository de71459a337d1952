"""Sights of many frames, from their columns: the ledger's door to parts."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from dcpdump.columnar.block import NO_TIME
from dcpdump.columnar.dissection import Lost
from dcpdump.columnar.key import keys_of
from dcpdump.columnar.later import Later
from dcpdump.columnar.part import Part
from dcpdump.columnar.plan import Array
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.streams.sight import OWN_SEQNO, UNKNOWN_LOSS, Shape, Sight, shape_of, sight_of

_NOTHING = Shape("", (), {}, -1)
#: Messages that are nearly all of a capture: their fields are given only to who asks for them.
DOCUMENTS = frozenset({0x57, 0x58, 0x59})
NO_ROWS = np.zeros(0, np.int64)


def sights(part: Part, *, documents: bool = True, rows: Array | None = None) -> list[Sight]:
    """It gives the sights of a part, or of some of its rows.

    ``documents``: mutations, deletions and expirations have their fields too (their seqno is there in any case).
    """
    everything = rows is None
    rows = np.arange(len(part)) if rows is None else rows
    count, header = len(rows), part.header
    fields: list[Any] = [()] * count
    shapes: list[Any] = [_NOTHING] * count
    seqnos: list[Any] = [None] * count
    at = np.full(len(part), -1)
    at[rows] = np.arange(count)
    for group in part.groups:
        plan, shape = group.plan, shape_of(group.plan.layout)
        places, mine = at[group.rows], np.arange(len(group.rows))
        if not everything:
            mine = np.flatnonzero(places >= 0)
            places = places[mine]
        tuples: Any = repeat(())
        if documents or plan.message.opcode not in DOCUMENTS:
            tuples = group.extras[mine].tolist() if group.extras.dtype.names else repeat(())
            if group.value is not None:
                tuples = [extras + value for extras, value in zip(tuples, group.value[mine].tolist(), strict=False)]
        own = next((name for name in OWN_SEQNO if plan.has(name)), None)
        brought: Any = group.column(own)[mine].tolist() if own is not None else repeat(None)
        if len(mine) == count and own is not None and not isinstance(tuples, repeat):
            fields, seqnos, shapes = tuples, brought, [shape] * count
            break
        for place, values, seqno in zip(places.tolist(), tuples, brought, strict=False):
            fields[place] = values
            seqnos[place] = seqno
            shapes[place] = shape
    times: list[Any] = part.ts_ns[rows].tolist()
    if (part.ts_ns[rows] == NO_TIME).any():
        times = [None if time == NO_TIME else time for time in times]
    key_at = (part.start + HEADER_LENGTH + header.framing + header.extras)[rows]
    whole = np.ones(len(part), bool)
    whole[list(part.odd)] = False
    place, magic = part.place[rows], header.magic[rows]
    columns = zip(
        (part.first + rows).tolist(),
        times,
        np.array([ends.connection for ends in part.places])[place].tolist(),
        np.array([ends.direction for ends in part.places])[place].tolist(),
        magic.tolist(),
        header.opcode[rows].tolist(),
        RESPONSE[magic].tolist(),
        _SERVER[magic].tolist(),
        header.word[rows].tolist(),
        header.opaque[rows].tolist(),
        header.cas[rows].tolist(),
        header.datatype[rows].tolist(),
        part.length[rows].tolist(),
        stream_ids(part)[rows].tolist(),
        seqnos,
        shapes,
        fields,
        repeat(part.data),
        key_at.tolist(),
        (key_at + header.key[rows]).tolist(),
        np.maximum(header.value[rows], 0).tolist(),
        part.gap_before[rows].tolist(),
        whole[rows].tolist(),
        (part.weak[rows] != 0).tolist(),
        repeat(None),
        repeat(False),
        strict=False,
    )
    out: list[Sight] = list(map(Sight._make, columns))
    for row, record in part.records.items():
        if at[row] >= 0 and not isinstance(record, Later):
            out[at[row]] = sight_of(record)
    return out


def keys(part: Part) -> Iterator[tuple[int, bytes]]:
    """It gives the rows of planned documents, and their keys without collection prefix."""
    rows = np.concatenate([group.rows for group in part.groups if group.plan.message.collection_key] or [NO_ROWS])
    found = keys_of(part, rows)
    for row, begin, end in zip(rows.tolist(), found.start.tolist(), found.end.tolist(), strict=True):
        yield row, part.data[begin:end]


def with_losses(part: Part, seen: list[Sight], lost: list[Lost]) -> list[Lost]:
    """It marks in ``seen`` losses of unknown size, which no frame's ``gap_before`` tells, and what was no loss at all.

    It gives the losses yet to come.
    """
    found, later = losses_in(part, lost)
    for row, gap in found.items():
        seen[row] = seen[row]._replace(gap_before=gap.length, skipped=gap.skipped)
    return later


class Before(NamedTuple):
    """What is before a frame in its direction, and is none."""

    length: int
    skipped: bool  #: none of it was lost


def losses_in(part: Part, lost: list[Lost]) -> tuple[dict[int, Before], list[Lost]]:
    """It gives the rows before which bytes were lost that their ``gap_before`` does not tell, or where none was lost.

    With it, the losses yet to come. A loss stands before the first frame of its direction that begins behind it.
    """
    found = {row: Before(length, True) for row, length in _gaps(part)}
    later: list[Lost] = []
    places = {(ends.connection, ends.direction): number for number, ends in enumerate(part.places)}
    for loss in lost:
        place = places.get((loss.ends.connection, loss.ends.direction))
        after = NO_ROWS
        if place is not None:
            after = np.flatnonzero((part.place == place) & (part.offset >= loss.gap.offset))
        if not len(after):
            later.append(loss)
        elif part.gap_before[after[0]]:
            found.pop(int(after[0]), None)
        else:
            found.setdefault(int(after[0]), Before(loss.gap.length or UNKNOWN_LOSS, False))
    return found, later


def _gaps(part: Part) -> list[tuple[int, int]]:
    rows = np.flatnonzero(part.gap_before)
    return list(zip(rows.tolist(), part.gap_before[rows].tolist(), strict=True))


def stream_ids(part: Part) -> Array:
    """It gives the stream ids, 0 where there is none."""
    framing = part.header.framing
    if not framing.any():
        return np.zeros(len(part), np.int64)
    return np.where(framing > 0, part.stream_id, 0)


RESPONSE = np.array([value in MAGICS and MAGICS[value].response for value in range(256)])
_SERVER = np.array([value in MAGICS and MAGICS[value].server for value in range(256)])
