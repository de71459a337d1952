"""Hold the requests of one connection that wait for their responses.

A response has the opcode and the opaque of its request, and comes from the other side. Several requests may have one
opaque (some clients send all with the same): they are answered in the order in which they were sent. Where the two
directions were captured out of order, a response may come before its request.
"""

from typing import NamedTuple, TypedDict

from dcpdump.spec import find
from dcpdump.spec.opcodes import DCP_NOOP

#: Beyond this many, requests without a response are evicted, oldest first.
MAX_OUTSTANDING = 4096
#: About how many bytes of memory one takes.
REQUEST_COST = 512

Place = tuple[int, int, int]  #: the direction of the request (-1: unknown), its opcode and opaque
#: A request as plain values: its place; its number, time and vbucket; whether its answer may have been lost.
RequestState = tuple[int, int, int, int, int | None, int, bool]


class OutstandingState(TypedDict):
    """All requests as plain values."""

    requests: list[RequestState]  #: oldest first
    early: dict[Place, int]  #: answers that came before their requests
    whole: bool  #: every request is captured, so that there may be such answers


def _is_alone(opcode: int) -> bool:
    message = find(opcode)
    return opcode == DCP_NOOP or (not message.known and message.name.endswith("Q"))


#: Places of responses that came before their requests, at most: more have another cause.
_EARLY = 64
#: Requests of which one opaque has one at a time: a keep-alive is sent only after the answer to the one before, and of
#: quiet commands (GETQ, SETQ …) the older ones that wait will not be answered.
ALONE = frozenset(filter(_is_alone, range(256)))
#: For the others, a response without a request belongs to one that was captured late, or not at all.
PAIRED = frozenset(opcode for opcode in range(256) if find(opcode).replies) - ALONE


class Asked(NamedTuple):
    """A request that waits for its response, or has it."""

    frame: int  #: its number in the output
    ts_ns: int | None
    vbucket: int


class Outstanding:
    """Queues of requests, one for each place, with a bound over all."""

    __slots__ = ("_asked", "_early", "_queues", "_serial", "_sure", "_whole")

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Place, Asked]] = {}  # by serial number, so oldest first
        self._queues: dict[Place, list[int]] = {}
        self._serial = 0
        self._sure = 0  # of the requests before this one the answers may have been lost
        self._whole = False  # an answer without a request was captured before it
        self._early: dict[Place, int] = {}  # how many of those there are

    def __len__(self) -> int:
        return len(self._asked)

    def state(self) -> OutstandingState:
        """Return the requests as plain values, for ``restore``."""
        requests: list[RequestState] = [
            (*place, *asked, serial < self._sure)
            for serial, (place, asked) in self._asked.items()
            if serial >= self._sure or len(self._queues[place]) == 1
        ]
        return {"requests": requests, "early": dict(self._early), "whole": self._whole}

    def restore(self, state: OutstandingState) -> None:
        """Continue from a state."""
        for way, opcode, opaque, number, ts_ns, vbucket, doubtful in state["requests"]:
            self.ask((way, opcode, opaque), Asked(number, ts_ns, vbucket))
            if doubtful:
                self.lose()
        self._early, self._whole = dict(state["early"]), state["whole"]

    def begin(self) -> None:
        """Assume that all requests are captured from here on, and that those before were answered."""
        self._whole = True

    def ask(self, place: Place, asked: Asked) -> None:
        """Take a request; one whose response came before it does not wait."""
        early = self._early.pop(place, 0) if self._early else 0
        if early:
            if early > 1:
                self._early[place] = early - 1
            return
        queue = self._queues.get(place)
        if queue and (queue[0] < self._sure or place[1] in ALONE):
            self._forget(place)
        if len(self._asked) >= MAX_OUTSTANDING:
            self._take(next(iter(self._asked.values()))[0])
            self._doubt()
        self._asked[self._serial] = place, asked
        self._queues.setdefault(place, []).append(self._serial)
        self._serial += 1

    def first(self, place: Place) -> Asked | None:
        """Return the request that the next response is for; None where there is none, or where that is not known."""
        queue = self._queues.get(place)
        if queue and len(queue) > 1 and queue[0] < self._sure:
            self._forget(place)
            return None
        return self._asked[queue[0]][1] if queue else None

    def answer(self, place: Place) -> Asked | None:
        """Take a response, and return the request that it is for."""
        found = self._take(place)
        if found is None and self._whole and place[1] in PAIRED and len(self._early) < _EARLY:
            self._early[place] = self._early.get(place, 0) + 1
        return found

    def lose(self) -> None:
        """Note that bytes were lost: responses may have been among them.

        Where several requests with one opaque wait, it is not known which of them the next response is for. A single
        one may still be answered, unless the same is asked again.
        """
        self._sure = self._serial
        self._doubt()

    def clear(self) -> None:
        """Forget all requests."""
        self._asked.clear()
        self._queues.clear()
        self._doubt()

    def _doubt(self) -> None:
        """Assume that a response without a request may be to one that is not known."""
        self._whole = False
        self._early.clear()

    def _take(self, place: Place) -> Asked | None:
        found = self.first(place)
        if found is not None:
            queue = self._queues[place]
            del self._asked[queue.pop(0)]
            if not queue:
                del self._queues[place]
        return found

    def _forget(self, place: Place) -> None:
        for serial in self._queues.pop(place):
            del self._asked[serial]
