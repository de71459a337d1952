"""Hold one connection as it is dissected: a session that both directions share, and a splitter for each."""

from typing import TYPE_CHECKING

from dcpdump.net.endpoints import Connection
from dcpdump.wire.collection_names import ConnectionNames
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter

if TYPE_CHECKING:
    from dcpdump.tls.unsealer import Unsealer


class Conversation:
    """One connection: a session shared by two splitters."""

    __slots__ = (
        "before",
        "connection",
        "counted",
        "ended",
        "ends",
        "framed",
        "names",
        "protocol",
        "session",
        "splitters",
        "suspect",
        "tls",
    )

    def __init__(self, connection: Connection, session: Session) -> None:
        self.connection = connection
        self.session = session
        self.names = ConnectionNames()  #: of its collections
        self.splitters: list[FrameSplitter | None] = [None, None]
        flows = connection.flow, connection.flow.reverse
        self.ends = tuple((str(flow.src), str(flow.dst)) for flow in flows)  #: source and destination, by direction
        self.protocol = ""  #: the other protocol that it seems to be
        self.ended = 0  #: a bit for each direction
        self.framed = [False, False]  #: whether a direction has had a frame
        self.before = [0, 0]  #: bytes skipped before the first
        self.tls: Unsealer | None = None  #: what opens it, where it is TLS
        self.suspect: Unsealer | None = None  #: the same, where it may be
        self.counted = (0, 0)  #: bytes of TLS, and of what stays encrypted, that are counted already

    @property
    def held(self) -> int:
        """Return about how many bytes of memory the session, open frames and what waits inside TLS take."""
        sealed = 0 if self.tls is None else self.tls.held
        return sealed + self.session.held + sum(splitter.held for splitter in self.splitters if splitter is not None)
