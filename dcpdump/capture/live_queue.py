"""Capture packets from an interface in a thread of its own, and queue them to be decoded.

Every packet is counted once: it was handed on, still waits, or was dropped here because too much waited. Does not know
what is in packets.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator

from dcpdump.capture.live import Live
from dcpdump.capture.ring import Taken
from dcpdump.capture.save import Save
from dcpdump.errors import LiveError
from dcpdump.forked_worker import started

#: Bytes of packets that may wait.
BUFFER_BYTES = 128 * 1024 * 1024
#: Milliseconds of each wait on an interface without traffic.
IDLE_MS = 100
#: Bytes that are handed on at a time, at most.
_MOST = 4 * 1024 * 1024
#: Where so many bytes arrived at once, wait for more: large batches are decoded faster than small ones.
_MUCH = 32 * 1024
_MORE_S = 0.05


class LiveQueue:
    """A queue that captures while it is open, until it is stopped or its time is over. ``save`` gets all packets."""

    def __init__(
        self, live: Live, *, limit: int = BUFFER_BYTES, save: Save | None = None, seconds: float | None = None
    ) -> None:
        self._live = live
        self._limit = limit
        self._save = save
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._waiting: deque[Taken] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._over = False
        self.error: Exception | None = None
        self.dropped = 0  #: packets captured, but not handed on because too much waited
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    @property
    def received(self) -> int:
        """Return the number of packets that the kernel delivered."""
        return self._live.ring.received

    @property
    def dropped_by_kernel(self) -> int:
        """Return the number of packets that the kernel dropped because the ring was full."""
        return self._live.ring.dropped

    def stop(self) -> None:
        """Stop capturing. What was captured is still handed on."""
        self._stopped.set()

    def batches(self) -> Iterator[list[Taken]]:
        """Yield what was captured, some at a time, until it has stopped; an empty list whenever nothing arrives."""
        while True:
            with self._changed:
                if not self._waiting and not self._over:
                    self._changed.wait(IDLE_MS / 1000)
                if _MUCH < self._size < _MOST and not self._over:
                    self._changed.wait_for(lambda: self._over or self._size >= _MOST, _MORE_S)
                batch: list[Taken] = []
                size = 0
                while self._waiting and size < _MOST:
                    batch.append(self._waiting.popleft())
                    size += len(batch[-1].data)
                self._size -= size
                over = self._over
            yield batch
            if over and not batch:
                return

    def __enter__(self) -> "LiveQueue":
        if not started(self._thread):
            self._live.close()
            raise LiveError(
                "cannot capture: no thread may be started here",
                self._live.name,
                "ulimit -u, or the limit of the container, says how many there may be",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Stop, and wait until all is written and counted."""
        self.stop()
        self._thread.join()
        self._live.close()

    def _run(self) -> None:
        try:
            self._take()
            if self._save is not None:
                self._save.close(self.dropped_by_kernel)
        except Exception as error:  # whatever it is, the reader reports it
            self.error = self.error or error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _take(self) -> None:
        try:
            while not self._stopped.is_set() and (self._ends is None or time.monotonic() < self._ends):
                self._keep(self._live.take(self._timeout_ms()))
            self._keep(self._live.last())
        except OSError as error:
            self.error = LiveError(error.strerror or str(error), self._live.name)

    def _timeout_ms(self) -> int:
        if self._ends is None:
            return IDLE_MS
        return max(0, min(IDLE_MS, round(1000 * (self._ends - time.monotonic()))))

    def _keep(self, blocks: list[Taken] | Iterator[Taken]) -> None:
        for taken in blocks:
            if self._save is not None:
                self._save.write(taken.data, self.dropped_by_kernel)
            with self._changed:
                if self._size + len(taken.data) > self._limit:
                    self.dropped += taken.packets
                    continue
                self._waiting.append(taken)
                self._size += len(taken.data)
                self._changed.notify_all()
