"""Parse names of opcodes and statuses as users write them: any case, with or without DCP_, or as numbers."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from dcpdump.errors import FilterError
from dcpdump.filter.ranges import words
from dcpdump.nearest import nearest
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.statuses import STATUS

_NEAR = 3  # names to offer for one that is not known
T = TypeVar("T")
Opcode = tuple[bool, int]  #: whether the server sends it of its own accord, and its number


def named_opcodes(text: str) -> tuple[set[Opcode], set[Opcode]]:
    """Return the opcodes that ``--opcode`` wants, and those that it excludes."""
    return _named("opcode", text, find_opcodes)


def named_statuses(text: str) -> tuple[set[int], set[int]]:
    """Return the statuses that ``--status`` wants, and those that it excludes."""
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
