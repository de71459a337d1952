"""Read inputs that may block in a thread of their own, and hand on their packets as they arrive.

A capture can only be asked for its next packet, and that may take hours to arrive. The queue returns what arrived by
now.
"""

import threading
from collections.abc import Iterable, Iterator

from dcpdump.forked_worker import started
from dcpdump.net.packet import Packet

#: Bytes of packets that may wait: beyond, the writer is slowed down. It is also the size of a batch: enough to be fast,
#: and little enough for its last frame to be shown soon after its first packet came.
BUFFER_BYTES = 512 * 1024
#: Seconds of each wait for an input that brings nothing.
_IDLE_S = 0.1
#: Where so many bytes arrived at once, wait for more: large batches are decoded faster than small ones.
_MUCH = 32 * 1024
_MORE_S = 0.02


class StreamQueue:
    """A queue that reads ``packets`` while its batches are asked for."""

    def __init__(self, packets: Iterable[Packet]) -> None:
        self._packets = packets
        self._waiting: list[Packet] = []
        self._size = 0
        self._changed = threading.Condition()
        self._over = False
        self._closed = False  #: the reader has stopped
        self._error: BaseException | None = None

    def batches(self) -> Iterator[list[Packet]]:
        """Yield what arrived, some at a time, to the end of the input; an empty list whenever nothing arrives.

        Where no thread can be started, each packet is yielded as it arrives, and the next is waited for.
        """
        # The end does not wait for the thread, which may be waiting for a packet that never comes.
        if not started(threading.Thread(target=self._take, name="inflow", daemon=True)):
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

    def _batch(self) -> list[Packet] | None:
        """Return what waits; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over, _IDLE_S)
            if _MUCH < self._size < BUFFER_BYTES:
                self._changed.wait_for(lambda: self._size >= BUFFER_BYTES or self._over, _MORE_S)
            if self._over and not self._waiting:
                return None
            batch, self._waiting, self._size = self._waiting, [], 0
            self._changed.notify_all()
            return batch

    def _take(self) -> None:
        try:
            for packet in self._packets:
                if not self._keep(packet):
                    return
        except BaseException as error:  # whatever it is, the reader raises it
            self._error = error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _keep(self, packet: Packet) -> bool:
        """Queue a packet; return False when the reader has stopped."""
        with self._changed:
            self._waiting.append(packet)
            self._size += len(packet.data)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._size < BUFFER_BYTES or self._closed)
            return not self._closed
