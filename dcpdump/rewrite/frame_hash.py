"""Hash frames so that those read from a whole capture compare equal to those read from a part of it."""

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.batch.learning import INFERRED, UNDERLYING, Later
from dcpdump.batch.part import Part
from dcpdump.quick_dataclass import dataclass
from dcpdump.record import as_json
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.session import Asked

_MASK = (1 << 64) - 1
#: Columns of a row that necessarily differ in a file with fewer packets.
_NUMBERS = ("frame", "packet", "file", "connection", "request_frame", "gap_before", "offset")


@dataclass(slots=True)
class FrameSum:
    """The sum of the hashes of some frames, in any order, and how many they are. Equal ones are of the same frames."""

    count: int = 0
    total: int = 0  #: modulo 2⁶⁴

    def add(self, hashes: Array) -> None:
        """Add frames."""
        self.count += len(hashes)
        self.total = (self.total + int(hashes.astype(np.uint64).sum())) & _MASK


def frame_hashes(part: Part, rows: Array) -> Array:
    """Return a hash for each of some rows; equal ones are of frames that are the same except for their numbers.

    Numbers are those of frames, packets and connections, offsets, and what was lost before. The hash of a frame that
    a plan decodes is taken from its bytes and the few facts that its decoding depends on: it need not be decoded.
    """
    keys = part.keys
    plain = (part.plan >= 0) & keys.sound
    light = keys.split + 2 * (keys.split & part.knows(INFERRED)) + 4 * part.knows(UNDERLYING) + 8 * part.weak
    starts = part.start[rows]
    ends = [(each.src, each.dst) for each in part.places]
    facts = zip(
        rows.tolist(),
        plain[rows].tolist(),
        starts.tolist(),
        (starts + part.length[rows]).tolist(),
        part.ts_ns[rows].tolist(),
        part.place[rows].tolist(),
        light[rows].tolist(),
        strict=True,
    )
    data = part.data
    return np.array(
        [
            hash((data[start:end], ts_ns, ends[place], lit)) if whole else _decoded_hash(part, row)
            for row, whole, start, end, ts_ns, place, lit in facts
        ],
        np.int64,
    )


def _decoded_hash(part: Part, row: int) -> int:
    """Return the hash of a frame that must be decoded, or whose decoding does not depend on negotiated features."""
    later = part.records.get(row)
    if isinstance(later, Later):
        return _raw_hash(part.raw(row), later.src, later.dst, later.request)
    record = part.record(row)
    frame = record.frame
    if frame.magic.response or not (frame.message.collection_key or frame.message.document):
        return _raw_hash(frame.raw, record.src, record.dst, record.request)
    flat = as_json(record, value_bytes=None)
    for name in _NUMBERS:
        flat.pop(name, None)
    return hash(repr(flat))


def _raw_hash(raw: RawFrame, src: str, dst: str, asked: Asked | None) -> int:
    ts_ns = raw.where.ts_ns
    then_ns = asked.ts_ns if asked is not None else None
    latency_us = None if ts_ns is None or then_ns is None else (ts_ns - then_ns) // 1000
    return hash((raw.data, raw.holes, raw.confidence, ts_ns, src, dst, latency_us))
