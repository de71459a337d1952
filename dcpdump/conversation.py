"""Hold one connection during dissection: a session that both directions share, and a splitter for each."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dcpdump.net.endpoints import Connection
from dcpdump.text import counted, measured
from dcpdump.wire.collection_names import ConnectionNames
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter

if TYPE_CHECKING:
    from dcpdump.tls.unsealer import Unsealer


# -- what became of the bytes that connections delivered: counted, to decide nothing ------------------

#: Gaps, those of unknown length, bytes by reason.
MissingValues = tuple[int, int, dict[str, int]]


@dataclass(slots=True)
class Missing:
    """Bytes that were sent but not captured, as sequence numbers prove: every command calls these lost."""

    gaps: int = 0
    unknown: int = 0  #: gaps of unknown length
    by_reason: dict[str, int] = field(default_factory=dict)  #: bytes

    @property
    def bytes(self) -> int:
        """Return their sum, without gaps of unknown length."""
        return sum(self.by_reason.values())

    def add(self, reason: str, length: int | None) -> None:
        """Count a gap."""
        self.gaps += 1
        self.unknown += length is None
        self.by_reason[reason] = self.by_reason.get(reason, 0) + (length or 0)

    @property
    def values(self) -> MissingValues:
        """Return the counts as plain values."""
        return self.gaps, self.unknown, dict(self.by_reason)

    def words(self, unit: str = "byte") -> str:
        """Return the counts in words, with the reasons; ``unit``: as in ``measured``."""
        reasons = ", ".join(sorted(self.by_reason))
        return f"{counted(self.gaps, 'gap')}, {measured(self.bytes, self.unknown, unit)} lost ({reasons})"

    def merge(self, other: "Missing") -> None:
        """Add the counts of another."""
        self.gaps += other.gaps
        self.unknown += other.unknown
        for reason, length in other.by_reason.items():
            self.by_reason[reason] = self.by_reason.get(reason, 0) + length


@dataclass(slots=True)
class Tally:
    """The payload bytes of connections, counted by their fate."""

    frames: int = 0
    dcp_frames: int = 0
    frame_bytes: int = 0  #: captured bytes of frames
    joined_bytes: int = 0  #: the rest of a frame that began before the capture, or in bytes left out of it
    skipped_bytes: int = 0  #: in no frame: no frame boundary was found
    lost: Missing = field(default_factory=Missing)  #: of connections with frames
    lost_elsewhere: Missing = field(default_factory=Missing)  #: of connections without any
    carved_bytes: int = 0  #: left out on purpose, of files that hold chosen packets only
    tls_bytes: int = 0  #: of TLS around what was opened
    encrypted_bytes: int = 0  #: of TLS that was not opened
    foreign_bytes: int = 0  #: of other protocols
    mixed: list[tuple[str, str, tuple[str, str]]] = field(default_factory=list)
    #: connections that two captures contradict: the endpoints, and the captures
    foreign: Counter[tuple[str, int]] = field(default_factory=Counter)  #: (protocol, port) → connections
    unseen: Counter[tuple[int, bool]] = field(default_factory=Counter)
    #: bytes that were sent, by sequence numbers, on connections without captured payload: (port, towards it) → bytes


#: Changes between captures from which on they count as alternating; rotated files follow one another.
_TURNS = 3


class Conversation:
    """One connection: a session shared by two splitters."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self.connection = connection
        self.session = session
        self.names = ConnectionNames()  #: of its collections
        self.splitters: list[FrameSplitter | None] = [None, None]
        flows = connection.flow, connection.flow.reverse
        self.ends = tuple((str(flow.src), str(flow.dst)) for flow in flows)  #: source and destination of each direction
        self.protocol = ""  #: the other protocol that it seems to carry
        self.ended = 0  #: a bit for each direction
        self.framed = [False, False]  #: by direction: it has had a frame
        self.before = [0, 0]  #: bytes skipped before the first
        self.begun = [0, 0]  #: how many of these are of a frame that began before the capture
        self.lost = (Missing(), Missing())  #: bytes lost in each direction before any frame
        self.tls: Unsealer | None = None  #: the Unsealer, if it is TLS
        self.suspect: Unsealer | None = None  #: the same, if it may be TLS
        self.sources: list[str] = []  #: the captures of its bytes in turn, up to the third change
        self.disagrees = False  #: some bytes came twice with different content
        self.counted = (0, 0)  #: bytes around TLS, and encrypted bytes, that are in the tally already

    def note_source(self, file: str) -> None:
        """Note the capture of its next bytes."""
        if len(self.sources) < _TURNS and (not self.sources or self.sources[-1] != file):
            self.sources.append(file)

    @property
    def mixed(self) -> tuple[str, str] | None:
        """Return two captures that alternate and disagree in bytes, so that they cannot be of one connection."""
        return (self.sources[0], self.sources[1]) if self.disagrees and len(self.sources) == _TURNS else None

    @property
    def held(self) -> int:
        """Return about how many bytes of memory session, open frames and waiting TLS take."""
        sealed = 0 if self.tls is None else self.tls.held
        return sealed + self.session.held + sum(splitter.weight for splitter in self.splitters if splitter is not None)
