"""Half: one direction of an open connection."""

from typing import Final, NamedTuple

from dcpdump.net.bytestream import ByteStream
from dcpdump.net.endpoints import Connection
from dcpdump.net.tcp import FIN, RST, SYN, Segment, distance

#: An acknowledgement is ahead by so many bytes, at least: a FIN counts as one. And less than this.
_LEAST: Final = 2
_MOST: Final = 1 << 30


class TcpChange(NamedTuple):
    """An end of a connection began to hold the other up, or no longer does; or it is captured ahead of the other."""

    connection: int
    direction: int  #: in which that end sends
    fault: str  #: ZERO_WINDOW, NO_ANSWER; AHEAD, which begins once, and does not end
    begins: bool
    ts_ns: int | None


class Half:
    """One direction of an open connection, and its other half."""

    __slots__ = ("ahead", "connection", "direction", "key", "other", "place", "scheduled", "stream", "syns")
    __deletable__ = ("other",)  # what a compiler has to know

    def __init__(self, key: bytes, connection: Connection, direction: int, stream: ByteStream) -> None:
        self.key = key
        self.connection = connection
        self.direction = direction
        self.place = 2 * connection.number + direction
        self.stream = stream
        self.other = self
        self.ahead = False  # it acknowledged what was not captured by then; said once, or again where it was restored
        self.scheduled = False  # whether a look at its deadline is due
        self.syns: tuple[int, ...] = ()  # the times of its SYNs, the first and the last

    def advertise(self, zero: bool, ack: int) -> bool:
        """Take the receive window of a segment, which also acknowledges: zero, or not. Return whether it changes."""
        acked = self.other.stream.last_ack
        if acked >= 0 and distance(acked, ack) < 0:
            return False  # it was captured behind a later one
        sender = self.stream.sender
        changes = zero != (sender.shut == 1)
        sender.shut = 1 if zero else 0
        return changes

    def is_ahead(self, ack: int) -> bool:
        """Return whether a segment is the first that acknowledges what of the other half was not captured by then."""
        expected = self.other.stream.ready
        if self.ahead or expected < 0 or not _LEAST <= distance(expected, ack) < _MOST:
            return False
        self.ahead = True
        return True

    @property
    def over(self) -> bool:
        """Whether both directions of the connection ended, or it was reset: only packets that come late can follow."""
        stream, other = self.stream, self.other.stream
        return (stream.ended and other.ended) or stream.reset_at is not None or other.reset_at is not None

    @property
    def is_captured(self) -> bool:
        """Whether segments of it are captured: of those that acknowledge, one was."""
        return self.stream.sender.shut >= 0

    def brings_nothing(self, segment: Segment) -> bool:
        """Return whether a segment has only bytes that came before: sent again, or to see whether an answer comes."""
        stream, size = self.stream, len(segment.payload) + segment.payload_missing
        if not stream.begun or segment.flags & (FIN | SYN | RST):
            return False
        end = stream.offset_of(segment.seq) + size
        return end <= stream.offset if size else end == stream.offset - 1
