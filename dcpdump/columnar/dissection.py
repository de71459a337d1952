"""Dissection: blocks of packets in, parts of frames out. The Dissector, with a fast lane for many packets at once.

What a stretch of packets brought to a direction that is in step is cut by hopping from length to length; all else
takes the Dissector's own way, and lands in the same parts.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dcpdump.columnar.assembly import Brought, assemble, chained
from dcpdump.columnar.block import Block, Origins
from dcpdump.columnar.flows import Place, RunConnections
from dcpdump.columnar.heard import hear
from dcpdump.columnar.part import Ends, Part
from dcpdump.columnar.pending import Cutting, Pending
from dcpdump.columnar.plan import Array
from dcpdump.columnar.region import Region, regions_of
from dcpdump.columnar.runs import RunSession, RunSplitter
from dcpdump.dissect import Dissector, _Conversation
from dcpdump.net.connections import Delivery
from dcpdump.net.event import Bytes, Gap
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.wire.cut import Cut
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter

#: Fewer packets, or pieces of what they brought, are not worth doing at once.
SHORTEST_RUN = 12
#: How many are taken one by one after doing them at once came to nothing, at most.
LONGEST_PATIENCE = 512
#: Packets that are looked at together, at least and at most: the next stretch reaches further than the last one came.
SHORTEST_REACH, LONGEST_REACH = 128, 65_536


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
        self._runs = self._connect(replace(limits, memory=self._limit))
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
        chain = chained(facts.flow, facts.seq, facts.size)
        odd = (facts.flow < 0) | facts.control
        stops = np.flatnonzero(odd).tolist()
        stops.append(len(odd))
        at, next_stop, patience, one_by_one, reach = 0, 0, SHORTEST_RUN, 0, LONGEST_REACH
        while at < len(odd):
            while stops[next_stop] < at:
                next_stop += 1
            taken, stop = at, min(stops[next_stop], at + reach)
            if at >= one_by_one and stop - at >= SHORTEST_RUN:
                taken = self._take_stretch(block, chain, at, stop)
                reach = min(max(4 * (taken - at), SHORTEST_REACH), LONGEST_REACH)
                if taken > at:
                    patience = SHORTEST_RUN
                else:
                    one_by_one = at + patience
                    patience = min(2 * patience, LONGEST_PATIENCE)
            if taken == at:
                self.feed(block.packets[at])
                taken += 1
            at = taken
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

    # -- many at once -----------------------------------------------------------------------------------

    def _take_stretch(self, block: Block, chain: Array, at: int, stop: int) -> int:
        """It takes packets ``at`` … ``stop``-1, or as many of the first as it can; gives the first that is left."""
        brought, told, stop = assemble(self._runs, block, chain, at, stop)
        self._cut(block, brought)
        for place, deliveries in groupby(told, _place):
            if place is None:
                self._hear(list(deliveries))
            else:
                events = [event for _, _, event in deliveries if isinstance(event, Bytes)]
                place = place._replace(offset=events[0].offset)
                brought = [Brought(place, list(range(len(events))), [event.data for event in events])]
                self._cut(Origins.of([event.seen for event in events]), brought)
        if self._unweighed > self._limit // 16:
            self._weigh()
        return stop

    def _cut(self, origins: Origins, brought: list[Brought]) -> None:
        """It has the splitters cut what was brought: at once where they are in step, else piece by piece."""
        patience = SHORTEST_RUN
        while brought:
            first = min(each.rows[0] for each in brought)
            row = first
            if sum(len(each.rows) for each in brought) >= SHORTEST_RUN:
                row = self._cut_run(origins, brought)
                brought = [each.after(bisect_left(each.rows, row)) for each in brought if each.rows[-1] >= row]
            patience = SHORTEST_RUN if row > first else min(2 * patience, LONGEST_PATIENCE)
            if brought:
                brought = self._cut_each(origins, brought, patience)

    def _cut_run(self, origins: Origins, brought: list[Brought]) -> int:
        """It cuts what packets brought up to the first that a splitter is not ready for; gives that packet."""
        stop = len(origins.numbers)
        ready: list[tuple[Brought, Lane]] = []
        for each in brought:
            lane = self._lane(each.place)
            if lane is None:
                stop = min(stop, each.rows[0])
            else:
                ready.append((each, lane))
        while True:
            mine = [(each.before(stop), lane) for each, lane in ready if each.rows[0] < stop]
            passing = [(lane, sum(map(len, each.pieces))) for each, lane in mine if lane.splitter.foreign]
            loads = [(each, lane) for each, lane in mine if not lane.splitter.foreign]
            regions, fault = regions_of([(each, lane.splitter.beginning) for each, lane in loads])
            if fault >= stop:
                break
            stop = fault
        self._commit(origins, [(lane, region) for (_, lane), region in zip(loads, regions, strict=True)], passing)
        return stop

    def _cut_each(self, origins: Origins, brought: list[Brought], count: int) -> list[Brought]:
        """It has ``count`` pieces cut one by one, in the order in which they came; gives the rest.

        Where splitters are not ready, it is done as soon as all are.
        """
        unready = [each.place for each in brought if not self._is_ready(each.place)]
        order = sorted((row, number) for number, each in enumerate(brought) for row in each.rows[:count])
        taken = [0] * len(brought)
        offsets = [each.place.offset for each in brought]
        for row, number in order[:count]:
            (connection, direction, late, _), _, pieces = brought[number]
            piece = bytes(pieces[taken[number]])
            event = Bytes(offsets[number], piece, origins.seen(row), late)
            self._hear([Delivery(connection, direction, event)])
            self._unweighed += len(piece)
            taken[number] += 1
            offsets[number] += len(piece)
            if unready and all(map(self._is_ready, unready)):
                break
        return [each.after(done) for each, done in zip(brought, taken, strict=True) if done < len(each.rows)]

    def _is_ready(self, place: Place) -> bool:
        return self._lane(place) is not None

    def _hear(self, deliveries: list[Delivery]) -> None:
        for _ in self._take(deliveries):
            raise TypeError("a dissection in blocks makes no records")

    def _lane(self, place: Place) -> Lane | None:
        conversation = self._conversations.get(place.connection.number)
        splitter = conversation.splitters[place.direction] if conversation else None
        if conversation is None or not isinstance(splitter, RunSplitter):
            return None
        if not (splitter.ready or splitter.foreign):
            return None
        return Lane(conversation, place.direction, splitter)

    def _commit(self, origins: Origins, regions: list[tuple[Lane, Region]], passing: list[tuple[Lane, int]]) -> None:
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
            lost = splitter.take(region.frames, used, rest, region.marks(origins, offset))
            cuttings.append(Cutting(region, _ends(conversation, direction), offset, lost))
            self._talkers[conversation.connection.number] = conversation
            if region.frames:
                self.tally.frames += region.frames
                self.tally.frame_bytes += used
                conversation.framed[direction] = True
        self._pending.add_run(origins, cuttings)
        self._unweighed += sum(region.stop - region.start for _, region in regions)

    def _connect(self, limits: Limits) -> RunConnections:
        """It gives what keeps the connections."""
        return RunConnections(limits)

    # -- what the Dissector calls -----------------------------------------------------------------------

    def _take(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            if isinstance(event, Gap):
                flow = connection.toward(direction)
                ends = Ends(connection.number, direction, str(flow.src), str(flow.dst), connection.syn)
                self.gaps.append(Lost(ends, event))
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

    def absorb_of(self, conversation: _Conversation) -> None:
        """It lets a session hear of all its frames so far."""
        if conversation.connection.number in self._talkers:
            self.absorb()

    def absorb(self) -> None:
        """It lets the sessions hear of all frames so far."""
        if not self._pending:
            return
        pending, self._pending = self._pending, Pending(self.tally.frames + 1)
        talkers, self._talkers = self._talkers, {}
        part = pending.part()
        planned = hear(part, talkers, self._record, show_secrets=self._show_secrets)  # which counts the others
        self.tally.dcp_frames += planned
        self._parts.append(part)


class _Streams:
    """What a splitter asks of its connection's session, which first has to hear of its frames so far."""

    def __init__(self, dissection: Dissection, conversation: _Conversation) -> None:
        self._dissection = dissection
        self._conversation = conversation

    @property
    def streams(self) -> Mapping[int, int]:
        """Opaque → vbucket of the streams that were asked for or seen."""
        return self._session.streams

    @property
    def complete(self) -> bool:
        """Whether the connection was seen from its beginning, so that it has no other streams."""
        return self._session.complete

    def last_seqno(self, opaque: int) -> int | None:
        """It gives the last seqno seen on the stream of an opaque."""
        return self._session.last_seqno(opaque)

    @property
    def _session(self) -> Session:
        self._dissection.absorb_of(self._conversation)
        return self._conversation.session


def _place(delivery: Delivery) -> Place | None:
    """It says where bytes go in order that follow one another; None of what is no bytes."""
    connection, direction, event = delivery
    return Place(connection, direction, event.joined_late, 0) if isinstance(event, Bytes) else None


def _ends(conversation: _Conversation, direction: int) -> Ends:
    src, dst = conversation.ends[direction]
    return Ends(conversation.connection.number, direction, src, dst, conversation.connection.syn)
