"""Describe a direction of a connection: who sends to whom, and which of its bytes were lost."""

from typing import NamedTuple

from dcpdump.conversation import Conversation
from dcpdump.net.event import Gap
from dcpdump.record import Record
from dcpdump.redact import Redactor
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.startup import dataclass
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.value import Meaning

#: A frame without content, for records of which only the origin or the key matters.
BLANK = decode(RawFrame.of(b"\x80" + bytes(HEADER_LENGTH - 1)))


@dataclass(frozen=True, slots=True)
class Ends:
    """A direction of a connection: who sends to whom."""

    connection: int
    direction: int
    src: str
    dst: str
    syn: bool = False  #: the opening was captured: direction 0 is the client's
    carved: bool = False  #: the file holds chosen packets only

    @property
    def place(self) -> int:
        """Return the number of the direction among all: twice the connection's number, plus 0 or 1."""
        return 2 * self.connection + self.direction

    def redacted(self, redactor: Redactor | None) -> "Ends":
        """Return the direction with its addresses redacted."""
        if redactor is None:
            return self
        shown = redactor.record(Record(0, BLANK, Meaning(), None, None, self.connection, 0, self.src, self.dst))
        return Ends(self.connection, self.direction, shown.src, shown.dst, self.syn, self.carved)


def ends_of(conversation: Conversation, direction: int) -> Ends:
    """Return a direction of a conversation."""
    src, dst = conversation.ends[direction]
    connection = conversation.connection
    return Ends(connection.number, direction, src, dst, connection.syn, connection.carved > 0)


class Lost(NamedTuple):
    """Bytes of a direction that are in no frame: never captured, or skipped."""

    ends: Ends
    gap: Gap  #: in the offsets of frames; of TLS its length is that of the missing text
    sent: tuple[Gap, ...] = ()  #: the bytes never captured, in the offsets of TCP
    skipped: int = 0
