"""Intake: packets are taken from an interface in a thread of its own, and wait here to be decoded.

Its books add up: what came was given away, still waits, or was dropped here because too much waited.
Knows nothing of what is in packets.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType

from dcpdump.capture.live import Live
from dcpdump.capture.ring import Taken
from dcpdump.capture.save import Save
from dcpdump.errors import LiveError
from dcpdump.forked_worker import started

#: What may wait.
ROOM = 256 * 1024 * 1024
#: How long an interface without traffic is waited for at a time, in milliseconds.
IDLE_MS = 100
#: Given away at a time, at most.
_MOST = 4 * 1024 * 1024
#: Where so much came at once, more is coming: it is waited for, since many packets are done faster than few.
_MUCH = 32 * 1024
_MORE_S = 0.05


class LiveQueue:
    """It takes packets while it is open, until it is stopped or its time is over. ``save`` gets all of them."""

    def __init__(self, live: Live, *, room: int = ROOM, save: Save | None = None, seconds: float | None = None) -> None:
        self._live = live
        self._room = room
        self._save = save
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._waiting: deque[Taken] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._over = False
        self.error: Exception | None = None
        self.dropped = 0  #: packets that came, and were not given away because too much waited
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    @property
    def received(self) -> int:
        """Packets that came."""
        return self._live.ring.received

    @property
    def dropped_by_kernel(self) -> int:
        """Packets that the kernel had no room for."""
        return self._live.ring.dropped

    def stop(self) -> None:
        """Take no more. What has come is still given away."""
        self._stopped.set()

    def batches(self) -> Iterator[list[Taken]]:
        """Give what came, some at a time, until it has stopped; an empty list whenever nothing comes."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        except Exception as error:  # whatever it is, who reads is told
            self.error = self.error or error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _take(self) -> None:
        try:
            while not self._stopped.is_set() and (self._ends is None or time.monotonic() < self._ends):
                self._keep(self._live.take(self._patience()))
            self._keep(self._live.last())
        except OSError as error:
            self.error = LiveError(error.strerror or str(error), self._live.name)

    def _patience(self) -> int:
        if self._ends is None:
            return IDLE_MS
        return max(0, min(IDLE_MS, round(1000 * (self._ends - time.monotonic()))))

    def _keep(self, blocks: list[Taken] | Iterator[Taken]) -> None:
        for taken in blocks:
            if self._save is not None:
                self._save.write(taken.data, self.dropped_by_kernel)
            with self._changed:
                if self._size + len(taken.data) > self._room:
                    self.dropped += taken.packets
                    continue
                self._waiting.append(taken)
                self._size += len(taken.data)
                self._changed.notify_all()
