"""Dissection: blocks of packets in, parts of frames out. The Dissector, with a fast lane for runs.

A run is a stretch of packets that only continue their streams. Its frames are found by hopping from length to
length; any packet that is not part of a run takes the Dissector's own way, and lands in the same parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpdump.columnar.block import NO_TIME, Block
from dcpdump.columnar.later import Later
from dcpdump.columnar.memory import Planned
from dcpdump.columnar.part import Ends, Part
from dcpdump.columnar.pending import Cutting, Pending
from dcpdump.columnar.plan import Array
from dcpdump.columnar.region import Region, regions_of
from dcpdump.columnar.runs import FlowRun, RunConnections, RunSession, RunSplitter, tail_of
from dcpdump.dissect import Dissector, _Conversation
from dcpdump.net.connections import Delivery
from dcpdump.net.event import Gap, Seen
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.seqnum import MASK
from dcpdump.net.tcp import ACK
from dcpdump.record import Record
from dcpdump.spec import UNKNOWN_NAME, find
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.session import Asked
from dcpdump.wire.split import Cut, FrameSplitter

#: A stretch shorter than this is not worth doing at once.
SHORTEST_RUN = 12
#: Packets taken one by one after a stretch came to nothing, at most.
LONGEST_PATIENCE = 512


class Lost(NamedTuple):
    """Bytes of a connection that were never captured."""

    ends: Ends
    gap: Gap


class Lane(NamedTuple):
    """A direction of a conversation whose splitter is ready for runs, or lets everything pass."""

    conversation: _Conversation
    direction: int
    splitter: RunSplitter


class Dissection(Dissector):
    """Feed it blocks; it gives parts. ``gaps`` collects what connections lost, to be taken away by its owner."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False) -> None:
        super().__init__(limits, show_secrets=show_secrets)
        self._runs = RunConnections(replace(limits, memory=self._limit))
        self._connections = self._runs
        self.balance = self._runs.counts
        self._limits = limits
        self._pending = Pending(1)
        self._talkers: dict[int, _Conversation] = {}  # those that the pending frames are of
        self._parts: list[Part] = []
        self.gaps: list[Lost] = []

    def feed_block(self, block: Block) -> list[Part]:
        """It takes the next packets, and gives the frames that they complete."""
        facts = block.facts
        chained = _chained(facts.flow, facts.seq, facts.size)
        odd = (facts.flow < 0) | facts.control
        breaks = np.flatnonzero(odd | ~chained).tolist()
        breaks.append(len(odd))
        at, next_break, patience, one_by_one = 0, 0, SHORTEST_RUN, 0
        while at < len(odd):
            while breaks[next_break] <= at:
                next_break += 1
            stop = breaks[next_break]
            taken = 0
            if at >= one_by_one and stop - at >= SHORTEST_RUN and not odd[at]:
                taken = self._run(block, at, stop)
                if taken:
                    patience = SHORTEST_RUN
                else:
                    one_by_one = at + patience
                    patience = min(2 * patience, LONGEST_PATIENCE)
            if not taken:
                taken = 1
                self.feed(block.packets[at])
            at += taken
        return self.taken()

    def close_blocks(self) -> list[Part]:
        """It ends the input."""
        self.close()
        return self.taken()

    def taken(self) -> list[Part]:
        """It gives the parts that are finished, and begins anew."""
        self.absorb()
        parts, self._parts = self._parts, []
        return parts

    # -- runs -------------------------------------------------------------------------------------------

    def _run(self, block: Block, at: int, stop: int) -> int:
        """It takes packets ``at`` … ``stop``-1 at once, or as many of the first as it can; gives how many."""
        facts = block.facts
        deadline = self._runs.deadline()
        if deadline is not None:
            late = np.flatnonzero(block.ts_ns[at:stop] >= deadline)
            if len(late):
                stop = at + int(late[0])
        if stop - at < SHORTEST_RUN:
            return 0
        flows, stop = self._flows(block, at, stop)
        while stop - at >= SHORTEST_RUN:
            lanes: list[Lane] = []
            loads: list[tuple[Array, bytes]] = []
            passing: list[tuple[Lane, int]] = []
            for flow, rows in flows:
                mine = rows[: np.searchsorted(rows, stop)]
                mine = mine[facts.size[mine] > 0]
                lane = self._lane(facts.keys[flow]) if len(mine) else None
                if lane is None:
                    continue
                if lane.splitter.foreign:
                    passing.append((lane, int(facts.size[mine].sum())))
                    continue
                lanes.append(lane)
                loads.append((mine, lane.splitter.beginning))
            regions, fault = regions_of(block, loads)
            if fault >= stop:
                deliveries = self._runs.take(self._flow_runs(block, stop, flows), stop - at, _seen(block, stop - 1))
                self._commit(block, list(zip(lanes, regions, strict=True)), passing)
                for _ in self._take(deliveries):
                    raise TypeError("a dissection in blocks makes no records")
                if self._unweighed > self._limit // 16:
                    self._weigh()
                return stop - at
            stop = fault
        return 0

    def _flows(self, block: Block, at: int, stop: int) -> tuple[list[tuple[int, Array]], int]:
        """It sorts packets by flow, up to the first that does not simply continue its stream."""
        facts = block.facts
        flow = facts.flow[at:stop]
        order = np.argsort(flow, kind="stable")
        edges = np.flatnonzero(np.diff(flow[order])) + 1
        flows: list[tuple[int, Array]] = []
        for rows in np.split(order + at, edges):
            number = int(facts.flow[rows[0]])
            loaded = rows[facts.size[rows] > 0]
            key = facts.keys[number]
            if not self._runs.continues(key, int(facts.seq[loaded[0]]) if len(loaded) else None):
                stop = min(stop, int(rows[0]))
            elif len(loaded):
                lane = self._lane(key)
                if lane is None or not (lane.splitter.ready or lane.splitter.foreign):
                    stop = min(stop, int(loaded[0]))
            flows.append((number, rows))
        return flows, stop

    def _lane(self, key: bytes) -> Lane | None:
        where = self._runs.place(key)
        conversation = self._conversations.get(where.connection) if where else None
        splitter = conversation.splitters[where.direction] if where and conversation else None
        if where is None or conversation is None or not isinstance(splitter, RunSplitter):
            return None
        return Lane(conversation, where.direction, splitter)

    def _commit(self, block: Block, regions: list[tuple[Lane, Region]], passing: list[tuple[Lane, int]]) -> None:
        for (conversation, direction, splitter), size in passing:
            splitter.pass_by(size)
            if conversation.framed[direction]:
                self.tally.skipped_bytes += size
            else:
                conversation.before[direction] += size
        cuttings: list[Cutting] = []
        for lane, region in regions:
            conversation, direction, splitter = lane
            offset, used = splitter.offset, region.used
            rest = region.data[region.rest : region.stop]
            lost = splitter.take(region.frames, used, rest, region.marks(block, offset))
            cuttings.append(Cutting(region, _ends(conversation, direction), offset, lost))
            self._talkers[conversation.connection.number] = conversation
            if region.frames:
                self.tally.frames += region.frames
                self.tally.frame_bytes += used
                conversation.framed[direction] = True
        self._pending.add_run(block, cuttings)
        self._unweighed += sum(region.stop - region.start for _, region in regions)

    def _flow_runs(self, block: Block, stop: int, flows: list[tuple[int, Array]]) -> list[FlowRun]:
        facts = block.facts
        runs: list[tuple[int, FlowRun]] = []
        for flow, rows in flows:
            mine = rows[: np.searchsorted(rows, stop)]
            if not len(mine):
                continue
            loaded = mine[facts.size[mine] > 0]
            acked = mine[(facts.flags[mine] & ACK) > 0]
            ack = int(facts.ack[acked[-1]]) if len(acked) else None
            starts, sizes = facts.start[loaded].tolist(), facts.size[loaded].tolist()
            times = [None if ts == NO_TIME else ts for ts in block.ts_ns[loaded].tolist()]
            tail, cost = tail_of(block.data, starts, sizes, times, self._limits.history)
            runs.append((int(mine[-1]), FlowRun(facts.keys[flow], sum(sizes), ack, tail, cost)))
        return [run for _, run in sorted(runs, key=lambda each: each[0])]

    # -- what the Dissector calls -----------------------------------------------------------------------

    def _take(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            if isinstance(event, Gap):
                flow = connection.toward(direction)
                self.gaps.append(Lost(Ends(connection.number, direction, str(flow.src), str(flow.dst)), event))
        return super()._take(deliveries)

    def _splitter(self, conversation: _Conversation, direction: int, *, late: bool) -> FrameSplitter:
        if not isinstance(conversation.session, RunSession):
            conversation.session = RunSession()
        splitter = RunSplitter(_Streams(self, conversation), late=late)
        conversation.splitters[direction] = splitter
        return splitter

    def _records(self, conversation: _Conversation, direction: int, cuts: list[Cut]) -> list[Record]:
        """It keeps frames for the next part, and the books as they are kept for records."""
        tally = self.tally
        for cut in cuts:
            if isinstance(cut, RawFrame):
                tally.frames += 1
                holes = sum(end - start for start, end in cut.holes)
                tally.hole_bytes += holes
                tally.frame_bytes += len(cut.data) - holes
                conversation.framed[direction] = True
                self._talkers[conversation.connection.number] = conversation
                self._pending.add(_ends(conversation, direction), cut)
            elif conversation.framed[direction]:
                tally.skipped_bytes += cut.length
            else:
                conversation.before[direction] += cut.length
        return []

    # -- what connections remember ----------------------------------------------------------------------

    def absorb(self) -> None:
        """It lets the sessions hear of all frames so far."""
        if not self._pending:
            return
        pending, self._pending = self._pending, Pending(self.tally.frames + 1)
        talkers, self._talkers = self._talkers, {}
        part = pending.part()
        self._understand(part, talkers)
        self._parts.append(part)

    def _understand(self, part: Part, talkers: dict[int, _Conversation]) -> None:
        """It goes through a part connection by connection: what no plan took frame by frame, the rest at once."""
        planned = Planned(part)
        overheard = _overheard(part)
        self.tally.dcp_frames += planned.dcp
        owners = np.array([ends.connection for ends in part.places])[part.place]
        for number, conversation in talkers.items():
            rows = np.flatnonzero(owners == number) if len(talkers) > 1 else np.arange(len(part))
            session = conversation.session
            if not isinstance(session, RunSession):
                raise TypeError("a connection without a session for runs")
            begin = 0
            for at in np.flatnonzero(~planned.mask[rows]).tolist():
                row = int(rows[at])
                if overheard[row]:
                    self._overhear(session, conversation, part, row)
                    continue
                raw = part.raw(row)
                if session.heeds(raw.header):
                    planned.remember(session, rows[begin:at])
                    begin = at
                direction = part.places[part.place[row]].direction
                part.records[row] = self._record(conversation, direction, raw, part.first + row)
            planned.remember(session, rows[begin:])

    def _overhear(self, session: RunSession, conversation: _Conversation, part: Part, row: int) -> None:
        """It remembers a frame that is no concern of DCP by its header; decoding it can wait."""
        header, number = part.header, part.first + row
        opcode, word = int(header.opcode[row]), int(header.word[row])
        ends, ts = part.places[part.place[row]], int(part.ts_ns[row])
        asked = None
        if not _RESPONSE[header.magic[row]]:
            asked = Asked(number, None if ts == NO_TIME else ts, word)
        request = session.overhear(ends.direction, opcode, int(header.opaque[row]), asked)
        vbucket = word if asked else request.vbucket if request else None
        src, dst = conversation.ends[ends.direction]
        place = ends.connection, ends.direction, src, dst
        part.records[row] = Later(number, vbucket, request, *place, self._show_secrets)


#: Messages that change nothing of what is known of a connection: only their names are known.
_NEIGHBOUR = np.array([not (find(op).known or find(op).secret or find(op).name == UNKNOWN_NAME) for op in range(256)])
_PLAIN_MAGIC = np.isin(np.arange(256), (0x80, 0x81, 0x18))
_RESPONSE = np.isin(np.arange(256), (0x81, 0x18))


def _overheard(part: Part) -> Array:
    """It says which frames are whole, sound, and no concern of DCP."""
    header = part.header
    found: Array = _NEIGHBOUR[header.opcode] & _PLAIN_MAGIC[header.magic] & (header.datatype <= 7)
    found &= (header.value >= 0) & (part.weak == 0)
    found[list(part.odd)] = False
    return found


class _Streams:
    """What a splitter asks of its connection's session, which first has to hear of the frames so far."""

    def __init__(self, dissection: Dissection, conversation: _Conversation) -> None:
        self._dissection = dissection
        self._conversation = conversation

    @property
    def streams(self) -> Mapping[int, int]:
        """Opaque → vbucket of the streams that were asked for or seen."""
        self._dissection.absorb()
        return self._conversation.session.streams

    @property
    def complete(self) -> bool:
        """Whether the connection was seen from its beginning, so that it has no other streams."""
        self._dissection.absorb()
        return self._conversation.session.complete

    def last_seqno(self, opaque: int) -> int | None:
        """It gives the last seqno seen on the stream of an opaque."""
        self._dissection.absorb()
        return self._conversation.session.last_seqno(opaque)


def _ends(conversation: _Conversation, direction: int) -> Ends:
    src, dst = conversation.ends[direction]
    return Ends(conversation.connection.number, direction, src, dst)


def _seen(block: Block, row: int) -> Seen:
    where = block.where(row)
    return Seen(where.packet, where.ts_ns, where.file)


def _chained(flow: Array, seq: Array, size: Array) -> Array:
    """It says which packets continue the one before them of the same flow; those without payload always do."""
    loaded = np.flatnonzero(size > 0)
    loaded = loaded[np.argsort(flow[loaded], kind="stable")]
    follows = flow[loaded][1:] == flow[loaded][:-1]
    meets = (seq[loaded][:-1] + size[loaded][:-1]) & MASK == seq[loaded][1:]
    chained = np.ones(len(flow), bool)
    chained[loaded[1:]] = ~follows | meets
    return chained
