"""Zones of time: the offset from UTC at an instant, and back from the time that a clock there shows."""

import time
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final

from dcpdump.errors import DcpdumpError
from dcpdump.startup import dataclass, lazy_pattern
from dcpdump.text import nearest

_SECOND = 1_000_000_000
_OFFSET = lazy_pattern(r"([+-])([01]\d|2[0-3]):?([0-5]\d)")
_HINT = "--tz local, --tz utc, --tz +02:00, or --tz Europe/Berlin"


class ZoneError(DcpdumpError):
    """A zone that is not known."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone of time. ``rules``: None for those of this machine."""

    rules: tzinfo | None

    def offset_ns(self, ts_ns: int) -> int:
        """Return how far (ns) clocks there are ahead of UTC; 0 where the calendar has no such time."""
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
        """Return what a clock there shows at ``ts_ns``, as if it were UTC."""
        return ts_ns + self.offset_ns(ts_ns)

    def instant(self, shown_ns: int) -> int:
        """Return when a clock there shows that; while the clocks are changed, one of the two instants."""
        return shown_ns - self.offset_ns(shown_ns - self.offset_ns(shown_ns))

    def suffix(self, ts_ns: int) -> str:
        """Return what ISO 8601 writes behind a time there: ``Z``, ``+02:00``."""
        offset = self.offset_ns(ts_ns) // _SECOND
        hours, minutes = divmod(abs(offset) // 60, 60)
        return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}" if offset else "Z"


UTC: Final = Zone(timezone.utc)
LOCAL: Final = Zone(None)


def fixed_zone(text: str) -> Zone | None:
    """Return the zone of ``Z``, ``+02:00`` or ``+0200``; None for another text."""
    if text == "Z":
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return Zone(timezone(-ahead if found[1] == "-" else ahead))


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
