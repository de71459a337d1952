"""Define the events of a byte stream: bytes, gaps, its end, overlaps that disagree, and faults of TCP. Values only."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from dcpdump.net.packet import NO_TIME

LOST_BY_CAPTURE: Final = "lost-by-capture"  #: the receiver acknowledged the bytes: they were sent, and not captured
NOT_ACKED: Final = "not-acked"  #: given up without having seen an acknowledgement
SNAPLEN: Final = "snaplen"  #: the capture kept only the head of the packet
EVICTED: Final = "evicted"  #: we gave up waiting to stay within our memory
CARVED: Final = "carved"  #: left out on purpose: the file holds chosen packets only
END: Final = "end"  #: the connection or the capture ended before the bytes came


class Seen(NamedTuple):
    """The packet with which an event became known: its file, number and time."""

    number: int
    ts_ns: int | None
    file: str = ""
    interface: int = 0


class Bytes(NamedTuple):
    """The next bytes of one direction. ``seen`` is the packet that completed the stream up to and including them.

    Offset 0 is the byte after the SYN; if ``joined_late``, the SYN was not seen and 0 is the first byte seen.
    """

    offset: int
    data: bytes
    seen: Seen
    joined_late: bool = False


class BytesRun(NamedTuple):
    """Many contiguous ``Bytes`` at once."""

    offset: int  #: of the first
    pieces: list[bytes]
    numbers: list[int]  #: numbers of the packets that completed the stream up to and including each piece,
    times: list[int]  #: and when these came, NO_TIME for what has no time
    file: str
    interface: int
    joined_late: bool

    def one_by_one(self) -> Iterator[Bytes]:
        """Yield them."""
        offset = self.offset
        for number, ts_ns, data in zip(self.numbers, self.times, self.pieces, strict=True):
            seen = Seen(number, None if ts_ns == NO_TIME else ts_ns, self.file, self.interface)
            yield Bytes(offset, data, seen, self.joined_late)
            offset += len(data)


class Gap(NamedTuple):
    """Bytes that are missing at ``offset``.

    ``length`` is None where it is unknown; the offsets then continue as if it were 0.
    """

    offset: int
    length: int | None
    reason: str
    seen: Seen


class Conflict(NamedTuple):
    """An overlap that disagrees, first at ``offset``: ``kept`` arrived first and stands.

    Both texts are the first 64 bytes from there on.
    """

    offset: int
    kept: bytes
    refused: bytes
    seen: Seen


class End(NamedTuple):
    """The end of one direction, by ``fin``, ``rst``, ``reused`` (a new SYN), ``evicted`` or ``end`` of input.

    Bytes after an End mean that the FIN was not the last word (it was forged, or a stack misbehaves).
    A RST is reported late, since it may be forged too; ``reset_ns`` is the time of the first one.
    """

    offset: int
    reason: str
    seen: Seen
    reset_ns: int | None = None
    by_peer: bool = False  #: the other direction's sender ended it


Event = Bytes | Gap | Conflict | End
Events = list[tuple[int, Event]]  #: of both directions of a connection, each with its direction

StreamEvent = Event | BytesRun  #: events of a stream; Connections return runs only on request


def one_by_one(events: list[StreamEvent]) -> Iterator[Event]:
    """Yield events without runs."""
    for event in events:
        if isinstance(event, BytesRun):
            yield from event.one_by_one()
        else:
            yield event


ZERO_WINDOW: Final = "zero-window"  #: an end accepts no more bytes: its receive window is zero
NO_ANSWER: Final = "no-answer"  #: an end sends nothing, not even acknowledgements, while bytes are retransmitted to it
AHEAD: Final = "ahead"  #: an end acknowledges bytes that are captured later: the directions are out of order


class TcpChange(NamedTuple):
    """An end of a connection began to hold up the other, or stopped doing so; or it is captured ahead of the other."""

    connection: int
    direction: int  #: in which that end sends
    fault: str  #: ZERO_WINDOW or NO_ANSWER; or AHEAD, which begins once and does not end
    begins: bool
    ts_ns: int | None


#: How much of each side of a conflict is kept.
EXCERPT: Final = 64
