"""Refuse tokens among bytes that are not bytes. It reads nothing: it says where, so that no byte is lost silently."""

import re
from collections.abc import Sequence

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern

_BLANKS = lazy_pattern(r"[\s,;]+")
_MARKS = lazy_pattern(r"[\s,;:|_-]+")  # between bytes that may have no blank between them
_BYTES = lazy_pattern(r"(?:0[xX]|\\x)?(?:[0-9a-fA-F]{2})+")
_QUOTES = "[](){}<>\"'`"
_CLOSED = tuple("\"'`])}>|")  # what ends a run of bytes as it should
_GLUED = lazy_pattern(r"\s*([^\w\s,;:|&.…\"'`\])}>\\-]{1,2})[0-9a-fA-F]{4}")
_ESCAPE = lazy_pattern(r"\\x[^\s\\]{0,2}")
_LONG = lazy_pattern(r"[0-9a-fA-F]{8}")
_HALF = lazy_pattern(r"[?*]|[0-9a-fA-FO?*]\w|\w[0-9a-fA-FO?*]")
_PLAIN = lazy_pattern(r"[0-9A-Za-z?*#~!]+")
_WORD = lazy_pattern(r"[0-9A-Za-z?*#~!]{40,}")
_NO_DIGIT = lazy_pattern(r"[^0-9a-fA-F]")
_LETTERS = str.maketrans("OolI", "0011")
_FEW = 8  # bytes: a line with fewer is not one of bytes, unless others are


def refuse_odd(text: str, *, line: int = 1, few: int = _FEW) -> None:
    """Raise for the first line of ``text`` that is bytes but for one token; ``line``: the number of its first line."""
    for number, one in enumerate(text.split("\n"), line):
        for separator in (_BLANKS, _MARKS):
            tokens = [token for part in separator.split(one) if (token := part.strip(_QUOTES))]
            at = _odd(tokens, few)
            if at is not None:
                raise odd_byte(tokens[at], number, " ".join(tokens[max(0, at - 3) : at]))
        for word in _WORD.findall(one):
            word = re.sub("^0?[xX]", "", word)
            wrong = _NO_DIGIT.findall(word)
            if wrong and len(wrong) * 8 <= len(word):
                raise _odd_digit(wrong[0], number, word[: word.index(wrong[0])])


def _odd(tokens: Sequence[str], few: int) -> int | None:
    """Return the index of the token in a byte's place: one between bytes, or else one beside them; or None."""
    whole = [_BYTES.fullmatch(token) is not None for token in tokens]
    if sum(len(token) // 2 for token, is_bytes in zip(tokens, whole, strict=True) if is_bytes) < few:
        return None
    if sum(whole) * 4 < len(tokens) * 3:
        return None
    beside = []
    for at in (at for at, is_bytes in enumerate(whole) if not is_bytes):
        around = [near for near in (at - 1, at + 1) if 0 <= near < len(whole)]
        if all(whole[near] and len(tokens[at]) <= len(tokens[near]) + 2 for near in around):
            if len(around) == 2:
                return at
            if _PLAIN.fullmatch(tokens[at]) and len(tokens[at]) <= len(tokens[around[0]]):
                beside.append(at)  # a longer token is a name of the bytes
    return beside[0] if beside else None


def refuse_behind(run: str, rest: str, line: int) -> None:
    """Raise when a run of bytes is interrupted, and the ``rest`` of its line continues with bytes."""
    if found := _ESCAPE.match(rest):
        raise odd_byte(found[0], line, run)
    if found := _GLUED.match(rest):
        raise _odd_digit(found[1], line, run)
    if rest.strip().startswith(_CLOSED):
        return
    separator = _MARKS if ":" in run or "-" in run else _BLANKS
    odd, *behind = [token for token in separator.split(rest) if token] or [""]
    whole = [bool(_BYTES.fullmatch(token.strip(_QUOTES)) or _LONG.match(token)) for token in behind]
    count = (*whole, False).index(False)
    size = sum(len(token) // 2 for token in behind[:count])
    is_short = len(odd.removeprefix("0x")) <= 2
    is_last = count == len(behind)  # behind it there are bytes alone
    if count >= 4 or (is_short and (size > 1 or (is_last and (size or _HALF.fullmatch(odd))))):
        raise odd_byte(odd, line, run)


def odd_byte(token: str, line: int, before: str) -> PasteError:
    """Return the error for a token that should be a byte."""
    meant = token.translate(_LETTERS)
    is_meant = meant != token and _BYTES.fullmatch(meant)
    hint = f"did you mean {meant}?" if is_meant else "put the byte there, or take it out"
    return PasteError(f"{token[:24]!r} is not a byte", _place(line, before), hint)


def _odd_digit(characters: str, line: int, before: str) -> PasteError:
    return PasteError(f"{characters!r} is not a hex digit", _place(line, before), "each byte takes two hex digits")


def _place(line: int, before: str) -> str:
    return f"line {line}, after {before[-8:].strip()!r}" if before.strip() else f"line {line}"
