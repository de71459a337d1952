"""Read grids: the specification's byte drawings, and its table ``Field (offset) (value)``.

A grid is rows of cells between bars, each row after the offset of its first byte. Rows whose cells are words (the
drawings of extras) hold no bytes. A table is read only where there is no grid: it repeats the same frame, and where the
two differ the grid has the bytes.
"""

from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.odd import odd_byte
from dcpdump.paste.pasted import Pasted
from dcpdump.plural import counted

_OFFSET = lazy_pattern(r"(?:0[xX])?[0-9A-Fa-f]{1,8}$")
_CELL = lazy_pattern(
    r"[ \t]*`?(?P<bytes>0[xX](?:[0-9a-fA-F]{2})+|[0-9a-fA-F]{2}(?:[ \t]+[0-9a-fA-F]{2})*)`?[ \t]*"
    r"(?:\([ \t]*(?:'[^\n]{1,6}?'|\"[^\n]{1,6}?\")[ \t]*\)|'[^\n]{1,4}?'|\([^|()\n]*\))?[ \t]*\|"
)
_SPELLED = lazy_pattern(r"\|[ \t`]*0[xX][0-9a-fA-F]{2}")
_RULER = lazy_pattern(r"0 1 2 3 4 5 6 7\|")
_BORDER = lazy_pattern(r"^[^|+]*\+[-=+]{5,}")
_BYTES_LINE = lazy_pattern(r"^\W*Byte/")


class _GridRow(NamedTuple):
    line: int
    offset: str
    data: bytes | None  # None: cells of words
    odd: str  # the first cell that is not a byte, where others are bytes in 0x


def _rows(text: str) -> list[_GridRow]:
    rows = []
    # Where bytes are written with 0x, a heading such as "| 00 | 01 |" is not a row.
    spelled = _SPELLED.search(text) is not None
    for number, line in enumerate(text.split("\n"), 1):
        if "|" not in line or _RULER.search(line) or _BYTES_LINE.match(line) or _BORDER.match(line):
            continue
        before, _, cells = line.partition("|")
        offset = _OFFSET.search(before.rstrip()[-10:])
        # A row may lack its offset, as in a Markdown table, but then it starts with its bar.
        if not offset and before.strip(" \t>*/#+-"):
            continue
        data, position, prefixed = bytearray(), 0, False
        while cell := _CELL.match(cells, position):
            data += bytes.fromhex(cell["bytes"].removeprefix("0x").removeprefix("0X"))
            position = cell.end()
            prefixed = prefixed or (cell["bytes"][:1] == "0" and cell["bytes"][1:2] in "xX")
        whole = bool(data) and "|" not in cells[position:] and (prefixed or not spelled)
        odd = "" if whole or not _SPELLED.search("|" + cells) else cells[position:].split("|")[0].strip(" \t`")
        rows.append(_GridRow(number, offset[0] if offset else "", bytes(data) if whole else None, odd))
    return rows


def read_grid(text: str) -> Pasted | None:
    """Return the bytes of every grid in ``text``, or None when it has none."""
    if text.count("|") < 4 or not (_RULER.search(text) or _SPELLED.search(text)):
        return None
    grids: list[bytearray] = []
    words = cut = 0
    open_grid: bytearray | None = None
    in_words = False  # in a drawing that says what the bytes mean
    for row in _rows(text):
        if row.odd and open_grid is not None:
            raise odd_byte(row.odd, row.line, open_grid[-3:].hex(" "))
        if row.data is None or (in_words and not _starts(row.offset)):
            words += bool(row.offset)
            if row.offset:
                cut += open_grid is not None and not _starts(row.offset)
                open_grid, in_words = None, True
            continue
        in_words = False
        if _starts(row.offset) or open_grid is None:
            if row.offset and not _starts(row.offset):
                raise PasteError(
                    f"this grid's first row is byte {row.offset}, not 0",
                    f"line {row.line}",
                    "paste the grid from its first row",
                )
            open_grid = bytearray()
            grids.append(open_grid)
        elif row.offset and not _is_at(row.offset, len(open_grid)):
            raise PasteError(
                f"a row of the grid is missing: byte {row.offset} follows {counted(len(open_grid), 'byte')}",
                f"line {row.line}",
                "paste every row of the grid",
            )
        open_grid += row.data
    if not grids:
        return None
    notes = []
    fields = sum(bool(_FIELD.match(line)) for line in text.split("\n"))
    if fields:
        notes.append(f"{counted(fields, 'line')} of field list ignored")
    if cut:
        notes.append(f"{counted(cut, 'grid')} read up to the row that has words instead of bytes")
    if words:
        notes.append(f"{counted(words, 'grid row')} without bytes skipped")
    return Pasted("spec byte grid", tuple(bytes(grid) for grid in grids), tuple(notes))


def _starts(offset: str) -> bool:
    return bool(offset) and not offset.lstrip("0xX")


def _is_at(offset: str, position: int) -> bool:
    # The specification counts in decimal; drawings made by hand may not.
    digits = offset[2:] if offset[:2] in ("0x", "0X") else offset
    return (digits.isdecimal() and int(digits) == position) or int(digits or "0", 16) == position


# The table ──────────────────────────────────────────────────────────────────────────────────────────────────

_FIELD = lazy_pattern(
    r"^[ \t>*/#|!+-]*(?P<name>[A-Za-z][\w #:/-]{0,60}?(?:[ \t]{0,9}\(cid\))?)?:?[ \t]*"
    r"\((?P<first>\d{1,8})(?:[ \t]*[-,–][ \t]*(?P<last>\d{1,8}))?\)[ \t]*:[ \t]?(?P<value>.*)$"
)
_HEX = lazy_pattern(r"0[xX](?P<digits>[0-9a-fA-F]+)(?:,[ \t]*0[xX](?P<more>[0-9a-fA-F]+))?(?=[ \t]*(?:$|[(#/]))")
_TEXTUAL = lazy_pattern(r'^(?:The textual string:? *)?"(?P<quoted>.*)"$')
_ESCAPE = lazy_pattern(r"\\(?:x([0-9a-fA-F]{2})|([\\ntr0\"']))")
_ESCAPED = {"\\": b"\\", "n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", '"': b'"', "'": b"'"}


def read_table(text: str) -> Pasted | None:
    """Return the bytes in a table ``Field (offset) (value)``, or None when there is no such table."""
    frames: list[bytearray] = []
    for number, line in enumerate(text.split("\n"), 1):
        field = _FIELD.match(line)
        if not field:
            continue
        first = int(field["first"])
        width = int(field["last"] or first) - first + 1
        if first == 0:
            frames.append(bytearray())
        if not frames:
            return None
        where = f"line {number}: {line.strip()[:60]}"
        if first != len(frames[-1]):
            raise PasteError(
                f"the table goes from byte {len(frames[-1])} to byte {first}",
                where,
                "paste all rows of the table, or the frame's byte grid",
            )
        frames[-1] += _value(field["value"], width, where)
    if not frames or min(map(len, frames)) < 8:
        return None
    return Pasted("field table", tuple(bytes(frame) for frame in frames), ("read from the table of fields: no grid",))


def _value(value: str, width: int, where: str) -> bytes:
    number = _HEX.match(value.strip())
    if number:
        digits = number["digits"] + (number["more"] or "")
        if len(digits) == 2 * width:
            return bytes.fromhex(digits)
        if len(value.strip()) != width:
            if width <= 8 and len(digits.lstrip("0")) <= 2 * width and len(digits) < 2 * width:
                return int(digits, 16).to_bytes(width, "big")  # "0x1" for a byte, as the pages print it
            raise PasteError(f"{width} bytes wide, but its value has {len(digits)} hex digits", where, _GRID)
    stripped = value.strip()
    quoted = _TEXTUAL.match(stripped)
    for candidate in (value, stripped, *([quoted["quoted"]] if quoted else [])):
        for data in (candidate.encode("utf-8", "surrogatepass"), _unescaped(candidate)):
            if len(data) == width:
                return data
    raise PasteError(f"{width} bytes wide, but its text has {len(stripped.encode())}", where, _GRID)


_GRID = "the table leaves bytes out here: paste the frame's hex or byte grid"


def _unescaped(text: str) -> bytes:
    data, position = bytearray(), 0
    for escape in _ESCAPE.finditer(text):
        data += text[position : escape.start()].encode("utf-8", "surrogatepass")
        data += bytes.fromhex(escape[1]) if escape[1] else _ESCAPED[escape[2]]
        position = escape.end()
    return bytes(data + text[position:].encode("utf-8", "surrogatepass"))
