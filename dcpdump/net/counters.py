"""Balance: what became of every packet and every payload byte. Counts only; decides nothing."""

from dataclasses import dataclass, field

#: Kinds of refusal kept apart; a hostile capture could name 65,536 ethertypes.
REASONS = 64


@dataclass(slots=True)
class Counters:
    """The counters. At any time ``payload_bytes == accounted_bytes``: no captured byte is lost silently."""

    packets: int = 0
    tcp_packets: int = 0
    connections: int = 0
    payload_bytes: int = 0  #: captured TCP payload
    delivered_bytes: int = 0  #: handed on, in order, once
    pending_bytes: int = 0  #: waiting behind a hole
    retransmitted_packets: int = 0
    retransmitted_bytes: int = 0  #: bytes already had, sent again
    duplicate_packets: int = 0
    duplicate_bytes: int = 0  #: the same packet captured twice
    keepalive_bytes: int = 0  #: one garbage byte each, ignored
    late_bytes: int = 0  #: come after their place was given up, or from before a late-joined start
    stray_bytes: int = 0  #: far outside the stream, or carried by a reset
    hole_bytes: dict[str, int] = field(default_factory=dict)  #: never captured, by reason
    gaps: int = 0
    conflicts: int = 0  #: overlaps that disagree
    resets: int = 0
    overflows: int = 0  #: holes given up because too much waited behind them
    evictions: int = 0  #: directions and connections that gave up memory
    closed: int = 0  #: connections of them: what may go on, and is joined late then
    fragments: int = 0  #: IP fragments
    fragments_dropped: int = 0  #: IP fragments whose datagram was never completed
    not_understood: dict[str, int] = field(default_factory=dict)  #: packets without TCP that we can read, by reason

    @property
    def accounted_bytes(self) -> int:
        """The sum of all that payload bytes can become."""
        return (
            self.delivered_bytes
            + self.pending_bytes
            + self.retransmitted_bytes
            + self.duplicate_bytes
            + self.keepalive_bytes
            + self.late_bytes
            + self.stray_bytes
        )

    def refuse(self, reason: str) -> None:
        """Count a packet without TCP that can be read."""
        if reason not in self.not_understood and len(self.not_understood) >= REASONS:
            reason = "other reasons"
        self.not_understood[reason] = self.not_understood.get(reason, 0) + 1

    def hole(self, reason: str, length: int | None) -> None:
        """Count a gap; one of unknown length has no bytes to count."""
        self.gaps += 1
        self.hole_bytes[reason] = self.hole_bytes.get(reason, 0) + (length or 0)
