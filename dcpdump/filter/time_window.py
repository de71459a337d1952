"""Parse points in time, and hold the window between two: ``--since``, ``--until``."""

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from dcpdump.filter.error import FilterError
from dcpdump.record import Record

_SECOND = 10**9
_DAY = 24 * 3600 * _SECOND


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: absolute, so long after the start of the capture, or a time of day."""

    ns: int
    relative: bool = False
    of_day: bool = False
    step_ns: int = 1  #: of a time of day: what its last digit stands for

    def at(self, start_ns: int | None) -> int:
        """Return it in ns since 1970, UTC, where the capture begins at ``start_ns``."""
        start = start_ns or 0
        if self.of_day:  # the one that is nearest to the start
            return start + (self.ns - start + _DAY // 2) % _DAY - _DAY // 2
        return self.ns + start * self.relative

    def end(self, start_ns: int | None) -> int:
        """Return the last ns that is written so: tables cut times after the millisecond."""
        return self.at(start_ns) + self.step_ns - 1


def parse_instant(option: str, text: str) -> Instant:
    """Parse ``2026-11-20T10:00:00Z``, ``+30s`` (ms, s, m, h; from the capture's start) or ``10:00:00.250``.

    A time of day, as tables print it, is UTC and on the day nearest to the capture's start. Raises FilterError.
    """
    of_day = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?Z?", text)
    if of_day and int(of_day[1]) < 24 and int(of_day[2]) < 60 and int(of_day[3] or 0) < 60:
        seconds = int(of_day[1]) * 3600 + int(of_day[2]) * 60 + int(of_day[3] or 0)
        step = 10 ** (9 - len(of_day[4] or ""))
        return Instant(seconds * _SECOND + int(of_day[4] or 0) * step, of_day=True, step_ns=step)
    relative = re.fullmatch(r"\+(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    if relative:
        unit = {"ms": 10**6, "s": 10**9, None: 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}[relative[2]]
        whole, _, part = relative[1].partition(".")
        return Instant(int(whole) * unit + (int(part) * unit // 10 ** len(part) if part else 0), True)
    absolute = re.fullmatch(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", text)
    try:
        if absolute:
            zone = (absolute[3] or "Z").replace("Z", "+00:00")
            zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
            moment = datetime.fromisoformat(absolute[1] + zone)
        else:
            moment = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise FilterError(
            f"{option}: {text!r} is not a time",
            hint=f"{option} 2026-11-20T10:00:00Z, {option} 10:00:00.250 as tables print it, or {option} +30s",
        ) from error
    fraction = (absolute[2] or "") if absolute else ""
    return Instant(round(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0") or 0))


class TimeWindow:
    """A clause for ``--since`` and ``--until``: the time of the packet that completed the frame."""

    def __init__(self, since: Instant | None, until: Instant | None) -> None:
        self._since, self._until = since, until
        self.start_ns: int | None = None  #: to be set when the first packet is read

    def __call__(self, record: Record) -> bool:
        ts = record.frame.raw.where.ts_ns
        if ts is None:
            return False
        if self._since is not None and ts < self._since.at(self.start_ns):
            return False
        return self._until is None or ts <= self._until.end(self.start_ns)
