"""Referee: sights in, findings out. It knows which event each frame is, and what is learnt of it.

A rule is asked before a frame is learnt.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dcpdump.check.course import ACTIVE, Course, kept
from dcpdump.check.dialogue import (
    ABORT,
    ADVANCED,
    BUFFER_ACK,
    CACHED,
    CACHED_END,
    CLOSE_STREAM,
    COMMIT,
    CONTROL,
    HELLO,
    MANY_REQUESTS,
    MARKER,
    MUTATION,
    NOOP,
    OPEN,
    OSO,
    PREPARE,
    SASL_AUTH,
    SASL_STEP,
    SECOND,
    SELECT_BUCKET,
    SEQNO_ACK,
    SET_STATE,
    STREAM_END,
    STREAM_REQ,
    STREAMED,
    Dialogue,
    marker_of,
)
from dcpdump.check.finding import Finding
from dcpdump.check.panel import Panel
from dcpdump.check.rule import (
    ANSWERED,
    ASKED,
    ASTRAY,
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
    TICK,
    ZERO,
    Rule,
)
from dcpdump.check.rules import RULES
from dcpdump.spec import MESSAGES
from dcpdump.spec.names import JSON
from dcpdump.streams.burst import Burst, Close
from dcpdump.streams.ledger import Watched
from dcpdump.streams.sight import Sight

#: Frames between two looks at what waits on the connection at hand.
TICKS = 64
#: A silence after which both ends would have disconnected.
SILENT = 360 * SECOND
#: What a client says first.
_FIRST = frozenset({HELLO, 0x20, SASL_AUTH})
_REPLIES = frozenset(opcode for opcode, message in MESSAGES.items() if message.known and message.replies)
_DCP = frozenset(opcode for opcode, message in MESSAGES.items() if message.dcp)


class Referee:
    """Feed it sights, in order; it gives the findings that each of them brings."""

    def __init__(self, rules: Iterable[Rule] = RULES) -> None:
        self._panel = panel = Panel(rules)
        self._ask, self._hear = panel.ask, panel.hear
        self._dialogues: dict[int, Dialogue] = {}
        self._nowhere: dict[int, Course] = {}
        self.names: dict[bytes, Dialogue] = {}  # of connections that are open
        self.streams = 0
        self.partly = 0  #: connections and streams that were not witnessed whole

    def feed(self, sight: Sight) -> list[Finding]:
        """It takes the next frame."""
        dialogue = self._dialogues.get(sight.connection)
        if dialogue is None:
            dialogue = self._dialogues[sight.connection] = Dialogue(sight.connection, self.names)
            self._nowhere[sight.connection] = Course(dialogue, 0, -1, 0)
        if sight.skipped:
            if dialogue.spoken[sight.direction]:
                self._ask(SKIPPED, sight, dialogue, self._nowhere[sight.connection])
            sight = sight._replace(skipped=False)
            self._panel.lose(dialogue, sight.direction, sight.gap_before, sight.number, skipped=True)
        elif sight.gap_before:
            self._panel.lose(dialogue, sight.direction, sight.gap_before, sight.number)
        self._panel.release(dialogue.number, sight.direction)
        if sight.record is not None:
            if not sight.whole:
                holes = sum(end - start for start, end in sight.record.frame.raw.holes)
                self._panel.lose(dialogue, sight.direction, holes, sight.number)
                return self._panel.taken()
            if self._panel.on[DECODED]:
                self._ask(DECODED, sight, dialogue, self._nowhere[sight.connection])
        direction, ts = sight.direction, sight.ts_ns
        spoken = dialogue.spoken
        if ts is not None:
            before = dialogue.last_ts[direction]
            if before is not None and ts - before > SILENT:
                self._ask(SILENCE, sight, dialogue, self._nowhere[sight.connection])
            dialogue.last_ts[direction] = dialogue.ts_ns = ts
        if not spoken[direction] and not spoken[1 - direction] and sight.opcode in _FIRST and not sight.response:
            dialogue.client = direction
            dialogue.late = False
        spoken[direction] += 1
        if not sight.number % TICKS:
            self._ask(TICK, sight, dialogue, self._nowhere[sight.connection])
        opcode = sight.opcode
        if sight.server:
            self._push(sight, dialogue)
        elif sight.response:
            self._answer(sight, dialogue)
        elif opcode in STREAMED and direction == dialogue.source:
            course = dialogue.courses.get(sight.opaque)
            if course is None or not course.calm or course.vbucket != sight.word or course.sid != sight.stream_id:
                course = self._doubted(sight, dialogue, course)
                if course is None:
                    dialogue.count(sight)
                    return self._panel.taken()
            if opcode == MARKER:
                dialogue.marker = marker_of(sight)
            for rule, judge in self._panel.on[opcode]:
                answer = judge(sight, dialogue, course)
                if answer:
                    self._hear(rule, answer, sight, dialogue, course)
            if dialogue.window is not None:
                for rule, judge in self._panel.on[COUNTED]:
                    answer = judge(sight, dialogue, course)
                    if answer:
                        self._hear(rule, answer, sight, dialogue, course)
            self._learn(sight, dialogue, course)
        else:
            self._request(sight, dialogue)
        return self._panel.taken()

    def feed_burst(self, burst: Burst) -> list[Finding]:
        """It takes mutations of one stream. Unless they are clearly its next and healthy, it takes them one by one."""
        dialogue, close = self._dialogues.get(burst.connection), burst.close
        course = None if dialogue is None else dialogue.courses.get(burst.opaque)
        if dialogue is None or course is None or close is None or not self._spares(burst, close, dialogue, course):
            return [finding for sight in burst.each() for finding in self.feed(sight)]
        self._panel.release(dialogue.number, burst.direction)
        dialogue.last_ts[burst.direction] = dialogue.ts_ns = dialogue.counted_at = burst.last_ns
        dialogue.spoken[burst.direction] += burst.frames
        dialogue.wire += burst.size
        course.burst(burst, close)
        return self._panel.taken()

    def _spares(self, burst: Burst, close: Close, dialogue: Dialogue, course: Course) -> bool:
        """It says whether a burst is just what its stream goes on with, and trips no rule."""
        before = dialogue.last_ts[burst.direction]
        if before is None or burst.first_ns - before > SILENT or close.pause_ns > SILENT:
            return False
        if burst.direction != dialogue.source or not course.goes_on(burst):
            return False
        events = (MUTATION, MARKED) if dialogue.window is None else (MUTATION, MARKED, COUNTED)
        for event in events:
            for spares in self._panel.spares[event]:
                if spares is None or not spares(burst, close, dialogue, course):
                    return False
        return True

    def lose(self, connection: int, direction: int, length: int) -> None:
        """It hears of bytes that were lost and that no frame followed."""
        dialogue = self._dialogues.get(connection)
        if dialogue is not None:
            self._panel.lose(dialogue, direction, length, 0)

    def close(self, watched: Mapping[int, Watched] = MappingProxyType({})) -> list[Finding]:
        """It ends the input. ``watched`` says until when connections were; others were until their last frame."""
        for dialogue in self._dialogues.values():
            dialogue.ended = True
            until = watched.get(dialogue.number)
            if until is not None:
                dialogue.gone = until.gone
                if until.ts_ns is not None and dialogue.ts_ns is not None:
                    dialogue.ts_ns = max(dialogue.ts_ns, until.ts_ns)
            nowhere = self._nowhere[dialogue.number]
            self.partly += dialogue.doubtful
            for course in list(dialogue.courses.values()):
                self.partly += course.doubtful
                if not course.ended:
                    self._done(course.last_sight, dialogue, course)
            if dialogue.last_sight is not None:
                self._ask(TICK, dialogue.last_sight, dialogue, nowhere)
        self._panel.release_all()
        return self._panel.taken()

    def _done(self, sight: Sight, dialogue: Dialogue, course: Course) -> None:
        """A stream is over."""
        self._ask(STREAM_DONE, sight, dialogue, course)
        if course.acks_due or course.acks_early:
            dialogue.over.append(course)

    # -- messages of a stream ---------------------------------------------------------------------------

    def _doubted(self, sight: Sight, dialogue: Dialogue, course: Course | None) -> Course | None:
        """It finds the stream of a message that is not simply the next of one; None where it may be of several."""
        if sight.opaque in dialogue.shared:
            course = dialogue.places.get((sight.word, sight.stream_id), course)
        if course is not None and course.vbucket < 0:  # granted, and its request not seen
            course.vbucket = sight.word
        if course is not None and course.sid < 0:
            course.sid = sight.stream_id
        if course is not None and (course.late or course.lost) and course.sid != sight.stream_id:
            course.sid = sight.stream_id
        if course is None or course.vbucket != sight.word or course.sid != sight.stream_id:
            self._ask(STRAY, sight, dialogue, course or self._nowhere[sight.connection])
            if course is None or course.vbucket != sight.word:
                course = self._meant(sight, dialogue, course)
            if course is None:
                return None
        if not course.calm and (sight.opcode not in (MARKER, OSO) or not course.live):
            self._ask(OUTSIDE, sight, dialogue, course)
            if course.ended and not course.stale:
                return None  # that was told; it is no news of what the stream was
        return course

    def _meant(self, sight: Sight, dialogue: Dialogue, course: Course | None) -> Course | None:
        """It finds the stream of a message whose opaque is of no stream, or (``course``) of another vbucket's.

        That was told already: no stream is to be blamed for it once more. None: it fits none.
        """
        known = dialogue.places.get((sight.word, sight.stream_id))
        if (known is None and course is None) or dialogue.doubtful:
            self.streams += 1
            return dialogue.late_course(sight)
        return next((each for each in (known, course) if each is not None and each.fits(sight)), None)

    def _learn(self, sight: Sight, dialogue: Dialogue, course: Course) -> None:
        course.last_number, course.last_ts = sight.number, sight.ts_ns
        dialogue.count(sight)
        seqno = sight.seqno
        if seqno is not None:
            self._item(sight, seqno, dialogue, course)
            return
        opcode = sight.opcode
        if opcode == MARKER:
            marker = dialogue.marker
            if marker is None:
                course.unclear(f"the snapshot marker of frame {sight.number} could not be read")
            else:
                course.begin(marker)
                if course.prepares:
                    course.complete(sight.get("high_completed_seqno") or 0)
        elif opcode == OSO:
            course.out_of_order((sight.get("flags") or 0) & 1 == 1)
        elif opcode == STREAM_END:
            course.end(sight)
            self._done(sight, dialogue, course)
        elif opcode == SET_STATE:
            dialogue.asks(sight)
            course.state = sight.get("state")
            if course.state == ACTIVE:
                course.calm = False
        elif opcode == CACHED:
            course.cached += 1
        elif opcode == CACHED_END:
            course.cache_ended = True

    def _item(self, sight: Sight, seqno: int, dialogue: Dialogue, course: Course) -> None:
        """It takes a message with a seqno, after what is asked only of some of them."""
        bits = sight.datatype
        if bits:
            for rule, judge in self._panel.on[MARKED]:
                answer = judge(sight, dialogue, course)
                if answer:
                    self._hear(rule, answer, sight, dialogue, course)
            if bits != JSON:
                self._ask(PACKED, sight, dialogue, course)
        if not course.data_since_marker:
            self._ask(FIRST, sight, dialogue, course)
        if not seqno:
            self._ask(ZERO, sight, dialogue, course)
        if course.oso:
            self._ask(DISORDERED, sight, dialogue, course)
        opcode = sight.opcode
        if opcode == PREPARE:
            course.prepare(sight, seqno)
        elif opcode in (COMMIT, ABORT):
            course.resolve(sight)
        elif course.prepares and opcode != ADVANCED:
            course.settle(sight)
        course.item(sight, seqno)

    # -- everything else --------------------------------------------------------------------------------

    def _push(self, sight: Sight, dialogue: Dialogue) -> None:
        self._ask(PUSH, sight, dialogue, self._nowhere[sight.connection])

    def _request(self, sight: Sight, dialogue: Dialogue) -> None:
        opcode = sight.opcode
        nowhere = self._nowhere[sight.connection]
        if opcode in STREAMED and dialogue.source is None:
            dialogue.late_course(sight)
            self.streams += 1
            self._learn(sight, dialogue, dialogue.courses[sight.opaque])
            return
        if opcode in _DCP and dialogue.astray(sight):
            self._ask(ASTRAY, sight, dialogue, nowhere)
            return
        course = nowhere
        if opcode == SEQNO_ACK:
            course = dialogue.courses.get(sight.opaque) or dialogue.places.get((sight.word, sight.stream_id)) or nowhere
        self._ask(opcode, sight, dialogue, course)
        if opcode in _REPLIES:
            self._ask(ASKED, sight, dialogue, nowhere)
            dialogue.asks(sight)
            if opcode == NOOP:
                if sight.opaque in dialogue.noops_early:
                    dialogue.noops_early.discard(sight.opaque)  # captured out of order: its answer came first
                else:
                    dialogue.noops[sight.opaque] = kept(sight), dialogue.spoken[1 - sight.direction]
        if opcode == STREAM_REQ:
            dialogue.learn_request(sight)
        elif opcode == CONTROL:
            dialogue.learn_control(sight)
        elif opcode == OPEN:
            dialogue.learn_open(sight)
        elif opcode == BUFFER_ACK:
            dialogue.learn_ack(sight)
        elif opcode == NOOP:
            dialogue.noop_at = sight.ts_ns
        elif opcode == SEQNO_ACK and course is not nowhere:
            course.acknowledge(sight)
        elif opcode in (SASL_AUTH, SASL_STEP):
            dialogue.authenticating = True
        dialogue.last_sight = kept(sight)

    def _answer(self, sight: Sight, dialogue: Dialogue) -> None:
        opcode = sight.opcode
        course = dialogue.courses.get(sight.opaque) or self._nowhere[sight.connection]
        if opcode not in STREAMED and opcode not in (STREAM_REQ, SEQNO_ACK):
            course = self._nowhere[sight.connection]
        place = (1 - sight.direction, opcode, sight.opaque)
        asked = dialogue.waiting.get(place)
        self._ask(ANSWERED, sight, dialogue, course)
        self._ask(opcode | RESPONSE, sight, dialogue, course)
        if opcode in _REPLIES:
            dialogue.answers(sight)
        if opcode == STREAM_REQ:
            old = dialogue.courses.get(sight.opaque) if not sight.word else None
            if old is not None and not old.ended:
                self._done(old.last_sight, dialogue, old)
            fresh = dialogue.learn_grant(sight)
            if fresh is not None:
                fresh.last_number, fresh.last_ts = sight.number, sight.ts_ns
                fresh.inherit_acknowledgements(self._nowhere[sight.connection])
                self.streams += 1
        elif opcode == CONTROL:
            dialogue.learn_control_answer(sight)
        elif opcode == CLOSE_STREAM:
            dialogue.learn_closed(sight, asked)
        elif opcode == MARKER and sight.direction != dialogue.source:
            course.marker_acknowledged(sight)
        elif opcode == NOOP:
            noop = dialogue.noops.pop(sight.opaque, None)
            if noop is not None:
                dialogue.noop_answered = noop[0].number
            elif len(dialogue.noops_early) < MANY_REQUESTS:
                dialogue.noops_early.add(sight.opaque)
        elif opcode == HELLO and not sight.word:
            dialogue.learn_features(sight)
        elif opcode in (SASL_AUTH, SASL_STEP) and not sight.word:
            dialogue.authenticated = True
        elif opcode == SELECT_BUCKET and not sight.word:
            dialogue.selected = True
        elif opcode == OPEN and not sight.word:
            dialogue.learn_opened(sight)
        dialogue.last_sight = kept(sight)
