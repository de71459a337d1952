"""Read rows of a dump whose offsets follow one another as one contiguous piece of bytes.

The offsets determine how many bytes each line holds, so a text column that happens to look like hexadecimal is never
taken for bytes. The last line is measured by the closing offset, by the columns of the line above, or by its own text
column. Groups of two and more bytes are read only when the dump itself shows their order.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.pasted import LIMIT, begins_frame
from dcpdump.paste.rows import KINDS, Cell, Kind, Row, apart, behind, cells, shows

WORDS_HINT = "try: hexdump -C FILE, or xxd FILE"


class Run(NamedTuple):
    """A contiguous piece of a dump, decoded."""

    indent: int
    start: int
    data: bytes
    line: int
    style: str
    notes: tuple[str, ...]


def read_run(rows: list[Row]) -> Run | None:
    """Return the bytes of rows whose offsets follow one another, or None when they do not make a dump."""
    if not any(r.rest and r.rest.strip() for r in rows):
        return None
    # Numbers that are not hexadecimal are a dump's only after an offset that cannot be one of them.
    certain = len(rows[0].offset) >= 6 or rows[0].mark in (":", "<", "|")
    for kind in KINDS if certain else KINDS[:1]:
        for base in _bases(rows):
            run = _read_as(rows, kind, base)
            if run is not None:
                return run
    if certain:
        _refuse_words(rows)
    return None


def _bases(rows: list[Row]) -> Iterator[int]:
    digits = "".join(r.offset for r in rows)
    yield 16
    if digits.isdecimal():
        yield 10
        if not set(digits) & set("89"):
            yield 8


def _read_as(rows: list[Row], kind: Kind, base: int) -> Run | None:
    data = bytearray()
    start = int(rows[0].offset, base)
    columns: list[Cell] = []  # of the last row that was whole
    guttered = squeezed = False
    words: list[tuple[list[Cell], str]] = []
    for index, r in enumerate(rows):
        following = next((n for n in rows[index + 1 : index + 3] if n.rest is not None), None)
        if r.rest is None:
            if following is None:
                raise PasteError(
                    "the dump ends in '*': nothing says how often the line above it repeats",
                    f"line {r.line}",
                    "paste the dump's last line, which is an offset alone, or use hexdump -v",
                )
            width = sum(len(c.data) for c in columns)
            missing = int(following.offset, base) - start - len(data)
            if not width or missing < 0 or missing % width or len(data) + missing > LIMIT:
                return None
            data += data[-width:] * (missing // width)
            squeezed = True
            continue
        if int(r.offset, base) - start != len(data):
            return None
        if not r.rest.strip():
            continue  # the closing offset
        row_cells = cells(r.rest, kind)
        if following is not None and rows[index + 1].rest is not None:
            taken = _exactly(row_cells, int(following.offset, base) - int(r.offset, base))
            whole = b"".join(c.data for c in taken)
            if not taken:
                return None
            # More bytes than the next offset allows are a text column that looks like bytes, or not a dump.
            tail = behind(r.rest, taken)
            fenced = base == 16 and tail.lstrip()[:1] in ("|", ">")
            if not (apart(tail) and (fenced or len(taken) == len(row_cells))) and not shows(tail, whole):
                return None
        else:
            taken = _last(r.rest, row_cells, columns, guttered)
            if not taken:
                return None
        words.append((taken, behind(r.rest, taken)))
        guttered = guttered or bool(behind(r.rest, taken).strip())
        columns = taken if len(taken) >= len(columns) else columns
        data += b"".join(c.data for c in taken)
    if not data or not _is_plain_order(rows, words, bytes(data)):
        return None
    notes = ["repeated lines ('*') filled in"] if squeezed else []
    return Run(rows[0].indent, start, bytes(data), rows[0].line, _style(rows[0], kind[0], words), tuple(notes))


def _exactly(row_cells: list[Cell], count: int) -> list[Cell]:
    """Return the first cells that make ``count`` bytes, or nothing when no boundary is there."""
    total = 0
    for index, cell in enumerate(row_cells):
        total += len(cell.data)
        if total >= count:
            return row_cells[: index + 1] if total == count else []
    return []


def _last(rest: str, row_cells: list[Cell], columns: list[Cell], guttered: bool) -> list[Cell]:
    """Return the cells of a row that no next offset measures."""
    limit = len(row_cells)
    if limit and not guttered and not behind(rest, row_cells).strip():
        return row_cells
    if columns:
        # Bytes stand under bytes: the text column of a short last line does not.
        limit = 0
        for cell, above in zip(row_cells, columns, strict=False):
            if cell.start != above.start or len(cell.data) > len(above.data):
                break
            limit += 1
    longest = len(row_cells) if limit == len(columns) else limit  # no row above may have been as long
    for count in range(longest, 0, -1):
        taken = row_cells[:count]
        tail = behind(rest, taken)
        if (tail.strip() or not guttered) and shows(tail, b"".join(c.data for c in taken)):
            return taken
        if not tail.strip() and not guttered:
            return taken
    if limit and apart(behind(rest, row_cells[:limit])):
        return row_cells[:limit]
    return []


# Words ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_plain_order(rows: list[Row], words: list[tuple[list[Cell], str]], data: bytes) -> bool:
    """Return True for single bytes and for groups in plain order; raise for words that may be byte-swapped."""
    widest = max(len(c.data) for taken, _ in words for c in taken)
    if widest == 1:
        return True
    swapped = b"".join(c.data[::-1] for taken, _ in words for c in taken)
    shown = [(taken, tail) for taken, tail in words if tail.strip()]
    if shown:
        plain = all(shows(tail, b"".join(c.data for c in taken)) for taken, tail in shown)
        if plain and begins_frame(swapped) and not begins_frame(data):
            plain = not all(shows(tail, b"".join(c.data[::-1] for c in taken)) for taken, tail in shown)
        if plain:
            return True
        if all(_shows_words(tail, taken) for taken, tail in shown):
            raise _swapped(rows[0])
        return True  # a text column in some other alphabet says nothing against the order that is printed
    first = rows[0]
    prefixed = bool(first.rest) and first.rest is not None and first.rest.lstrip()[:2] in ("0x", "0X")
    if prefixed or first.mark != ":" or (begins_frame(swapped) and not begins_frame(data)):
        raise _swapped(first)
    return True


def _shows_words(tail: str, taken: list[Cell]) -> bool:
    return shows(tail, b"".join(c.data[::-1] for c in taken))


def _swapped(first: Row) -> PasteError:
    return PasteError(
        "these are words of several bytes: their bytes may be swapped, and the dump does not say",
        f"line {first.line}: {(first.rest or '').strip()[:40]}",
        WORDS_HINT,
    )


_NAMED = lazy_pattern(r"\b(?:nul|soh|stx|etx|eot|enq|ack|dle|dc[1-4]|nak|syn|etb|del)\b")


def _refuse_words(rows: list[Row]) -> None:
    """Raise for the forms of od and hexdump that print words as numbers, or drop the eighth bit."""
    plain = [r for r in rows if r.rest is not None and r.rest.strip()]
    if len(rows) < 2 or rows[1].rest is None or not rows[1].offset:
        return
    first = plain[0]
    tokens = (first.rest or "").split()
    if sum(bool(_NAMED.fullmatch(t)) for t in tokens) >= 3:
        raise PasteError("od -a drops the eighth bit of every byte", f"line {first.line}", WORDS_HINT)
    if not all(re.fullmatch(r"(?:0x)?[0-9a-fA-F]+|-?\d+", t) for t in tokens) or len({len(t) for t in tokens}) > 4:
        return
    for base in _bases(rows):
        gap = int(rows[1].offset, base) - int(first.offset, base)
        if gap in (2 * len(tokens), 4 * len(tokens), 8 * len(tokens)):
            raise _swapped(first)


def _style(first: Row, kind: str, words: list[tuple[list[Cell], str]]) -> str:
    tail = words[0][1].strip()
    if kind != "hex":
        names = {"bits": "xxd -b", "octal": "od -t o1", "decimal": "od -t u1", "characters": "gdb x/c"}
        return "gdb x/b" if kind == "decimal" and first.mark in (":", "<") else names[kind]
    if first.rest is not None and first.rest.lstrip().startswith("0x"):
        return "debugger memory dump"
    if first.mark == "|":
        return "Netty hex dump"
    if tail.startswith("|"):
        return "hexdump -C"
    if tail.startswith(">"):
        return "od -t x1z"
    if first.mark == ":":
        return "xxd" if tail and not first.offset.startswith("0x") else "hex dump"
    return "hex + ASCII dump" if tail else "hex dump"
