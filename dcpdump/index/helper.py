"""Build an index in another process, which runs at a lower priority, and take what it sends."""

import gc
import os
import threading
from functools import partial

from dcpdump.errors import DcpdumpError
from dcpdump.forked_worker import ForkedWorker, Messages, can_fork_alone, packed, started, write_all
from dcpdump.index.building import Builder, IndexInput, IndexOptions, Update

_NICE = 5
_DOUBLE = b"d"
_ENDED = "the process that read the capture has ended"


def builder_of(given: IndexInput, options: IndexOptions, *, helped: bool) -> "Builder | HelperBuilder":
    """Return what builds an index: another process if that is wanted and can be had."""
    if helped and can_fork_alone():
        try:
            return HelperBuilder(given, options)
        except OSError:  # no more processes allowed
            pass
    return Builder(given, options)


class HelperBuilder:
    """A builder in a process of its own. Columns and spool are shared; all else comes through a pipe."""

    def __init__(self, given: IndexInput, options: IndexOptions) -> None:
        self._given, self._secrets = given, options.secrets
        self._last = Update()
        self._messages = Messages()
        self._stopped: DcpdumpError | OSError | None = None
        self._worker: ForkedWorker | None = ForkedWorker(partial(_work, given, options))

    @property
    def waits_for(self) -> int | None:
        """Return the file descriptor that is readable when updates are there; None where none will come."""
        return None if self._worker is None else self._worker.results

    def updates(self, wait: float = 0.0) -> list[Update]:
        """Return what has arrived; where nothing has, wait so many seconds for it. Raises what stopped the process."""
        if self._stopped is not None:
            self._end()
            raise self._stopped
        worker = self._worker
        if worker is None:
            return []
        if wait:
            worker.wait(wait)
        piece = worker.arrived()
        if piece is None:
            self._end()
            last = self._last
            counts = last.frames, last.answers, last.gaps, last.lost, last.skipped_bytes
            return [Update(*counts, last.bytes_read, last.begins_ns, failure=_ENDED)]
        found: list[Update] = []
        for message in self._messages.feed(piece):
            if not isinstance(message, Update):
                self._stopped = message
                break
            found.append(message)
            if message.key_log and self._secrets is not None:
                self._secrets.feed(message.key_log)
        if found:
            self._last = found[-1]
            if self._last.complete:
                self._end()
        return found

    def double_distance(self) -> None:
        """Make half as many checkpoints from here on."""
        if self._worker is not None:
            self._worker.send(_DOUBLE)

    def close(self) -> None:
        """Kill the process, whatever it is doing, and close the captures."""
        self._end()
        for capture in self._given.captures:
            capture.close()

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def _work(given: IndexInput, options: IndexOptions, orders: int, results: int) -> None:
    """Index everything, and send each block's update."""
    gc.freeze()
    if all(capture.rereadable for capture in given.captures):
        gc.disable()  # nothing that is made on the way has cycles
    builder = Builder(given, options)
    secrets, known = options.secrets, 0 if options.secrets is None else options.secrets.growth
    started(threading.Thread(target=_obey, args=(builder, orders), daemon=True))
    before = Update()
    try:
        while not before.complete:
            update = builder.step()
            if secrets is not None and secrets.growth != known:
                known, update.key_log = secrets.growth, secrets.key_log()
            if update.idle and before.idle and update.frames == before.frames:
                continue
            write_all(results, packed(update))
            if not before.frames and update.frames:
                os.nice(_NICE)  # the first frames are waited for
            before = update
    except (DcpdumpError, OSError) as error:
        write_all(results, packed(error))


def _obey(builder: Builder, orders: int) -> None:
    """Take orders; without anyone to give them there is nothing to do any more."""
    while order := os.read(orders, 1):
        if order == _DOUBLE:
            builder.double_distance()
    os._exit(0)
