"""Log what the ledger and the rules need of a split's frames, without the documents, and replay such logs.

Frames are logged as parts, as one machine would have them; a document's value that is what its datatype says is
replaced by one that is sound too, since nothing but soundness is asked of it, and packs to nothing. Values that are
compressed or have xattrs are kept.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dcpdump.batch.ends import Lost
from dcpdump.batch.learning import renumbered
from dcpdump.batch.part import Part
from dcpdump.batch.pickling import packed, unpacked
from dcpdump.check.checking import Judging
from dcpdump.net.event import TcpChange
from dcpdump.net.limits import Limits
from dcpdump.redact import Redactor
from dcpdump.spec.names import JSON
from dcpdump.spec.opcodes import DCP_MUTATION, DCP_PREPARE
from dcpdump.streams.dissection import Ended, Watching
from dcpdump.wire.json_text import json_faults

#: Connections that are remembered: which are over is not known here.
_ALL = 1 << 62
_ORDINALS = 40  #: low bits of a row's order that count within a work; the high ones are the work's ordinal

SCHEMA = pa.schema([pa.field("order", pa.int64()), pa.field("data", pa.binary())])


class EventLog(NamedTuple):
    """What packets contributed."""

    parts: list[Part]
    lost: list[Lost]
    ended: list[Ended]
    tcp_changes: list[TcpChange]
    entered: int | None  #: bytes that waited behind gaps when the work began; set on its first log only
    pending: int  #: bytes that wait behind gaps now
    releasing: bool  #: as the dissection has it
    last_ns: int | None  #: the time of its last packet


class EventWriter:
    """A writer of the events of one work, block by block. ``pending``: bytes that wait behind gaps at its beginning."""

    def __init__(self, ordinal: int, pending: int) -> None:
        self._next = ordinal << _ORDINALS
        self._entered: int | None = pending

    def write(self, dissection: Watching, parts: Iterable[Part], last_ns: int | None) -> pa.RecordBatch:
        """Return a batch of one row that holds what packets contributed; the dissection is left unchanged."""
        log = EventLog(
            [slim(part) for part in parts],
            list(dissection.gaps),
            list(dissection.ended),
            list(dissection.tcp_changes),
            self._entered,
            dissection.balance.pending_bytes,
            dissection.releasing,
            last_ns,
        )
        self._entered = None
        self._next += 1
        columns = [pa.array([self._next - 1], pa.int64()), pa.array([_packed(log)], pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class EventReplay:
    """A replay of logged events in their order, judged as one machine would judge the frames themselves."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._replay = Watching(Limits(connections=_ALL, state=_ALL))
        self.judging = Judging(self._replay, redactor=redactor)
        self._frames = 0
        self._elsewhere = 0  # bytes that wait on connections that are not in this work
        self._last_ns: int | None = None

    def feed(self, data: bytes) -> None:
        """Replay the next row of a log."""
        log = _unpacked(data)
        self._replay.gaps += log.lost
        self._replay.ended += log.ended
        self._replay.tcp_changes.extend(log.tcp_changes)
        if log.entered is not None:
            self._elsewhere = self._replay.balance.pending_bytes - log.entered
        self._replay.balance.pending_bytes = self._elsewhere + log.pending
        self._replay.releasing = log.releasing
        self._last_ns = log.last_ns
        self.judging.feed([self._numbered(part) for part in log.parts])

    def close(self) -> Judging:
        """End the input, and return the ledger and findings."""
        self.judging.close(self._last_ns)
        return self.judging

    def _numbered(self, part: Part) -> Part:
        """Return a part whose frames are numbered over the whole input."""
        first, self._frames = self._frames + 1, self._frames + len(part)
        records = {row: renumbered(record, number=first + row) for row, record in part.records.items()}
        return replace(part, first=first, records=records)


def slim(part: Part) -> Part:
    """Return the part with sound values of documents replaced by others of the same length."""
    header = part.header
    start = part.start + header.key_at + header.key
    bare = np.zeros(len(part), bool)
    for group in part.groups:
        if group.plan.message.opcode in (DCP_MUTATION, DCP_PREPARE):
            tail = group.plan.layout.tail
            bare[group.rows] = group.column(tail) == 0 if tail else True
    rows = np.flatnonzero(bare & (header.value > 0) & (header.datatype <= JSON))
    starts, ends = start[rows].tolist(), (start + header.value)[rows].tolist()
    marked = (header.datatype[rows] == JSON).tolist()
    texts = [place for place, is_json in enumerate(marked) if is_json]
    faults = json_faults(part.data, [starts[place] for place in texts], [ends[place] for place in texts])
    unsound = {texts[number] for number in faults}
    data = bytearray(part.data)
    for place, (begin, end) in enumerate(zip(starts, ends, strict=True)):
        if place not in unsound:
            data[begin:end] = b"1".ljust(end - begin)
    return replace(part, data=bytes(data))


def _packed(log: EventLog) -> bytes:
    data = packed(tuple(log))
    return len(data).to_bytes(8, "big") + bytes(pa.compress(data, codec="zstd", asbytes=True))


def _unpacked(row: bytes) -> EventLog:
    data = pa.decompress(row[8:], int.from_bytes(row[:8], "big"), codec="zstd", asbytes=True)
    return EventLog(*unpacked(data))
