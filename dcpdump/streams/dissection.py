"""Dissect blocks of packets into events for a ledger, and remember how connections ended.

Documents become runs, without columns; only frames on which the state depends are decoded.
"""

import struct
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dcpdump.batch.dissector import SMALL_BLOCK_BYTES, BlockDissector, Dissection, direction_of
from dcpdump.batch.document_runs import (
    RowRun,
    SingleFrame,
    inspect,
    offsets_of,
    rises,
    runs_of,
    singles_of,
)
from dcpdump.batch.scan import NEIGHBOURS, DeferredRecord, FilteredScan
from dcpdump.conversation import Conversation
from dcpdump.filter.choices import NOTHING_WANTED, Wanted
from dcpdump.net.connections import Delivery
from dcpdump.net.event import End, TcpChange
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Direction, Record
from dcpdump.spec import choose, find
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER, DCP_STREAM_REQ
from dcpdump.streams.frame_event import NO_FRAME, Before, DocumentRun, FrameEvent, Shape, Step, event_of, shape_of
from dcpdump.streams.stream import Snapshot
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import Header, RawFrame, Where, unpack_header
from dcpdump.wire.frames import Frames
from dcpdump.wire.value import Content

if TYPE_CHECKING:
    from dcpdump.batch.frame_batch import FrameBatch


# -- how connections ended, and when TCP held them up, whatever the pieces are ------------------------

P = TypeVar("P")

#: Systems send a SYN again after a second.
_AGAIN_NS = 500_000_000


class Ended(NamedTuple):
    """A connection was ended by the sender of a direction."""

    connection: int
    direction: int
    reason: str
    ts_ns: int | None


class Unanswered(NamedTuple):
    """A client whose SYNs were repeated without an answer."""

    number: int
    src: str
    dst: str
    lasting_ns: int  #: from the first SYN to the last


class EndsWatching(BlockDissector[P], ABC):
    """A dissector that also keeps how its connections ended; the owner empties the list."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self.ended: list[Ended] = []
        self.unanswered: list[Unanswered] = []  #: once the input has ended
        self.most_connections = limits.connections  #: that are to be remembered
        self.most_state = limits.state  #: bytes that connections and streams may take

    def watch(self, *, with_rules: bool) -> None:
        """Keep from now on when ends of connections begin or cease to hold up the other.

        ``with_rules``: pieces are for rules too.
        """
        self.connections.tcp_changes = []

    @property
    def tcp_changes(self) -> list[TcpChange]:
        """Which ends began or ceased to hold the other up, to be taken away by its owner; none where not watched."""
        changes = self.connections.tcp_changes
        return [] if changes is None else changes

    def close_blocks(self) -> Iterator[list[P]]:
        """End the input, and yield the pieces that are left; note which SYNs were not answered.

        A single one may have been answered after the capture; one that is captured twice is not sent again.
        """
        for connection, lasting_ns in self.connections.unanswered:
            if lasting_ns >= _AGAIN_NS:
                src, dst = map(str, connection.flow)
                self.unanswered.append(Unanswered(connection.number, src, dst, lasting_ns))
        yield from super().close_blocks()

    def resets(self, until_ns: int) -> Iterator[Ended]:
        """Yield the resets up to a time of connections that are not closed, since more may follow a RST."""
        for number, direction, ts_ns in self.connections.resets:
            if ts_ns <= until_ns:
                yield Ended(number, direction, "rst", ts_ns)

    @property
    def living(self) -> int:
        """Return how many connections may still get packets."""
        return len(self.connections.halves) // 2

    def remember(self, most: int) -> None:
        """Limit how many connections are remembered; the least recently used are closed."""
        self.connections.remember(most)

    def is_over(self, number: int) -> bool:
        """Return whether no more frames of the connection with a number can come."""
        return number not in self.conversations and not self.connections.remembers(number)

    def _records_of(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            if isinstance(event, End) and event.reason in _ENDS:
                by = 1 - direction if event.by_peer else direction
                when = event.seen.ts_ns if event.reset_ns is None else event.reset_ns
                self.ended.append(Ended(connection.number, by, event.reason, when))
        return super()._records_of(deliveries)


_ENDS = frozenset({"fin", "rst", "reused"})


class Watching(EndsWatching["FrameBatch"], Dissection):
    """A dissection that also keeps how its connections ended, to be taken away by its owner."""


# -- events of messages from their bytes, without decoding them: captures are full of them ------------
# These are messages that a plan takes, requests for streams without a value and their grants, and what does not concern
# DCP, of which only the header counts.

_NUMBERS = struct.Struct(">6xH4xIQ")  #: vbucket or status, opaque and CAS: all that counts of what does not concern DCP
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MOST = 4_096
_WORD = 6  #: where the vbucket begins
_VERSION_END = HEADER_LENGTH + 4  #: behind the version of a marker that has one, with a stream id before it or without
#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row = tuple.__new__


class _Form(NamedTuple):
    """The common properties of frames with the same lengths."""

    fields: (
        struct.Struct
    )  #: vbucket or status, opaque, CAS, the stream id if there is one, extras and fixed fields of the value
    shape: Shape
    header: Header  #: of one of them
    response: bool
    value_at: int


def _form_of(data: bytes) -> _Form | None:
    """Return the form of a frame; None where it has no layout of its message, or a key before fields of its value."""
    header = unpack_header(data)
    at = HEADER_LENGTH + header.framing_length
    response = MAGICS[header.magic].response
    if NEIGHBOURS[header.opcode]:
        return _Form(_NUMBERS, NO_FRAME.shape, header, response, header.key_at + header.key_length)
    layout, why = choose(
        find(header.opcode),
        response=response,
        status=header.vbucket_or_status,
        extras=data[at : at + header.extras_length],
        extras_length=header.extras_length,
        value_length=header.value_length,
    )
    fields = [part for part in (*layout.extras, *layout.parts) if isinstance(part, Field)]
    if why or (header.key_length and len(fields) > len(layout.extras)):
        return None
    codes = "".join(_CODES[field.width] for field in fields)
    packed = struct.Struct(f">6xH4xIQ{'xH' if header.framing_length else ''}{codes}")
    return _Form(packed, shape_of(layout), header, response, header.key_at + header.key_length)


#: Forms by what tells them: the header up to the vbucket, the bytes among which a marker has its version, the length.
_KNOWN: dict[tuple[bytes, bytes, int], _Form] = {}


def plain_event(single: SingleFrame, number: int) -> FrameEvent:
    """Return the event of a complete message, which is frame ``number``."""
    data, direction_id = single.data, single.direction_id
    length = len(data)
    alike = data[:_WORD], data[HEADER_LENGTH:_VERSION_END] if data[1] == DCP_SNAPSHOT_MARKER else b"", length
    form = _KNOWN.get(alike)
    if form is None:
        form = _form_of(data)
        if form is not None and len(_KNOWN) < _MOST and form.fields is not _NUMBERS:
            _KNOWN[alike] = form
    ts_ns = None if single.ts_ns == NO_TIME else single.ts_ns
    if form is None:
        raw = RawFrame(data, unpack_header(data), where=Where(ts_ns=ts_ns))
        record = Record(number, decode(raw), Content(), None, None, direction_id >> 1, direction_id & 1, "", "")
        return event_of(record)._replace(record=None)
    fields, shape, header, response, value_at = form
    read = fields.unpack_from(data)
    either, opaque, cas = read[:3]
    tagged = header.framing_length and fields is not _NUMBERS
    stream_id, values = (read[3], read[4:]) if tagged else (0, read[3:])
    return _row(FrameEvent, (
        number, ts_ns, direction_id >> 1, direction_id & 1, header.magic, header.opcode, response, False, either,
        opaque, cas, header.datatype, length, stream_id, None if shape.own < 0 else values[shape.own], shape, values,
        data, header.key_at, value_at, header.value_length, True, False, None, None,
    ))  # fmt: skip


#: What is decoded though it need not be: nothing for a ledger; requests for streams for rules.
_REQUESTS = Wanted(bytes([opcode == DCP_STREAM_REQ for opcode in range(256)]), b"\1" * 65_536)


class RunBatch:
    """Frames ``first``, ``first + 1`` … of the output.

    ``decoded``: rows and records of frames without a plan, and of all frames that are incomplete, were found on weak
    evidence, or follow missing bytes.
    """

    def __init__(
        self, frames: Frames, first: int, directions: dict[int, Direction], decoded: dict[int, Record]
    ) -> None:
        self.first = first
        self._frames, self._directions, self._decoded = frames, directions, decoded

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def directions(self) -> Sequence[Direction]:
        """Return the directions that its frames are of."""
        return list(self._directions.values())

    @property
    def files(self) -> Sequence[str]:
        """Return the files that its frames are of."""
        return list(dict.fromkeys(self._frames.files))

    def sources(self) -> Iterable[tuple[str, Direction, bool]]:
        """Return each file with each direction, and whether bytes are missing before its first frame, in order."""
        frames, found, by = self._frames, dict[tuple[str, int], bool](), 0
        stops = [*frames.begins[1:], frames.size]
        for direction_id, gap, end in zip(frames.direction_ids, frames.gaps, stops, strict=True):
            after_gap = gap > 0
            while by < len(frames.bounds) and frames.bounds[by] <= end:
                found.setdefault((frames.files[by], direction_id), after_gap)
                after_gap, by = False, by + 1
        return [(file, self._directions[direction_id], after_gap) for (file, direction_id), after_gap in found.items()]

    def gaps(self) -> dict[int, int]:
        """Return the rows before which bytes are no frame, and how many."""
        return {row: gap for row, gap in zip(self._frames.firsts, self._frames.gaps, strict=True) if gap}

    def offsets_of(self, at: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return the rows of one of ``directions``, and where each begins in its direction."""
        return offsets_of(self._frames, list(self._directions)[at])

    @property
    def times(self) -> tuple[int, int, bool]:
        """Return the time of its first frame, the latest time, and whether times never go back."""
        times = [NO_TIME if ts_ns is None else ts_ns for ts_ns in self._frames.times]
        return times[0], max(times), rises(self._frames)

    def steps(self, *, with_rules: bool, losses: Mapping[int, Before]) -> list[Step]:
        """Return the events of its frames, documents of one stream that follow one another as runs.

        ``with_rules``: only plain mutations and deletions, which are inspected closely. ``losses``: rows, and what was
        lost before them.
        """
        first = self.first
        out: list[Step] = []
        for each in runs_of(self._frames, sorted({*self._decoded, *losses}), with_rules=with_rules):
            if isinstance(each, RowRun):
                out.append(self._run(each, with_rules=with_rules))
            elif each.data:
                out.append(plain_event(each, first + each.row))
            else:
                out.append(self._alone(each.row, losses.get(each.row)))
        return out

    def _alone(self, row: int, before: Before | None) -> FrameEvent:
        """Return the event of a single frame, with or without lost bytes before it."""
        record = self._decoded.get(row)
        event = self._each(row, row + 1)[0] if record is None else event_of(record)
        return event if before is None else event._replace(before=before)

    def _run(self, run: RowRun, *, with_rules: bool) -> DocumentRun:
        begin, end, direction_id, facts, kinds, pause_ns, data, start, announced = run
        close = None
        if with_rules:
            close = inspect(data, start, end - begin)
        first, snapshot = self.first + begin, None
        if announced is not None:
            lowest, highest, flags, completed = announced
            snapshot = Snapshot(lowest, highest, flags, first, facts[4], completed)
        numbers = (first, end - begin, direction_id >> 1, direction_id & 1)
        return _row(DocumentRun, (*numbers, *facts, kinds, pause_ns, partial(self._each, begin, end), close, snapshot))

    def _each(self, begin: int, end: int) -> list[FrameEvent]:
        """Return the events of rows ``begin`` … ``end``-1."""
        singles = singles_of(self._frames, begin, end)
        return [plain_event(each, self.first + each.row) for each in singles]


def piece_of(batch: "FrameBatch") -> RunBatch:
    """Return the frames of a batch one after another, for a ledger and for rules."""

    decoded = {row: batch.record(row) for row, each in batch.records.items() if not isinstance(each, DeferredRecord)}
    decoded.update((row, batch.record(row)) for row in batch.weak.nonzero()[0].tolist())
    return RunBatch(batch.frames(), batch.first, {direction.id: direction for direction in batch.directions}, decoded)


class RunDissection(EndsWatching[RunBatch]):
    """A dissector of blocks to pieces for a ledger, and for rules that read documents in runs."""

    block_bytes = SMALL_BLOCK_BYTES

    _decoded = NOTHING_WANTED

    def watch(self, *, with_rules: bool) -> None:
        """Watch TCP; ``with_rules``: decode the frames that rules need decoded."""
        super().watch(with_rules=with_rules)
        if with_rules:
            self._decoded = _REQUESTS

    def _piece(self, frames: Frames, first: int, involved: dict[int, Conversation]) -> RunBatch:
        scan = FilteredScan(frames, first, involved, self._decoded, strict=True)
        decoded: dict[int, Record] = {}
        at, count = -1, len(frames)
        while (at := scan.next(at + 1)) < count:
            direction_id = scan.direction_id()
            decoded[at] = self._record(involved[direction_id >> 1], direction_id & 1, scan.raw(at), first + at)
        self.tally.dcp_frames += scan.dcp
        ids = dict.fromkeys(frames.direction_ids)
        directions = {each: direction_of(involved[each >> 1], each & 1) for each in ids}
        return RunBatch(frames, first, directions, decoded)
