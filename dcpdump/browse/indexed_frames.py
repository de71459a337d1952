"""Give the screen the frames of an index, which another process makes and queries, if one can be started."""

import itertools
import os
import signal
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from select import select
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from dcpdump.browse.rows import RowFacts
from dcpdump.conversation import MissingValues
from dcpdump.errors import DcpdumpError
from dcpdump.index.columns import HAS_SEQNO, HAS_VBUCKET, ODD, PROBLEM, RESPONSE, SERVER, Columns
from dcpdump.processes import ForkedWorker, Messages, forked, packed, send_object
from dcpdump.record import Direction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dcpdump.browse.frame_service import FrameService
    from dcpdump.capture.damage import Damage

# -- questions about frames, and the answers, which may come from another process ---------------------


class FoundFrames(NamedTuple):
    """Frames that pass a filter."""

    first: int  #: the first frame that was searched
    last: int  #: and the last
    packed: "npt.NDArray[np.uint8]"  #: a bit for each frame searched, as in numpy.packbits

    @property
    def numbers(self) -> "npt.NDArray[np.int64]":
        """Return the numbers of the frames."""
        import numpy as np

        return np.flatnonzero(np.unpackbits(self.packed, count=self.last - self.first + 1)) + self.first


class Failed(NamedTuple):
    """Why there is no answer."""

    why: str


class Answer(NamedTuple):
    """An answer, or a piece of it."""

    ticket: int  #: of the question
    value: Any  #: as described by the question; None at the end, or Failed


class IndexState(NamedTuple):
    """The progress of the index, and what it has found since the state before."""

    counts: tuple[int, int, int] = (0, 0, 0)  #: of frames, answers and gaps in the columns
    progress: tuple[int, int | None] = (0, None)  #: bytes that were read, and of how many
    begins_ns: int | None = None
    idle: bool = False
    complete: bool = False
    directions: tuple[Direction, ...] = ()  #: after those known already
    damage: tuple["Damage", ...] = ()
    lost: MissingValues = (0, 0, {})
    skipped_bytes: int = 0


Message = Answer | IndexState | Exception


# -- who asks -----------------------------------------------------------------------------------------

#: Makes the service, given columns to fill.
MakeService = Callable[[Columns], "FrameService"]
#: Receives a piece of an answer; None, or Failed, at the end.
Receive = Callable[[Any], None]
_ENDED = "the process that reads frames has ended"


class IndexedFrames:
    """The frames of an index that may still be growing, by their numbers, which begin with 1.

    A service in another process makes the index, and answers questions; without another process it works here, whenever
    answers are read. ``step`` reads what has arrived, and gives answers to those who asked.
    """

    def __init__(self, make: MakeService) -> None:
        self.columns = Columns()
        self.directions: list[Direction] = []  #: the directions by the numbers in ``columns.direction``
        self.damage: list[Damage] = []
        self.state = IndexState()
        self.failure = ""  #: why nothing more comes before the end
        self.error: Exception | None = None  #: the error that ended reading
        self._service = forked(partial(_serve, make, self.columns)) or make(self.columns)
        self._tickets = itertools.count(1)
        self._receivers: dict[int, Receive] = {}

    @property
    def count(self) -> int:
        """Return how many frames there are so far."""
        return self.columns.frames

    @property
    def complete(self) -> bool:
        """Return whether everything was read."""
        return self.state.complete

    @property
    def descriptor(self) -> int | None:
        """Return the file descriptor that is readable when answers have arrived; None without another process."""
        service = self._service
        return service.results if isinstance(service, ForkedWorker) and not service.killed else None

    def step(self, wait: float = 0.0) -> bool:
        """Read what has arrived, or do a piece of the work without another process; return whether there is more."""
        service, messages = self._service, self._arrived(wait)
        for message in messages:
            if isinstance(message, Answer):
                receive = self._receivers.get(message.ticket)
                if message.value is None or isinstance(message.value, Failed):
                    self._receivers.pop(message.ticket, None)
                if receive is not None:
                    receive(message.value)
            elif isinstance(message, IndexState):
                self.state = message
                self.directions += message.directions
                self.damage += message.damage
                if message.counts[0] != self.count:
                    self.columns.refresh(*message.counts)
            else:
                self.error, self.failure = message, f"reading has ended: {message}"
        return bool(messages) or (not isinstance(service, ForkedWorker) and service.busy)

    def _arrived(self, wait: float) -> Sequence[Message]:
        if not isinstance(self._service, ForkedWorker):
            return self._service.work()
        if wait and not self._service.killed:
            self._service.wait(wait)
        found = self._service.arrived()
        if found is None:
            self._service.end()
            self.failure = self.failure or _ENDED
            return [Answer(ticket, Failed(self.failure)) for ticket in self._receivers]
        return found

    # -- asking -------------------------------------------------------------------------------------------

    def ask(self, receive: Receive, method: str, *arguments: Any) -> int:
        """Ask a method of FrameService; ``receive`` is called with what it yields. Return the ticket of the question.

        A yield of None, with which it lets others have their turn, is no answer.
        """
        ticket = next(self._tickets)
        self._receivers[ticket] = receive
        self._send(ticket, method, *arguments)
        return ticket

    def _send(self, ticket: int, method: str, *arguments: Any) -> None:
        if isinstance(self._service, ForkedWorker):
            self._service.send(packed((ticket, method, *arguments)))
        else:
            self._service.ask(ticket, method, *arguments)

    def awaits(self, ticket: int) -> bool:
        """Return whether answers to a question are still to come."""
        return ticket in self._receivers

    def drop(self, ticket: int) -> None:
        """Drop a question, if answers are still to come."""
        if self._receivers.pop(ticket, None) is not None:
            self._send(ticket, "")

    def wait(self, seconds: float, done: Callable[[], bool]) -> None:
        """Read answers until ``done``, for at most some seconds."""
        until = time.monotonic() + seconds
        while not done() and (left := until - time.monotonic()) > 0:
            self.step(left)

    def leave(self) -> None:
        """Let the other process end in the background; no question may follow, only ``close``."""
        if isinstance(self._service, ForkedWorker):
            self._service.ask_to_end()

    def close(self) -> None:
        """End the other process, and free all memory and files."""
        if isinstance(self._service, ForkedWorker):
            self._service.end()
        else:
            self._service.index.close()
        self.columns.close()

    # -- what the columns know of a frame -----------------------------------------------------------------

    def facts(self, number: int) -> RowFacts:
        """Return the facts of a frame without decoding it."""
        at, values = number - 1, self.columns.values
        flags = values("flags")[at]
        direction = self.directions[values("direction")[at]]
        return RowFacts(
            number,
            values("ts_ns")[at],
            direction.connection,
            direction.side,
            values("opcode")[at],
            bool(flags & SERVER),
            bool(flags & RESPONSE),
            values("vbucket")[at] if flags & HAS_VBUCKET else None,
            values("stream_id")[at],
            values("status")[at],
            values("seqno")[at] if flags & HAS_SEQNO else None,
            values("length")[at],
            bool(flags & (PROBLEM | ODD)),
        )

    def ts_ns(self, number: int) -> int:
        """Return a frame's time; NO_TIME (net.packet) without one."""
        return self.columns.values("ts_ns")[number - 1]

    def gap_bytes(self, number: int) -> int:
        """Return how many bytes were lost or skipped before a frame."""
        frames = self.columns.values("gap_frame")
        at = bisect_left(frames, number)
        return self.columns.values("gap_bytes")[at] if at < len(frames) and frames[at] == number else 0

    def at_time(self, ts_ns: int) -> int:
        """Return the first frame at a time or later, assuming that times rise."""
        found = bisect_left(self.columns.values("ts_ns"), ts_ns) + 1
        return max(1, min(found, self.count))


# -- the other process --------------------------------------------------------------------------------


def _serve(make: MakeService, columns: Columns, orders: int, results: int) -> None:
    """Answer questions until the process that asks them has ended."""
    received = Messages()
    try:
        service = make(columns)
    except (DcpdumpError, OSError) as error:
        send_object(results, error)
        return

    def end(*_: object) -> NoReturn:
        service.index.close()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        if select([orders], [], [], 0 if service.busy else None)[0]:
            piece = os.read(orders, 1 << 16)
            if not piece:
                end()
            for question in received.feed(piece):
                service.ask(*question)
        for message in service.work():
            send_object(results, message)
