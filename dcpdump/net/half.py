"""Half: one direction of an open connection."""

from typing import NamedTuple

from dcpdump.net.bytestream import ByteStream
from dcpdump.net.endpoints import Connection
from dcpdump.net.seqnum import distance


class WindowChange(NamedTuple):
    """The sender of a direction takes no more bytes, since its TCP receive window is zero; or it takes some again."""

    connection: int
    direction: int
    zero: bool
    ts_ns: int | None


class Half:
    """One direction of an open connection, and its other half."""

    __slots__ = ("connection", "direction", "key", "other", "place", "scheduled", "stream", "syns")
    __deletable__ = ("other",)  # what a compiler has to know

    def __init__(self, key: bytes, connection: Connection, direction: int, stream: ByteStream) -> None:
        self.key = key
        self.connection = connection
        self.direction = direction
        self.place = 2 * connection.number + direction
        self.stream = stream
        self.other = self
        self.scheduled = False  # whether a look at its deadline is due
        self.syns: tuple[int, ...] = ()  # the times of its SYNs, the first and the last

    def advertise(self, zero: bool, ack: int) -> bool:
        """Take the receive window of a segment, which also acknowledges: zero, or not. Return whether it changes."""
        acked = self.other.stream.last_ack
        if acked >= 0 and distance(acked, ack) < 0:
            return False  # it was captured behind a later one
        changes = zero != (self.stream.shut == 1)
        self.stream.shut = 1 if zero else 0
        return changes
