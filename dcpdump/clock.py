"""Write times for people: in a zone, as time of day or with the date, from the start, or since the frame before."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Final

from dcpdump.iso_time import iso_time
from dcpdump.quick_dataclass import dataclass
from dcpdump.zone import UTC, Zone

_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND


@dataclass(frozen=True, slots=True)
class Clock:
    """How times are written. ``dated``: with the date, since the capture lasts longer than a day."""

    zone: Zone = UTC
    dated: bool = False

    def short(self, ts_ns: int) -> str:
        """Return a time to the millisecond: ``12:02:16.996``; ``2025-11-20T12:02:16.996`` where days differ.

        Where it is not UTC it says so: ``13:02:16.996+01:00``.
        """
        text = iso_time(self.zone.shown(ts_ns))
        if "T" not in text:
            return text
        suffix = self.zone.suffix(ts_ns)
        return (text[:23] if self.dated else text[11:23]) + ("" if suffix == "Z" else suffix)

    def full(self, ts_ns: int) -> str:
        """Return a time with its date, all its digits, and the zone."""
        text = iso_time(self.zone.shown(ts_ns))
        return text[:-1] + self.zone.suffix(ts_ns) if text.endswith("Z") else text


_CLOCK: ContextVar[Clock] = ContextVar("clock", default=Clock())  # noqa: B039


def clock_in_use() -> Clock:
    """Return how times are written for people now."""
    return _CLOCK.get()


@contextmanager
def writing_times(zone: Zone, first_ns: int | None, last_ns: int | None) -> Iterator[None]:
    """Write times in a zone meanwhile, with dates where the first and the last of them are on different days."""
    days = {zone.shown(ts_ns) // _DAY for ts_ns in (first_ns, last_ns) if ts_ns is not None}
    token = _CLOCK.set(Clock(zone, len(days) > 1))
    try:
        yield
    finally:
        _CLOCK.reset(token)


class TimeKind(Enum):
    """What the time of a frame is counted from."""

    ABSOLUTE = "a"
    RELATIVE = "r"
    DELTA = "d"


class FrameTimes:
    """A writer of the times of frames. With ``DELTA`` it has to be asked once for each frame, in their order."""

    def __init__(self, kind: TimeKind = TimeKind.ABSOLUTE, zone: Zone = UTC) -> None:
        self.kind = kind
        self._clock = Clock(zone)
        self._before: int | None = None  # what is counted from

    @property
    def plain(self) -> bool:
        """Return whether times are those of ndjson: absolute, in UTC."""
        return self.kind is TimeKind.ABSOLUTE and self._clock.zone is UTC

    def begin(self, start_ns: int | None) -> None:
        """Take the time of the first packet, which relative times count from."""
        if self._before is None and self.kind is TimeKind.RELATIVE:
            self._before = start_ns

    def text(self, ts_ns: int) -> str:
        """Return the time of the next frame: ``+1.250000`` from the start, ``0.000500`` since the frame before."""
        if self.kind is TimeKind.ABSOLUTE:
            return self._clock.full(ts_ns)
        passed = 0 if self._before is None else ts_ns - self._before
        if self.kind is TimeKind.DELTA:
            self._before = ts_ns
        seconds, ns = divmod(abs(passed), _SECOND)
        fraction = f"{ns:09d}" if ns % 1000 else f"{ns // 1000:06d}"
        sign = "-" if passed < 0 else "+" if self.kind is TimeKind.RELATIVE else ""
        return f"{sign}{seconds}.{fraction}"


PLAIN_TIMES: Final = FrameTimes()
