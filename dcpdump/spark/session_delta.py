"""Record what a stretch of a connection does to a session, when the session before it is not known.

The changes are applied later to the session before: the features that were granted, the streams, the requests that were
answered.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dcpdump.spec.opcodes import DCP_CONTROL, DCP_STREAM_REQ
from dcpdump.wire.frame import Frame
from dcpdump.wire.resync import Streams
from dcpdump.wire.session import (
    ALONE,
    MAX_OUTSTANDING,
    PAIRED,
    Asked,
    Outstanding,
    OutstandingState,
    Place,
    RequestState,
    Session,
    SessionState,
    Understood,
)
from dcpdump.wire.value import Meaning

#: Places that are noted. A connection that has more uses each opaque once: an answer there is to no earlier request.
_MOST = 2 * MAX_OUTSTANDING


class Exchanged(NamedTuple):
    """What a stretch did to the requests of one place (direction, opcode, opaque), earlier ones included."""

    unasked: int = 0  #: responses to none of the stretch's requests
    asked: bool = False  #: there were requests
    paired: bool = False  #: and a response to one of them, if none waited before


class SessionDelta(NamedTuple):
    """What a session learnt that began with nothing, and where what was before it would matter."""

    learnt: SessionState
    exchanged: dict[Place, Exchanged]
    lost: bool  #: bytes were lost in the stretch
    restarted: frozenset[int]  #: opaques whose last seqno no longer counts
    granted: frozenset[int]  #: opaques of controls that were accepted
    doubtful: bool  #: state was looked up that may have been set before the stretch

    def turned(self) -> "SessionDelta":
        """Return the same changes with the two directions exchanged."""
        old = self.learnt["outstanding"]
        outstanding: OutstandingState = {
            "requests": [(1 - each[0], *each[1:]) for each in old["requests"]],
            "early": {_turned(place): count for place, count in old["early"].items()},
            "whole": old["whole"],
        }
        exchanged = {_turned(place): done for place, done in self.exchanged.items()}
        return self._replace(learnt={**self.learnt, "outstanding": outstanding}, exchanged=exchanged)

    def upon(self, before: SessionState) -> SessionState | None:
        """Return the session after the stretch, given the one before; None where that cannot be known."""
        outstanding = self._outstanding(before["outstanding"])
        if self.doubtful or outstanding is None:
            return None
        learnt = self.learnt
        after = before.copy()
        features = learnt["features"]
        if features is not None:
            after["features"] = features
        if learnt["open_flags"] is not None:
            after["open_flags"] = learnt["open_flags"]
        if learnt["marker_asked"] is not None:
            after["marker_asked"] = learnt["marker_asked"]
        if before["features"] is None:
            after["certain"] = before["certain"] or learnt["certain"]
            after["keys_fit"] = before["keys_fit"] and learnt["keys_fit"]
            after["keys_tell"] = before["keys_tell"] or learnt["keys_tell"]
        after["certain"] |= before["marker_asked"] in self.granted
        after["forgot"] = before["forgot"] or learnt["forgot"]
        after["streams"] = {**before["streams"], **learnt["streams"]}
        kept = {opaque: seqno for opaque, seqno in before["seqnos"].items() if opaque not in self.restarted}
        after["seqnos"] = {**kept, **learnt["seqnos"]}
        after["outstanding"] = outstanding
        return after

    def _outstanding(self, before: OutstandingState) -> OutstandingState | None:
        """Return the requests that wait after the stretch; None where that cannot be known."""
        learnt, queues = self.learnt["outstanding"], defaultdict[Place, list[RequestState]](list)
        for each in before["requests"]:
            queues[each[:3]].append(each)
        if self._disordered(before, queues):
            return None
        removed: dict[Place, int] = {}
        for place, queue in queues.items():
            left = self._left(place, queue)
            if left is None:
                return None
            removed[place] = len(queue) - left
        waiting: list[RequestState] = []
        for each in before["requests"]:
            removed[each[:3]] -= 1
            if removed[each[:3]] < 0:
                waiting.append((*each[:6], each[6] or self.lost))
        return {
            "requests": [*waiting, *learnt["requests"]][-MAX_OUTSTANDING:],
            "early": learnt["early"] if self.lost else before["early"] | learnt["early"],
            "whole": learnt["whole"] or (before["whole"] and not self.lost),
        }

    def _disordered(self, before: OutstandingState, queues: Mapping[Place, list[RequestState]]) -> bool:
        """Return whether responses, in the stretch or before it, may have been captured before their requests."""
        if any(place in self.exchanged for place in before["early"]):
            return True
        if self.learnt["outstanding"]["whole"] and queues:
            return True
        return before["whole"] and any(
            done.unasked > len(queues.get(place, ())) and place[1] in PAIRED for place, done in self.exchanged.items()
        )

    def _left(self, place: Place, queue: list[RequestState]) -> int | None:
        """Return how many requests still wait of those that waited at a place; None where that cannot be known."""
        count, doubtful = len(queue), queue[0][6]
        unasked, asked, paired = self.exchanged.get(place, Exchanged())
        if asked and (place[1] in ALONE or doubtful):
            return 0  # the first of the stretch's requests replaced them
        if unasked >= count and not (asked and self.lost):
            return 0
        if not self.lost:
            return None if paired else count - unasked
        if asked or unasked:
            return None
        return 1 if count == 1 else 0


def _turned(place: Place) -> Place:
    return 1 - place[0], place[1], place[2]


class WatchedSession(Session):
    """A session that begins with nothing, and notes where earlier state would have mattered."""

    def __init__(self) -> None:
        super().__init__()
        self.outstanding = self._watched = _Watched()
        self._restarted: set[int] = set()
        self._granted: set[int] = set()
        self._doubtful = False

    def effects(self) -> SessionDelta:
        """Return what it has learnt."""
        return SessionDelta(
            self.state(),
            self._watched.exchanged,
            self._watched.lost,
            frozenset(self._restarted),
            frozenset(self._granted),
            self._doubtful,
        )

    def asked(self, streams: Streams) -> Streams:
        """Return the streams for a splitter, in a wrapper that notes when one is missing that may be older."""
        return _Asked(self, streams)

    def doubt(self, opaque: int | None = None) -> None:
        """Note that nothing was known of an opaque (or of any)."""
        self._doubtful |= opaque not in self._restarted

    def _ask(self, frame: Frame, number: int, direction: int) -> None:
        header = frame.header
        if header.opcode == DCP_STREAM_REQ and not frame.raw.confidence:
            self._restarted.add(header.opaque)
        super()._ask(frame, number, direction)

    def _answered(self, frame: Frame, meaning: Meaning, direction: int) -> Understood:
        understood = super()._answered(frame, meaning, direction)
        header = frame.header
        if header.opcode == DCP_CONTROL and not header.word:
            self._granted.add(header.opaque)
        return understood


class _Watched(Outstanding):
    """The requests of a stretch, and what happened to those that may have waited before it."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanged: dict[Place, Exchanged] = {}
        self.lost = False

    def ask(self, place: Place, asked: Asked) -> None:
        self._note(place, asked=True)
        super().ask(place, asked)

    def answer(self, place: Place) -> Asked | None:
        found = super().answer(place)
        self._note(place, unasked=found is None, paired=found is not None)
        return found

    def lose(self) -> None:
        self.lost = True
        super().lose()

    def _note(self, place: Place, *, unasked: bool = False, asked: bool = False, paired: bool = False) -> None:
        done = self.exchanged.get(place)
        if done is None:
            if len(self.exchanged) >= _MOST:
                return
            done = Exchanged()
        self.exchanged[place] = Exchanged(done.unasked + unasked, done.asked or asked, done.paired or paired)


class _Asked(Mapping[int, int]):
    """The streams of a connection, as a splitter looks them up; a failed lookup is noted."""

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
