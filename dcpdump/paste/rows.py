"""Read one line of a dump: its offset, the cells that hold bytes, and the text column beside them."""

import re
from collections.abc import Callable
from typing import NamedTuple

from dcpdump.lazy_pattern import lazy_pattern


class Row(NamedTuple):
    """One line of a dump: its offset as printed and all that follows. ``rest`` None: a ``*`` line."""

    line: int
    indent: int
    offset: str
    mark: str  # what ended the offset: ":" "|" "h" "-" or a debugger's symbol
    rest: str | None


class Cell(NamedTuple):
    """One token of a row and the bytes that it stands for, with its columns counted from the first token."""

    start: int
    end: int
    data: bytes


_ROW = lazy_pattern(
    r"(?P<indent>[ \t]*)[|*+@\[(<>]?[ \t]*"
    r"(?:(?P<address>[0-9a-fA-F]{8}`[0-9a-fA-F]{8}|[0-9A-F]{4}:(?P<near>[0-9A-F]{4})(?=[ \t])"
    r"|(?:[.A-Za-z_$][\w.$]{0,40}:)?(?P<plain>(?:0[xX])?[0-9a-fA-F]{1,16}))(?:-[0-9a-fA-F]{4,16}(?=[ \t:]))?)"
    r"(?P<symbol>[ \t]*<[^>\n]{1,200}>)?"
    r"(?P<mark>h:|[)\]]:?|:|h\b|[ \t]*\||[ \t]-(?=[ \t])|(?=[ \t]|$))(?P<rest>.*)$"
)
RULER = lazy_pattern(
    r"^[\s|*-]{0,40}(?:offset\S{0,20}|address)?[\s|-]{0,40}(?:0?0[\s-]+0?1[\s-]+0?2[\s-]+0?3|0 1  2 3  4 5)", re.I
)


def row(number: int, line: str) -> Row | None:
    """Return ``line`` as a row of a dump, or None."""
    if line.strip() == "*":
        return Row(number, 0, "", "", None)
    shape = _ROW.match(line)
    if not shape or RULER.match(line):
        return None
    offset = shape["near"] or shape["plain"] or shape["address"].replace("`", "")
    mark = "<" if shape["symbol"] else shape["mark"].strip() or ("`" if shape["address"] and not shape["plain"] else "")
    if not mark and len(offset) < 3:
        return None
    return Row(number, len(shape["indent"].expandtabs(8)), offset, mark, shape["rest"])


# What a token may be ────────────────────────────────────────────────────────────────────────────────────────

_GAP = lazy_pattern(r"[ \t]*")
_SEPARATOR = lazy_pattern(r"[ \t]+(?:\|[ \t]+)?|-(?=[0-9a-fA-F]{2})|,[ \t]*|$")
_HEX = lazy_pattern(r"0[xX]([0-9a-fA-F]{1,16})|([0-9a-fA-F]{2,64})")
_BITS = lazy_pattern(r"[01]{8}")
_OCTAL = lazy_pattern(r"[0-3][0-7]{2}")
_DECIMAL = lazy_pattern(r"(-?\d{1,3})")
_GDB_CHARACTER = lazy_pattern(r"(-?\d{1,3})[ \t]+'(?:\\[^']+|\\'|[^'])'")


def _hex(token: "re.Match[str]") -> bytes | None:
    digits = token[1] or token[2]
    if len(digits) % 2:
        return bytes.fromhex("0" + digits) if token[1] and len(digits) == 1 else None
    return bytes.fromhex(digits)


def _decimal(token: "re.Match[str]") -> bytes | None:
    value = int(token[1])
    return bytes([value & 0xFF]) if -128 <= value <= 255 else None


Kind = tuple[str, "re.Pattern[str]", Callable[["re.Match[str]"], bytes | None]]
KINDS: tuple[Kind, ...] = (
    ("hex", _HEX, _hex),
    ("bits", _BITS, lambda token: bytes([int(token[0], 2)])),
    ("octal", _OCTAL, lambda token: bytes([int(token[0], 8)])),
    ("characters", _GDB_CHARACTER, _decimal),
    ("decimal", _DECIMAL, _decimal),
)


def cells(rest: str, kind: Kind) -> list[Cell]:
    """Return the longest run of tokens of one kind at the beginning of ``rest``."""
    _, pattern, value = kind
    found: list[Cell] = []
    gap = _GAP.match(rest)
    position = origin = gap.end() if gap else 0
    while token := pattern.match(rest, position):
        separator = _SEPARATOR.match(rest, token.end())
        data = value(token) if separator else None
        if separator is None or data is None:
            break
        found.append(Cell(token.start() - origin, token.end() - origin, data))
        position = separator.end()
        if position == token.end():
            break
    return found


def behind(rest: str, taken: list[Cell]) -> str:
    """Return what follows the cells that were taken."""
    return rest.lstrip(" \t")[taken[-1].end :] if taken else rest


# The text column ────────────────────────────────────────────────────────────────────────────────────────────


def shows(tail: str, data: bytes) -> bool:
    """Return whether ``tail`` is the text column of ``data``: each printable character in its place."""
    text = tail.strip()
    text = text[1:].lstrip() if text[:2] in ("; ", "# ") else text
    if len(text) >= 2 and (text[0], text[-1]) in (("|", "|"), (">", "<"), ('"', '"'), ("'", "'"), ("[", "]")):
        inner = text[1:-1]
        if len(inner) == len(data):
            return _agrees(inner, data)
    if text[:1] == "|" and len(text) - 1 == len(data.rstrip(b" ")):
        return _agrees(text[1:], data)
    shown = data.strip(b" ")
    gap = 8 - (len(data) - len(data.lstrip(b" ")))  # Wireshark leaves one behind eight characters
    if len(text) == len(shown) + 1 and gap > 0 and text[gap : gap + 1] == " ":
        text = text[:gap] + text[gap + 1 :]
    return len(text) == len(shown) and _agrees(text, shown)


def _agrees(text: str, data: bytes) -> bool:
    for character, byte in zip(text, data, strict=False):
        if 0x20 <= byte < 0x7F:
            if character not in (chr(byte), "."):
                return False
        elif character.isascii() and character.isalnum():
            return False
    return True


def apart(tail: str) -> bool:
    """Return whether what follows the bytes is separated from them as a text column is."""
    return not tail.strip() or tail[:2].isspace() or tail[0] == "\t" or tail.lstrip()[0] in "|>\"'<;#"
