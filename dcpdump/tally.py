"""Count what became of the bytes that connections delivered. Decides nothing."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """The bytes that connections delivered, by what became of them."""

    frames: int = 0
    dcp_frames: int = 0
    frame_bytes: int = 0  #: captured bytes of frames
    joined_bytes: int = 0  #: the rest of a frame that began before the capture, or in what was left out of it
    skipped_bytes: int = 0  #: in no frame, after the first frame of their direction
    lost_bytes: int = 0  #: never captured, after the first frame of their connection
    tls_bytes: int = 0  #: of TLS around what was opened
    encrypted_bytes: int = 0  #: of TLS that was not opened
    foreign_bytes: int = 0  #: of other protocols
    mixed: list[tuple[str, str, tuple[str, str]]] = field(default_factory=list)
    #: connections that two captures have otherwise: its ends, and the captures
    foreign: Counter[tuple[str, int]] = field(default_factory=Counter)  #: (protocol, port) → connections
    unseen: Counter[tuple[int, bool]] = field(default_factory=Counter)
    #: of connections without any payload, what their sequence numbers show to have been sent: (port, to it) → bytes
