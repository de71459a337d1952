"""Find the names that a mistyped one may mean."""

from collections.abc import Iterable


def nearest(word: str, names: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return at most ``n`` of the names that are like a word, the best first. ``cutoff``: 1 is the same, 0 any."""
    from difflib import get_close_matches  # here, as only mistakes need it

    return get_close_matches(word, list(names), n, cutoff)
