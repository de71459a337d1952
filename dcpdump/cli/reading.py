"""Run once over packets: a source yields blocks of them, a dissector cuts frames, a consumer takes the frames.

``Reading`` knows how a run ends, and what is reported then; not where packets come from, or what is done with frames.
"""

import gc
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Generic, TypeVar

from dcpdump.batch.block import BLOCK_BYTES, Block
from dcpdump.batch.dissector import BlockDissector
from dcpdump.batch.read_blocks import arrives_plain, blocks_as_they_come, blocks_of
from dcpdump.capture.file import Capture
from dcpdump.capture.source import CHUNK, bytes_read, followed
from dcpdump.cli.signals import EndedAtOnce, Stop, raise_again, terminated
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import SHOWN, hide_tls, status_of, summarise
from dcpdump.cli.terminal import clear_status, end_line, note, status, terminal_size
from dcpdump.dissect import Dissector
from dcpdump.errors import ExitCode, OutputError
from dcpdump.processes import LEAST_BYTES
from dcpdump.redact import Redactor
from dcpdump.render.text_columns import bytes_text

P = TypeVar("P")
Blocks = Generator[Block | None, None, None]


class Consumer(ABC, Generic[P]):
    """A consumer of the frames of a reading, as they are completed."""

    #: What was done with frames, as the closing line says.
    verb = SHOWN
    #: The number of frames it was done with.
    frames = 0
    #: What hides what is to be hidden.
    redactor: Redactor | None = None

    def begin(self) -> None:
        """Prepare before the first packet."""

    def cut(self, block: Block) -> Block | None:
        """Return the packets of a block that count; None where none does."""
        return block

    def observe(self, block: Block) -> None:
        """Observe packets before they are dissected."""

    @abstractmethod
    def consume(self, pieces: list[P]) -> bool:
        """Consume the frames that packets completed; return whether there are enough."""

    def after_block(self, *, idle: bool) -> bool:
        """Do what is due after a block, or (``idle``) while nothing arrives; return whether there is enough."""
        return False

    def finish(self) -> None:
        """Finish when the input has ended, or there were enough frames."""

    def close(self) -> None:
        """Free resources, however the reading ended."""

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return what is to be said of the whole run, above its summary."""
        return ()


class Source(ABC):
    """A source of packets, which a signal ends."""

    #: Whether packets may arrive for days.
    endless = True
    captures: Sequence[Capture] = ()
    #: Whether packets are captured now, and where.
    live = False
    name = ""
    #: While it is open, the first signal ends the packets.
    stop: Stop

    @property
    def names(self) -> Sequence[str]:
        """Return the files that are read, where all bytes are there."""
        return [] if self.endless else [capture.name for capture in self.captures]

    @property
    def ended_ns(self) -> int | None:
        """Return when capturing ended; None where packets are of a capture."""
        return None

    @contextmanager
    def opened(self, dissection: Dissector) -> Iterator[None]:
        """Have packets arrive."""
        yield

    @abstractmethod
    def blocks(self) -> Blocks:
        """Yield the packets; None while nothing arrives."""

    @abstractmethod
    def sum_up(self, dissection: Dissector, consumer: Consumer[Any], form: str, *, interrupted: bool) -> None:
        """Write what became of packets on standard error."""

    @abstractmethod
    def status(self, dissection: Dissector) -> int:
        """Return the exit code."""


class CaptureSource(Source):
    """A source of packets: files and pipes as one timeline.

    ``patient``: packets of a pipe are collected to large blocks before they are yielded.
    """

    def __init__(self, captures: Sequence[Capture], *, patient: bool = False) -> None:
        self.captures = captures
        self.block_bytes = BLOCK_BYTES  #: of packets that are handled at once
        self.stop = Stop()
        self.endless = not (patient or all(capture.rereadable for capture in captures))
        #: Whether a thread waits for them, beside which no process should be forked.
        self.threaded = self.endless and not arrives_plain(captures)

    def blocks(self) -> Blocks:
        """Yield the packets of files, or of pipes as they arrive; None while nothing arrives."""
        captures = self.captures
        for block in blocks_as_they_come(captures) if self.endless else blocks_of(captures, self.block_bytes):
            if self.stop.status is not None:
                return
            yield block

    def sum_up(self, dissection: Dissector, consumer: Consumer[Any], form: str, *, interrupted: bool) -> None:
        """Write the run's summary on standard error: the damage, and the balance of bytes."""
        count, verb = consumer.frames, consumer.verb
        summarise(dissection, self.captures, count, form, interrupted=interrupted, verb=verb)

    def status(self, dissection: Dissector) -> int:
        """Return the signal's exit code, or that of a run that read everything it could."""
        return status_of(dissection, self.captures) if self.stop.status is None else self.stop.status


def worth_having(jobs: int | None, captures: Sequence[Capture]) -> int:
    """Return how many processes are worth using for captures: by default as many as processors."""
    size = sum(os.path.getsize(capture.name) if capture.rereadable else LEAST_BYTES for capture in captures)
    return (jobs or os.cpu_count() or 1) if size >= LEAST_BYTES else 1


class Reading(Generic[P]):
    """One run, of a source, a dissector and a consumer.

    ``sink``: flushed at the end; ``last``: the number of the last frame that the consumer wants.
    """

    def __init__(
        self,
        source: Source,
        dissection: BlockDissector[P],
        consumer: Consumer[P],
        sink: Sink | None = None,
        *,
        last: int | None = None,
    ) -> None:
        self._source, self._dissection, self._consumer, self._sink = source, dissection, consumer, sink
        self._last = last
        self.ended = False  #: the input was read to its end

    @property
    def frames(self) -> int:
        """Return how many frames were read."""
        return self._dissection.next_frame - 1

    def read(self) -> None:
        """Read everything, or as much as the consumer wants."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[None, None, None]:
        """Read everything, or as much as the consumer wants: yield whenever it has taken some, and at the end."""
        consumer = self._consumer
        with _collecting(forever=self._source.endless), closing(consumer), closing(self._source.blocks()) as blocks:
            consumer.begin()
            if not (yield from self._feed(blocks)):
                yield from self._consume_all(self._dissection.close_blocks())
                self.ended = self._source.stop.status is None
            consumer.finish()
            yield

    def run(self, summary: str) -> int:
        """Read, write the summary however the run ended, and return the exit code."""
        shows = self._sink is not None and self._sink.is_terminal  # frames, as they are completed
        with self.summarised(summary), progress(() if shows or summary == "none" else self._source.names):
            self.read()
        return self.conclude(summary)

    @contextmanager
    def summarised(self, summary: str) -> Iterator[None]:
        """Write the summary where what is done inside is broken off."""
        raise_again()  # before anything is read there is none
        try:
            yield
        except (BrokenPipeError, OutputError, EndedAtOnce):
            raise
        except BaseException as error:
            if self._sink is not None and terminated():
                self._sink.leave_pager()
            self._conclude(summary, interrupted=isinstance(error, KeyboardInterrupt))
            raise

    def analyse(self) -> None:
        """Read up to the first signal. A second signal ends the process at once.

        Of what was found in a part of captures that have an end nothing is written to a file.
        """
        with self._source.stop as stop, progress(self._source.names):
            self.read()
        if stop.status == ExitCode.INTERRUPTED:
            end_line()
        if self._sink is not None:
            if stop.terminated:
                self._sink.leave_pager()
            if stop.status is not None and not self._source.endless:  # what has no end is ended by a signal
                name = self._sink.abandon()
                if name is not None:
                    note(f"dcpdump: note: nothing was written to {name}")

    def conclude(self, summary: str) -> int:
        """Write the run's summary, behind all of its output, and return the exit code."""
        self._conclude(summary, interrupted=self._source.stop.status is not None)
        return self.status

    @property
    def status(self) -> int:
        """Return the exit code of a run that has ended."""
        return self._source.status(self._dissection)

    def _conclude(self, summary: str, *, interrupted: bool) -> None:
        if self._sink is not None:
            self._sink.drain()
        if self._consumer.redactor is not None:
            self._hide(self._consumer.redactor)
        for line in () if summary == "none" else self._consumer.remarks(self._dissection):
            note(line)
        self._source.sum_up(self._dissection, self._consumer, summary, interrupted=interrupted)

    def _hide(self, redactor: Redactor) -> None:
        """Hash what the notes of a run name."""
        hide_tls(self._dissection, redactor)
        tally = self._dissection.tally
        tally.mixed = [(redactor.endpoint(src), redactor.endpoint(dst), files) for src, dst, files in tally.mixed]

    def _feed(self, blocks: Blocks) -> Generator[None, None, bool]:
        """Feed the consumer until the input ends; return whether it had enough before."""
        consumer, dissection = self._consumer, self._dissection
        for block in blocks:
            raise_again()
            counted = None if block is None else consumer.cut(block)
            if counted is not None:
                consumer.observe(counted)
                if (yield from self._consume_all(dissection.feed_block(counted))):
                    return True
            elif block is None and (yield from self._consume_all(dissection.idle())):
                return True
            if consumer.after_block(idle=block is None):
                return True
        return False

    def _consume_all(self, some: Iterable[list[P]]) -> Generator[None, None, bool]:
        """Have the consumer consume pieces, and yield after some of them; return whether it had enough."""
        for pieces in some:
            enough = self._consumer.consume(pieces)
            self._dissection.gaps.clear()  # the consumer has seen them
            if enough or (self._last is not None and self._dissection.next_frame > self._last):
                return True
            yield
        return False


# -- progress: on the terminal, how far the reading of captures is, once that takes longer than a second ----

_FIRST_S = 1.0
_EVERY_S = 0.2
#: How often the beginning of a file is read before the whole.
_LOOKS = 3


@contextmanager
def progress(paths: Iterable[str]) -> Iterator[None]:
    """Show on standard error, as files are read, how much of them was; not where that is no terminal.

    What is read also raises a signal that has not been raised.
    """
    shows = sys.stderr is not None and sys.stderr.isatty()
    files = [path for path in paths if os.path.isfile(path)] if shows else []
    size = sum(map(os.path.getsize, files))
    before, begun = bytes_read(), time.monotonic()
    looks, due = _LOOKS * CHUNK * len(files), begun + _FIRST_S

    def follow() -> None:
        nonlocal due
        if threading.current_thread() is not threading.main_thread():
            return
        raise_again()
        now = time.monotonic()
        if size and now >= due:
            due = now + _EVERY_S
            text = progress_text(bytes_read() - before, size, now - begun, looks)
            status(text[: terminal_size().columns - 1])

    try:
        with followed(follow):
            yield
    finally:
        clear_status()


def progress_text(read: int, size: int, seconds: float, looks: int = 0) -> str:
    """Return the progress of reading, in words, given bytes read and seconds. Files may be read more than once.

    ``looks``: bytes that may have been read before, to recognise files.
    """
    again = max(0, read - looks - 1) // size
    done = min(size, read - again * size)
    rate = read / max(seconds, 0.001)
    text = f"{bytes_text(done)} of {bytes_text(size)} · {100 * done // size} % · {bytes_text(rate)}/s"
    left = (size - done) / rate if rate else 0.0
    text += f" · {left:,.0f} s left" if done < size else ""
    return f"pass {again + 1}: {text}" if again else text


@contextmanager
def _collecting(*, forever: bool) -> Iterator[None]:
    """Keep the garbage collector from searching the objects of a reading for cycles.

    Reference counts free what a reading makes; searching it for cycles would take a tenth of the time. A reading that
    runs for days may make cycles all the same: then only the objects that exist at its start are spared, or where some
    are spared already, those.
    """
    if forever and gc.get_freeze_count():
        yield
        return
    (gc.freeze if forever else gc.disable)()
    try:
        yield
    finally:
        (gc.unfreeze if forever else gc.enable)()
