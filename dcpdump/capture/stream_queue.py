"""Inflow: the packets of inputs that may keep one waiting, taken in a thread of their own as they come.

A capture can only be asked for its next packet, and that may take hours to come. The inflow gives what came by now.
"""

import threading
from collections.abc import Iterable, Iterator

from dcpdump.forked_worker import started
from dcpdump.net.packet import Packet

#: What may wait, in bytes of packets: who writes is slowed down then. It is what is done at once: enough to be fast,
#: and little enough for its last frame to be shown soon after its first packet came.
ROOM = 512 * 1024
#: How long an input that brings nothing is waited for at a time.
_IDLE_S = 0.1
#: Where so much came at once, more is coming: it is waited for, since many packets are done faster than few.
_MUCH = 32 * 1024
_MORE_S = 0.02


class StreamQueue:
    """It takes ``packets`` while its batches are asked for."""

    def __init__(self, packets: Iterable[Packet]) -> None:
        self._packets = packets
        self._waiting: list[Packet] = []
        self._size = 0
        self._changed = threading.Condition()
        self._over = False
        self._left = False  #: nobody asks any more
        self._error: BaseException | None = None

    def batches(self) -> Iterator[list[Packet]]:
        """Yield what came, some at a time, to the end of the input; an empty list whenever nothing comes.

        Where there may be no more threads, each packet is yielded as it comes, and the next is waited for.
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
                self._left = True
                self._changed.notify_all()
        if self._error is not None:
            raise self._error

    def _batch(self) -> list[Packet] | None:
        """Give what waits, or none of it at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over, _IDLE_S)
            if _MUCH < self._size < ROOM:
                self._changed.wait_for(lambda: self._size >= ROOM or self._over, _MORE_S)
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
        except BaseException as error:  # whatever it is, who asks is told
            self._error = error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _keep(self, packet: Packet) -> bool:
        """Let a packet wait; false when nobody asks any more."""
        with self._changed:
            self._waiting.append(packet)
            self._size += len(packet.data)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._size < ROOM or self._left)
            return not self._left
