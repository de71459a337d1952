"""Hold one connection as it is dissected: a session that both directions share, and a splitter for each."""

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
    """Bytes that were sent and are not in the captures, as sequence numbers prove: what every command calls lost."""

    gaps: int = 0
    unknown: int = 0  #: gaps of which it is not known how many bytes they are
    by_reason: dict[str, int] = field(default_factory=dict)  #: bytes

    @property
    def bytes(self) -> int:
        """How many they are, without gaps of unknown length."""
        return sum(self.by_reason.values())

    def add(self, reason: str, length: int | None) -> None:
        """Count a gap."""
        self.gaps += 1
        self.unknown += length is None
        self.by_reason[reason] = self.by_reason.get(reason, 0) + (length or 0)

    @property
    def values(self) -> MissingValues:
        """Return it as plain values."""
        return self.gaps, self.unknown, dict(self.by_reason)

    def words(self, unit: str = "byte") -> str:
        """Return it in words, with the reasons; ``unit``: as ``measured`` has it."""
        reasons = ", ".join(sorted(self.by_reason))
        return f"{counted(self.gaps, 'gap')}, {measured(self.bytes, self.unknown, unit)} lost ({reasons})"

    def merge(self, other: "Missing") -> None:
        """Count what another has."""
        self.gaps += other.gaps
        self.unknown += other.unknown
        for reason, length in other.by_reason.items():
            self.by_reason[reason] = self.by_reason.get(reason, 0) + length


@dataclass(slots=True)
class Tally:
    """The bytes that connections delivered, by what became of them."""

    frames: int = 0
    dcp_frames: int = 0
    frame_bytes: int = 0  #: captured bytes of frames
    joined_bytes: int = 0  #: the rest of a frame that began before the capture, or in what was left out of it
    skipped_bytes: int = 0  #: in no frame, as no frame was found to begin there
    lost: Missing = field(default_factory=Missing)  #: of connections with frames
    lost_elsewhere: Missing = field(default_factory=Missing)  #: of connections without any
    carved_bytes: int = 0  #: left out on purpose, of files that hold chosen packets only
    tls_bytes: int = 0  #: of TLS around what was opened
    encrypted_bytes: int = 0  #: of TLS that was not opened
    foreign_bytes: int = 0  #: of other protocols
    mixed: list[tuple[str, str, tuple[str, str]]] = field(default_factory=list)
    #: connections that two captures have otherwise: its ends, and the captures
    foreign: Counter[tuple[str, int]] = field(default_factory=Counter)  #: (protocol, port) → connections
    unseen: Counter[tuple[int, bool]] = field(default_factory=Counter)
    #: of connections without any payload, what their sequence numbers show to have been sent: (port, to it) → bytes


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
