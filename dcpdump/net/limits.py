"""Limits: every bound of this package, with its reason. What happens at each is documented where it is used."""

from dataclasses import replace

from dcpdump.startup import dataclass

KIB = 1 << 10
MIB = 1 << 20
#: Bytes of memory for a connection, in the command that keeps most about it.
CONNECTION = 16 * KIB
#: The part of these that is kept while late packets of a connection may come.
LIVING = 8 * KIB
#: Bytes of memory for a stream, its row in written tables included.
STREAM = 8 * KIB
#: Connections, and streams, that are always remembered.
LEAST = 1_024
SECOND = 1_000_000_000
MILLISECOND = 1_000_000


#: The file holds chosen packets only; in the order sent, so that acknowledged bytes are not waited for, or not.
IN_ORDER, OUT_OF_ORDER = 1, 2


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that keep memory and time in proportion to what is useful, for any capture."""

    #: IP inside IP inside …: real overlays use 2 or 3; a forged nest must not be free.
    encapsulations: int = 8

    #: Fragments waiting for the rest of their datagram, as intrusion detectors bound them.
    fragment_bytes: int = 32 * MIB
    fragments: int = 65_535
    fragment_ns: int = 60 * SECOND

    #: Connections remembered; beyond it the least recently used is closed. They may fill what there is for state.
    connections: int = 128 * MIB // CONNECTION
    #: Connections that ended or were reset, and are kept for late packets.
    over: int = LEAST
    #: Bytes of memory for connections and streams; beyond it ended ones are forgotten, the longest silent first.
    state: int = 128 * MIB
    #: Out-of-order and remembered bytes of all connections; beyond it the least recently used is evicted.
    memory: int = 256 * MIB

    #: Out-of-order bytes of one direction: a generous TCP window.
    pending_bytes: int = 8 * MIB
    #: The same in segments, because one tiny segment costs far more than its bytes.
    pending_segments: int = 262_144

    #: A hole that the receiver has acknowledged was lost by the capture, not by TCP. Its packet may only have been
    #: written late: it is waited for during so many bytes, or so much capture time.
    patience_bytes: int = 256 * KIB
    patience_ns: int = 2 * SECOND

    #: Packets were left out on purpose: missing bytes are no loss.
    carved: bool = False

    #: A longer jump in sequence numbers needs a second segment near it: one forged segment must not end a stream.
    jump: int = 64 * MIB
    #: How near the second segment must be to the first: a TCP window.
    near: int = 1 * MIB

    #: Delivered bytes of one direction kept to compare retransmissions with.
    history: int = 256 * KIB

    #: The same segment within this time was captured twice (``-i any``, a mirror port); TCP waits longer.
    duplicate_ns: int = 50 * MILLISECOND

    #: How long the first bytes of a direction without a SYN wait for an earlier segment that arrives late.
    late_segments: int = 8
    late_ns: int = 200 * MILLISECOND

    def of_carved(self, carved: int) -> "Limits":
        """Return the limits for a connection; ``carved``: as in Connection."""
        if not carved:
            return self
        return replace(self, carved=True, patience_bytes=self.patience_bytes if carved == OUT_OF_ORDER else 0)

    @classmethod
    def within(cls, memory: int) -> "Limits":
        """Return the default limits for another number of bytes of memory."""
        state = memory // 2  # the other half is for waiting segments, and for reading and writing
        return cls(
            memory=memory,
            connections=max(LEAST, state // CONNECTION),
            state=max(LEAST * (CONNECTION + STREAM), state),
        )


DEFAULT = Limits()
