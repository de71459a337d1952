"""ReceiveWindow: the TCP receive window that one end of a connection advertises, and when it was zero."""

from dataclasses import dataclass, field

from dcpdump.streams.intervals import Interval, Intervals


@dataclass(slots=True)
class ReceiveWindow:
    """A receive window. While it is zero, the other end cannot send: this one does not read what came."""

    is_zero: bool = False
    since_ns: int | None = None  #: it is zero
    zero: Intervals = field(default_factory=Intervals)  #: when it was, and is no more

    def advertise(self, *, zero: bool, ts_ns: int | None) -> None:
        """Take what the end advertises from a time on."""
        if self.is_zero and not zero:
            self.zero.add(Interval(self.since_ns, ts_ns))
        if zero != self.is_zero:
            self.is_zero, self.since_ns = zero, ts_ns if zero else None
