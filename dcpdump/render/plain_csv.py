"""Write plain frames as rows of CSV."""

from typing import Final

from dcpdump.record import columns
from dcpdump.render import View
from dcpdump.render.plain_rows import PlainField, PlainLayout, PlainRows
from dcpdump.render.plain_text import shown_text
from dcpdump.render.plain_writer import PlainWriter
from dcpdump.spec.field import Bits, EnumValue
from dcpdump.spec.names import DATATYPE

#: The cells that any frame may have, besides those of its fields.
_COMMON = """frame packet file time connection src dst offset length gap_before vbucket opaque cas datatype
    datatype_names collection collection_inferred collection_name key key_hex value_length stream_id value problems"""
_DATATYPES: Final = ["|".join(DATATYPE.describe(value)) for value in range(256)]


class _Named:
    """A field whose numbers have names, which stand in a column of their own."""

    def __init__(self, slot: PlainField) -> None:
        self.slot = slot
        self.column = f"{slot.field.key}_names" if isinstance(slot.field.names, Bits) else f"{slot.field.key}_name"
        self._known: dict[int, str] = {}

    def text(self, number: int) -> str:
        """Return what a number is called. There are few: a plan takes only numbers that have names."""
        known = self._known.get(number)
        if known is None:
            names = self.slot.field.names
            known = self._known[number] = "|".join(names.describe(number)) if names is not None else ""
        return known


class _Row:
    """What the rows of one layout have in common: the text before each of its cells, and behind the last."""

    def __init__(self, layout: PlainLayout) -> None:
        self.slots = layout.slots
        self.named = [_Named(slot) for slot in layout.slots if isinstance(slot.field.names, (Bits, EnumValue))]
        own = {slot.field.key: slot.field.name for slot in self.slots} | {
            each.column: each.column for each in self.named
        }
        fixed = {
            "magic": str(layout.magic),
            "kind": "request",
            "opcode": str(layout.message.opcode),
            "name": layout.message.name,
            "layout": layout.plan.layout.version,
        }
        common = set(_COMMON.split())
        self.cells: list[tuple[str, str]] = []
        before = ""
        for number, name in enumerate(columns()):
            before += "," if number else ""
            if name in own or name in common:
                self.cells.append((before, own.get(name, name)))
                before = ""
            else:
                before += fixed.get(name, "")
        self.end = before + "\r\n"


class PlainCsv(PlainWriter):
    """Writes rows, which have the same columns for all layouts."""

    def __init__(self, view: View) -> None:
        self._limit = -1 if view.value_bytes is None else view.value_bytes
        self._rows: dict[PlainLayout, _Row] = {}

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the row of the frame that is loaded."""
        row = self._rows.get(frames.layout)
        if row is None:
            row = self._rows[frames.layout] = _Row(frames.layout)
        cells = self._cells(frames)
        for slot in row.slots:
            field = slot.field
            cells[field.name] = f"0x{frames.hex_text(slot.at, slot.end)}" if field.identity else str(frames.field(slot))
        for named in row.named:
            cells[named.column] = named.text(frames.field(named.slot))
        text = ""
        for before, name in row.cells:
            text += before + cells[name]
        out.append(f"{text}{row.end}".encode())

    def _cells(self, frames: PlainRows) -> dict[str, str]:
        """Return what is in the cells that any frame may have."""
        ends, layout = frames.places[frames.place], frames.layout
        value = frames.value[: self._limit] if self._limit >= 0 else frames.value
        return {
            "frame": str(frames.number),
            "packet": str(frames.packet),
            "file": _cell(frames.file),
            "time": frames.time_text(),
            "connection": str(ends.connection),
            "src": ends.src,
            "dst": ends.dst,
            "offset": str(frames.offset),
            "length": str(frames.length),
            "gap_before": str(frames.gap),
            "vbucket": str(frames.vbucket),
            "opaque": str(frames.opaque),
            "cas": f"0x{frames.hex_text(16, 24)}",
            "datatype": str(frames.datatype),
            "datatype_names": _DATATYPES[frames.datatype],
            "collection": str(frames.collection) if frames.collection >= 0 else "",
            "collection_inferred": "true" if frames.collection >= 0 and frames.inferred else "",
            "collection_name": _cell(frames.collection_name()),
            "key": _cell(shown_text(frames.key)),
            "key_hex": frames.wire_key.hex(),
            "value_length": str(frames.whole_length) if frames.value_length else "",
            "stream_id": str(frames.stream_id) if layout.framed else "",
            "value": _cell(shown_text(value)) if layout.has_value else "",
            "problems": _cell(frames.fault),
        }


def _cell(text: str) -> str:
    if '"' in text or "," in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text
