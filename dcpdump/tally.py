"""Count what became of the bytes that connections delivered. Decides nothing."""

from collections import Counter
from dataclasses import dataclass, field

from dcpdump.plural import counted, measured

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
