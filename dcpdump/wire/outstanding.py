"""Outstanding: the requests of one connection that wait for their answers.

An answer has the opcode and the opaque of its request, and comes from the other side. Several requests may have one
opaque (some clients send all with the same): they are answered in the order in which they were sent.
"""

from collections.abc import Iterable
from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.spec.opcodes import DCP_NOOP

#: Requests without an answer are forgotten, oldest first, beyond this many.
MAX_OUTSTANDING = 4096
#: About how much memory one takes.
REQUEST_COST = 512

Place = tuple[int, int, int]  #: the direction of the request (-1: unknown), its opcode and opaque
#: A request as plain values: its place; its number, time and vbucket; whether its answer may have been lost.
RequestState = tuple[int, int, int, int, int | None, int, bool]


def _is_alone(opcode: int) -> bool:
    message = find(opcode)
    return opcode == DCP_NOOP or (not message.known and message.name.endswith("Q"))


#: Requests of which one opaque has one at a time: a keep-alive is sent only after the answer to the one before, and of
#: quiet commands (GETQ, SETQ …) the older ones that wait will not be answered.
ALONE = frozenset(filter(_is_alone, range(256)))


class Asked(NamedTuple):
    """A request that waits for its response, or got it."""

    frame: int  #: its number in the output
    ts_ns: int | None
    vbucket: int


class Outstanding:
    """Queues of requests, one for each place, with a bound over all."""

    __slots__ = ("_asked", "_queues", "_serial", "_sure")

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Place, Asked]] = {}  # by serial number, so oldest first
        self._queues: dict[Place, list[int]] = {}
        self._serial = 0
        self._sure = 0  # of the requests before this one the answers may have been lost

    def __len__(self) -> int:
        return len(self._asked)

    def state(self) -> list[RequestState]:
        """Return the requests as plain values, oldest first, for ``restore``."""
        return [
            (*place, *asked, serial < self._sure)
            for serial, (place, asked) in self._asked.items()
            if serial >= self._sure or len(self._queues[place]) == 1
        ]

    def restore(self, state: Iterable[RequestState]) -> None:
        """Go on from a state."""
        for way, opcode, opaque, number, ts_ns, vbucket, doubtful in state:
            self.ask((way, opcode, opaque), Asked(number, ts_ns, vbucket))
            if doubtful:
                self.lose()

    def ask(self, place: Place, asked: Asked) -> None:
        """Take a request."""
        queue = self._queues.get(place)
        if queue and (queue[0] < self._sure or place[1] in ALONE):
            self._forget(place)
        if len(self._asked) >= MAX_OUTSTANDING:
            self._take(next(iter(self._asked.values()))[0])
        self._asked[self._serial] = place, asked
        self._queues.setdefault(place, []).append(self._serial)
        self._serial += 1

    def first(self, place: Place) -> Asked | None:
        """Return the request that the next answer is for; None where there is none, or where that is not known."""
        queue = self._queues.get(place)
        if queue and len(queue) > 1 and queue[0] < self._sure:
            self._forget(place)
            return None
        return self._asked[queue[0]][1] if queue else None

    def answer(self, place: Place) -> Asked | None:
        """Take an answer, and return the request that it is for."""
        return self._take(place)

    def lose(self) -> None:
        """Take it that bytes were lost: answers may have been among them.

        Where several requests wait that have one opaque, it is not known which of them the next answer is for. One
        alone may still be answered, unless the same is asked again.
        """
        self._sure = self._serial

    def clear(self) -> None:
        """Forget all requests."""
        self._asked.clear()
        self._queues.clear()

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
