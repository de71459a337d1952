"""Effects: what a stretch of a conversation does to a session, when the session before it is not known.

A session can be told later what another one has learnt since: the features that it saw granted, its streams, the
requests that it saw answered.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dcpdump.columnar.runs import RunSession
from dcpdump.spark.life import Slots, session_slots
from dcpdump.spec.names import ACKNOWLEDGE
from dcpdump.spec.opcodes import DCP_CONTROL, DCP_SNAPSHOT_MARKER, DCP_STREAM_REQ, STAT
from dcpdump.wire.frame import Frame
from dcpdump.wire.resync import Streams
from dcpdump.wire.session import Understood
from dcpdump.wire.value import Meaning

Request = tuple[int, int, int]  #: of a direction: opcode, opaque


class Effects(NamedTuple):
    """What was learnt, as a session that began with nothing has it, and what it cannot have."""

    learnt: Slots
    settled: frozenset[Request]  #: requests that were made or answered
    restarted: frozenset[int]  #: opaques whose last seqno counts no more
    granted: frozenset[int]  #: opaques of controls that were accepted
    doubtful: bool  #: something was asked after that was not seen, and what came of it may have come otherwise

    def turned(self) -> "Effects":
        """It gives the same effects with the two directions exchanged."""
        waiting = {(1 - way, opcode, opaque): asked for (way, opcode, opaque), asked in self.learnt["_waiting"].items()}
        settled = frozenset((1 - way, opcode, opaque) for way, opcode, opaque in self.settled)
        return self._replace(learnt={**self.learnt, "_waiting": waiting}, settled=settled)

    def upon(self, before: Slots) -> Slots:
        """It gives the session after the stretch, of the one before."""
        learnt = self.learnt
        after = dict(before)
        features = learnt["features"]
        if features is not None:
            after["features"] = features
        if learnt["open_flags"] is not None:
            after["open_flags"] = learnt["open_flags"]
        if learnt["_marker_asked"] is not None:
            after["_marker_asked"] = learnt["_marker_asked"]
        if before["features"] is None:
            after["_certain"] = before["_certain"] or learnt["_certain"]
            after["_keys_fit"] = before["_keys_fit"] and learnt["_keys_fit"]
            after["_keys_tell"] = before["_keys_tell"] or learnt["_keys_tell"]
        after["_certain"] |= before["_marker_asked"] in self.granted
        after["_forgot"] = before["_forgot"] or learnt["_forgot"]
        after["streams"] = {**before["streams"], **learnt["streams"]}
        kept = {opaque: seqno for opaque, seqno in before["_seqnos"].items() if opaque not in self.restarted}
        after["_seqnos"] = {**kept, **learnt["_seqnos"]}
        waiting = {place: asked for place, asked in before["_waiting"].items() if place not in self.settled}
        after["_waiting"] = {**waiting, **learnt["_waiting"]}
        return after


class WatchedSession(RunSession):
    """A session that begins with nothing, and notes what it might have known."""

    def __init__(self) -> None:
        super().__init__()
        self._settled: set[Request] = set()
        self._restarted: set[int] = set()
        self._granted: set[int] = set()
        self._doubtful = False

    def effects(self) -> Effects:
        """It gives what it has learnt."""
        return Effects(
            session_slots(self),
            frozenset(self._settled),
            frozenset(self._restarted),
            frozenset(self._granted),
            self._doubtful,
        )

    def asked(self, streams: Streams) -> Streams:
        """It lets a splitter ask for streams, and notes when it asks for one that may have been before."""
        return _Asked(self, streams)

    def doubt(self, opaque: int | None = None) -> None:
        """It hears that nothing was known of an opaque (or of any)."""
        self._doubtful |= opaque not in self._restarted

    def _ask(self, frame: Frame, number: int, direction: int) -> None:
        header = frame.header
        if header.opcode == DCP_STREAM_REQ and not frame.raw.confidence:
            self._restarted.add(header.opaque)
        acknowledged = header.opcode == DCP_SNAPSHOT_MARKER and (frame.get("snapshot_type") or 0) & ACKNOWLEDGE
        if frame.message.replies or acknowledged:
            self._settled.add((direction, header.opcode, header.opaque))
        super()._ask(frame, number, direction)

    def _answered(self, frame: Frame, meaning: Meaning, direction: int) -> Understood:
        understood = super()._answered(frame, meaning, direction)
        header = frame.header
        if not (header.opcode == STAT and frame.key):  # a STAT is answered until an empty key
            self._settled.add((1 - direction, header.opcode, header.opaque))
        if header.opcode == DCP_CONTROL and not header.word:
            self._granted.add(header.opaque)
        return understood


class _Asked(Mapping[int, int]):
    """The streams of a connection, as a splitter asks for them; they are their own mapping."""

    def __init__(self, session: WatchedSession, streams: Streams) -> None:
        self._session = session
        self._asked = streams

    @property
    def streams(self) -> Mapping[int, int]:
        return self

    @property
    def complete(self) -> bool:
        return self._asked.complete

    def last_seqno(self, opaque: int) -> int | None:
        found = self._asked.last_seqno(opaque)
        if found is None:
            self._session.doubt(opaque)
        return found

    def __getitem__(self, opaque: int) -> int:
        streams = self._asked.streams
        if opaque not in streams:
            self._session.doubt()
        return streams[opaque]

    def __iter__(self) -> Iterator[int]:
        return iter(self._asked.streams)

    def __len__(self) -> int:
        count = len(self._asked.streams)
        if not count:
            self._session.doubt()
        return count
