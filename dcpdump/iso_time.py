"""Write a time as ISO 8601 in UTC."""

from datetime import datetime, timedelta
from functools import lru_cache

_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1)


def iso_time(ts_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, with microseconds, or with nanoseconds where these are not zero."""
    seconds, ns = divmod(ts_ns, _NS)
    moment = _iso_second(seconds)
    if not moment:
        return f"{ts_ns} ns after 1970"
    return f"{moment}.{ns:09d}Z" if ns % 1000 else f"{moment}.{ns // 1000:06d}Z"


@lru_cache(maxsize=64)
def _iso_second(seconds: int) -> str:
    """Return a time without its fraction; cached, since successive frames often share a second."""
    try:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:  # a capture can claim any year; the calendar ends with 9999
        return ""
