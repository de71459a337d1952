"""The axis of time that all pictures share, and how times and amounts are written on them."""

from typing import NamedTuple

from dcpdump.clock import clock_in_use
from dcpdump.text import iso_time

_SECOND = 1_000_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
_STEPS = (
    *(10**power * factor for power in range(3, 9) for factor in (1, 2, 5)),
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 5, 10, 30, 100, 365)),
)
_MOST = 8  #: ticks, at most
_LETTER = 0.011  #: of the width that a letter of a label takes


class Tick(NamedTuple):
    """A time that is written at the axis, and where it is, from 0 to 1."""

    place: float
    label: str


class TimeAxis(NamedTuple):
    """The time that is pictured: the beginning, and the end of the last step."""

    first_ns: int
    last_ns: int

    @property
    def length(self) -> int:
        """How long it is; never 0."""
        return max(1, self.last_ns - self.first_ns)

    def place(self, ts_ns: int) -> float:
        """Return where a time is, from 0 to 1."""
        return min(1.0, max(0.0, (ts_ns - self.first_ns) / self.length))

    def ticks(self) -> list[Tick]:
        """Return the beginning, some round times, and the end."""
        step = next((each for each in _STEPS if self.length / each <= _MOST), _STEPS[-1] * 10)
        ahead = clock_in_use().zone.offset_ns(self.first_ns)  # midnight is a round time, wherever that is
        first = -(-(self.first_ns + ahead) // step) * step - ahead
        round_ones = [Tick(self.place(ts), self.label(ts, step)) for ts in range(first, self.last_ns, step)]
        ends = [Tick(0.0, self.label(self.first_ns, step)), Tick(1.0, self.label(self.last_ns, step))]
        apart = _LETTER * 1.5 * len(ends[0].label)
        return [ends[0], *(each for each in round_ones if apart < each.place < 1 - apart), ends[1]]

    def label(self, ts_ns: int, step: int = _SECOND) -> str:
        """Return a time as it is written at the axis: with the date above a day, with fractions of short ones."""
        iso = _shown(ts_ns)
        if "T" not in iso:
            return iso
        if self.length > _DAY:
            return f"{iso[5:10]} {iso[11:16]}"
        if self.length >= 10 * _SECOND:
            return iso[11:19]
        return iso[11:23] if step >= 1_000_000 else iso[11:26]

    def offsets(self) -> list[tuple[int, int]]:
        """Return how far (ns) clocks are ahead of UTC, and since when: the first, and each change."""
        zone, at = clock_in_use().zone, self.first_ns
        found = [(at, zone.offset_ns(at))]
        while at < self.last_ns:
            low, at = at, min(self.last_ns, at + 30 * _DAY)
            ahead, high = zone.offset_ns(at), at
            if ahead != found[-1][1]:
                while high - low > 1_000_000:
                    middle = (low + high) // 2
                    low, high = (low, middle) if zone.offset_ns(middle) == ahead else (middle, high)
                found.append((high, ahead))
        return found


def zone_name(ts_ns: int) -> str:
    """Return what the clocks show then: ``UTC``, ``UTC+02:00``."""
    return f"UTC{clock_in_use().zone.suffix(ts_ns).replace('Z', '')}"


def day(ts_ns: int) -> str:
    """Return the date of a time."""
    return _shown(ts_ns)[:10]


def _shown(ts_ns: int) -> str:
    return iso_time(clock_in_use().zone.shown(ts_ns))


def size(amount: float) -> str:
    """Return a number of bytes, as people write it."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if amount >= unit:
            return f"{amount / unit:.1f} {name}"
    return f"{amount:,.0f} B"
