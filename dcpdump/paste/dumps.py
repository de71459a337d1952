"""Dumps: lines that begin with an offset. xxd, hexdump -C, od, Wireshark, tcpdump, debuggers, Netty, PowerShell …

The offsets say how many bytes each line holds, so a text column that happens to look like hexadecimal is never
taken for bytes. The last line is measured by the closing offset, by the columns of the line above, or by its
own text column. Groups of two and more bytes are read only when the dump itself shows their order.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.paste.pasted import LIMIT, Pasted, begins_frame, counted

WORDS_HINT = "try: hexdump -C FILE, or xxd FILE"


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


class Run(NamedTuple):
    """A contiguous piece of a dump, read."""

    indent: int
    start: int
    data: bytes
    line: int
    style: str
    notes: tuple[str, ...]


_ROW = re.compile(
    r"(?P<indent>[ \t]*)[|*+@\[(<>]?[ \t]*"
    r"(?:(?P<address>[0-9a-fA-F]{8}`[0-9a-fA-F]{8}|[0-9A-F]{4}:(?P<near>[0-9A-F]{4})(?=[ \t])"
    r"|(?:[.A-Za-z_$][\w.$]{0,40}:)?(?P<plain>(?:0[xX])?[0-9a-fA-F]{1,16}))(?:-[0-9a-fA-F]{4,16}(?=[ \t:]))?)"
    r"(?P<symbol>[ \t]*<[^>\n]{1,200}>)?"
    r"(?P<mark>h:|[)\]]:?|:|h\b|[ \t]*\||[ \t]-(?=[ \t])|(?=[ \t]|$))(?P<rest>.*)$"
)
_RULER = re.compile(
    r"^[\s|*-]{0,40}(?:offset\S{0,20}|address)?[\s|-]{0,40}(?:0?0[\s-]+0?1[\s-]+0?2[\s-]+0?3|0 1  2 3  4 5)", re.I
)


def row(number: int, line: str) -> Row | None:
    """``line`` as a row of a dump, or None."""
    if line.strip() == "*":
        return Row(number, 0, "", "", None)
    shape = _ROW.match(line)
    if not shape or _RULER.match(line):
        return None
    offset = shape["near"] or shape["plain"] or shape["address"].replace("`", "")
    mark = "<" if shape["symbol"] else shape["mark"].strip() or ("`" if shape["address"] and not shape["plain"] else "")
    if not mark and len(offset) < 3:
        return None
    return Row(number, len(shape["indent"].expandtabs(8)), offset, mark, shape["rest"])


# What a token may be ────────────────────────────────────────────────────────────────────────────────────────

_GAP = re.compile(r"[ \t]*")
_SEPARATOR = re.compile(r"[ \t]+(?:\|[ \t]+)?|-(?=[0-9a-fA-F]{2})|,[ \t]*|$")
_HEX = re.compile(r"0[xX]([0-9a-fA-F]{1,16})|([0-9a-fA-F]{2,64})")
_BITS = re.compile(r"[01]{8}")
_OCTAL = re.compile(r"[0-3][0-7]{2}")
_DECIMAL = re.compile(r"-?\d{1,3}")
_GDB_CHARACTER = re.compile(r"(-?\d{1,3})[ \t]+'(?:\\[^']+|\\'|[^'])'")


def _hex(token: "re.Match[str]") -> bytes | None:
    digits = token[1] or token[2]
    if len(digits) % 2:
        return bytes.fromhex("0" + digits) if token[1] and len(digits) == 1 else None
    return bytes.fromhex(digits)


def _bits(token: "re.Match[str]") -> bytes | None:
    return bytes([int(token[0], 2)])


def _octal(token: "re.Match[str]") -> bytes | None:
    return bytes([int(token[0], 8)])


def _decimal(token: "re.Match[str]") -> bytes | None:
    value = int(token[0])
    return bytes([value & 0xFF]) if -128 <= value <= 255 else None


def _gdb_character(token: "re.Match[str]") -> bytes | None:
    value = int(token[1])
    return bytes([value & 0xFF]) if -128 <= value <= 255 else None


Kind = tuple[str, "re.Pattern[str]", Callable[["re.Match[str]"], bytes | None]]
KINDS: tuple[Kind, ...] = (
    ("hex", _HEX, _hex),
    ("bits", _BITS, _bits),
    ("octal", _OCTAL, _octal),
    ("characters", _GDB_CHARACTER, _gdb_character),
    ("decimal", _DECIMAL, _decimal),
)


def cells(rest: str, kind: Kind) -> list[Cell]:
    """The longest run of tokens of one kind at the beginning of ``rest``."""
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


def _tail(rest: str, taken: list[Cell]) -> str:
    return rest.lstrip(" \t")[taken[-1].end :] if taken else rest


# The text column ────────────────────────────────────────────────────────────────────────────────────────────


def shows(tail: str, data: bytes) -> bool:
    """Whether ``tail`` is the text column of ``data``: each printable character in its place."""
    text = tail.strip()
    text = text[1:].lstrip() if text[:2] in ("; ", "# ") else text
    if len(text) >= 2 and (text[0], text[-1]) in (("|", "|"), (">", "<"), ('"', '"'), ("'", "'"), ("[", "]")):
        inner = text[1:-1]
        if len(inner) == len(data):
            return _agrees(inner, data)
    if text[:1] == "|" and len(text) - 1 == len(data.rstrip(b" ")):
        return _agrees(text[1:], data)
    shown = data.strip(b" ")
    return len(text) == len(shown) and _agrees(text, shown)


def _agrees(text: str, data: bytes) -> bool:
    for character, byte in zip(text, data, strict=False):
        if 0x20 <= byte < 0x7F:
            if character not in (chr(byte), "."):
                return False
        elif character.isascii() and character.isalnum():
            return False
    return True


def _apart(tail: str) -> bool:
    """Whether what follows the bytes is set off from them as a text column is."""
    return not tail.strip() or tail[:2].isspace() or tail[0] == "\t" or tail.lstrip()[0] in "|>\"'<;#"


# One contiguous piece ───────────────────────────────────────────────────────────────────────────────────────


def read_run(rows: list[Row]) -> Run | None:
    """The bytes of rows whose offsets follow one another, or None when they do not make a dump."""
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
            # More bytes than the next offset leaves room for are a text column that looks like bytes, or no dump.
            tail = _tail(r.rest, taken)
            fenced = tail.lstrip()[:1] in ("|", ">")
            if not (_apart(tail) and (fenced or len(taken) == len(row_cells))) and not shows(tail, whole):
                return None
        else:
            taken = _last(r.rest, row_cells, columns, guttered)
            if not taken:
                return None
        words.append((taken, _tail(r.rest, taken)))
        guttered = guttered or bool(_tail(r.rest, taken).strip())
        columns = taken if len(taken) >= len(columns) else columns
        data += b"".join(c.data for c in taken)
    if not data or not _is_plain_order(rows, words, bytes(data)):
        return None
    notes = ["repeated lines ('*') filled in"] if squeezed else []
    return Run(rows[0].indent, start, bytes(data), rows[0].line, _style(rows[0], kind[0], words), tuple(notes))


def _exactly(row_cells: list[Cell], count: int) -> list[Cell]:
    """The first cells that make ``count`` bytes, or nothing when no boundary is there."""
    total = 0
    for index, cell in enumerate(row_cells):
        total += len(cell.data)
        if total >= count:
            return row_cells[: index + 1] if total == count else []
    return []


def _last(rest: str, row_cells: list[Cell], columns: list[Cell], guttered: bool) -> list[Cell]:
    """The cells of a row that no next offset measures."""
    limit = len(row_cells)
    if limit and not guttered and not _tail(rest, row_cells).strip():
        return row_cells
    if columns:
        # Bytes stand under bytes: the text column of a short last line does not.
        limit = 0
        for cell, above in zip(row_cells, columns, strict=False):
            if cell.start != above.start or len(cell.data) > len(above.data):
                break
            limit += 1
    for count in range(limit, 0, -1):
        taken = row_cells[:count]
        tail = _tail(rest, taken)
        if (tail.strip() or not guttered) and shows(tail, b"".join(c.data for c in taken)):
            return taken
        if not tail.strip() and not guttered:
            return taken
    if limit and _apart(_tail(rest, row_cells[:limit])):
        return row_cells[:limit]
    return []


# Words ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_plain_order(rows: list[Row], words: list[tuple[list[Cell], str]], data: bytes) -> bool:
    """True for single bytes and for groups in plain order; raises for words that may be byte-swapped."""
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


_NAMED = re.compile(r"\b(?:nul|soh|stx|etx|eot|enq|ack|dle|dc[1-4]|nak|syn|etb|del)\b")


def _refuse_words(rows: list[Row]) -> None:
    """Raises for the forms of od and hexdump that print words as numbers, or drop the eighth bit."""
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


# A whole page ───────────────────────────────────────────────────────────────────────────────────────────────

_STRAY = re.compile(r"(?<![0-9A-Za-z])(?:0x)?[0-9a-fA-F]{2}(?:[ ,]{0,2}(?:0x)?[0-9a-fA-F]{2}){7}")
_DERIVED = re.compile(r"^(?:Reassembled|Decompressed|Uncompressed|Decrypted|De-chunked|Unencoded)\b", re.I)


_CUT = re.compile(r"\n[ \t]*(?:\.{3,}|…)[ \t]*\s*$")


class Found(NamedTuple):
    """The dumps of a page: each run of bytes, with the heading line that stood above it."""

    runs: tuple[tuple[str, Run], ...]
    dropped: tuple[str, ...]


def find_dumps(text: str) -> Found | None:
    """Every dump in ``text``, or None when there is none, or bytes stand outside of them."""
    blocks: list[tuple[str, list[Row]]] = []
    heading = last_noise = ""
    fresh = True
    stray = False
    for number, line in enumerate(text.split("\n"), 1):
        found = row(number, line)
        if found is None:
            if line.strip():
                stray = stray or (not _RULER.match(line) and _STRAY.search(line) is not None)
                last_noise = line.strip()
                fresh = True
            continue
        if found.rest is None:
            if not blocks:
                continue
            blocks[-1][1].append(found)
            continue
        previous = next((r for r in reversed(blocks[-1][1]) if r.rest is not None), None) if blocks else None
        if fresh or previous is None or int(found.offset, 16) <= int(previous.offset, 16):
            heading, last_noise = last_noise, ""
            blocks.append((heading, []))
        blocks[-1][1].append(found)
        fresh = False
    runs: list[tuple[str, Run]] = []
    if stray or (blocks and not _may_be_dump(blocks[0][1], runs) and _holds_bytes(blocks[0][1])):
        return None
    total = 0
    for title, rows in blocks:
        run = read_run(rows) if _may_be_dump(rows, runs) else None
        if run is not None:
            if run.start and runs and not runs[-1][1].start and not _continues(runs, run):
                raise PasteError(
                    f"the dump goes from byte {len(runs[-1][1].data)} to byte {run.start}: lines are left out",
                    f"line {run.line}",
                    "paste the dump whole",
                )
            _append(runs, title, run)
            total += len(run.data)
            if total > LIMIT:
                return None
        elif len(rows) > 2 and run is None and _looks_broken(rows):
            raise PasteError(
                "the offsets of this dump do not follow one another: lines are missing or changed",
                f"line {rows[0].line} and below",
                "paste the dump whole",
            )
        elif _holds_bytes(rows):
            stray = True
    if not runs or stray:
        return None
    kept = tuple(r for r in runs if not _DERIVED.match(r[0]))
    return Found(kept or tuple(runs), tuple(title for title, _ in runs if _DERIVED.match(title)))


def _holds_bytes(rows: list[Row]) -> bool:
    return any(sum(len(c.data) for c in cells(r.rest, KINDS[0])) >= 8 for r in rows if r.rest)


def _continues(runs: list[tuple[str, Run]], run: Run) -> bool:
    return any(r.start + len(r.data) == run.start for _, r in runs[-2:])


def _may_be_dump(rows: list[Row], before: list[tuple[str, Run]]) -> bool:
    """Whether these rows are more than hex that happens to have a number in front."""
    first = rows[0]
    digits = first.offset.removeprefix("0x").removeprefix("0X")
    if not first.mark and first.rest is not None and first.rest.lstrip()[:2] in ("0x", "0X"):
        return False  # "0x80 0x57": all of them are bytes
    if len(rows) > 1:
        return bool(first.mark) or len(digits) >= 3
    if any(int(first.offset, 16) == run.start + len(run.data) for _, run in before[-3:]):
        return True
    return len(digits) >= 3 and (bool(first.mark) or not digits.strip("0"))


def _looks_broken(rows: list[Row]) -> bool:
    first = rows[0]
    aligned = first.mark == ":" or not first.offset.strip("0x")
    return aligned and len(first.offset) >= 4 and all(len(cells(r.rest, KINDS[0])) >= 4 for r in rows[:2] if r.rest)


def _append(runs: list[tuple[str, Run]], title: str, run: Run) -> None:
    """Puts ``run`` after the piece that it continues, else beside the others."""
    if run.start:
        for index in range(len(runs) - 1, max(-1, len(runs) - 3), -1):
            heading, piece = runs[index]
            if piece.indent == run.indent and piece.start + len(piece.data) == run.start:
                runs[index] = (heading, piece._replace(data=piece.data + run.data))
                return
    runs.append((title, run))


def read_dump(text: str) -> Pasted | None:
    """The bytes of every dump in ``text``, or None."""
    found = find_dumps(text)
    if found is None:
        return None
    notes = list(dict.fromkeys(note for _, run in found.runs for note in run.notes))
    if found.dropped:
        notes.append(f"{counted(len(found.dropped), 'derived dump')} dropped ({found.dropped[0]})")
    if _CUT.search(text[-80:]):
        notes.append("the paste ends in '…': bytes after it are missing")
    return Pasted(found.runs[0][1].style, tuple(run.data for _, run in found.runs), tuple(notes))
