"""Choose collections by id and by name: ``0x8`` · ``8-15`` · ``shop.carts`` · ``carts`` · ``!_default``."""

import re
from collections.abc import Iterable

from dcpdump.errors import FilterError
from dcpdump.filter.ranges import BETWEEN, Ranges, parse_ranges, words
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.quick_dataclass import dataclass

OPTION = "--collection"
#: What is taken for ids; a collection whose name looks so is named with its scope: ``shop.100``.
_IDS = lazy_pattern(r"-?(0x[0-9a-f]+|[0-9]+)-?(0x[0-9a-f]+|[0-9]+)?", re.IGNORECASE)
_NAME = lazy_pattern(r"[A-Za-z_%][A-Za-z0-9_%-]*|[A-Za-z0-9_%][A-Za-z0-9_%-]*\.[A-Za-z0-9_%][A-Za-z0-9_%-]*")
_DEFAULTS = ("_default", "_default._default")  #: what the collection with the id 0 is always called


@dataclass(frozen=True, slots=True)
class CollectionChoice:
    """A set of collections: by ids, and by names with or without their scopes."""

    ids: Ranges
    names: frozenset[str] = frozenset()
    not_names: frozenset[str] = frozenset()

    @property
    def by_name(self) -> bool:
        """Return whether names are asked for."""
        return bool(self.names or self.not_names)

    def accepts(self, number: int, path: str | None) -> bool:
        """Return whether a collection is in the set; ``path``: its name, where that is known."""
        called = _called(number, path)
        if number in Ranges(self.ids.excluded or _NONE) or not called.isdisjoint(self.not_names):
            return False
        if not (self.ids.spans or self.names):
            return True
        return number in Ranges(self.ids.spans or _NONE) or not called.isdisjoint(self.names)

    def unknown(self, known: Iterable[tuple[int, str]]) -> list[str]:
        """Return the names that none of the collections has, in order."""
        called = frozenset(_DEFAULTS).union(*(_called(number, path) for number, path in known))
        return sorted((self.names | self.not_names) - called)


_NONE = ((-1, -1),)


def _called(number: int, path: str | None) -> frozenset[str]:
    names = {path, path.rpartition(".")[2]} if path else set()
    return frozenset(names.union(_DEFAULTS if number == 0 else ()))


def collection_choice(text: str) -> CollectionChoice:
    """Parse a list of ids, ranges and names. Raises FilterError."""
    ids: list[str] = []
    names: dict[bool, set[str]] = {False: set(), True: set()}
    for word, negated in words(OPTION, text):
        if _IDS.fullmatch(word):
            ids.append(f"!{word}" if negated else word)
        elif _NAME.fullmatch(word):
            names[negated].add(word)
        else:
            hint = f"{OPTION} 0x8, {OPTION} 8-15 or {OPTION} shop.carts"
            raise FilterError(f"{OPTION}: {word!r} is neither an id nor the name of a collection", hint=hint)
    ranges = parse_ranges(OPTION, BETWEEN.join(ids), 0xFFFFFFFF) if ids else Ranges(())
    return CollectionChoice(ranges, frozenset(names[False]), frozenset(names[True]))
