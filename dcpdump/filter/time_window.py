"""Points in time and the window between two: ``--since``, ``--until``."""

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from dcpdump.filter.error import FilterError
from dcpdump.record import Record


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: absolute, or so long after the start of the capture."""

    ns: int
    relative: bool = False


def parse_instant(option: str, text: str) -> Instant:
    """It reads ``2026-11-20T10:00:00Z`` or ``+30s`` (ms, s, m, h; from the capture's start)."""
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
            f"{option}: {text!r} is no time", hint=f"{option} 2026-11-20T10:00:00Z, or {option} +30s"
        ) from error
    fraction = (absolute[2] or "") if absolute else ""
    return Instant(round(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0") or 0))


class TimeWindow:
    """``--since`` and ``--until``: the packet that completed the frame; relative to the first packet's time."""

    def __init__(self, since: Instant | None, until: Instant | None) -> None:
        self._since, self._until = since, until
        self.start_ns: int | None = None  #: to be told, when the first packet is read

    def __call__(self, record: Record) -> bool:
        ts = record.frame.raw.where.ts_ns
        if ts is None:
            return False
        start = self.start_ns or 0
        if self._since is not None and ts < self._since.ns + start * self._since.relative:
            return False
        return self._until is None or ts <= self._until.ns + start * self._until.relative
