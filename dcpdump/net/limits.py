"""Limits: every bound of this package, with its reason. What happens at each is documented where it is used."""

from dataclasses import replace

from dcpdump.startup import dataclass

KIB = 1 << 10
MIB = 1 << 20
#: What all that is known of a connection takes, in the command that keeps most of it.
CONNECTION = 16 * KIB
#: The part of it that remains while packets may still be of a connection.
LIVING = 8 * KIB
#: What a stream may take, and its row where tables are written.
STREAM = 8 * KIB
#: Connections, and streams, that are always remembered.
LEAST = 1_024
SECOND = 1_000_000_000
MILLISECOND = 1_000_000


#: A file holds chosen packets only: as they were sent, so that none is waited for that has been acknowledged; or not.
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
    #: Those of them that have ended or were reset, which are kept for packets that come late.
    over: int = LEAST
    #: What is known of connections and streams; beyond it those that are over are forgotten, longest silent first.
    state: int = 128 * MIB
    #: Out-of-order and remembered bytes of all connections; beyond it the least recently used is evicted.
    memory: int = 256 * MIB

    #: Out-of-order bytes of one direction: a generous TCP window.
    pending_bytes: int = 8 * MIB
    #: The same in segments, because one tiny segment costs far more than its bytes.
    pending_segments: int = 262_144

    #: A hole that the receiver has acknowledged was lost by the capture, not by TCP. A packet that the
    #: capture only wrote late still gets this many bytes, or this much capture time, to turn up.
    patience_bytes: int = 256 * KIB
    patience_ns: int = 2 * SECOND

    #: Packets were left out on purpose: what is missing is no loss.
    carved: bool = False

    #: A jump further than this needs a second segment near it: one forged segment must not end a stream.
    jump: int = 64 * MIB
    #: How close to the first the second segment must be: a window.
    near: int = 1 * MIB

    #: Delivered bytes of one direction kept to compare retransmissions with.
    history: int = 256 * KIB

    #: The same segment within this time was captured twice (``-i any``, a mirror port); TCP waits longer.
    duplicate_ns: int = 50 * MILLISECOND

    #: How long the first bytes of a direction whose SYN was not seen wait for an earlier, swapped segment.
    late_segments: int = 8
    late_ns: int = 200 * MILLISECOND

    def of_carved(self, carved: int) -> "Limits":
        """Return those of a connection; ``carved``: as Connection has it."""
        if not carved:
            return self
        return replace(self, carved=True, patience_bytes=self.patience_bytes if carved == OUT_OF_ORDER else 0)

    @classmethod
    def within(cls, memory: int) -> "Limits":
        """Return the default limits for another number of bytes of memory."""
        state = memory // 2  # the other half is for segments that wait, and what is read and written takes
        return cls(
            memory=memory,
            connections=max(LEAST, state // CONNECTION),
            state=max(LEAST * (CONNECTION + STREAM), state),
        )


DEFAULT = Limits()
