"""Hold one connection as it is dissected: a session that both directions share, and a splitter for each."""

from typing import TYPE_CHECKING

from dcpdump.net.endpoints import Connection
from dcpdump.tally import Missing
from dcpdump.wire.collection_names import ConnectionNames
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter

if TYPE_CHECKING:
    from dcpdump.tls.unsealer import Unsealer


#: Captures that take turns do so with the third change at the latest; rotated files follow one another.
_TURNS = 3


class Conversation:
    """One connection: a session shared by two splitters."""

    __slots__ = (
        "before",
        "begun",
        "connection",
        "counted",
        "disagrees",
        "ended",
        "ends",
        "framed",
        "lost",
        "names",
        "protocol",
        "session",
        "sources",
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
        self.begun = [0, 0]  #: of these, those of a frame that began before the capture
        self.lost = (Missing(), Missing())  #: what each direction lost before any frame
        self.tls: Unsealer | None = None  #: what opens it, where it is TLS
        self.suspect: Unsealer | None = None  #: the same, where it may be
        self.sources: list[str] = []  #: the captures that its bytes came from in turn, up to the third change
        self.disagrees = False  #: bytes of it came twice, and were not the same
        self.counted = (0, 0)  #: bytes of TLS, and of what stays encrypted, that are counted already

    def note_source(self, file: str) -> None:
        """Note which capture its next bytes are from."""
        if len(self.sources) < _TURNS and (not self.sources or self.sources[-1] != file):
            self.sources.append(file)

    @property
    def mixed(self) -> tuple[str, str] | None:
        """Return two captures that take turns with bytes that disagree: they cannot both have seen one connection."""
        return (self.sources[0], self.sources[1]) if self.disagrees and len(self.sources) == _TURNS else None

    @property
    def held(self) -> int:
        """Return about how many bytes of memory the session, open frames and what waits inside TLS take."""
        sealed = 0 if self.tls is None else self.tls.held
        return sealed + self.session.held + sum(splitter.weight for splitter in self.splitters if splitter is not None)
