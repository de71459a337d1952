"""Give the screen the index, which another process makes and queries, if one can be started."""

import itertools
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from select import select
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from dcpdump.conversation import MissingValues
from dcpdump.errors import DcpdumpError
from dcpdump.index.columns import Columns
from dcpdump.processes import ForkedWorker, Messages, can_fork_alone, packed, send_object

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dcpdump.browse.frame_service import FrameService
    from dcpdump.browse.rows import Numbers
    from dcpdump.capture.damage import Damage


# -- questions about frames, and the answers, which may come from another process ---------------------


class Decode(NamedTuple):
    """Ask for a frame. The answer is its Record."""

    number: int


class Describe(NamedTuple):
    """Ask for texts of frames. The answers are texts by number, the first frames first."""

    numbers: tuple[int, ...]


class Choose(NamedTuple):
    """Ask for the frames that pass a filter. The answers are FoundFrames."""

    text: str  #: of the filter
    first: int
    last: int


class Pick(NamedTuple):
    """Ask for the first of some frames whose text contains a text. The answer is its number, or None."""

    text: str  #: in lower case; "": ask for a frame with a problem, a refusal, or lost bytes before it
    numbers: "Numbers"


Question = Decode | Describe | Choose | Pick


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


class FrameDirection(NamedTuple):
    """A direction of a connection."""

    connection: int
    side: int


class IndexState(NamedTuple):
    """The progress of the index, and what it has found since the state before."""

    counts: tuple[int, int, int] = (0, 0, 0)  #: of frames, answers and gaps in the columns
    progress: tuple[int, int | None] = (0, None)  #: bytes that were read, and of how many
    begins_ns: int | None = None
    idle: bool = False
    complete: bool = False
    directions: tuple[FrameDirection, ...] = ()  #: after those known already
    damage: tuple["Damage", ...] = ()
    lost: MissingValues = (0, 0, {})
    skipped_bytes: int = 0


Message = Answer | IndexState | Exception


# -- who asks -----------------------------------------------------------------------------------------

#: Makes the service, given columns to fill.
MakeService = Callable[[Columns], "FrameService"]
#: Takes a piece of an answer; None, or Failed, at the end.
Take = Callable[[Any], None]
_ENDED = "the process that reads frames has ended"


class Reader:
    """A client of the service. ``step`` reads what has arrived, and gives answers to those who asked."""

    def __init__(self, make: MakeService) -> None:
        self.columns = Columns()
        self.directions: list[FrameDirection] = []  #: the directions by the numbers in ``columns.direction``
        self.damage: list[Damage] = []
        self.state = IndexState()
        self.failure = ""  #: why nothing more comes before the end
        self.error: Exception | None = None  #: the error that ended reading
        self._link = _link(make, self.columns)
        self._tickets = itertools.count(1)
        self._takers: dict[int, Take] = {}

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
        return self._link.descriptor

    def step(self, wait: float = 0.0) -> bool:
        """Read what has arrived, or do a piece of the work without another process; return whether there is more."""
        messages = self._link.arrived(wait)
        if messages is None:
            self.failure = self.failure or _ENDED
            messages = [Answer(ticket, Failed(self.failure)) for ticket in self._takers]
        for message in messages:
            if isinstance(message, Answer):
                take = self._takers.get(message.ticket)
                if message.value is None or isinstance(message.value, Failed):
                    self._takers.pop(message.ticket, None)
                if take is not None:
                    take(message.value)
            elif isinstance(message, IndexState):
                self.state = message
                self.directions += message.directions
                self.damage += message.damage
                if message.counts[0] != self.count:
                    self.columns.refresh(*message.counts)
            else:
                self.error, self.failure = message, f"reading has ended: {message}"
        return bool(messages) or self._link.busy

    # -- asking -------------------------------------------------------------------------------------------

    def ask(self, question: Question, take: Take) -> int:
        """Ask something; ``take`` is called with the answers. Return the ticket of the question."""
        ticket = next(self._tickets)
        self._takers[ticket] = take
        self._link.send(ticket, question)
        return ticket

    def awaits(self, ticket: int) -> bool:
        """Return whether answers to a question are still to come."""
        return ticket in self._takers

    def drop(self, ticket: int) -> None:
        """Drop a question, if answers are still to come."""
        if self._takers.pop(ticket, None) is not None:
            self._link.send(ticket, None)

    def wait(self, seconds: float, done: Callable[[], bool]) -> None:
        """Read answers until ``done``, for at most some seconds."""
        until = time.monotonic() + seconds
        while not done() and (left := until - time.monotonic()) > 0:
            self.step(left)

    def leave(self) -> None:
        """Let the other process end in the background; no question may follow, only ``close``."""
        self._link.leave()

    def close(self) -> None:
        """End the other process, and free all memory and files."""
        self._link.close()
        self.columns.close()


# -- who answers: in this process, or in another ------------------------------------------------------


class _Here:
    """The service in this process: it works whenever answers are read."""

    descriptor = None

    def __init__(self, service: "FrameService") -> None:
        self._service = service

    @property
    def busy(self) -> bool:
        return self._service.busy

    def send(self, ticket: int, question: Question | None) -> None:
        self._service.ask(ticket, question)

    def arrived(self, wait: float) -> list[Message]:
        return self._service.work()

    def leave(self) -> None:
        pass  # there is no other process

    def close(self) -> None:
        self._service.index.close()


class _Forked:
    """The service in another process. ``descriptor`` is readable when data has arrived from it."""

    busy = False

    def __init__(self, make: MakeService, columns: Columns) -> None:
        self._worker: ForkedWorker | None = ForkedWorker(lambda orders, results: _serve(make, columns, orders, results))

    @property
    def descriptor(self) -> int | None:
        return None if self._worker is None else self._worker.results

    def send(self, ticket: int, question: Question | None) -> None:
        if self._worker is not None:
            self._worker.send(packed((ticket, question)))

    def arrived(self, wait: float) -> list[Message] | None:
        if self._worker is None:
            return None
        if wait:
            self._worker.wait(wait)
        found = self._worker.arrived()
        if found is None:
            self.close()
        return found

    def leave(self) -> None:
        if self._worker is not None:
            self._worker.ask_to_end()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _link(make: MakeService, columns: Columns) -> "_Here | _Forked":
    if can_fork_alone():
        with suppress(OSError):  # no more processes allowed
            return _Forked(make, columns)
    return _Here(make(columns))


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
            for ticket, question in received.feed(piece):
                service.ask(ticket, question)
        for message in service.work():
            send_object(results, message)
