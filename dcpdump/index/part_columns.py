"""Take the columns of frames from the parts that a dissection makes of them."""

from typing import Any

import numpy as np

import dcpdump.batch.learning as state
from dcpdump.batch.ends import Ends
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.index.columns import (
    GAP_BEFORE,
    HAS_SEQNO,
    HAS_STREAM_ID,
    HAS_VBUCKET,
    INFERRED,
    ODD,
    PLANNED,
    PROBLEM,
    REFUSED,
    RESPONSE,
    SERVER,
    WEAK,
)
from dcpdump.record import Record, own_seqno
from dcpdump.spec.header import STREAM_ID_LENGTH

_START = "start_seqno"


class KnownEnds:
    """The directions that frames are of, numbered as they are met."""

    def __init__(self) -> None:
        self.ends: list[Ends] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def of(self, part: Part) -> Array:
        """Return the number of each frame's direction."""
        return np.array([self._number(ends) for ends in part.places], np.uint32)[part.place]

    def _number(self, ends: Ends) -> int:
        number = self._numbers.setdefault((ends.connection, ends.direction), len(self.ends))
        if number == len(self.ends):
            self.ends.append(ends)
        return number


def columns_of(part: Part, places: KnownEnds) -> dict[str, Array]:
    """Return the columns of a part."""
    header, count = part.header, len(part)
    response = header.response
    planned, seqno, has_seqno = part.plan >= 0, np.zeros(count, np.uint64), np.zeros(count, bool)
    for group in part.groups:
        own = group.plan.own_seqno or (_START if group.plan.has(_START) else None)
        if own is not None:
            seqno[group.rows], has_seqno[group.rows] = group.column(own), True
    stream_id = np.zeros(count, np.uint16)
    tagged = np.flatnonzero(planned & (header.framing == STREAM_ID_LENGTH))
    stream_id[tagged] = part.stream_id(tagged)
    flags = (
        response * np.uint16(RESPONSE)
        | header.server * np.uint16(SERVER)
        | (part.gap_before > 0) * np.uint16(GAP_BEFORE)
        | part.weak.astype(bool) * np.uint16(WEAK)
        | planned * np.uint16(PLANNED)
        | part.knows(state.INFERRED) * np.uint16(INFERRED)
        | ~response * np.uint16(HAS_VBUCKET)
        | has_seqno * np.uint16(HAS_SEQNO)
        | (response & (header.word != 0)) * np.uint16(REFUSED)
    )
    flags[tagged] |= HAS_STREAM_ID
    columns: dict[str, Any] = {
        "ts_ns": part.ts_ns,
        "opcode": header.opcode,
        "magic": header.magic,
        "vbucket": np.where(response, 0, header.word),
        "status": np.where(response, header.word, 0),
        "place": places.of(part),
        "opaque": header.opaque,
        "stream_id": stream_id,
        "seqno": seqno,
        "length": part.length,
        "flags": flags,
    }
    flags[list(part.odd)] |= ODD
    columns |= _take_records(part, columns)
    torn = np.flatnonzero(part.gap_before)
    columns |= {"gap_frame": torn + part.first, "gap_bytes": part.gap_before[torn]}
    return columns


def _take_records(part: Part, columns: dict[str, Array]) -> dict[str, Array]:
    """Put what only records know into the columns; return which answer which."""
    flags, vbucket = columns["flags"], columns["vbucket"]
    answers: list[tuple[int, int]] = []
    for row, known in part.records.items():
        if known.request is not None:
            answers.append((part.first + row, known.request.frame))
        if known.vbucket is not None:
            vbucket[row] = known.vbucket
            flags[row] |= HAS_VBUCKET
        else:
            vbucket[row] = 0
            flags[row] &= 0xFFFF ^ HAS_VBUCKET
        if isinstance(known, Record):
            _take_record(known, row, columns)
    answers.sort()
    numbers = np.array(answers, np.int64).reshape(len(answers), 2)
    return {"answer": numbers[:, 0], "request": numbers[:, 1]}


def _take_record(record: Record, row: int, columns: dict[str, Array]) -> None:
    flags = columns["flags"]
    if record.problems:
        flags[row] |= PROBLEM
    if record.stream_id is not None:
        columns["stream_id"][row] = record.stream_id & 0xFFFF
        flags[row] |= HAS_STREAM_ID if 0 <= record.stream_id <= 0xFFFF else ODD
    own = own_seqno(record.frame)
    seqno = record.frame.get(_START) if own is None else own
    if seqno is not None:
        columns["seqno"][row] = seqno
        flags[row] |= HAS_SEQNO
