"""Choose the packets that carry chosen frames, and those without which they could not be decoded.

Needed are the TCP handshake, everything from the connection's beginning to the end of its set-up, and the requests of
the frames' streams and of responses. The choice is tested by decoding it. If the chosen frames decode differently, two
frames after each run are added, which confirm where its last frame ends, and then more of the connection. Other frames
in the chosen packets are unavoidable, and are counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dcpdump.batch.block import Block, blocks
from dcpdump.batch.filter import Masks, wanted_rows
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.batch.scan import renumbered
from dcpdump.capture.file import Capture
from dcpdump.net.limits import DEFAULT, IN_ORDER, OUT_OF_ORDER, Limits
from dcpdump.net.packet import Packet
from dcpdump.record import Direction, Record
from dcpdump.rewrite.needed import (
    AROUND,
    BEHIND,
    CHOSEN,
    NEIGHBOUR,
    PREFIX,
    SET_UP,
    SPANS,
    STREAM_REQUESTS,
    WHOLE,
    DirectionRange,
    FrameSum,
    NeededFrame,
    NeededOfConnection,
    frame_hashes,
)
from dcpdump.rewrite.packet_survey import NOWHERE, PacketSurvey, PayloadMap
from dcpdump.spec import find
from dcpdump.tls.secrets import Secrets

# -- the chosen packets, decoded as if the others had never been captured -----------------------------

_NO_CONNECTION = -1  #: the connection number of frames in no earlier connection


def _dry_run(
    packets: Iterable[Packet], before: PayloadMap, carved: int, limits: Limits, secrets: Secrets | None = None
) -> Iterator[FrameBatch]:
    """Dissect packets; yield their frames with the connections, directions and offsets that they had ``before``.

    Frames of no earlier connection get _NO_CONNECTION. ``carved``: the value for a file with these packets only.
    """
    tracing = _Tracing(before, limits, secrets)
    for block in blocks(packets):
        block.carved = dict.fromkeys(block.files, carved)
        for batches in tracing.survey.feed_block(block):
            tracing.trace(block)
            yield from map(tracing.placed, batches)
    for batches in tracing.survey.close_blocks():
        yield from map(tracing.placed, batches)


class _Tracing:
    """A map from the streams of a new survey to those of an earlier one."""

    def __init__(self, before: PayloadMap, limits: Limits, secrets: Secrets | None) -> None:
        self.survey = PacketSurvey(limits, secrets=secrets)
        self._origin: dict[int, int] = {}  # by a stream's new number: its old number
        self._packets: dict[int, tuple[str, int]] = {}  # by a stream's new number: a packet of it with payload
        self._before = before

    def trace(self, block: Block) -> None:
        """Map the streams of a block's packets in the new survey to those in the old one."""
        now = self.survey.payloads
        for which, file in enumerate(block.files):
            numbers = now.noted(file, block.numbers[block.file == which])
            old, new = (payloads.columns(file, numbers) for payloads in (self._before, now))
            found = zip(numbers.tolist(), old.stream.tolist(), new.stream.tolist(), new.size.tolist(), strict=True)
            for number, before, after, size in found:
                before, after = (
                    _carved_stream(self._before, file, number, before),
                    _carved_stream(now, file, number, after),
                )
                if after != NOWHERE and before != NOWHERE:
                    self._origin[after], self._origin[after ^ 1] = before, before ^ 1
                    if size:
                        self._packets[after] = file, number

    def placed(self, batch: FrameBatch) -> FrameBatch:
        """Return frames with their old connections, directions and offsets."""
        directions = [self._renumbered(direction) for direction in batch.directions]
        shifts = np.array([self._shift(direction.id) for direction in batch.directions], np.int64)
        of = batch.direction.tolist()
        records = {
            row: renumbered(record, connection=directions[of[row]].connection) for row, record in batch.records.items()
        }
        return replace(batch, directions=directions, records=records, offset=batch.offset + shifts[batch.direction])

    def _renumbered(self, direction: Direction) -> Direction:
        before = self._origin.get(direction.id)
        if before is None:
            return replace(direction, connection=_NO_CONNECTION)
        return replace(direction, connection=before // 2, side=before % 2)

    def _shift(self, stream: int) -> int:
        """Return the difference between old and new offsets, for a stream captured from its middle."""
        now = self.survey.payloads
        found = self._packets.get(stream)
        if found is None or self.survey.texts(stream) is not None:  # TLS is decrypted from its beginning on
            return 0
        now.set_offsets(stream)
        return self._before.of(*found).offset - now.of(*found).offset


def _carved_stream(payloads: PayloadMap, file: str, number: int, stream: int) -> int:
    """Return the stream of a packet, which may be a fragment."""
    piece = payloads.pieces.get((file, number)) if stream == NOWHERE else None
    return stream if piece is None else piece[0].carried.stream


class _PacketChoice:
    """The chosen packets of some connections."""

    def __init__(self, survey: PacketSurvey, needs: Mapping[int, NeededOfConnection]) -> None:
        self._chosen = {file: _chosen(survey, needs, file) for file in survey.payloads.files}
        for (file, number), (split, _) in survey.payloads.pieces.items():
            stream, offset, _ = split.carried
            need = needs.get(stream // 2)
            if need is not None:
                at, size = np.array([offset]), np.array([len(split.payload)])
                self._chosen[file][number - 1] = _wants(survey, need, stream, at, size)[0]

    def chooses(self, packet: Packet) -> bool:
        """Return whether a packet is chosen."""
        return bool(self._chosen[packet.file][packet.number - 1])

    def rows(self, block: Block) -> list[int]:
        """Return the rows of a block's chosen packets."""
        found = np.zeros(len(block.numbers), bool)
        for which, file in enumerate(block.files):
            mine = np.flatnonzero(block.file == which)
            found[mine] = self._chosen[file][block.numbers[mine] - 1]
        rows: list[int] = np.flatnonzero(found).tolist()
        return rows


def _chosen(survey: PacketSurvey, needs: Mapping[int, NeededOfConnection], file: str) -> Array:
    """Return a mask of a file's chosen packets, fragments excluded."""
    stream, offset, size = survey.payloads.columns(file)
    chosen = np.zeros(len(stream), bool)
    known = np.isin(stream // 2, list(needs))
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(stream[rows], kind="stable")]
    for mine in np.split(rows, np.flatnonzero(np.diff(stream[rows])) + 1) if len(rows) else ():
        number = int(stream[mine[0]])
        chosen[mine] = _wants(survey, needs[number // 2], number, offset[mine], size[mine])
    opening = np.array(survey.handshakes.packets.get(file, ()), np.int64) - 1
    chosen[opening] |= known[opening]
    return chosen


def _wants(survey: PacketSurvey, need: NeededOfConnection, stream: int, offset: Array, size: Array) -> Array:
    """Return a mask of a direction's needed payloads; in TLS, of those with a part of a needed record, or no text."""
    texts = survey.texts(stream)
    if texts is None:
        return need.wants(stream % 2, offset, size)
    text, length, others = texts.texts(offset, size)
    return others | ((length > 0) & need.wants(stream % 2, text, length))


#: By opcode; those of server messages follow the others.
_MESSAGES = [find(opcode, server=server) for server in (False, True) for opcode in range(256)]
_STREAMED = np.array([message.streamed for message in _MESSAGES])
_REPLIES = np.array([message.replies for message in _MESSAGES])
_STREAM_REQUEST = np.array([message.opcode in STREAM_REQUESTS for message in _MESSAGES])
_SET_UP = np.array([message.opcode in SET_UP for message in _MESSAGES])
_DOCUMENTS = np.array([message.document for message in _MESSAGES])


class Carving:
    """A choice of packets in three steps: ``survey``, ``add_needed``, then ask for the ``choice``."""

    def __init__(
        self,
        captures: Sequence[Capture],
        wanted: Masks,
        count: int | None,
        begin: Callable[[int | None], None],
        limits: Limits = DEFAULT,
        secrets: Secrets | None = None,
    ) -> None:
        self.dissector = PacketSurvey(limits, secrets=secrets)
        self.frames = 0  #: chosen
        self.order = IN_ORDER  #: or OUT_OF_ORDER, after ``add_needed``
        self.incomplete = 0  #: connections whose chosen frames decode differently even in all their packets
        #: Frames in the chosen packets, counted by their use, and whether they are documents; after ``add_needed``.
        self.carried: Counter[tuple[int, bool]] = Counter()
        self._captures = captures
        self._wanted = wanted
        self._count = count
        self._begin = begin
        self._limits = limits
        self._needs: dict[int, NeededOfConnection] = {}

    def survey(self) -> None:
        """Read all captures, and note the bytes of the chosen frames."""
        for block in blocks_of(self._captures):
            self._begin(block.begins_ns)
            self._survey_batches(self.dissector.feed_block(block))
        self._survey_batches(self.dissector.close_blocks())
        self.dissector.payloads.close()
        self._needs = {number: need for number, need in self._needs.items() if need.hashes.count}
        for need in self._needs.values():
            need.complete()

    def add_needed(self) -> None:
        """Add packets of the connections whose packets do not decode to the chosen frames."""
        wrong = self._widen()
        if wrong:  # although all packets of these connections are chosen
            self.order = OUT_OF_ORDER
            wrong = self._widen() if self._wrong() < wrong else wrong
        self.incomplete = len(wrong)

    def _widen(self) -> set[int]:
        """Add packets until the chosen frames decode; return the connections where all packets do not suffice."""
        for need in self._needs.values():
            need.extent = SPANS
        wrong = self._wrong()
        for extent in (BEHIND, AROUND, PREFIX, WHOLE):
            for number in wrong:
                self._needs[number].extent = extent
            wrong = wrong and self._wrong()
        return wrong

    @property
    def chosen(self) -> set[int]:
        """Return the numbers of the connections with chosen packets."""
        return set(self._needs)

    def choice(self) -> _PacketChoice:
        """Return the choice of packets."""
        return _PacketChoice(self.dissector, self._needs)

    # -- what is wanted -----------------------------------------------------------------------------------

    def _survey_batches(self, some: Iterable[list[FrameBatch]]) -> None:
        for batches in some:
            for batch in batches:
                self._survey_batch(batch)

    def _survey_batch(self, batch: FrameBatch) -> None:
        left = None if self._count is None else self._count - self.frames
        rows = np.array(wanted_rows(batch, self._wanted)[:left], np.int64)
        self.frames += len(rows)
        chosen, numbers = np.zeros(len(batch), bool), np.zeros(len(batch), np.int64)
        chosen[rows], numbers[rows] = True, frame_hashes(batch, rows)
        kind = batch.header.opcode + 256 * batch.header.server
        self._follow(batch, kind, chosen, numbers)
        self._note(batch, kind, chosen)

    def _follow(self, batch: FrameBatch, kind: Array, chosen: Array, numbers: Array) -> None:
        """Note the chosen frames of each connection and direction, and their streams."""
        ends, streamed = batch.end, _STREAMED[kind]
        streams = streamed | _STREAM_REQUEST[kind]
        order = np.argsort(batch.direction, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(batch.direction[order])) + 1):
            of = batch.directions[int(batch.direction[rows[0]])]
            need = self._needs.setdefault(of.connection, NeededOfConnection())
            need.want_frames(of.side, batch.offset[rows], ends[rows], chosen[rows])
            for row in rows[streams[rows]][:1].tolist():
                need.streams_from = min(need.streams_from, batch.first + row)
            mine = rows[chosen[rows]]
            if len(mine):
                need.hashes.add(numbers[mine])
                need.last = max(need.last, batch.first + int(mine[-1]))
            need.streams.update(batch.header.opaque[mine[streamed[mine]]].tolist())

    def _note(self, batch: FrameBatch, kind: Array, chosen: Array) -> None:
        """Note the frames of each connection that other frames need, and the requests of chosen responses."""
        header, ends = batch.header, batch.end
        asks = _REPLIES[kind] & ~header.response
        needed = asks | _STREAM_REQUEST[kind] | _SET_UP[kind]
        answers = chosen & header.response
        for row in np.flatnonzero(needed | answers).tolist():
            of = batch.directions[int(batch.direction[row])]
            need, opcode, opaque = self._needs[of.connection], int(header.opcode[row]), int(header.opaque[row])
            if needed[row]:
                span = DirectionRange(of.side, int(batch.offset[row]), int(ends[row]))
                stream = _stream(batch.record(row)) if opcode in STREAM_REQUESTS else opaque
                need.note(NeededFrame(batch.first + row, span, opcode, opaque, stream, bool(asks[row])))
            if answers[row]:
                need.want_answered(of.side, opcode, opaque)

    def _wrong(self) -> set[int]:
        """Return the connections whose packets decode to other frames than the chosen ones, and count all frames."""
        choice = self.choice()
        found = {number: FrameSum() for number in self._needs}
        self.carried.clear()
        packets = (block.packets[row] for block in blocks_of(self._captures) for row in choice.rows(block))
        for batch in _dry_run(
            packets, self.dissector.payloads, self.order, self._limits, self.dissector.secrets.renewed()
        ):
            ends, header = batch.end, batch.header
            document = _DOCUMENTS[header.opcode + 256 * header.server] & (header.key + header.value > 0)
            for at in np.unique(batch.direction).tolist():
                of, rows = batch.directions[at], np.flatnonzero(batch.direction == at)
                uses = np.full(len(rows), NEIGHBOUR)
                if of.connection in found:
                    uses = self._needs[of.connection].uses(of.side, batch.offset[rows], ends[rows])
                    found[of.connection].add(frame_hashes(batch, rows[uses == CHOSEN]))
                self.carried.update(zip(uses.tolist(), document[rows].tolist(), strict=True))
        return {number for number, need in self._needs.items() if need.hashes != found[number]}


def _stream(record: Record) -> int:
    """Return the opaque of the stream that a request opens, or that a response names."""
    return record.frame.get("stream_opaque") or record.frame.header.opaque
