"""Likeness: numbers by which frames are compared that were read from captures with more packets, and with fewer."""

import numpy as np

from dcpdump.batch.chosen import record_of
from dcpdump.batch.deferred import Later
from dcpdump.batch.key_columns import keys_of
from dcpdump.batch.layouts import Array
from dcpdump.batch.part import Part
from dcpdump.record import as_json
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.outstanding import Asked

#: Of a row, what another file with fewer packets has to have otherwise.
_NUMBERS = ("frame", "packet", "file", "connection", "request_frame", "gap_before")


def likenesses(part: Part, rows: Array) -> list[int]:
    """It gives a number for each of some rows. Equal ones are of frames of which everything is the same, but for
    numbers and what was lost before them.

    What a plan took says what its bytes say, in the light of a few facts: there is no need to decode it.
    """
    plain = np.zeros(len(part), bool)
    for group in part.groups:
        plain[group.rows] = True
    keys = keys_of(part, rows)
    light = keys.split + 2 * (keys.split & part.inferred[rows]) + 4 * part.underlying[rows] + 8 * part.weak[rows]
    starts = part.start[rows]
    ends = [(each.src, each.dst) for each in part.places]
    facts = zip(
        rows.tolist(),
        (plain[rows] & keys.sound).tolist(),
        starts.tolist(),
        (starts + part.length[rows]).tolist(),
        part.offset[rows].tolist(),
        part.ts_ns[rows].tolist(),
        part.place[rows].tolist(),
        light.tolist(),
        strict=True,
    )
    data = part.data
    return [
        hash((data[start:end], offset, ts_ns, ends[place], lit)) if whole else _decoded(part, row)
        for row, whole, start, end, offset, ts_ns, place, lit in facts
    ]


def _decoded(part: Part, row: int) -> int:
    """It gives the number of a frame that has to be understood, or of one that nothing agreed on can change."""
    later = part.records.get(row)
    if isinstance(later, Later):
        return _as_it_is(part.raw(row), later.src, later.dst, later.request)
    record = record_of(part, row)
    frame = record.frame
    if frame.magic.response or not (frame.message.collection_key or frame.message.document):
        return _as_it_is(frame.raw, record.src, record.dst, record.request)
    flat = as_json(record, value_bytes=None)
    for name in _NUMBERS:
        flat.pop(name, None)
    return hash(repr(flat))


def _as_it_is(raw: RawFrame, src: str, dst: str, asked: Asked | None) -> int:
    ts_ns = raw.where.ts_ns
    then_ns = asked.ts_ns if asked is not None else None
    latency_us = None if ts_ns is None or then_ns is None else (ts_ns - then_ns) // 1000
    return hash((raw.data, raw.holes, raw.confidence, raw.offset, ts_ns, src, dst, latency_us))
