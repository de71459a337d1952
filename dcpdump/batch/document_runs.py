"""Find runs of consecutive documents of one stream among frames, and count them, without NumPy.

A run may begin with the snapshot marker before its documents. Other messages, and documents decoded as records, are
between the runs as single frames.
"""

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.batch.plans import body_of, field_offsets, id_length, key_length, stream_id
from dcpdump.big_endian import be16, be32, be64
from dcpdump.net.packet import NO_TIME
from dcpdump.spec import find
from dcpdump.spec.field import Field
from dcpdump.spec.header import ALT_CLIENT_REQUEST, HEADER_LENGTH, STREAM_ID_LENGTH
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.spec.opcodes import DCP_DELETION, DCP_EXPIRATION, DCP_MUTATION, DCP_SNAPSHOT_MARKER
from dcpdump.wire.frames import Frames

if TYPE_CHECKING:
    from mypy_extensions import i64


# -- plain documents, inspected without columns -------------------------------------------------------
# A plain document is a mutation, deletion or expiration with a seqno and zeros in reserved fields, without metadata,
# without the stream id 0, and without a body where none is allowed. Others are examined one by one.

_PACKED: Final = XATTR | SNAPPY
_ID_LENGTH: Final = STREAM_ID_LENGTH - 1  #: bytes of a stream id, without the tag of its frame info
#: The bit of ``Inspected.forms`` for a layout of deletions, by the length of its extras.
_FORMS: Final = bytes([{18: 1, 21: 2}.get(length, 0) for length in range(256)])


def _zeros() -> list[bytes | None]:
    """Return, by opcode and length of extras, the offsets of reserved fields; None where no document is plain."""
    table: list[bytes | None] = [None] * (256 * 256)
    for opcode in (DCP_MUTATION, DCP_DELETION):
        for layout in find(opcode).request:
            offsets: list[int] = []
            at = 0
            for field in layout.extras:
                assert isinstance(field, Field)
                if field.reserved or field.name == "nmeta":
                    offsets += range(at, at + field.width)
                at += field.width
            if not layout.old:
                table[opcode << 8 | layout.extras_length] = bytes(offsets)
    return table


_ZEROS: Final = _zeros()


def _numbers() -> dict[int, bytes]:
    """Return, by marker version plus 1 (0: no version), the offsets of its numbers; 0 for a number it lacks."""
    table: dict[int, bytes] = {}
    names = ("start_seqno", "end_seqno", "snapshot_type", "high_completed_seqno", "purge_seqno")
    for layout in find(DCP_SNAPSHOT_MARKER).request:
        version = layout.when.get("version", -1)
        fields = [part for part in (*layout.extras, *layout.parts) if isinstance(part, Field)]
        offsets = field_offsets(fields[version >= 0 :])
        table[version + 1] = bytes(offsets.get(name, 0) for name in names)
    return table


_NUMBERS: Final = _numbers()
#: Start, end and flags of a snapshot, and the highest completed seqno where its marker has one.
Announced = tuple[int, int, int, int | None]


class Texts(NamedTuple):
    """The values of a run whose datatype is JSON alone."""

    data: bytes  #: the bytes with the values
    rows: list[int]  #: indexes of their documents in the run
    starts: list[int]
    ends: list[int]


class Inspected(NamedTuple):
    """The result of inspecting a run of plain documents."""

    rising: bool  #: each seqno is above the one before
    longest: int  #: bytes of the longest key, prefix included
    sound: bool  #: each key starts with a valid collection id
    forms: int  #: bit 0: there are deletions of layout 1; bit 1: of layout 2
    seqnos: list[int]
    keys: list[bytes]  #: as they are on the wire
    texts: Texts  #: the values whose datatype is JSON
    packed: list[tuple[int, int, bytes]]  #: of compressed values and those with xattrs: index, datatype, value


def announced(data: bytes, start: "i64") -> Announced | None:
    """Return the snapshot in a well-formed marker; None if the marker also has a purge seqno."""
    body = body_of(data, start)
    versioned: i64 = 1 if data[start + 4] == 1 else 0
    offsets = _NUMBERS[data[body] + 1 if versioned else 0]
    body += versioned
    if offsets[4] and be64(data, body + offsets[4]):
        return None
    completed = be64(data, body + offsets[3]) if offsets[3] else None
    flags: int = be32(data, body + offsets[2])
    return be64(data, body + offsets[0]), be64(data, body + offsets[1]), flags, completed


def is_plain(data: bytes, start: "i64") -> bool:
    """Return whether a complete document is plain."""
    body = body_of(data, start)
    opcode: i64 = data[start + 1]
    extras: i64 = data[start + 4]
    zeros = _ZEROS[opcode << 8 | extras]
    if zeros is None or not (be32(data, body) or be32(data, body + 4)):
        return False
    if body != start + HEADER_LENGTH and not be16(data, body - _ID_LENGTH):
        return False
    for at in zeros:
        if data[body + at]:
            return False
    if opcode != DCP_DELETION:
        return True
    value = _value_length(data, start)
    datatype: i64 = data[start + 5]
    if datatype & _PACKED != XATTR:
        return not datatype and not value
    return value >= 4 and be32(data, body + extras + key_length(data, start)) + 4 == value


def inspect(data: bytes, first: int, count: int) -> Inspected:
    """Inspect ``count`` contiguous plain documents in ``data``, from ``first`` on."""
    seqnos: list[int] = []
    keys: list[bytes] = []
    rows: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    packed: list[tuple[int, int, bytes]] = []
    rising = sound = True
    before, longest, forms = 0, 0, 0
    start: i64 = first
    for row in range(count):
        body = body_of(data, start)
        extras: i64 = data[start + 4]
        key_at, key_size = body + extras, key_length(data, start)
        value_at = key_at + key_size
        stop = start + HEADER_LENGTH + be32(data, start + 8)
        seqno = be64(data, body)
        rising = rising and seqno > before
        before = seqno
        seqnos.append(seqno)
        keys.append(data[key_at:value_at])
        longest = max(longest, key_size)
        sound = sound and id_length(data, key_at, value_at) > 0
        if data[start + 1] == DCP_DELETION:
            forms |= _FORMS[extras]
        datatype: i64 = data[start + 5]
        if datatype > JSON:
            packed.append((row, datatype, data[value_at:stop]))
        elif datatype and stop > value_at:
            rows.append(row)
            starts.append(value_at)
            ends.append(stop)
        start = stop
    return Inspected(rising, longest, sound, forms, seqnos, keys, Texts(data, rows, starts, ends), packed)


def _value_length(data: bytes, start: "i64") -> "i64":
    extras: i64 = data[start + 4]
    return start + HEADER_LENGTH + be32(data, start + 8) - body_of(data, start) - extras - key_length(data, start)


#: Opcodes of documents, in the order in which runs count them.
DOCUMENTS: Final = (DCP_MUTATION, DCP_DELETION, DCP_EXPIRATION)
#: By opcode: 1 more than its index in DOCUMENTS; 0 for other opcodes.
_KINDS: Final = bytes([DOCUMENTS.index(opcode) + 1 if opcode in DOCUMENTS else 0 for opcode in range(256)])
#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__


#: Vbucket, opaque, stream id (0: none), bytes of all frames, first and last time, first, last and largest seqno.
RunFacts = tuple[int, int, int, int, int, int, int, int, int]


class RowRun(NamedTuple):
    """Consecutive documents of a stream, perhaps after a marker: rows ``begin`` … ``end``-1; times never go back."""

    begin: int
    end: int
    direction_id: int  #: twice the number of the connection, plus the direction
    facts: RunFacts
    kinds: tuple[tuple[int, int, int], ...]  #: opcode, frames, bytes of each message in it
    pause_ns: int  #: the longest time between two frames
    data: bytes  #: the bytes in which the frames follow one another,
    start: int  #: from this offset on
    snapshot: Announced | None  #: from the marker that is the first frame, if there is one


class SingleFrame(NamedTuple):
    """A frame outside of runs."""

    row: int
    direction_id: int
    ts_ns: int  #: NO_TIME where it has none
    data: bytes  #: its bytes; empty for a frame in ``singles``


def rises(frames: Frames) -> bool:
    """Return whether the frames' times never go back, or no frame has a time."""
    if None in frames.times:
        return frames.times.count(None) == len(frames.times)
    before: i64 = NO_TIME
    for each in frames.times:
        ts_ns: i64 = 0 if each is None else each
        if ts_ns < before:
            return False
        before = ts_ns
    return True


def runs_of(frames: Frames, singles: list[int], *, with_rules: bool) -> list[RowRun | SingleFrame]:
    """Return frames in their order, documents as runs. ``singles``: rows that must not be in runs.

    ``with_rules``: runs have only plain documents, and no markers. ``singles`` has the frames that are incomplete, were
    found on weak evidence, or follow missing bytes; frames without a time are in no run either.
    """
    bounds, times = frames.bounds, frames.times
    runs = _Runs()
    count: i64 = len(frames)
    at: i64 = 0
    by: i64 = -1  # index of the packet that completed the latest frame,
    bound: i64 = 0  # and the end of what it completed,
    ts: i64 = NO_TIME  # and when
    timed = False
    passed: i64 = 0  # index in ``singles``
    single: i64 = singles[0] if singles else -1
    for number, data in enumerate(frames.pieces):
        turn: i64 = frames.firsts[number + 1] if number + 1 < len(frames.firsts) else count
        base: i64 = frames.begins[number]
        limit: i64 = frames.begins[number + 1] if number + 1 < len(frames.begins) else frames.size
        runs.turn_to(data, frames.direction_ids[number])
        start: i64 = 0
        lead: i64 = -1  # offset of the frame before, if that is a marker
        opaque: i64 = -1  # offset in the run; -1: none
        vbucket: i64 = -1
        before: i64 = 0  # time of the run's latest frame
        while at < turn:
            length = HEADER_LENGTH + be32(data, start + 8)
            while bound < min(base + start + length, limit):
                by += 1
                bound = bounds[by]
                when = times[by]
                timed = when is not None
                ts = NO_TIME if when is None else when
            kind: i64 = _KINDS[data[start + 1]]
            if kind and at != single and not (timed and (not with_rules or is_plain(data, start))):
                kind = 0
            if at == single or not kind:
                runs.end(at)
                opaque = -1
                runs.add_single(at, start, 0 if at == single else length, ts)
                leads = timed and not with_rules and at != single and data[start + 1] == DCP_SNAPSHOT_MARKER
                lead = start if leads else -1
                if at == single:
                    passed += 1
                    single = singles[passed] if passed < len(singles) else -1
            else:
                this, either = be32(data, start + 12), be16(data, start + 6)
                if this != opaque or either != vbucket or ts < before or not runs.has_id_of(start):
                    runs.end(at)
                    runs.begin(at, start, ts, lead)
                    opaque, vbucket = this, either
                runs.add(start, length, kind, ts)
                lead = -1
                before = ts
            start += length
            at += 1
        runs.end(at)
    return runs.found


def offsets_of(frames: Frames, direction_id: int) -> tuple[list[int], list[int]]:
    """Return the rows of a direction's frames, and their offsets in it."""
    rows: list[int] = []
    offsets: list[int] = []
    count: i64 = len(frames)
    for number, data in enumerate(frames.pieces):
        if frames.direction_ids[number] != direction_id:
            continue
        turn: i64 = frames.firsts[number + 1] if number + 1 < len(frames.firsts) else count
        offset: i64 = frames.offsets[number]
        at: i64 = frames.firsts[number]
        start: i64 = 0
        while at < turn:
            rows.append(at)
            offsets.append(offset + start)
            start += HEADER_LENGTH + be32(data, start + 8)
            at += 1
    return rows, offsets


def singles_of(frames: Frames, begin: int, end: int) -> list[SingleFrame]:
    """Return frames ``begin`` … ``end``-1 as single ones, with their bytes."""
    found: list[SingleFrame] = []
    number = bisect_right(frames.firsts, begin) - 1
    for row in range(begin, end):
        if row == begin or (number + 1 < len(frames.firsts) and frames.firsts[number + 1] == row):
            number += row > begin
            data, start = frames.pieces[number], 0
            for _ in range(frames.firsts[number], row):
                start += HEADER_LENGTH + be32(data, start + 8)
        stop = start + HEADER_LENGTH + be32(data, start + 8)
        by = bisect_left(frames.bounds, frames.begins[number] + stop)
        ts_ns = frames.times[by]
        found.append(
            SingleFrame(row, frames.direction_ids[number], NO_TIME if ts_ns is None else ts_ns, data[start:stop])
        )
        start = stop
    return found


class _Runs:
    """The runs found so far, and the one that may continue."""

    def __init__(self) -> None:
        self.found: list[RowRun | SingleFrame] = []
        self._data = b""
        self._direction_id = 0
        # Of the run:
        self._size: i64 = 0  # bytes of all frames; 0: there is no run
        self._begin: i64 = 0  # its first row
        self._first: i64 = 0  # offset of its first frame
        self._last: i64 = 0  # and its last
        self._first_ns: i64 = 0
        self._last_ns: i64 = 0
        self._pause: i64 = 0
        self._high: i64 = 0  # the largest seqno: its upper four bytes,
        self._low: i64 = 0  # and its lower four
        self._snapshot: Announced | None = None  # from the marker before its first document,
        self._marker_size: i64 = 0  # and the bytes of that
        self._frames = [0, 0, 0]  # frames that are no mutations, by kind
        self._bytes = [0, 0, 0]

    def turn_to(self, data: bytes, direction_id: int) -> None:
        """Continue with the bytes of another direction; there must be no open run."""
        self._data, self._direction_id = data, direction_id

    def add_single(self, row: "i64", start: "i64", length: "i64", ts: "i64") -> None:
        """Add a single frame, with ``length`` of its bytes."""
        kept = self._data[start : start + length]
        self.found.append(_row(SingleFrame, (row, self._direction_id, ts, kept)))

    def has_id_of(self, start: "i64") -> bool:
        """Return whether a frame has the run's stream id, or none like the run."""
        data = self._data
        if data[start] != ALT_CLIENT_REQUEST and data[self._first] != ALT_CLIENT_REQUEST:
            return True
        return stream_id(data, start) == stream_id(data, self._first)

    def begin(self, row: "i64", start: "i64", ts: "i64", lead: "i64") -> None:
        """Begin a run with a document. ``lead``: the offset of the marker before it, -1 without one."""
        self._begin, self._first, self._first_ns = row, start, ts
        self._high = self._low = -1
        self._last_ns, self._pause = ts, 0
        self._frames, self._bytes = [0, 0, 0], [0, 0, 0]
        self._snapshot = None
        if lead < 0:
            return
        marker, data = self.found[-1], self._data
        is_of_it = be32(data, lead + 12) == be32(data, start + 12) and be16(data, lead + 6) == be16(data, start + 6)
        if isinstance(marker, SingleFrame) and is_of_it and self.has_id_of(lead) and marker.ts_ns <= ts:
            self._snapshot = announced(data, lead)
            if self._snapshot is not None:
                self.found.pop()
                self._begin, self._first_ns, self._marker_size = row - 1, marker.ts_ns, start - lead
                self._pause = ts - marker.ts_ns

    def add(self, start: "i64", length: "i64", kind: "i64", ts: "i64") -> None:
        """Add a document."""
        body = body_of(self._data, start)
        high, low = be32(self._data, body), be32(self._data, body + 4)
        if high > self._high or (high == self._high and low > self._low):
            self._high, self._low = high, low
        if ts - self._last_ns > self._pause:
            self._pause = ts - self._last_ns
        self._last, self._last_ns = start, ts
        self._size += length
        if kind > 1:
            self._frames[kind - 1] += 1
            self._bytes[kind - 1] += length

    def end(self, row: "i64") -> None:
        """End the run, if there is one; ``row`` is the first row after it."""
        if not self._size:
            return
        data, first, last = self._data, self._first, self._last
        size: int = self._size
        high: int = self._high
        low: int = self._low
        snapshot = self._snapshot
        if snapshot is not None:
            marker_size: int = self._marker_size
            size += marker_size
        facts = (
            be16(data, first + 6),
            be32(data, first + 12),
            stream_id(data, first),
            size,
            self._first_ns,
            self._last_ns,
            be64(data, body_of(data, first)),
            be64(data, body_of(data, last)),
            high << 32 | low,
        )
        found = (self._begin, row, self._direction_id, facts, self._kinds(row), self._pause, data, first, snapshot)
        self.found.append(_row(RowRun, found))
        self._size = 0

    def _kinds(self, row: "i64") -> tuple[tuple[int, int, int], ...]:
        """Return opcode, frames and bytes of each message in the run; ``row`` is the first row after it."""
        kinds: list[tuple[int, int, int]] = []
        count, frames, sizes = row - self._begin, self._frames, self._bytes
        if self._snapshot is not None:
            kinds.append((DCP_SNAPSHOT_MARKER, 1, self._marker_size))
            count -= 1
        mutations = count - frames[1] - frames[2]
        if mutations:
            kinds.append((DCP_MUTATION, mutations, self._size - sizes[1] - sizes[2]))
        for kind in (1, 2):
            if frames[kind]:
                kinds.append((DOCUMENTS[kind], frames[kind], sizes[kind]))
        return tuple(kinds)
