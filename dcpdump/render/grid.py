"""Draw the specification's byte grid: four bytes a row, offsets at the left, printable bytes of text beside them."""

from dcpdump.record import Record
from dcpdump.render import table
from dcpdump.render.style import Line, LineKind
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.frame import Section

HEAD = (
    "      Byte/     0       |       1       |       2       |       3       |",
    "         /              |               |               |               |",
    "        |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|",
)
_RULE = "+---------------"
_TEXT = (Section.KEY, Section.VALUE)


def lines(record: Record, value_bytes: int | None) -> list[Line]:
    """Return the frame's bytes and then its table; ``value_bytes`` limits how much of the value is drawn."""
    return [*_grid(record, value_bytes), Line(LineKind.PLAIN, ""), *table.lines(record, value_bytes)]


def _grid(record: Record, value_bytes: int | None) -> list[Line]:
    data = record.frame.raw.data
    shown = len(data)
    value = next((field for field in record.frame.fields if field.section is Section.VALUE), None)
    if value is not None and value_bytes is not None and len(data) - value.start > value_bytes:
        shown = (value.start + value_bytes + 3) // 4 * 4
        shown = min(shown, len(data))
    texts = bytearray(len(data))  # 1 where a byte is of a text
    for field in record.frame.fields:
        if field.section in _TEXT and isinstance(field.value, bytes):
            texts[field.start : field.end] = b"\1" * (field.end - field.start)
    out = [*HEAD, rule(4)]
    for start in range(0, shown, 4):
        row = data[start : min(start + 4, shown)]
        cells = "".join(f"| {_cell(byte, texts[start + i] == 1):<14}" for i, byte in enumerate(row))
        out += [f"{start:8d}{cells}|", rule(len(row))]
    if shown < len(data):
        out.append(f"        … {len(data) - shown:,} more bytes")
    return [*(Line(LineKind.GRID, text) for text in out), Line(LineKind.PLAIN, f"        {_total(record)}")]


def rule(cells: int) -> str:
    """Return the line under a row of so many bytes."""
    return " " * 8 + _RULE * cells + "+"


def _cell(byte: int, text: bool) -> str:
    return f"0x{byte:02x} ('{chr(byte)}')" if text and 0x20 <= byte < 0x7F else f"0x{byte:02x}"


def _total(record: Record) -> str:
    header = record.frame.header
    parts = [f"{min(HEADER_LENGTH, len(record.frame.raw.data))} byte header"]
    for size, name in (
        (header.framing_length, "framing extras"),
        (header.extras_length, "extras"),
        (header.key_length, "key"),
        (header.value_length, "value"),
    ):
        if size > 0:
            parts.append(f"{size} byte {name}")
    if record.problems:
        return f"Total {len(record.frame.raw.data)} bytes"
    return f"Total {len(record.frame.raw.data)} bytes ({' + '.join(parts)})"
