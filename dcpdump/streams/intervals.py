"""Intervals: the times in which something lasted, such as a producer that had to wait."""

from typing import NamedTuple

from dcpdump.startup import dataclass, field

#: So many are kept; of later ones only how many there were, and how long they lasted.
MOST = 10_000


class Interval(NamedTuple):
    """A time in which something lasted."""

    start_ns: int | None
    end_ns: int | None
    outstanding: int = 0  #: bytes that were not acknowledged, of flow control

    @property
    def lasting_ns(self) -> int:
        """How long it lasted; 0 where a time of it is not known."""
        return between(self.start_ns, self.end_ns) or 0


@dataclass(slots=True)
class Intervals:
    """Intervals in the order of time, the first many of them."""

    kept: list[Interval] = field(default_factory=list)
    further: int = 0  #: that are not kept
    further_ns: int = 0  #: how long those lasted

    def add(self, interval: Interval) -> None:
        """Add the next one, which is over."""
        if len(self.kept) < MOST:
            self.kept.append(interval)
        else:
            self.further += 1
            self.further_ns += interval.lasting_ns

    def __len__(self) -> int:
        return len(self.kept) + self.further

    @property
    def total_ns(self) -> int:
        """How long all of them lasted."""
        return self.further_ns + sum(each.lasting_ns for each in self.kept)

    @property
    def longest(self) -> Interval:
        """The longest of those that are kept. There has to be one."""
        return max(self.kept, key=lambda each: each.lasting_ns)

    def exceeded_by(self, lasted_ns: int | None, least_ns: int) -> bool:
        """Return whether something lasts for as long as ``least_ns``, and far longer than each of these did."""
        if lasted_ns is None or lasted_ns < least_ns:
            return False
        return not self.kept or lasted_ns > 2 * self.longest.lasting_ns


@dataclass(slots=True)
class Recurring:
    """Something that begins and ends, now and then."""

    lasts: bool = False
    since_ns: int | None = None  #: it does
    over: Intervals = field(default_factory=Intervals)  #: when it did

    def change(self, *, begins: bool, ts_ns: int | None) -> None:
        """Take it that it begins or ends; nothing, where it did before."""
        if self.lasts and not begins:
            self.over.add(Interval(self.since_ns, ts_ns))
        if begins != self.lasts:
            self.lasts, self.since_ns = begins, ts_ns if begins else None


def between(first: int | None, last: int | None) -> int | None:
    """Return the time from one time to another; None where one is unknown, or the clock went back between them."""
    return None if first is None or last is None or last < first else last - first
