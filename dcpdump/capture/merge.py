"""Merge several captures into one timeline.

Knows that rotated files follow one another and that concurrent ones overlap; keeps the order within each file. Holds
one packet of each file that is read, and opens a file only when its time has come.
"""

import heapq
from collections.abc import Iterator, Sequence

from dcpdump.capture.file import Capture
from dcpdump.errors import CaptureError
from dcpdump.net.packet import Packet

#: Files read at the same time, of each of which some bytes are held. Rotated sets need two; more than this have to be
#: merged before.
OPEN_LIMIT = 1024


def timeline(captures: Sequence[Capture], open_limit: int = OPEN_LIMIT) -> Iterator[Packet]:
    """Yield the packets of all captures in order of (time, file, number), each file in its own order.

    A packet without a time comes right after the one before it in its file. However it ends, the captures are closed
    then.
    """
    try:
        if len(captures) == 1:
            yield from captures[0]
        else:
            yield from _merged([_Lane(capture) for capture in captures], open_limit)
    finally:
        for capture in captures:
            capture.close()


def begin(capture: Capture) -> tuple[int, str]:
    """Return where a capture begins in the timeline: its first time (-1 where that is unknown), and its name."""
    first = capture.first_time() if capture.rereadable else None
    return -1 if first is None else first, capture.name


def _merged(lanes: "Sequence[_Lane]", open_limit: int) -> Iterator[Packet]:
    waiting = sorted(lanes, key=lambda lane: lane.key, reverse=True)
    active: list[tuple[tuple[int, str, int], int, _Lane]] = []
    order = 0  # distinguishes lanes with equal keys: one file, named twice
    while waiting or active:
        while waiting and (not active or waiting[-1].key <= active[0][0]):
            if len(active) == open_limit:
                raise CaptureError(
                    f"more than {open_limit} captures overlap in time",
                    waiting[-1].capture.name,
                    "mergecap -w merged.pcapng FILES, and read that",
                )
            lane = waiting.pop()
            if lane.advance():
                order += 1
                heapq.heappush(active, (lane.key, order, lane))
        if not active:
            continue
        _, mark, lane = active[0]
        if lane.packet is not None:
            yield lane.packet
        if lane.advance():
            heapq.heapreplace(active, (lane.key, mark, lane))
        else:
            heapq.heappop(active)


class _Lane:
    """A capture, its next packet, and that packet's place in the timeline."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.packet: Packet | None = None
        self._packets: Iterator[Packet] | None = None
        self.key = (*begin(capture), 0)

    def advance(self) -> bool:
        """Read the next packet; return whether there is one. A finished capture is closed."""
        if self._packets is None:
            self._packets = iter(self.capture)
        self.packet = next(self._packets, None)
        if self.packet is None:
            self.capture.close()
            return False
        ts = self.packet.ts_ns
        self.key = (self.key[0] if ts is None else ts, self.capture.name, self.packet.number)
        return True
