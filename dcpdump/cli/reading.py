"""Reading: one run over packets. A source yields them in blocks, one dissection cuts frames, a consumer takes those.

It knows neither where packets come from nor what becomes of frames, but how a run ends, and what is said of it then.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from dcpdump.batch.block import Block
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.read_blocks import blocks_as_they_come, blocks_of
from dcpdump.capture import Capture
from dcpdump.cli import exit as code
from dcpdump.cli.progress import progress
from dcpdump.cli.signals import EndedAtOnce, Stop, Terminated
from dcpdump.cli.sink import PipeClosed, Sink
from dcpdump.cli.stderr import end_line
from dcpdump.cli.summary import SHOWN, status_of, summarise
from dcpdump.dissect import Dissector
from dcpdump.errors import OutputError

if TYPE_CHECKING:
    from dcpdump.cli.live_reading import InterfaceSource

P = TypeVar("P")
Blocks = Generator[Block | None, None, None]
Source = Union["CaptureSource", "InterfaceSource"]


class Consumer(ABC, Generic[P]):
    """What takes the frames of a reading as they are completed."""

    #: What it does with frames, as the closing line says.
    verb = SHOWN
    #: With how many it did that.
    frames = 0

    def begin(self) -> None:
        """Do what comes before the first packet."""

    def meet(self, block: Block) -> None:
        """Look at packets before they are dissected."""

    @abstractmethod
    def take(self, pieces: list[P]) -> bool:
        """Take the frames that packets completed; return whether there are enough."""

    def settle(self, *, idle: bool) -> None:
        """Do what is due after a block; ``idle``: while nothing comes."""

    def finish(self) -> None:
        """Do what is left when the input has ended, or there were enough."""

    def close(self) -> None:
        """Free what is held, however the reading ended."""


class CaptureSource:
    """A source: files and pipes as one timeline.

    ``patient``: what comes through a pipe is not wanted before there is much of it.
    """

    def __init__(self, captures: Sequence[Capture], *, patient: bool = False) -> None:
        self._captures = captures
        self.stop = Stop()  #: while it is open, the first signal ends the packets
        #: Whether packets may come for days.
        self.endless = not (patient or all(capture.rereadable for capture in captures))

    @property
    def names(self) -> Sequence[str]:
        """The files that are read, of which all bytes are there."""
        return [] if self.endless else [capture.name for capture in self._captures]

    def blocks(self) -> Blocks:
        """Yield the packets: of files, or of pipes as they come; None while none do."""
        captures = self._captures
        for block in blocks_as_they_come(captures) if self.endless else blocks_of(captures):
            if self.stop.status is not None:
                return
            yield block

    def sum_up(self, dissection: Dissector, consumer: Consumer[Any], form: str, *, interrupted: bool) -> None:
        """Write on standard error what a run came to: the damage, and the balance."""
        count, verb = consumer.frames, consumer.verb
        summarise(dissection, self._captures, count, form, interrupted=interrupted, verb=verb)

    def status(self, dissection: Dissector) -> int:
        """Return the signal's exit code, or that of a run that read everything it could."""
        return status_of(dissection, self._captures) if self.stop.status is None else self.stop.status


class Reading(Generic[P]):
    """One run: where packets come from, what cuts frames, who takes them. ``sink``: to be flushed in the end."""

    def __init__(
        self, source: Source, dissection: BlockDissector[P], consumer: Consumer[P], sink: Sink | None = None
    ) -> None:
        self._source, self._dissection, self._consumer, self._sink = source, dissection, consumer, sink

    def read(self) -> None:
        """Read everything, or as much as the consumer wants."""
        consumer = self._consumer
        with _collecting(forever=self._source.endless), closing(consumer), closing(self._source.blocks()) as blocks:
            consumer.begin()
            if not self._feed(blocks):
                self._take(self._dissection.close_blocks())
            consumer.finish()

    def run(self, summary: str) -> int:
        """Read, write what the run came to however it ended, and return the exit code."""
        shows = self._sink is not None and self._sink.is_terminal  # frames, as they come
        try:
            with progress(() if shows or summary == "none" else self._source.names):
                self.read()
        except (PipeClosed, OutputError, EndedAtOnce):
            raise
        except BaseException as error:
            self._conclude(summary, interrupted=isinstance(error, (KeyboardInterrupt, Terminated)))
            raise
        return self.conclude(summary)

    def analyse(self) -> None:
        """Read what comes before a signal. A second signal ends the run at once."""
        with self._source.stop as stop, progress(self._source.names):
            self.read()
        if stop.status == code.INTERRUPTED:
            end_line()

    def conclude(self, summary: str) -> int:
        """Write what the run came to, behind all of its output, and return the exit code."""
        self._conclude(summary, interrupted=self._source.stop.status is not None)
        return self.status

    @property
    def status(self) -> int:
        """The exit code of a run that has ended."""
        return self._source.status(self._dissection)

    def _conclude(self, summary: str, *, interrupted: bool) -> None:
        if self._sink is not None:
            self._sink.settle()
        self._source.sum_up(self._dissection, self._consumer, summary, interrupted=interrupted)

    def _feed(self, blocks: Blocks) -> bool:
        """Feed the consumer until the input ends; return whether it had enough before."""
        consumer = self._consumer
        for block in blocks:
            if block is not None:
                consumer.meet(block)
                if self._take(self._dissection.feed_block(block)):
                    return True
            elif self._take(self._dissection.idle()):
                return True
            consumer.settle(idle=block is None)
        return False

    def _take(self, pieces: list[P]) -> bool:
        enough = self._consumer.take(pieces)
        self._dissection.gaps.clear()  # a consumer that wants to know has seen them
        return enough


@contextmanager
def _collecting(*, forever: bool) -> Iterator[None]:
    """Spare the collector of garbage what it would look at in vain.

    What a reading makes is freed by its last user; looking for cycles in it would take a tenth of the time. What goes
    on for days may have cycles all the same: then only what is there by now is spared.
    """
    (gc.freeze if forever else gc.disable)()
    try:
        yield
    finally:
        (gc.unfreeze if forever else gc.enable)()
