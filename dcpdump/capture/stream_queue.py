"""Read inputs that may block in a separate thread, and hand on their packets as they arrive.

A capture can only be asked for its next packet, which may arrive after hours. The queue returns the packets that have
arrived.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from dcpdump.net.packet import Packet
from dcpdump.processes import started

#: Bytes of packets that may wait; beyond this the thread pauses. Also the size of a batch: large enough to be fast,
#: small enough that its last frame is shown soon after its first packet came.
BUFFER_BYTES = 512 * 1024
#: Seconds of each wait for an idle input.
_IDLE_S = 0.1
#: When so many bytes arrive at once, more are waited for: large batches are decoded faster than small ones.
_MUCH = 32 * 1024
_MORE_S = 0.02


class StreamQueue:
    """A queue that reads ``packets`` while its batches are requested."""

    def __init__(self, packets: Iterable[Packet]) -> None:
        self._packets = packets
        # A lock for each packet would cost more than reading it: each counter has a single writer, and flags say who
        # waits.
        self._queued: deque[Packet] = deque()
        self._arrived = 0  #: bytes queued, counted by the thread
        self._read = 0  #: bytes taken from the queue, counted by the reader
        self._waits = False  #: the reader waits for packets
        self._changed = threading.Condition()
        self._over = False
        self._closed = False  #: the reader has stopped
        self._error: BaseException | None = None

    def batches(self) -> Iterator[list[Packet]]:
        """Yield packets in batches, to the end of the input; an empty list while none arrives.

        Where no thread can be started, each packet is yielded as it arrives, and the next is waited for.
        """
        # The thread is not joined at the end: it may be waiting for a packet that never comes.
        if not started(threading.Thread(target=self._read_ahead, name="inflow", daemon=True)):
            yield from ([packet] for packet in self._packets)
            return
        try:
            while (batch := self._batch()) is not None:
                yield batch
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
        if self._error is not None:
            raise self._error

    @property
    def _size(self) -> int:
        """Return how many bytes wait."""
        return self._arrived - self._read

    def _batch(self) -> list[Packet] | None:
        """Return the packets that wait; None at the end."""
        if not self._size and not self._over:
            self._wait(lambda: self._size > 0 or self._over, _IDLE_S)
        if _MUCH < self._size < BUFFER_BYTES:
            self._wait(lambda: self._size >= BUFFER_BYTES or self._over, _MORE_S)
        over = self._over  # the thread has ended: all its packets are queued by now
        batch = [self._queued.popleft() for _ in range(len(self._queued))]
        with self._changed:
            self._read += sum([max(1, len(packet.data)) for packet in batch])
            self._changed.notify_all()
        return None if over and not batch else batch

    def _wait(self, until: Callable[[], bool], seconds: float) -> None:
        with self._changed:
            self._waits = True
            self._changed.wait_for(until, seconds)
            self._waits = False

    def _read_ahead(self) -> None:
        try:
            for packet in self._packets:
                if not self._keep(packet):
                    return
        except BaseException as error:  # any error is raised by the reader
            self._error = error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _keep(self, packet: Packet) -> bool:
        """Queue a packet; return False when the reader has stopped."""
        self._queued.append(packet)
        self._arrived += max(1, len(packet.data))
        if self._waits or self._size >= BUFFER_BYTES:
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._size < BUFFER_BYTES or self._closed)
        return not self._closed
