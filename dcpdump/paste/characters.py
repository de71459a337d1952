"""Read character dumps (``od -c``, ``hexdump -c``), and dumps that have a text column but no offsets.

In a character dump each byte has four columns, and a space is a blank cell: only the columns show where it is.
"""

import re

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.pasted import LIMIT, Pasted
from dcpdump.paste.rows import KINDS, Cell, cells, shows
from dcpdump.paste.runs import WORDS_HINT

_LINE = lazy_pattern(r"^([0-9a-fA-F]{6,8})?((?:[ ]{3}.|[ ]{2}\\.|[ ][0-7]{3})+[ ]*)$")
_WIDEST = 1000  # characters in a line of a dump that still has a text column
_OFFSET = lazy_pattern(r"^[0-9a-fA-F]{6,8}$")
_NAMES = {"\\0": 0, "\\a": 7, "\\b": 8, "\\t": 9, "\\n": 10, "\\v": 11, "\\f": 12, "\\r": 13, "\\\\": 92}


def _cell(text: str) -> int | None:
    token = text.strip()
    if len(token) == 3:
        return int(token, 8) if int(token, 8) < 256 else None
    if len(token) == 2:
        return _NAMES.get(token)
    byte = ord(token or " ")
    return byte if byte < 0x7F else None


def read_characters(text: str) -> Pasted | None:
    """Return the bytes of an ``od -c`` dump, or None."""
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    if (
        not lines
        or all(_OFFSET.match(line) for line in lines)
        or not any("\\0" in line or "  " in line for line in lines[:2])
    ):
        return None
    data = bytearray()
    escapes = 0
    offsets: list[tuple[str, int]] = []
    width = _width(lines)
    repeat = False
    notes: list[str] = []
    for number, line in enumerate(lines, 1):
        if line == "*":
            repeat = True
            continue
        closing = _OFFSET.match(line)
        shape = None if closing else _LINE.match(line.replace("\t", "    ") + " " * (-_body(line) % 4))
        if not closing and not shape:
            return None
        offset = closing[0] if closing else (shape[1] if shape else None)
        if repeat and offset is not None and width:
            base = _base([*offsets, (offset, -1)])
            missing = int(offset, base) - len(data)
            if not 0 <= missing <= LIMIT or missing % width:
                return None
            data += data[-width:] * (missing // width)
            notes, repeat = ["repeated lines ('*') filled in"], False
        if offset is not None:
            offsets.append((offset, len(data)))
        if shape:
            body = shape[2]
            values = [_cell(body[i : i + 4]) for i in range(0, len(body), 4)]
            if None in values:
                return None
            row = bytes(v for v in values if v is not None)
            if len(row) < width and number < len(lines) and not _OFFSET.match(lines[number]):
                row = row.ljust(width, b" ")
            escapes += body.count("\\") + len(re.findall(r" [0-7]{3}", body))
            data += row
    if repeat:
        raise PasteError("the dump ends in '*': nothing says how often the line above it repeats", hint=WORDS_HINT)
    # Digits in columns may as well be numbers: an escape, or an offset and a letter, make them characters.
    if not data or not (escapes if offsets else "\\" in text):
        return None
    if offsets:
        base = _base(offsets[:-1] if len(offsets) > 1 else offsets)
        if any(int(offset, base) - int(offsets[0][0], base) != at for offset, at in offsets[:-1]):
            return None
        length = int(offsets[-1][0], base) - int(offsets[0][0], base)
        if len(data) < length <= len(data) + 16 and lines[-1] == offsets[-1][0]:
            data += b" " * (length - len(data))
        elif length != offsets[-1][1]:
            return None
    return Pasted("od -c", (bytes(data),), tuple(notes))


def _width(lines: list[str]) -> int:
    """Return how many bytes a line has: a blank at its end is one too, though editors cut it."""
    longest = max((-(-_body(line) // 4) for line in lines if not _OFFSET.match(line)), default=0)
    offsets = [line.split(" ", 1)[0] for line in lines[:2]]
    if len(offsets) == 2 and all(map(_OFFSET.match, offsets)):
        steps = (n for n in range(longest, longest + 16) if any(_is(offsets[1], b, n, offsets[0]) for b in (16, 10, 8)))
        return next(steps, longest)
    return longest


def _body(line: str) -> int:
    offset = re.match(r"[0-9a-fA-F]{6,8}(?= )", line)
    return len(line) - (offset.end() if offset else 0)


def _base(offsets: list[tuple[str, int]]) -> int:
    for base in (16, 10, 8):
        if all(_is(offset, base, at, offsets[0][0]) for offset, at in offsets):
            return base
    return 16


def _is(offset: str, base: int, at: int, origin: str) -> bool:
    try:
        return at < 0 or int(offset, base) - int(origin, base) == at
    except ValueError:
        return False


def read_text_column(text: str) -> Pasted | None:
    """Return the bytes of lines that end in their own text column and have no offsets, or None."""
    lines = [line for line in text.split("\n") if line.strip()]
    parts: list[bytearray] = []
    between = True
    if any(len(line) > _WIDEST for line in lines):
        return None
    for line in lines:
        row = cells(line, KINDS[0])
        taken = _shown(line.lstrip(), row)
        if taken:
            if between:
                parts.append(bytearray())
            parts[-1] += b"".join(cell.data for cell in taken)
        elif len(row) > 1:
            return None
        between = not taken  # a heading separates one dump from the next
    if not parts or min(map(len, parts)) < 8 or sum(map(len, parts)) < 4 * len(lines):
        return None
    return Pasted("hex + ASCII columns", tuple(bytes(part) for part in parts))


def _shown(line: str, row: list[Cell]) -> list[Cell]:
    for count in range(len(row), 0, -1):
        tail = line[row[count - 1].end :]
        if tail.strip() and shows(tail, b"".join(cell.data for cell in row[:count])):
            return row[:count]
    return []
