"""Referee: sights in, findings out. It asks the rules about each frame before the ledger learns it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dcpdump.check.evidence import SECOND, PendingEvidence
from dcpdump.check.finding import Finding
from dcpdump.check.rule import (
    ASKED,
    ASTRAY,
    CLOSING,
    COUNTED,
    DECODED,
    DISORDERED,
    FIRST,
    MARKED,
    OUTSIDE,
    PACKED,
    PUSH,
    RESPONSE,
    SILENCE,
    SKIPPED,
    STRAY,
    STREAM_DONE,
    ZERO,
    Rule,
)
from dcpdump.check.rules import RULES
from dcpdump.check.runner import RuleRunner
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import JSON
from dcpdump.streams.addressing import find_place, simply
from dcpdump.streams.document_run import Close, DocumentRun, Step
from dcpdump.streams.frame_event import FrameEvent, kept
from dcpdump.streams.ledger import Ledger, WatchedUntil
from dcpdump.streams.messages import announce
from dcpdump.streams.opcode_kinds import (
    ADD_STREAM,
    BUFFER_ACK,
    CLOSE_STREAM,
    FLUSH,
    MARKER,
    MUTATION,
    NOOP,
    OPEN,
    SEQNO_ACK,
    STREAM_END,
    STREAM_REQ,
    STREAMED,
    WANTED,
)
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: Frames between two looks at what waits on the connection at hand.
TICKS = 64
#: A silence after which both ends would have disconnected.
SILENT = 360 * SECOND
_REPLIES = frozenset(opcode for opcode, message in MESSAGES.items() if message.known and message.replies)
_DCP = frozenset(opcode for opcode, message in MESSAGES.items() if message.dcp)
#: Opcodes whose answers are about one stream.
_OF_STREAMS = STREAMED | {SEQNO_ACK}


class RuleEngine:
    """Feed it sights and bursts, in order; it feeds the ledger, and returns the findings that each of them brings."""

    def __init__(self, rules: Iterable[Rule] = RULES, ledger: Ledger | None = None) -> None:
        self.ledger = ledger if ledger is not None else Ledger(closely=True)
        self._panel = panel = RuleRunner(rules)
        self._ask = panel.ask
        self._evidence: dict[int, PendingEvidence] = {}
        self._last: dict[int, FrameEvent] = {}  # by connection: the last frame that is no message of a stream
        self.streams = 0  #: that were looked at, once the input is over
        self.partly = 0  #: connections and streams that were not captured whole

    def feed(self, sight: FrameEvent) -> list[Finding]:
        """Take the next frame."""
        panel, ledger = self._panel, self.ledger
        before = ledger.connections.get(sight.connection)
        if before is not None:
            self._ask_before(sight, before)
        connection = ledger.arrive(sight)
        evidence = self._evidence_of(connection)
        nothing = connection.no_stream
        if sight.gap_before or not sight.whole:
            evidence.lose()
            panel.lose(connection, sight.direction)
            sight = sight._replace(skipped=False)
        if not sight.whole:
            ledger.learn_placed(connection, sight)
            return panel.taken()
        panel.release(connection.number, sight.direction)
        if sight.record is not None and panel.on[DECODED]:
            self._ask(DECODED, sight, connection, nothing)
        if not sight.number % TICKS:
            self._look(sight, connection, evidence)
        if sight.server:
            self._ask(PUSH, sight, connection, nothing)
        elif sight.response:
            self._answer(sight, connection)
        elif ledger.is_message(connection, sight):
            self._message(sight, connection)
        else:
            self._request(sight, connection, evidence)
        return panel.taken()

    def feed_step(self, step: Step) -> list[Finding]:
        """Take the next frame, or documents that follow one another."""
        return self.feed_burst(step) if isinstance(step, DocumentRun) else self.feed(step)

    def feed_burst(self, burst: DocumentRun) -> list[Finding]:
        """Take mutations of one stream. Unless they are clearly its next and healthy, they are taken one by one."""
        connection, close = self.ledger.connections.get(burst.connection), burst.close
        stream = None if connection is None else connection.current.get(burst.word << 16 | burst.stream_id)
        if connection is None or stream is None or close is None or not self._spares(burst, close, connection, stream):
            return [finding for sight in burst.each() for finding in self.feed(sight)]
        self._panel.release(connection.number, burst.direction)
        if stream.losses != connection.losses[burst.direction] or connection.window.would_fill(burst.size):
            self.ledger.feed_burst(burst)
        else:
            self.ledger.learn_burst(connection, burst, stream)
        return self._panel.taken()

    def lose(self, connection: int, direction: int, length: int | None, ts_ns: int | None = None) -> None:
        """Take it that bytes were lost and that no frame followed."""
        known = self.ledger.connections.get(connection)
        if known is not None:
            self.ledger.lose(connection, direction, length, ts_ns)
            self._evidence_of(known).lose()
            self._panel.lose(known, direction)

    def close(self, watched: Mapping[int, WatchedUntil] = MappingProxyType({})) -> list[Finding]:
        """End the input. ``watched`` says until when connections were; others were until their last frame."""
        for connection in self.ledger.connections.values():
            connection.over = True
            until = watched.get(connection.number)
            if until is not None:
                connection.gone = until.gone
                if until.ts_ns is not None and connection.last_ns is not None:
                    connection.until_ns = max(connection.last_ns, until.ts_ns)
            self.partly += connection.doubtful
            for stream in connection.streams:
                if stream.granted or stream.last_frame:
                    self.streams += 1
                    self.partly += stream.doubtful
                    if stream.end_frame is None:
                        self._done(stream.last_sight, connection, stream)
            last = self._last.get(connection.number)
            if last is not None:
                self._look(last, connection, self._evidence_of(connection))
                self._ask(CLOSING, last, connection, connection.no_stream)
        self._panel.release_all()
        return self._panel.taken()

    def _evidence_of(self, connection: ConnectionState) -> PendingEvidence:
        evidence = self._evidence.get(connection.number)
        if evidence is None:
            evidence = self._evidence[connection.number] = PendingEvidence(connection)
        return evidence

    def _ask_before(self, sight: FrameEvent, connection: ConnectionState) -> None:
        """Ask about what lies between a frame and the one before it."""
        if sight.skipped and connection.frames[sight.direction]:
            self._ask(SKIPPED, sight, connection, connection.no_stream)
        heard_ns = connection.heard_ns[sight.direction]
        if heard_ns is not None and sight.ts_ns is not None and sight.ts_ns - heard_ns > SILENT:
            self._ask(SILENCE, sight, connection, connection.no_stream)

    def _look(self, sight: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        for event, delayed in evidence.look(sight):
            self._panel.ask_delayed(event, delayed, connection, sight)

    def _spares(self, burst: DocumentRun, close: Close, connection: ConnectionState, stream: Stream) -> bool:
        """Return whether a burst is just what its stream goes on with, and trips no rule."""
        before = connection.heard_ns[burst.direction]
        if before is None or burst.first_ns - before > SILENT or close.pause_ns > SILENT:
            return False
        if burst.direction != connection.feeder or not stream.goes_on(burst.opaque):
            return False
        events = (MUTATION, MARKED) if connection.window.size is None else (MUTATION, MARKED, COUNTED)
        for event in events:
            for spares in self._panel.spares[event]:
                if spares is None or not spares(burst, close, connection, stream):
                    return False
        return True

    def _done(self, sight: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask about a stream that is over."""
        self._ask(STREAM_DONE, sight, connection, stream)
        self._evidence_of(connection).finish(stream)

    # -- messages of a stream ---------------------------------------------------------------------------

    def _message(self, sight: FrameEvent, connection: ConnectionState) -> None:
        ledger = self.ledger
        stream = simply(connection, sight)
        if stream is None:
            place = find_place(connection, sight)
            if place.stray is not None:
                self._ask(STRAY, sight, connection, place.stray)
            stream = ledger.begin(connection, sight) if place.begins else place.stream
            if stream is not None and place.outside:
                ledger.notice(connection, sight, stream)
                self._ask(OUTSIDE, sight, connection, stream)
            if stream is None or (stream.end_frame is not None and not stream.stale):
                ledger.learn_message(connection, sight, stream)
                return
            ledger.notice(connection, sight, stream)
        opcode = sight.opcode
        if opcode == MARKER:
            announce(connection, sight)
        self._ask_message(sight, connection, stream)
        ledger.learn_message(connection, sight, stream)
        if opcode == STREAM_END:
            self._done(sight, connection, stream)

    def _ask_message(self, sight: FrameEvent, connection: ConnectionState, stream: Stream) -> None:
        """Ask about a message of a stream, and what is asked only of some of them. Nearly all frames come here."""
        events = [sight.opcode]
        if connection.window.size is not None:
            events.append(COUNTED)
        if sight.seqno is not None:
            if sight.datatype:
                events.append(MARKED)
                if sight.datatype != JSON:
                    events.append(PACKED)
            if not stream.items_since_marker:
                events.append(FIRST)
            if not sight.seqno:
                events.append(ZERO)
            if stream.oso:
                events.append(DISORDERED)
        panel = self._panel
        for event in events:
            for rule, judge in panel.on[event]:
                answer = judge(sight, connection, stream)
                if answer:
                    panel.hear(rule, answer, sight, connection, stream, 1 - sight.direction)

    # -- everything else --------------------------------------------------------------------------------

    def _request(self, sight: FrameEvent, connection: ConnectionState, evidence: PendingEvidence) -> None:
        opcode = sight.opcode
        stream = connection.no_stream
        if opcode in _DCP and _astray(sight, connection):
            self._ask(ASTRAY, sight, connection, stream)
            return
        if opcode == SEQNO_ACK:
            place = sight.word << 16 | sight.stream_id
            stream = connection.current.get(place) or connection.by_opaque.get(sight.opaque) or stream
            evidence.acknowledge_seqno(sight, stream)
        elif opcode == BUFFER_ACK:
            evidence.acknowledge_bytes(sight)
        self._ask(opcode, sight, connection, stream)
        if opcode in _REPLIES:
            self._ask(ASKED, sight, connection, connection.no_stream)
        self.ledger.learn(connection, sight)
        self._last[connection.number] = kept(sight)

    def _answer(self, sight: FrameEvent, connection: ConnectionState) -> None:
        opcode = sight.opcode
        stream = connection.by_opaque.get(sight.opaque) if opcode in _OF_STREAMS else None
        if stream is None or sight.opaque in connection.shared:
            stream = connection.no_stream
        self._ask(opcode | RESPONSE, sight, connection, stream)
        if opcode == STREAM_REQ and not sight.word:
            self._replace(sight, connection)
        self.ledger.learn(connection, sight)
        self._last[connection.number] = kept(sight)

    def _replace(self, sight: FrameEvent, connection: ConnectionState) -> None:
        """Ask about the stream whose place one takes that is granted now."""
        waiting = connection.exchanges.asked(sight)
        before = None if waiting is None or waiting.request is None else waiting.request.still_open
        if before is not None and before.end_frame is None:
            self._done(before.last_sight, connection, before)


def _astray(sight: FrameEvent, connection: ConnectionState) -> bool:
    """Return whether a DCP request travels against the roles of the ends, as far as those are known."""
    opcode = sight.opcode
    if connection.feeder is None or opcode in (OPEN, ADD_STREAM, CLOSE_STREAM):
        return connection.produces is True and opcode == ADD_STREAM
    if opcode in WANTED:
        return sight.direction == connection.feeder
    if opcode in STREAMED or opcode in (NOOP, FLUSH):
        return sight.direction != connection.feeder
    return False
