"""Read bytes that stand behind their offsets: dumps, character dumps, the specification's grids and tables.

xxd, hexdump -C, od, Wireshark, tcpdump, debuggers, Netty: a dump is rows of cells behind offsets. A row has as many
bytes as the next offset says, and a run of rows begins where another ends, at 0 or at an address. Runs that do not
follow one another are kept apart. A dump with lines missing, and a page with bytes outside its dumps, is refused or
left to other forms: nothing is dropped silently.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.paste.encodings import BARE, bytes_of
from dcpdump.paste.literals import Digits, unescape
from dcpdump.paste.packet_dumps import with_reassembled
from dcpdump.paste.pasted import CUT, LIMIT, PREFIXES, Pasted, begins_frame, maybe_swapped, odd_byte, unprefixed
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted

# -- a row: its offset, the cells that hold bytes, and the text column beside them --------------------


class Row(NamedTuple):
    """One line of a dump: its offset as printed and all that follows. ``rest`` None: a ``*`` line."""

    line: int
    indent: int
    offset: str
    mark: str  # what ended the offset: ":" "|" "h" "-" or a debugger's symbol
    rest: str | None


class _Cell(NamedTuple):
    """One token of a row and the bytes that it stands for, with its columns counted from the first token."""

    start: int
    end: int
    data: bytes


_ROW = lazy_pattern(
    r"(?!\s*0[bB][01]+\s*:\s*0[bB][01])"  # bytes in binary
    r"(?P<indent>[ \t]*)[|*+@\[(<>]?[ \t]*"
    r"(?:(?P<address>[0-9a-fA-F]{8}`[0-9a-fA-F]{8}|[0-9A-F]{4}:(?P<near>[0-9A-F]{4})(?=[ \t])"
    r"|(?:[.A-Za-z_$][\w.$]{0,40}:)?(?P<plain>(?:0[xX])?[0-9a-fA-F]{1,16}))(?:-[0-9a-fA-F]{4,16}(?=[ \t:]))?)"
    r"(?P<symbol>[ \t]*<[^>\n]{1,200}>)?"
    r"(?P<mark>h:|[)\]]:?|:|h\b|[ \t]*\||[ \t]-(?=[ \t])|(?=[ \t]|$))(?P<rest>.*)$"
)
_RULER = lazy_pattern(
    r"^[\s|*-]{0,40}(?:offset\S{0,20}|address)?[\s|-]{0,40}(?:0?0[\s-]+0?1[\s-]+0?2[\s-]+0?3|0 1  2 3  4 5)", re.I
)


def row(number: int, line: str) -> Row | None:
    """Return ``line`` as a row of a dump, or None."""
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


_SEPARATOR = lazy_pattern(r"[ \t]+(?:\|[ \t]+)?|-(?=[0-9a-fA-F]{2})|,[ \t]*|$")


class _Kind(NamedTuple):
    """What the cells of a dump are: a pattern of one, its digits in a group, and their base."""

    name: str
    cell: "re.Pattern[str]"
    base: int


HEX = _Kind("hex", lazy_pattern(r"0[xX]((?:[0-9a-fA-F]{2}){1,8}|[0-9a-fA-F])|((?:[0-9a-fA-F]{2}){1,32})"), 16)
_KINDS = (
    HEX,
    _Kind("xxd -b", BARE[2], 2),
    _Kind("od -t o1", BARE[8], 8),
    _Kind("gdb x/c", lazy_pattern(r"(-?\d{1,3})[ \t]+'(?:\\[^']+|\\'|[^'])'"), 10),
    _Kind("od -t u1", BARE[10], 10),
)


def cells(rest: str, kind: _Kind) -> list[_Cell]:
    """Return the longest run of cells of one kind at the beginning of ``rest``."""
    found: list[_Cell] = []
    position = origin = len(rest) - len(rest.lstrip(" \t"))
    while cell := kind.cell.match(rest, position):
        separator = _SEPARATOR.match(rest, cell.end())
        digits = cell[cell.lastindex or 0]
        data = bytes.fromhex(digits.zfill(2)) if kind is HEX else bytes_of([digits], kind.base)
        if separator is None or data is None:
            break
        found.append(_Cell(cell.start() - origin, cell.end() - origin, data))
        position = separator.end()
    return found


def _bytes_of(cells: Iterable[_Cell], swapped: int = False) -> bytes:
    return b"".join(c.data[::-1] if swapped else c.data for c in cells)


def behind(rest: str, taken: list[_Cell]) -> str:
    """Return what follows the cells that were taken."""
    return rest.lstrip(" \t")[taken[-1].end :] if taken else rest


# -- the text column ----------------------------------------------------------------------------------


def shows(tail: str, data: bytes) -> bool:
    """Return whether ``tail`` is the text column of ``data``: each printable character in its place."""
    text = tail.strip()
    text = text[1:].lstrip() if text[:2] in ("; ", "# ") else text
    if len(text) == len(data) + 2 and text[0] + text[-1] in ("||", "><", '""', "''", "[]"):
        return _agrees(text[1:-1], data)
    shown = data.strip(b" ")
    gap = 8 - (len(data) - len(data.lstrip(b" ")))  # Wireshark leaves one behind eight characters
    if len(text) == len(shown) + 1 and gap > 0 and text[gap : gap + 1] == " ":
        text = text[:gap] + text[gap + 1 :]
    return len(text) == len(shown) and _agrees(text, shown)


def _agrees(text: str, data: bytes) -> bool:
    return all(
        character in (chr(byte), ".") if 0x20 <= byte < 0x7F else not (character.isascii() and character.isalnum())
        for character, byte in zip(text, data, strict=False)
    )


def apart(tail: str) -> bool:
    """Return whether what follows the bytes is separated from them as a text column is."""
    return not tail.strip() or tail[:2].isspace() or tail[0] == "\t" or tail.lstrip()[0] in "|>\"'<;#"


# -- rows whose offsets follow one another ------------------------------------------------------------
# The offsets determine how many bytes each line holds, so a text column that happens to look like hexadecimal is never
# taken for bytes. The last line is measured by the closing offset, by the columns of the line above, or by its own text
# column. Groups of two and more bytes are read only when the dump itself shows their order.


class Run(NamedTuple):
    """Bytes that follow one another, and the offset of the first."""

    line: int
    indent: int
    start: int
    data: bytearray
    style: str = ""
    notes: tuple[str, ...] = ()
    title: str = ""  # the line above

    @property
    def end(self) -> int:
        """Return the offset that follows the last byte."""
        return self.start + len(self.data)


def _append(runs: list[Run], run: Run, what: str = "dump", printed: str = "") -> None:
    """Append ``run`` to the one that it continues, else to the list; raise PasteError where lines are left out.

    A dump may begin at an address, and have two directions that take turns; a grid or a table begins at 0.
    """
    latest = runs[: -3 if what == "dump" else -2 : -1]
    above = [each for each in latest if each.end == run.start > 0]
    if run.start and not above and (not runs[-1].start if runs else what != "dump"):
        end = runs[-1].end if runs else 0
        raise _lines_left_out(what, f"goes from byte {end} to byte {printed or run.start}", run.line)
    for each in above:
        if each.indent == run.indent:
            each.data.extend(run.data)
            return
    runs.append(run)


def _read_run(rows: list[Row]) -> Run | None:
    """Return the bytes of rows whose offsets follow one another, or None when they do not make a dump."""
    if not any(r.rest and r.rest.strip() for r in rows):
        return None
    # Numbers that are not hexadecimal are a dump's only after an offset that cannot be one of them.
    certain = len(rows[0].offset) >= 6 or rows[0].mark in (":", "<", "|")
    ways = ((kind, base) for kind in (_KINDS if certain else (HEX,)) for base in _bases(rows))
    run = next((found for kind, base in ways if (found := _read_as(rows, kind, base))), None)
    if run is None and certain:
        _refuse_words(rows)
    return run


def _bases(rows: list[Row]) -> Iterator[int]:
    digits = "".join(r.offset for r in rows)
    yield 16
    if digits.isdecimal():
        yield 10
        if not set(digits) & set("89"):
            yield 8


def _read_as(rows: list[Row], kind: _Kind, base: int) -> Run | None:
    data = bytearray()
    start = int(rows[0].offset, base)
    columns: list[_Cell] = []  # of the last row that was complete
    guttered = squeezed = False
    words: list[tuple[list[_Cell], str]] = []
    for above, r, below in zip((None, *rows), rows, (*rows[1:], None), strict=False):
        if r.rest is None:
            if below is None:
                raise _ends_in_repeats(r.line)
            squeezed = True
            continue
        missing = int(r.offset, base) - start - len(data)
        if missing and above and above.rest is None:
            width = len(_bytes_of(columns))
            if not width or missing < 0 or missing % width or len(data) + missing > LIMIT:
                return None
            data += data[-width:] * (missing // width)
        elif missing:
            return None
        if not r.rest.strip():
            continue  # the closing offset
        row_cells = cells(r.rest, kind)
        if measured := below is not None and below.rest is not None:
            taken = _exactly(row_cells, int(below.offset, base) - int(r.offset, base))
        else:
            taken = _last(r.rest, row_cells, columns, guttered)
        if not taken:
            return None
        tail = behind(r.rest, taken)
        # More bytes than the next offset allows are a text column that looks like bytes, or not a dump.
        fenced = base == 16 and tail.lstrip()[:1] in ("|", ">")
        is_tail = apart(tail) and (fenced or len(taken) == len(row_cells))
        if measured and not is_tail and not shows(tail, _bytes_of(taken)):
            return None
        words.append((taken, tail))
        guttered = guttered or bool(tail.strip())
        columns = taken if len(taken) >= len(columns) else columns
        data += _bytes_of(taken)
    if not data:
        return None
    _refuse_swapped(rows[0], words, bytes(data))
    notes = ("repeated lines ('*') filled in",) * squeezed
    return Run(rows[0].line, rows[0].indent, start, data, _style(rows[0], kind, words), notes)


def _ends_in_repeats(line: int) -> PasteError:
    return PasteError(
        "the dump ends in '*': nothing says how often the line above it repeats",
        f"line {line}",
        "paste the dump's last line, which is an offset alone, or use hexdump -v",
    )


def _exactly(row_cells: list[_Cell], count: int) -> list[_Cell]:
    """Return the first cells that make ``count`` bytes, or nothing when no boundary is there."""
    sizes = list(accumulate(len(cell.data) for cell in row_cells))
    return row_cells[: sizes.index(count) + 1] if count in sizes else []


def _last(rest: str, row_cells: list[_Cell], columns: list[_Cell], guttered: bool) -> list[_Cell]:
    """Return the cells of a row that no next offset measures."""
    limit = len(row_cells)
    if limit and not guttered and not behind(rest, row_cells).strip():
        return row_cells
    if columns:
        # Bytes stand under bytes: the text column of a short last line does not.
        under = [
            cell.start == above.start and len(cell.data) <= len(above.data)
            for cell, above in zip(row_cells, columns, strict=False)
        ]
        limit = [*under, False].index(False)
    longest = len(row_cells) if limit == len(columns) else limit  # no row above may have been as long
    shown = _shown(rest, row_cells[:longest], bare=not guttered)
    return shown or (row_cells[:limit] if limit and apart(behind(rest, row_cells[:limit])) else [])


def _shown(rest: str, row_cells: list[_Cell], *, bare: bool = False) -> list[_Cell]:
    """Return the first cells, up to where their text column follows; ``bare``: or nothing follows."""
    for count in range(len(row_cells), 0, -1):
        tail = behind(rest, row_cells[:count]).strip()
        if shows(tail, _bytes_of(row_cells[:count])) if tail else bare:
            return row_cells[:count]
    return []


# -- words of several bytes ---------------------------------------------------------------------------


def _refuse_swapped(first: Row, words: list[tuple[list[_Cell], str]], data: bytes) -> None:
    """Raise PasteError for words whose bytes may be swapped; single bytes and groups in plain order pass."""
    if all(len(c.data) == 1 for taken, _ in words for c in taken):
        return
    begins_swapped = begins_frame(words[0][0][0].data[::-1]) and not begins_frame(data)
    shown = [(taken, tail) for taken, tail in words if tail.strip()]
    if shown:
        # A text column in some other alphabet says nothing against the order that is printed.
        plain, swapped = (all(shows(tail, _bytes_of(taken, turned)) for taken, tail in shown) for turned in (0, 1))
        if swapped and (begins_swapped or not plain):
            raise _swapped(first)
    elif (first.rest or "").lstrip()[:2] in PREFIXES or first.mark != ":" or begins_swapped:
        raise _swapped(first)


def _swapped(first: Row) -> PasteError:
    what = "these are words of several bytes: their bytes may be swapped, and the dump does not say"
    return maybe_swapped(what, f"line {first.line}: {(first.rest or '').strip()[:40]}")


_NAMED = lazy_pattern(r"\b(?:nul|soh|stx|etx|eot|enq|ack|dle|dc[1-4]|nak|syn|etb|del)\b")


def _refuse_words(rows: list[Row]) -> None:
    """Raise for the forms of od and hexdump that print words as numbers, or drop the eighth bit."""
    plain = [r for r in rows if r.rest is not None and r.rest.strip()]
    if len(rows) < 2 or rows[1].rest is None or not rows[1].offset:
        return
    first = plain[0]
    tokens = (first.rest or "").split()
    if sum(bool(_NAMED.fullmatch(t)) for t in tokens) >= 3:
        raise PasteError("od -a drops the eighth bit of every byte", f"line {first.line}", "try: hexdump -C FILE")
    if not all(re.fullmatch(r"(?:0x)?[0-9a-fA-F]+|-?\d+", t) for t in tokens) or len({len(t) for t in tokens}) > 4:
        return
    for base in _bases(rows):
        gap = int(rows[1].offset, base) - int(first.offset, base)
        if gap in (2 * len(tokens), 4 * len(tokens), 8 * len(tokens)):
            raise _swapped(first)


def _style(first: Row, kind: _Kind, words: list[tuple[list[_Cell], str]]) -> str:
    tail = words[0][1].strip()
    if kind is not HEX:
        return "gdb x/b" if kind is _KINDS[-1] and first.mark in (":", "<") else kind.name
    if (first.rest or "").lstrip().startswith("0x"):
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


# -- the dumps of a page ------------------------------------------------------------------------------

_STRAY = lazy_pattern(
    r"(?<![0-9A-Za-z])(?:0x)?[0-9a-fA-F]{2}(?:[ ,\t]{0,2}(?:0x)?[0-9a-fA-F]{2}){7}"
    r"|(?<![0-9A-Za-z])[0-9]{1,3}(?:[ \t]+-?[0-9]{1,3}){7}(?![0-9A-Za-z])"
)
#: A field that a dissector prints above its dump: its value is among the dump's bytes.
_FIELD = lazy_pattern(r"^[>|]*\s{4,}[A-Z][\w /()-]{0,60}: (?:0x)?[0-9a-fA-F]+(?:…|\s*[\[(].*)?\s*$")
_DERIVED = lazy_pattern(r"^(?:Reassembled|Decompressed|Uncompressed|Decrypted|De-chunked|Unencoded)\b", re.I)
_CUT_OFF = lazy_pattern(r"\n[ \t]*(?:\.{3,}|…)[ \t]*\s*$")


def _lines_left_out(what: str, how: str, line: int) -> PasteError:
    return PasteError(f"the {what} {how}: lines are left out", f"line {line}", f"paste the {what} whole")


def _blocks(text: str) -> tuple[list[tuple[str, list[Row]]], bool]:
    """Return rows that belong together, with the line above them, and whether bytes stand outside of rows."""
    blocks: list[tuple[str, list[Row]]] = []
    last_noise, fresh, stray = "", True, False
    for number, line in enumerate(text.split("\n"), 1):
        found = row(number, line)
        if found is None:
            if line.strip():
                is_stray = _STRAY.search(line) and not _RULER.match(line) and not _FIELD.match(line)
                last_noise, fresh, stray = line.strip(), True, stray or bool(is_stray)
        elif found.rest is None:
            if blocks:
                blocks[-1][1].append(found)
        else:
            rows = None if fresh else _above(blocks, found)
            if rows is None:
                rows = []
                blocks.append((last_noise, rows))
                last_noise = ""
            rows.append(found)
            fresh = False
    return blocks, stray


def _find_dumps(text: str) -> list[Run]:
    """Return the dumps in ``text``; none where bytes stand outside of them."""
    blocks, stray = _blocks(text)
    runs: list[Run] = []
    if stray or (blocks and not _may_be_dump(blocks[0][1], runs) and _holds_bytes(blocks[0][1])):
        return []
    total, last = 0, list[Row]()
    for title, rows in blocks:
        run = _read_run(rows) if _may_be_dump(rows, runs) else None
        if run is not None:
            _append(runs, run._replace(title=title))
            total, last = total + len(run.data), rows
            if total > LIMIT:
                return []
            continue
        if last:
            _refuse_later_end(rows[0], last[0], runs[-1])
        if len(rows) > 2 and _looks_broken(rows):
            raise PasteError(
                "the offsets of this dump do not follow one another: lines are missing or changed",
                f"line {rows[0].line} and below",
                "paste the dump whole",
            )
        stray = stray or _holds_bytes(rows)
    return [] if stray else runs


def _refuse_later_end(row: Row, first: Row, run: Run) -> None:
    """Raise PasteError for a lone offset, as hexdump and od end their dumps with, that is not where the run ends."""
    alike = row.indent == first.indent and len(row.offset) == len(first.offset) >= 7
    if row.rest is None or row.rest.strip() or not alike:
        return
    if run.end not in [int(row.offset, base) for base in _bases([row])]:
        raise _lines_left_out("dump", f"ends at offset {row.offset}, but byte {run.end} is the next", row.line)


def _above(blocks: list[tuple[str, list[Row]]], found: Row) -> list[Row] | None:
    """Return the rows that a row continues: the last ones in its column, if their offsets are lower; or None.

    Two directions of a conversation take turns, and the second is indented.
    """
    for _, rows in reversed(blocks[-2:]):
        last = next(r for r in reversed(rows) if r.rest is not None)
        right, above = (r.indent + len(r.offset) for r in (found, last))
        if found.indent == last.indent or right == above:
            return rows if int(found.offset, 16) > int(last.offset, 16) else None
    return None


def _holds_bytes(rows: list[Row]) -> bool:
    return any(len(_bytes_of(cells(r.rest, HEX))) >= 8 for r in rows if r.rest)


def _may_be_dump(rows: list[Row], before: list[Run]) -> bool:
    """Return whether these rows are more than hex that happens to have a number in front."""
    first = rows[0]
    digits = unprefixed(first.offset)
    if not first.mark and first.rest is not None and first.rest.lstrip()[:2] in PREFIXES:
        return False  # "0x80 0x57": all of them are bytes
    if len(rows) > 1:
        return bool(first.mark) or len(digits) >= 3
    if any(int(first.offset, 16) == run.end for run in before[-3:]):
        return True
    return len(digits) >= 3 and (bool(first.mark) or not digits.strip("0"))


def _looks_broken(rows: list[Row]) -> bool:
    first = rows[0]
    aligned = first.mark == ":" or not first.offset.strip("0x")
    return aligned and len(first.offset) >= 4 and all(len(cells(r.rest, HEX)) >= 4 for r in rows[:2] if r.rest)


def read_dump(text: str) -> Pasted | None:
    """Return the bytes of every dump in ``text``, or None."""
    found = _find_dumps(text)
    if not found:
        return None
    derived = [run for run in found if _DERIVED.match(run.title)]  # made of the bytes of others
    runs = [run for run in found if run not in derived] or found
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    parts = with_reassembled(*([bytes(run.data) for run in each] for each in (runs, derived)))
    dropped = [run.title for run in derived if run.data not in parts]
    if dropped:
        notes.append(f"{counted(len(dropped), 'derived dump')} dropped ({dropped[0]})")
    if _CUT_OFF.search(text[-80:]):
        notes.append(CUT)
    return Pasted(runs[0].style, parts, tuple(notes))


# -- character dumps, and dumps without offsets -------------------------------------------------------

_OFFSET = lazy_pattern(r"[0-9a-fA-F]{6,8}(?= |$)")
#: Each byte has four columns, and a space is a blank cell: only the columns show where it is.
_OF_CHARACTERS = lazy_pattern(r"(?:[ ]{3}.|[ ]{2}\\.|[ ][0-7]{3})*")
_WIDEST = 1000  # characters in a line of a dump that still has a text column


def _in_hex(characters: str) -> str:
    """Return a row of characters as one of hex digits, with a question mark for what is no byte."""
    shown = [characters[at : at + 4].strip() or " " for at in range(0, len(characters), 4)]
    escaped = ["\\" * (len(each) == 3 or each == "\\") + each for each in shown]
    data = [unescape(each, digits=Digits.OCTAL) if each.isascii() else None for each in escaped]
    return " ".join([byte.hex() if byte else "?" for byte in data])


def read_characters(text: str) -> Pasted | None:
    """Return the bytes of a dump as ``od -c`` and ``hexdump -c`` print it, or None."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.replace("\t", "    ").rstrip()
        offset = found[0] if (found := _OFFSET.match(line)) else ""
        rest = line[len(offset) :]
        rest += " " * (-len(rest) % 4)
        if line != "*" and not _OF_CHARACTERS.fullmatch(rest):
            return None
        if line:
            rows.append(Row(number, 0, offset, "", None if line == "*" else rest))
    shown = [r for r in rows if r.rest is not None]
    longest = max((len(r.rest or "") // 4 for r in shown), default=0)
    numbered = {bool(r.offset) for r in shown}
    # Digits in columns may as well be numbers: an escape, or an offset and a letter, make them characters.
    escapes = re.search(r"\\| [0-7]{3}" if True in numbered else r"\\", "".join(r.rest or "" for r in shown))
    if not longest or len(numbered) > 1 or not escapes or rows[0] is not shown[0]:
        return None
    if False in numbered:
        if len(shown) < len(rows):
            raise _ends_in_repeats(rows[-1].line)
        rows = shown = [r._replace(offset=f"{at * longest:x}") for at, r in enumerate(shown)]
    for base in reversed([*_bases(rows)]):
        # A blank at the end of a row is a byte too, though editors cut it: the offsets that are nearest say how many.
        sizes = {a.line: int(b.offset, base) - int(a.offset, base) for a, b in pairwise(shown)}
        sizes = {line: size for line, size in sizes.items() if size < longest + 16}
        full = [r if r.rest is None else r._replace(rest=_in_hex(r.rest.ljust(4 * sizes.get(r.line, 0)))) for r in rows]
        if run := _read_as(full, HEX, base):
            return Pasted("od -c", (bytes(run.data),), run.notes)
    return None


def read_text_column(text: str) -> Pasted | None:
    """Return the bytes of lines that end in their own text column and have no offsets, or None."""
    lines = [line for line in text.split("\n") if line.strip()]
    parts: list[bytearray] = []
    between = True
    if any(len(line) > _WIDEST for line in lines):
        return None
    for line in lines:
        row = cells(line, HEX)
        taken = _shown(line, row)
        if taken:
            if between:
                parts.append(bytearray())
            parts[-1] += _bytes_of(taken)
        elif len(row) > 1:
            return None
        between = not taken  # a heading separates one dump from the next
    if not parts or min(map(len, parts)) < 8 or sum(map(len, parts)) < 4 * len(lines):
        return None
    return Pasted("hex + ASCII columns", tuple(bytes(part) for part in parts))


# -- the specification's grids and tables -------------------------------------------------------------
# A grid is rows of cells between bars, each row after the offset of its first byte. Rows whose cells are words (the
# drawings of extras) hold no bytes. A table has a line for each field, with its offset. It is read only where there is
# no grid: it repeats the same frame, and where the two differ the grid has the bytes.


_GRID_OFFSET = lazy_pattern(r"(?:0[xX])?[0-9A-Fa-f]{1,8}$")
_CELL = lazy_pattern(
    r"[ \t]*`?(?P<bytes>0[xX](?:[0-9a-fA-F]{2})+|[0-9a-fA-F]{2}(?:[ \t]+[0-9a-fA-F]{2})*)`?[ \t]*"
    r"(?:\([ \t]*(?:'[^\n]{1,6}?'|\"[^\n]{1,6}?\")[ \t]*\)|'[^\n]{1,4}?'|\([^|()\n]*\))?[ \t]*\|"
)
_SPELLED = lazy_pattern(r"\|[ \t`]*0[xX][0-9a-fA-F]{2}")
_GRID_RULER = lazy_pattern(r"0 1 2 3 4 5 6 7\|")
_NO_ROW = lazy_pattern(r"[^|]*$|.*0 1 2 3 4 5 6 7\||\W*Byte/|[^|+]*\+[-=+]{5,}")


def _offsets(printed: str) -> tuple[int, ...]:
    """Return what an offset may be: the specification counts in decimal; drawings made by hand may not."""
    digits = unprefixed(printed)
    return (*((int(digits),) if digits.isdecimal() else ()), *((int(digits, 16),) if digits else ()))


def read_grid(text: str) -> Pasted | None:
    """Return the bytes of every grid in ``text``, or None when it has none."""
    # Where bytes are written with 0x, a heading such as "| 00 | 01 |" is not a row.
    spelled = _SPELLED.search(text) is not None
    if text.count("|") < 4 or not (spelled or _GRID_RULER.search(text)):
        return None
    runs: list[Run] = []
    words = cut = 0
    in_words = False  # in a drawing that says what the bytes mean
    for number, line in enumerate(text.split("\n"), 1):
        if _NO_ROW.match(line):
            continue
        before, _, cells = line.partition("|")
        found = _GRID_OFFSET.search(before.rstrip()[-10:])
        # A row may lack its offset, as in a Markdown table, but then it starts with its bar.
        if not found and before.strip(" \t>*/#+-"):
            continue
        offset = found[0] if found else ""
        data, position, prefixed = bytearray(), 0, False
        while cell := _CELL.match(cells, position):
            data += bytes.fromhex(unprefixed(cell["bytes"]))
            position = cell.end()
            prefixed = prefixed or cell["bytes"][:2] in PREFIXES
        are_bytes = data and "|" not in cells[position:] and (prefixed or not spelled)
        is_open, at = bool(runs) and not in_words, _offsets(offset)
        if is_open and not are_bytes and _SPELLED.search("|" + cells):
            odd = cells[position:].split("|")[0].strip(" \t`")
            if odd:
                raise odd_byte(odd, number, runs[-1].data[-3:].hex(" "))
        if are_bytes and (0 in at or not in_words):
            end = runs[-1].end if runs else 0
            start = next((each for each in (0, end) if each in at), (*at, end)[0])
            _append(runs, Run(number, 0, start, data), "grid", offset)
            in_words = False
        elif offset:
            words += 1
            cut += is_open and 0 not in at
            in_words = True
    fields = sum(bool(_TABLE_FIELD.match(line)) for line in text.split("\n"))
    notes = {
        f"{counted(fields, 'line')} of field list ignored": fields,
        f"{counted(cut, 'grid')} read up to the row that has words instead of bytes": cut,
        f"{counted(words, 'grid row')} without bytes skipped": words,
    }
    parts = tuple(bytes(run.data) for run in runs)
    return Pasted("spec byte grid", parts, tuple(note for note, holds in notes.items() if holds)) if parts else None


_TABLE_FIELD = lazy_pattern(
    r"^[ \t>*/#|!+-]*(?P<name>[A-Za-z][\w #:/-]{0,60}?(?:[ \t]{0,9}\(cid\))?)?:?[ \t]*"
    r"\((?P<first>\d{1,8})(?:[ \t]*[-,–][ \t]*(?P<last>\d{1,8}))?\)[ \t]*:[ \t]?(?P<value>.*)$"
)
_TABLE_HEX = lazy_pattern(r"0[xX](?P<digits>[0-9a-fA-F]+)(?:,[ \t]*0[xX](?P<more>[0-9a-fA-F]+))?(?=[ \t]*(?:$|[(#/]))")
_TEXTUAL = lazy_pattern(r'^(?:The textual string:? *)?"(?P<quoted>.*)"$')
_GRID = "the table leaves bytes out here: paste the frame's hex or byte grid"


def read_table(text: str) -> Pasted | None:
    """Return the bytes in a table ``Field (offset) (value)``, or None when there is no such table."""
    runs: list[Run] = []
    for number, line in enumerate(text.split("\n"), 1):
        if field := _TABLE_FIELD.match(line):
            first = int(field["first"])
            if first and not runs:
                return None
            width = int(field["last"] or first) - first + 1
            value = _value(field["value"], width, f"line {number}: {line.strip()[:60]}")
            _append(runs, Run(number, 0, first, bytearray(value)), "table")
    parts = tuple(bytes(run.data) for run in runs)
    if not parts or min(map(len, parts)) < 8:
        return None
    return Pasted("field table", parts, ("read from the table of fields: no grid",))


def _value(value: str, width: int, where: str) -> bytes:
    number = _TABLE_HEX.match(value.strip())
    if number:
        digits = number["digits"] + (number["more"] or "")
        if len(digits) == 2 * width:
            return bytes.fromhex(digits)
        if len(value.strip()) != width:
            if width <= 8 and len(digits.lstrip("0")) <= 2 * width and len(digits) < 2 * width:
                return int(digits, 16).to_bytes(width, "big")  # "0x1" for a byte, as the pages print it
            raise PasteError(f"{width} bytes wide, but its value has {len(digits)} hex digits", where, _GRID)
    stripped = value.strip()
    for candidate in (value, stripped, _TEXTUAL.sub(r"\g<quoted>", stripped)):
        for data in (candidate.encode("utf-8", "surrogatepass"), unescape(candidate)):
            if data is not None and len(data) == width:
                return data
    raise PasteError(f"{width} bytes wide, but its text has {len(stripped.encode())}", where, _GRID)
