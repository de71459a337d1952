"""Parse points in time, and hold the window between two: ``--since``, ``--until``."""

import re
from datetime import datetime

from dcpdump.clock import UTC, Zone, fixed_zone
from dcpdump.errors import FilterError
from dcpdump.record import Record
from dcpdump.startup import dataclass

_SECOND = 10**9
_DAY = 24 * 3600 * _SECOND
_FRACTION = r"(?:[.,](\d{1,9}))?"
_ZONE = r"(Z|[+-]\d\d:?\d\d)?"


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: absolute, relative to the start of the capture, or a time of day."""

    ns: int
    relative: bool = False
    of_day: bool = False
    step_ns: int = 1  #: the unit of its last digit, in ns
    zone: Zone = UTC  #: of a time of day

    def at(self, start_ns: int | None) -> int:
        """Return it in ns since 1970, UTC, where the capture begins at ``start_ns``."""
        start = start_ns or 0
        if self.of_day:  # the day nearest to the start
            shown = self.zone.shown(start)
            return self.zone.instant(shown + (self.ns - shown + _DAY // 2) % _DAY - _DAY // 2)
        return self.ns + start * self.relative

    def end(self, start_ns: int | None) -> int:
        """Return the last ns that the text may stand for: tables cut times after the millisecond."""
        return self.at(start_ns) + self.step_ns - 1


def parse_instant(option: str, text: str, zone: Zone = UTC) -> Instant:
    """Parse ``2026-11-20T10:00:00Z``, ``+30s`` (ms, s, m, h; from the capture's start) or ``10:00:00.250``.

    A time of day is on the day nearest to the capture's start. ``zone`` applies to times without ``Z`` or ``+02:00``.
    Raises FilterError.
    """
    found = _of_day(text, zone) or _relative(text) or _absolute(text, zone)
    if found is None:
        raise FilterError(
            f"{option}: {text!r} is not a time",
            hint=f"{option} 2026-11-20T10:00:00Z, {option} 10:00:00.250 as tables print it, or {option} +30s",
        )
    return found


def parse_window(since: str | None, until: str | None, zone: Zone = UTC) -> tuple[Instant | None, Instant | None]:
    """Parse ``--since`` and ``--until``. Raises FilterError, also if no time is between them."""
    first = None if since is None else parse_instant("--since", since, zone)
    last = None if until is None else parse_instant("--until", until, zone)
    if first is None or last is None or first.of_day or last.of_day or first.relative is not last.relative:
        return first, last
    if first.at(0) > last.end(0):
        raise FilterError(f"--since {since} is later than --until {until}: nothing is between them")
    return first, last


def _of_day(text: str, zone: Zone) -> Instant | None:
    found = re.fullmatch(rf"(\d\d):(\d\d)(?::(\d\d){_FRACTION})?{_ZONE}", text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59 or int(found[3] or 0) > 59:
        return None
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)
    step = 10 ** (9 - len(found[4] or ""))
    named = fixed_zone(found[5]) if found[5] else zone
    ns = seconds * _SECOND + int(found[4] or 0) * step
    return None if named is None else Instant(ns, of_day=True, step_ns=step, zone=named)


def _relative(text: str) -> Instant | None:
    found = re.fullmatch(r"\+(\d{1,18}(?:\.\d{1,18})?)(ms|s|m|h)?", text)
    if found is None:
        return None
    unit = {"ms": 10**6, "s": _SECOND, None: _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND}[found[2]]
    whole, _, part = found[1].partition(".")
    return Instant(int(whole) * unit + (int(part) * unit // 10 ** len(part) if part else 0), True)


def _absolute(text: str, zone: Zone) -> Instant | None:
    """Parse a date, with or without a time. A time cut after the millisecond stands for all of that millisecond."""
    found = re.fullmatch(rf"(\d{{4}}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d){_FRACTION})?{_ZONE})?", text)
    if found is None:
        return None
    named = fixed_zone(found[5]) if found[5] else zone
    try:
        shown = datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00'}:{found[3] or '00'}+00:00")
    except ValueError:
        return None
    if named is None:
        return None
    fraction = found[4] or ""
    step = 10 ** (9 - len(fraction)) if fraction else 1
    return Instant(named.instant(round(shown.timestamp()) * _SECOND) + int(fraction or 0) * step, step_ns=step)


class TimeWindow:
    """A clause for ``--since`` and ``--until``: the time of the packet that completed the frame."""

    def __init__(self, since: Instant | None, until: Instant | None) -> None:
        self.since, self.until = since, until
        self.start_ns: int | None = None  #: set when the first packet is read

    def __call__(self, record: Record) -> bool:
        ts = record.frame.raw.where.ts_ns
        if ts is None:
            return False
        if self.since is not None and ts < self.since.at(self.start_ns):
            return False
        return self.until is None or ts <= self.until.end(self.start_ns)
