"""Balance: what became of every packet and every payload byte. Counts only; decides nothing."""

from dataclasses import dataclass, field

#: Kinds of refusal kept apart; a hostile capture could name 65,536 ethertypes.
REASONS = 64
#: Distances of repeats that are kept apart.
_DISTANCES = 256


@dataclass(slots=True)
class Counters:
    """The counters. At any time what payload bytes can become adds up to ``payload_bytes``: none is lost silently."""

    packets: int = 0
    tcp_packets: int = 0
    connections: int = 0
    payload_bytes: int = 0  #: captured TCP payload
    delivered_bytes: int = 0  #: handed on, in order, once
    pending_bytes: int = 0  #: waiting behind a hole
    retransmitted_bytes: int = 0  #: bytes already had, sent again
    duplicate_bytes: int = 0  #: the same packet captured twice
    keepalive_bytes: int = 0  #: one garbage byte each, ignored
    late_bytes: int = 0  #: come after their place was given up, or from before a late-joined start
    stray_bytes: int = 0  #: far outside the stream, or carried by a reset
    conflicts: int = 0  #: overlaps that disagree
    evictions: int = 0  #: directions and connections that gave up memory
    closed: int = 0  #: connections of them: what may go on, and is joined late then
    not_understood: dict[str, int] = field(default_factory=dict)  #: packets without TCP that we can read, by reason

    repeats: dict[int, int] = field(default_factory=dict)
    #: segments that came again whole: after how many ms → bytes

    def repeat(self, distance_ms: int, length: int) -> None:
        """Count a segment that came again as it was."""
        if distance_ms in self.repeats or len(self.repeats) < _DISTANCES:
            self.repeats[distance_ms] = self.repeats.get(distance_ms, 0) + length

    @property
    def offset_ms(self) -> int | None:
        """Return by how much two clocks differ with which all was captured twice; None where that does not show.

        TCP sends some segments again, each after another time; two captures of a connection in one have all of them
        twice, and all at one distance: within 2 ms of it, as the path between them takes its time too.
        """
        if not self.repeats or self.retransmitted_bytes * 5 < self.payload_bytes * 2:
            return None
        near = {at: sum(self.repeats.get(at + more, 0) for more in range(-2, 3)) for at in self.repeats}
        most = max(near, key=lambda at: (near[at], self.repeats[at]))
        return most if near[most] * 10 >= self.retransmitted_bytes * 9 else None

    def refuse(self, reason: str) -> None:
        """Count a packet without TCP that can be read."""
        if reason not in self.not_understood and len(self.not_understood) >= REASONS:
            reason = "other reasons"
        self.not_understood[reason] = self.not_understood.get(reason, 0) + 1
