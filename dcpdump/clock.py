"""Format times for people: in a zone, as time of day or with the date, from the start, or since the frame before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone, tzinfo
from enum import Enum
from typing import Final

from dcpdump.errors import DcpdumpError
from dcpdump.startup import dataclass
from dcpdump.text import iso_time, nearest

# -- zones: the offset from UTC at an instant, and back from the time that a clock shows --------------

_SECOND = 1_000_000_000
_HINT = "--tz local, --tz utc, --tz +02:00, or --tz Europe/Berlin"


class ZoneError(DcpdumpError):
    """An unknown time zone."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone. ``rules``: None for this machine's."""

    rules: tzinfo | None

    def offset_ns(self, ts_ns: int) -> int:
        """Return the zone's offset from UTC (ns); 0 for a time beyond the calendar."""
        if self.rules is timezone.utc:
            return 0
        seconds = ts_ns // _SECOND
        try:
            if self.rules is None:
                return time.localtime(seconds).tm_gmtoff * _SECOND
            ahead = datetime.fromtimestamp(seconds, self.rules).utcoffset()
        except (OverflowError, ValueError, OSError):
            return 0
        return round(ahead.total_seconds()) * _SECOND if ahead is not None else 0

    def shown(self, ts_ns: int) -> int:
        """Return the zone's local time at ``ts_ns``, as if it were UTC."""
        return ts_ns + self.offset_ns(ts_ns)

    def instant(self, shown_ns: int) -> int:
        """Return the instant of a local time; if the clock shows it twice, one of the two."""
        return shown_ns - self.offset_ns(shown_ns - self.offset_ns(shown_ns))

    def suffix(self, ts_ns: int) -> str:
        """Return the zone's suffix in ISO 8601 at a time: ``Z``, ``+02:00``."""
        offset = self.offset_ns(ts_ns) // _SECOND
        hours, minutes = divmod(abs(offset) // 60, 60)
        return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}" if offset else "Z"

    def name(self, ts_ns: int) -> str:
        """Return what its clocks show at a time: ``UTC``, ``UTC+02:00``."""
        return f"UTC{self.suffix(ts_ns).replace('Z', '')}"


UTC: Final = Zone(timezone.utc)
LOCAL: Final = Zone(None)


def fixed_zone(text: str) -> Zone | None:
    """Return the zone of ``Z``, ``+02:00`` or ``+0200``; None for another text."""
    if text == "Z":
        return UTC
    try:
        return Zone(datetime.strptime(text, "%z").tzinfo)
    except ValueError:
        return None


def zone_of(text: str) -> Zone:
    """Return the zone that ``--tz`` names: local, utc, an offset, or ``Europe/Berlin``. Raises ZoneError."""
    known = {"utc": UTC, "local": LOCAL}.get(text.lower()) or fixed_zone(text)
    if known is not None:
        return known
    from zoneinfo import ZoneInfo, available_timezones

    names = {name.lower(): name for name in available_timezones()}
    if text.lower() in names:
        return Zone(ZoneInfo(names[text.lower()]))
    cities = sorted(name for name in names if name.endswith("/" + text.lower().replace(" ", "_")))
    near = cities or nearest(text.lower(), names, n=3)
    hint = f"did you mean {', '.join(names[name] for name in near[:3])}?" if near else _HINT
    raise ZoneError(f"--tz: {text!r} is not a time zone that this machine knows", hint=hint)


_DAY = 86_400 * _SECOND


# -- clocks -------------------------------------------------------------------------------------------


class TimeKind(Enum):
    """The reference of a frame's time."""

    ABSOLUTE = "a"
    RELATIVE = "r"
    DELTA = "d"


class Clock:
    """A formatter of times: absolute ones in a zone, from the start of the capture, or since the row above."""

    def __init__(self, kind: TimeKind = TimeKind.ABSOLUTE, zone: Zone = UTC) -> None:
        self.kind, self.zone = kind, zone
        self.dated = False  #: with the date, as the capture spans several days
        self._start: int | None = None
        self._before: int | None = None  # the time of the row before

    @property
    def plain(self) -> bool:
        """Return whether times are as in ndjson: absolute, in UTC."""
        return self.kind is TimeKind.ABSOLUTE and self.zone is UTC

    def begin(self, start_ns: int | None) -> None:
        """Set the time of the first packet, the reference of relative times."""
        if self._start is None and self.kind is not TimeKind.ABSOLUTE:
            self._start = start_ns

    def short(self, ts_ns: int) -> str:
        """Return a time to the millisecond: ``12:02:16.996``; ``2025-11-20T12:02:16.996`` if ``dated``.

        Zones other than UTC are named: ``13:02:16.996+01:00``.
        """
        text = self.full(ts_ns)
        if "T" not in text:
            return text
        suffix = self.zone.suffix(ts_ns)
        return (text[:23] if self.dated else text[11:23]) + ("" if suffix == "Z" else suffix)

    def full(self, ts_ns: int) -> str:
        """Return a time with its date, all its digits, and the zone; ``+1.250000`` from the start."""
        if self.kind is not TimeKind.ABSOLUTE:
            return _seconds(0 if self._start is None else ts_ns - self._start, "+")
        text = iso_time(self.zone.shown(ts_ns))
        return text[:-1] + self.zone.suffix(ts_ns) if text.endswith("Z") else text

    def row(self, ts_ns: int, *, short: bool = False) -> str:
        """Return the time of the next frame, or row of a list; ``0.000500`` since the one before. Call it in order."""
        if self.kind is not TimeKind.DELTA:
            return self.short(ts_ns) if short else self.full(ts_ns)
        before, self._before = self._before, ts_ns
        return _seconds(0 if before is None else ts_ns - before)


PLAIN_TIMES: Final = Clock()
_CLOCK: ContextVar[Clock] = ContextVar("clock", default=PLAIN_TIMES)


def clock_in_use() -> Clock:
    """Return the clock in use."""
    return _CLOCK.get()


@contextmanager
def writing_times(clock: Clock, first_ns: int | None, last_ns: int | None) -> Iterator[None]:
    """Use a clock in the block, with dates if the first and the last time are on different days."""
    days = {clock.zone.shown(ts_ns) // _DAY for ts_ns in (first_ns, last_ns) if ts_ns is not None}
    token, dated, clock.dated = _CLOCK.set(clock), clock.dated, len(days) > 1
    try:
        yield
    finally:
        clock.dated = dated
        _CLOCK.reset(token)


def _seconds(passed: int, ahead: str = "") -> str:
    seconds, ns = divmod(abs(passed), _SECOND)
    fraction = f"{ns:09d}" if ns % 1000 else f"{ns // 1000:06d}"
    return f"{'-' if passed < 0 else ahead}{seconds}.{fraction}"
