"""Parse lists and ranges of numbers: ``7``, ``0-63,512``, ``100-``, ``!3``."""

from dcpdump.errors import FilterError
from dcpdump.quick_dataclass import dataclass

U64 = (1 << 64) - 1
#: A character that no argument can hold: it separates the values of an option that was given several times.
BETWEEN = "\0"


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of whole numbers as inclusive ranges, or all but those."""

    spans: tuple[tuple[int, int], ...]
    excluded: tuple[tuple[int, int], ...] = ()

    def __contains__(self, number: int) -> bool:
        if any(low <= number <= high for low, high in self.excluded):
            return False
        return not self.spans or any(low <= number <= high for low, high in self.spans)

    @property
    def last(self) -> int | None:
        """Return the largest number of the set; None where it has no end."""
        last = max((high for _, high in self.spans), default=U64)
        return None if last == U64 else last

    def table(self, size: int) -> bytes:
        """Return a byte for each number below ``size``: 1 where it is in the set."""
        found = bytearray(size if self.spans else b"\1" * size)
        for spans, mark in ((self.spans, b"\1"), (self.excluded, b"\0")):
            for low, high in spans:
                stop = min(high + 1, size)
                found[low:stop] = mark * max(0, stop - low)
        return bytes(found)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether any number of start … end is in the set."""
        if any(low <= start and end <= high for low, high in self.excluded):
            return False
        return not self.spans or any(low <= end and start <= high for low, high in self.spans)


def parse_ranges(option: str, text: str, top: int = U64) -> Ranges:
    """Parse ``7``, ``0-63,512``, ``100-``, ``-50``, ``!3``: inclusive, decimal or 0x. Raise FilterError."""
    wanted: list[tuple[int, int]] = []
    excluded: list[tuple[int, int]] = []
    for word, negated in words(option, text):
        low_text, dash, high_text = word.partition("-")
        low = _number(option, low_text or ("0" if dash else ""), word)
        high = _number(option, high_text, word) if high_text else (top if dash else low)
        if max(low, high) > top:
            raise FilterError(f"{option}: {max(low, high)} is more than the largest, {top}")
        if low > high:
            raise FilterError(f"{option}: the range {word!r} runs backwards", hint=f"{option} {high}-{low}")
        (excluded if negated else wanted).append((low, high))
    return Ranges(tuple(wanted), tuple(excluded))


def words(option: str, text: str) -> list[tuple[str, bool]]:
    """Split comma-separated lists into (word, excluded). A ``!`` before the first word excludes all of its list."""
    found: list[tuple[str, bool]] = []
    for each in text.split(BETWEEN):
        all_negated = each.startswith("!") and "," in each and "!" not in each[1:]
        words = [word.strip() for word in each.split(",")]
        if not all(word.lstrip("!") for word in words):
            raise FilterError(f"{option}: an empty value in {each!r}")
        found += [(word.lstrip("!"), all_negated or word.startswith("!")) for word in words]
    return found


def _number(option: str, text: str, word: str) -> int:
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError as error:
        raise FilterError(
            f"{option}: {word!r} is not a number or range",
            hint=f"{option} 7, {option} 0-63,512 or {option} 100-",
        ) from error
