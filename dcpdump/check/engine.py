"""RuleEngine: events in, findings out. The rules judge each frame before the ledger learns it."""

from collections.abc import Iterable

from dcpdump.check.at_end import AtEnd
from dcpdump.check.evidence import SECOND, PendingEvidence
from dcpdump.check.finding import Finding
from dcpdump.check.meaning import is_astray
from dcpdump.check.rule import RESPONSE, Broken, Event, Rule
from dcpdump.check.rules import RULES
from dcpdump.check.runner import RuleRunner
from dcpdump.spec import MESSAGES
from dcpdump.spec.header import ALT_CLIENT_REQUEST
from dcpdump.spec.names import JSON
from dcpdump.streams.document_run import Close, DocumentRun, Step
from dcpdump.streams.frame_event import HIDDEN, Before, FrameEvent, kept
from dcpdump.streams.ledger import Ledger, find_place, simply
from dcpdump.streams.messages import last_message, snapshot_of
from dcpdump.streams.opcode_kinds import (
    DELETION,
    MARKER,
    MUTATION,
    SEQNO_ACK,
    STREAM_END,
    STREAM_REQ,
    STREAMED,
)
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: Frames between two looks at what waits on the connection at hand.
TICKS = 64
#: A silence after which both ends would have disconnected.
SILENT = 360 * SECOND
_REPLIES = frozenset(opcode for opcode, message in MESSAGES.items() if message.known and message.replies)
_DCP = frozenset(opcode for opcode, message in MESSAGES.items() if message.dcp)


class RuleEngine:
    """Feed it events and runs, in order; it feeds the ledger, and returns the findings that each of them brings."""

    def __init__(
        self, rules: Iterable[Rule] = RULES, ledger: Ledger | None = None, *, shown: int | None = None
    ) -> None:
        """``shown``: how many findings of a rule and stream are wanted; runs may have the others counted."""
        self.ledger = ledger if ledger is not None else Ledger(closely=True)
        self._runner = runner = RuleRunner(rules, shown)
        self._ask = runner.ask
        self._evidence: dict[int, PendingEvidence] = {}
        self._last: dict[int, FrameEvent] = {}  # by connection: the last frame that is no message of a stream
        self.streams = 0  #: that were looked at, once the input is over
        self.partly = 0  #: connections and streams that were not captured whole

    def feed(self, frame: FrameEvent) -> list[Finding]:
        """Take the next frame."""
        runner, ledger = self._runner, self.ledger
        before = ledger.connections.get(frame.connection)
        if before is not None:
            self._ask_before(frame, before)
        connection = ledger.arrive(frame)
        evidence = self._evidence_of(connection)
        if frame.gap_before or not frame.whole:
            evidence.lose()
            runner.lose(connection, frame.direction)
            frame = frame._replace(before=None)
        if not frame.whole:
            if frame.shape is HIDDEN:
                self._ask(Event.DECODED, frame, connection, connection.no_stream)
            ledger.learn_placed(connection, frame)
            return runner.taken()
        runner.release(connection.number, frame.direction)
        if frame.record is not None and runner.on[Event.DECODED]:
            self._ask(Event.DECODED, frame, connection, connection.no_stream)
        if frame.magic == ALT_CLIENT_REQUEST:
            self._ask(Event.FRAMED, frame, connection, connection.no_stream)
        if not frame.number % TICKS:
            self._look(frame, connection, evidence)
        if frame.server:
            if frame.record is None:  # else it was asked for as decoded
                self._ask(Event.PUSH, frame, connection, connection.no_stream)
        elif frame.response:
            self._answer(frame, connection)
        elif ledger.is_message(connection, frame):
            self._message(frame, connection)
        else:
            self._request(frame, connection, evidence)
        return runner.taken()

    def feed_step(self, step: Step) -> list[Finding]:
        """Take the next frame, or documents that follow one another."""
        return self.feed_run(step) if isinstance(step, DocumentRun) else self.feed(step)

    def feed_run(self, run: DocumentRun) -> list[Finding]:
        """Take documents of one stream. Unless they are clearly its next and healthy, they are taken one by one."""
        connection, close = self.ledger.connections.get(run.connection), run.close
        stream = None if connection is None else connection.current.get(run.word << 16 | run.stream_id)
        broken = None
        if connection is not None and stream is not None and close is not None:
            broken = self._broken(run, close, connection, stream)
        if connection is None or stream is None or broken is None:
            return [finding for frame in run.each() for finding in self.feed(frame)]
        self._runner.release(connection.number, run.direction)
        for rule, those in broken:
            self._runner.add_run(rule, those, run, connection, stream)
        if connection.window.needs_each(run.size):
            self.ledger.feed_run(run)
        else:
            self.ledger.learn_run(connection, run, stream)
        return self._runner.taken()

    def lose(self, connection: int, direction: int, before: Before, ts_ns: int | None = None) -> None:
        """Take it that bytes were lost and that no frame followed."""
        known = self.ledger.connections.get(connection)
        if known is not None:
            self.ledger.lose(connection, direction, before, ts_ns)
            self._evidence_of(known).lose()
            self._runner.lose(known, direction)

    def close(self, *, alone: bool | None = None) -> list[Finding]:
        """End the input.

        ``alone``: it is one capture, so that its end is the end of all that had not ended before. Of several, each may
        be of another place, and says nothing about the others. None: nothing is known beyond the last frames.
        """
        if alone is not None:
            self.ledger.alone = alone
        at_end = AtEnd(self.ledger)
        for connection in self.ledger.connections.values():
            self._close(connection, at_end, alone)
        self._runner.release_all()
        return self._runner.taken()

    def evict(self, connection: ConnectionState) -> list[Finding]:
        """End a connection, of which nothing more comes, and forget it; the ledger does not."""
        self._close(connection, AtEnd(self.ledger), alone=True)
        number = connection.number
        for direction in (0, 1):
            self._runner.release(number, direction)
        self._evidence.pop(number, None)
        self._last.pop(number, None)
        return self._runner.taken()

    def evict_streams(self, streams: Iterable[Stream]) -> list[Finding]:
        """End streams that are over, and forget them; the ledger does not."""
        at_end = AtEnd(self.ledger)
        for stream in streams:
            self._finish(stream, at_end)
            self._runner.forget(stream)
        return self._runner.taken()

    def _finish(self, stream: Stream, at_end: AtEnd) -> None:
        """Count a stream of which nothing more comes, and ask about it."""
        self.streams += 1
        for event, delayed in at_end.of(stream):
            self._runner.ask_delayed(event, delayed, stream.connection, delayed.frame)
        if stream.granted or stream.last_frame:
            self.partly += stream.doubtful
            if stream.end_frame is None:
                self._done(last_message(stream), stream.connection, stream)

    def _close(self, connection: ConnectionState, at_end: AtEnd, alone: bool | None) -> None:
        connection.over = True
        if alone is not None:
            connection.gone = connection.ended_by is not None
            until_ns = connection.ended_ns if connection.gone or not alone else self.ledger.last_ns
            if until_ns is not None and connection.last_ns is not None:
                connection.until_ns = max(connection.last_ns, until_ns)
        self.partly += connection.doubtful
        for stream in connection.streams:
            self._finish(stream, at_end)
        last = self._last.get(connection.number)
        if last is not None:
            self._look(last, connection, self._evidence_of(connection))
            self._ask(Event.CLOSING, last, connection, connection.no_stream)
        connection.unlink()

    def _evidence_of(self, connection: ConnectionState) -> PendingEvidence:
        evidence = self._evidence.get(connection.number)
        if evidence is None:
            evidence = self._evidence[connection.number] = PendingEvidence(connection)
        return evidence

    def _ask_before(self, frame: FrameEvent, connection: ConnectionState) -> None:
        """Ask about what lies between a frame and the one before it."""
        if frame.before is not None and frame.before.skipped and connection.frames[frame.direction]:
            self._ask(Event.SKIPPED, frame, connection, connection.no_stream)
        latest_ns = connection.latest_ns[frame.direction]
        if latest_ns is not None and frame.ts_ns is not None and frame.ts_ns - latest_ns > SILENT:
            self._ask(Event.SILENCE, frame, connection, connection.no_stream)

    def _look(self, frame: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        for event, delayed in evidence.look(frame):
            self._runner.ask_delayed(event, delayed, connection, frame)

    def _broken(
        self, run: DocumentRun, close: Close, connection: ConnectionState, stream: Stream
    ) -> list[tuple[Rule, Broken]] | None:
        """Return which rules a run breaks that just continues its stream; None where it may be more than that."""
        before, found = connection.latest_ns[run.direction], []
        if before is None or run.first_ns - before > SILENT or run.pause_ns > SILENT:
            return None
        if run.direction != connection.feeder or not stream.continues_with(run.opaque):
            return None
        if stream.losses != connection.losses[run.direction]:
            return None
        if (run.first - 1) // TICKS != (run.first + run.frames - 1) // TICKS and not self._evidence_of(
            connection
        ).is_quiet(run):
            return None
        for rule in self._runner.judges_of_runs(_events(run, close, connection, stream)):
            spared = rule.spares is not None and rule.spares(run, close, connection, stream)
            if isinstance(spared, Broken):
                found.append((rule, spared))
            elif not spared:
                return None
        return found

    def _done(self, frame: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask about a stream that is over."""
        self._ask(Event.STREAM_DONE, frame, connection, stream)
        self._evidence_of(connection).finish(stream)

    # -- messages of a stream ---------------------------------------------------------------------------

    def _message(self, frame: FrameEvent, connection: ConnectionState) -> None:
        ledger = self.ledger
        stream = simply(connection, frame)
        if stream is None:
            place = find_place(connection, frame)
            if place.stray is not None:
                self._ask(Event.STRAY, frame, connection, place.stray)
            stream = ledger.begin(connection, frame) if place.begins else place.stream
            if stream is not None and place.outside:
                ledger.notice(connection, frame, stream)
                self._ask(Event.OUTSIDE, frame, connection, stream)
            if stream is None or (stream.end_frame is not None and not stream.stale):
                ledger.learn_message(connection, frame, stream)
                return
            ledger.notice(connection, frame, stream)
        opcode = frame.opcode
        if opcode == MARKER:
            connection.incoming = snapshot_of(frame)
        self._ask_message(frame, connection, stream)
        ledger.learn_message(connection, frame, stream)
        if opcode == STREAM_END:
            self._done(frame, connection, stream)

    def _ask_message(self, frame: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask about a message of a stream, and what is asked only of some of them. Nearly all frames come here."""
        events = [frame.opcode]
        if connection.window.size is not None:
            events.append(Event.COUNTED)
        if frame.seqno is not None:
            if frame.datatype:
                events.append(Event.MARKED)
                if frame.datatype != JSON:
                    events.append(Event.PACKED)
            if not stream.items_since_marker:
                events.append(Event.FIRST)
            if not frame.seqno:
                events.append(Event.ZERO)
            if stream.oso:
                events.append(Event.DISORDERED)
        runner = self._runner
        for event in events:
            for rule, judge in runner.on[event]:
                answer = judge(frame, connection, stream)
                if answer:
                    runner.add(rule, answer, frame, connection, stream, 1 - frame.direction)

    # -- everything else --------------------------------------------------------------------------------

    def _request(self, frame: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        opcode = frame.opcode
        stream = connection.no_stream
        if opcode in _DCP and is_astray(frame, connection):
            self._ask(Event.ASTRAY, frame, connection, stream)
            self.ledger.learn(connection, frame)
            return
        if opcode == SEQNO_ACK:
            place = frame.word << 16 | frame.stream_id
            stream = connection.current.get(place) or connection.by_opaque.get(frame.opaque) or stream
            evidence.acknowledge_seqno(frame, stream)
        self._ask(opcode, frame, connection, stream)
        if opcode in _REPLIES:
            self._ask(Event.ASKED, frame, connection, connection.no_stream)
        self.ledger.learn(connection, frame)
        self._last[connection.number] = kept(frame)

    def _answer(self, frame: FrameEvent, connection: ConnectionState) -> None:
        opcode = frame.opcode
        stream = connection.by_opaque.get(frame.opaque) if opcode in STREAMED else None
        if stream is None or connection.shares(frame.opaque):
            stream = connection.no_stream
        self._ask(opcode | RESPONSE, frame, connection, stream)
        if opcode == STREAM_REQ and not frame.word:
            self._replace(frame, connection)
        self.ledger.learn(connection, frame)
        self._last[connection.number] = kept(frame)

    def _replace(self, frame: FrameEvent, connection: ConnectionState) -> None:
        """Ask about the stream whose place one takes that is granted now."""
        waiting = connection.exchanges.asked(frame)
        before = None if waiting is None or waiting.request is None else waiting.request.still_open
        if before is not None and before.end_frame is None:
            self._done(last_message(before), connection, before)


def _events(run: DocumentRun, close: Close, connection: ConnectionState, stream: Stream) -> tuple[int, ...]:
    """Return the events of a run, as those of its messages."""
    events = [MUTATION, Event.MARKED]
    if close.forms:
        events.append(DELETION)
    if connection.window.size is not None:
        events.append(Event.COUNTED)
    if close.packed:
        events.append(Event.PACKED)
    if not stream.items_since_marker:
        events.append(Event.FIRST)
    if run.stream_id:
        events.append(Event.FRAMED)
    return tuple(events)
