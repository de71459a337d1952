"""Parse the values of filter options: numbers, opcodes, statuses, collections; ``!`` means all but those."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from dcpdump.errors import FilterError
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.statuses import STATUS
from dcpdump.startup import dataclass, lazy_pattern
from dcpdump.text import nearest

# -- numbers: ``7``, ``0-63,512``, ``100-``, ``!3`` ---------------------------------------------------

U64 = (1 << 64) - 1
#: A character that no argument can hold: it separates the values of an option that was given several times.
BETWEEN = "\0"


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of integers as inclusive ranges, or all integers but those."""

    spans: tuple[tuple[int, int], ...]
    excluded: tuple[tuple[int, int], ...] = ()

    def __contains__(self, number: int) -> bool:
        if any(low <= number <= high for low, high in self.excluded):
            return False
        return not self.spans or any(low <= number <= high for low, high in self.spans)

    @property
    def last(self) -> int | None:
        """Return the largest number of the set; None if it has no end."""
        last = max((high for _, high in self.spans), default=U64)
        return None if last == U64 else last

    def table(self, size: int) -> bytes:
        """Return a byte for each number below ``size``: 1 if it is in the set."""
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


# -- opcodes and statuses: names in any case, with or without DCP_, or numbers ------------------------

_NEAR = 3  # how many names an error suggests
T = TypeVar("T")
Opcode = tuple[bool, int]  #: whether it is a server message, and its number


def named_opcodes(text: str) -> tuple[set[Opcode], set[Opcode]]:
    """Return the opcodes that ``--opcode`` chooses, and those that it excludes."""
    return _named("opcode", text, find_opcodes)


def named_statuses(text: str) -> tuple[set[int], set[int]]:
    """Return the statuses that ``--status`` chooses, and those that it excludes."""
    return _named("status", text, _find_statuses)


def find_opcodes(word: str) -> set[Opcode]:
    """Return the opcodes that a name or a number stands for; raise FilterError with the nearest names."""
    number = _as_number(word)
    if number is not None:
        _check("opcode", number, 0xFF)
        return {(False, number), (True, number)}
    names = _opcode_names()
    found = names.get(_folded(word))
    if found is None:
        raise _unknown("opcode", word, names, _spelled_opcode)
    return found


def _find_statuses(word: str) -> set[int]:
    number = _as_number(word)
    if number is not None:
        _check("status", number, 0xFFFF)
        return {number}
    names = {_folded(name): value for value, name in STATUS.names.items()}
    if _folded(word) not in names:
        raise _unknown("status", word, names, lambda folded: STATUS.names[names[folded]])
    return {names[_folded(word)]}


def _named(kind: str, text: str, find: Callable[[str], set[T]]) -> tuple[set[T], set[T]]:
    wanted: set[T] = set()
    excluded: set[T] = set()
    for word, negated in words(f"--{kind}", text):
        (excluded if negated else wanted).update(find(word))
    return wanted, excluded


def _as_number(word: str) -> int | None:
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", word):
        return int(word, 16)
    return int(word) if word.isdecimal() and len(word) < 19 else None


def _check(kind: str, number: int, top: int) -> None:
    if number > top:
        raise FilterError(f"--{kind}: 0x{number:x} is more than 0x{top:x}")


def _folded(name: str) -> str:
    """Return a name without case and separators."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _opcode_names() -> dict[str, set[Opcode]]:
    names: dict[str, set[Opcode]] = {}
    for message in MESSAGES.values():
        names.setdefault(_folded(message.name), set()).add((False, message.opcode))
        if message.dcp:
            # DCP_NOOP and NOOP are two messages: "noop" means both, "dcp_noop" only the one.
            names.setdefault(_folded(message.name.removeprefix("DCP_")), set()).add((False, message.opcode))
    for push in PUSHES.values():
        names.setdefault(_folded(push.name), set()).add((True, push.opcode))
    names["streamrequest"] = names["streamreq"]
    names["bufferack"] = names["bufferacknowledgement"]
    return names


def _spelled_opcode(folded: str) -> str:
    for message in (*MESSAGES.values(), *PUSHES.values()):
        if folded in (_folded(message.name), _folded(message.name.removeprefix("DCP_"))):
            return f"{message.name.removeprefix('DCP_').lower()} (0x{message.opcode:02x})"
    return folded


def _unknown(kind: str, word: str, names: Iterable[str], spelled: Callable[[str], str]) -> FilterError:
    folded = _folded(word)
    close = nearest(folded, names, n=_NEAR, cutoff=0.75) or [name for name in names if folded in name]
    near = list(dict.fromkeys(map(spelled, close if len(folded) > 2 else ())))[:_NEAR]
    hint = f"did you mean {' or '.join(near)}?" if near else "dcpdump spec lists the messages" * (kind == "opcode")
    return FilterError(f"unknown {kind} {word!r} for --{kind}", hint=hint)


# -- what headers say, to skip most frames of a large capture without decoding them -------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """The headers of requests that may pass a filter, as tables with a byte for each opcode and vbucket, 1 for yes."""

    opcodes: bytes
    vbuckets: bytes


#: The headers of no request: no frame has to be decoded.
NOTHING_WANTED = Wanted(bytes(256), bytes(65_536))


def wanted_of(texts: Mapping[str, str]) -> Wanted | None:
    """Return a filter's conditions on headers; None if it has none on opcodes and vbuckets."""
    if not texts.keys() & {"opcode", "vbucket"}:
        return None
    opcodes, vbuckets = b"\1" * 256, b"\1" * 65_536
    if "opcode" in texts:
        wanted, excluded = named_opcodes(texts["opcode"])
        opcodes = bytes([(False, op) not in excluded and (not wanted or (False, op) in wanted) for op in range(256)])
    if "vbucket" in texts:
        vbuckets = parse_ranges("--vbucket", texts["vbucket"], 0xFFFF).table(65_536)
    return Wanted(opcodes, vbuckets)


# -- collections by id and by name: ``0x8``, ``8-15``, ``shop.carts``, ``carts``, ``!_default`` -------

OPTION = "--collection"
#: The form of ids. A collection whose name has this form is given with its scope: ``shop.100``.
_IDS = lazy_pattern(r"-?(0x[0-9a-f]+|[0-9]+)-?(0x[0-9a-f]+|[0-9]+)?", re.IGNORECASE)
_NAME = lazy_pattern(r"[A-Za-z_%][A-Za-z0-9_%-]*|[A-Za-z0-9_%][A-Za-z0-9_%-]*\.[A-Za-z0-9_%][A-Za-z0-9_%-]*")
_DEFAULTS = ("_default", "_default._default")  #: the name of the collection with the id 0


@dataclass(frozen=True, slots=True)
class CollectionChoice:
    """A set of collections: by id, and by name with or without the scope."""

    ids: Ranges
    names: frozenset[str] = frozenset()
    not_names: frozenset[str] = frozenset()

    @property
    def by_name(self) -> bool:
        """Return whether it has names."""
        return bool(self.names or self.not_names)

    def accepts(self, number: int, path: str | None) -> bool:
        """Return whether a collection is in the set; ``path``: its name, if known."""
        called = _called(number, path)
        if number in Ranges(self.ids.excluded or _NONE) or not called.isdisjoint(self.not_names):
            return False
        if not (self.ids.spans or self.names):
            return True
        return number in Ranges(self.ids.spans or _NONE) or not called.isdisjoint(self.names)

    def unknown(self, known: Iterable[tuple[int, str]]) -> list[str]:
        """Return the names in the set that none of the ``known`` collections has."""
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
