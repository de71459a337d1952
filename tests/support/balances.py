"""Hold the counters of packets against each other."""

from dcpdump.net.reassembly import Counters


def accounted(counters: Counters) -> int:
    """Return the sum of all that payload bytes can become: as many as there are."""
    return (
        counters.delivered_bytes
        + counters.pending_bytes
        + counters.retransmitted_bytes
        + counters.duplicate_bytes
        + counters.keepalive_bytes
        + counters.late_bytes
        + counters.stray_bytes
    )
