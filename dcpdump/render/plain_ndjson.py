"""Write plain frames as JSON, an object a line."""

from json.encoder import encode_basestring as quoted
from typing import Final

from dcpdump.render import View
from dcpdump.render.field_texts import FieldTexts, side_by_side
from dcpdump.render.plain_rows import PlainField, PlainLayout, PlainRows
from dcpdump.render.plain_text import shown
from dcpdump.render.plain_writer import PlainWriter
from dcpdump.spec.field import Bits, EnumValue
from dcpdump.spec.names import DATATYPE
from dcpdump.wire.frame import Fault

_NOT_JSON: Final = quoted(Fault.NOT_JSON.value)


class _Names:
    """What the numbers of a field are called, as a member of an object."""

    def __init__(self, slot: PlainField) -> None:
        self.slot = slot
        self._known: dict[int, bytes] = {}

    def text(self, number: int) -> bytes:
        """Return the member, with a comma before it. There are few: a plan takes only numbers that have names."""
        known = self._known.get(number)
        if known is None:
            field = self.slot.field
            words = field.names.describe(number) if field.names else ()
            if isinstance(field.names, Bits):
                text = f', "{field.key}_names": [{", ".join(map(quoted, words))}]'
            else:
                text = f', "{field.key}_name": {quoted("".join(words))}'
            known = self._known[number] = text.encode()
        return known


class _Members(FieldTexts):
    """Fields side by side as members of an object."""

    def __init__(self, slots: list[PlainField], before: str) -> None:
        super().__init__(slots)
        self._before = before
        self._slots = slots

    def made(self, frames: PlainRows) -> bytes:
        """Return the members of the frame that is loaded, and what stands before them."""
        if len(self._slots) == 1:
            return f"{self._before}{_member(self._slots[0], frames)}".encode()
        return f"{self._before}{', '.join([_member(slot, frames) for slot in self._slots])}".encode()


def _member(slot: PlainField, frames: PlainRows) -> str:
    if slot.field.identity:
        return f'"{slot.field.key}": "0x{frames.hex_text(slot.at, slot.end)}"'
    return f'"{slot.field.key}": {frames.field(slot)}'


class _Object:
    """What the objects of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.kind = (
            f'"magic": {layout.magic}, "kind": "request", "opcode": {message.opcode}, "name": {quoted(message.name)}, '
            f'"layout": {quoted(layout.plan.layout.version)}'
        )
        begin = ', "fields": {'
        self.members = [
            _Members(slots, ", " if number else begin) for number, slots in enumerate(side_by_side(layout.slots))
        ]
        self.names = [_Names(slot) for slot in layout.slots if isinstance(slot.field.names, (Bits, EnumValue))]


class PlainNdjson(PlainWriter):
    """Writes objects with the keys that records have, in their order."""

    def __init__(self, view: View) -> None:
        self._limit = -1 if view.value_bytes is None else view.value_bytes
        self._objects: dict[PlainLayout, _Object] = {}
        self._ends: list[str] = []
        self._datatypes = [
            f'{value}, "datatype_names": [{", ".join(map(quoted, DATATYPE.describe(value)))}]' if value else "0"
            for value in range(8)
        ]
        # Of the frame before, which is often of the same packet, and of the same stream:
        self._packet = -1
        self._place = -1
        self._file = ""
        self._source = b""
        self._vbucket = -1
        self._opaque = -1
        self._stream = ""

    def begin(self, frames: PlainRows) -> None:
        """Prepare for the frames of a part."""
        self._ends = [
            f'"connection": {ends.connection}, "src": {quoted(ends.src)}, "dst": {quoted(ends.dst)}'
            for ends in frames.places
        ]
        self._packet = -1

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the object of the frame that is loaded."""
        layout = frames.layout
        shape = self._objects.get(layout)
        if shape is None:
            shape = self._objects[layout] = _Object(layout)
        out.append(f'{{"frame": {frames.number}, '.encode())
        out.append(self._source_of(frames))
        out.append(
            f'"offset": {frames.offset}, "length": {frames.length}, "gap_before": {frames.gap}, {shape.kind}, '
            f'{self._stream_of(frames)}"cas": "0x{frames.hex_text(16, 24)}", '
            f'"datatype": {self._datatypes[frames.datatype]}'.encode()
        )
        if layout.framed:
            out.append(
                f', "framing": [{{"name": "DcpStreamId", "stream_id": {frames.stream_id}}}]'
                f', "stream_id": {frames.stream_id}'.encode()
            )
        if shape.members:
            for members in shape.members:
                out.append(members.text(frames))
            for names in shape.names:
                out.append(names.text(frames.field(names.slot)))
            out.append(b"}")
        if frames.collection >= 0:
            out.append(self._collection(frames))
        if frames.key_end > frames.key_at:
            out.append(b', "key": ')
            out.append(_quoted(shown(frames.key)))
            out.append(f', "key_hex": "{frames.wire_key.hex()}"'.encode())
        if frames.value_length:
            out.append(f', "value_length": {frames.whole_length}'.encode())
            if layout.has_value and self._limit:
                out.append(b', "value": ')
                value, limit = frames.value, self._limit
                head = value if limit < 0 or len(value) <= limit else value[:limit]
                out.append(_quoted(frames.shown_of_value(head)))
        if frames.fault:
            out.append(
                f', "problems": [{{"code": {_NOT_JSON}, "text": {quoted(frames.fault)}, '
                f'"offset": {frames.key_end}, "length": {frames.value_length}}}]'.encode()
            )
        out.append(b"}\n")

    def _source_of(self, frames: PlainRows) -> bytes:
        """Return the members for the packet and the direction."""
        if frames.packet != self._packet or frames.place != self._place or frames.file != self._file:
            self._packet, self._place, self._file = frames.packet, frames.place, frames.file
            self._source = (
                f'"packet": {frames.packet}, "file": {quoted(frames.file)}, '
                f'"time": "{frames.time_text()}", {self._ends[frames.place]}, '.encode()
            )
        return self._source

    def _stream_of(self, frames: PlainRows) -> str:
        """Return the members for the vbucket and the opaque."""
        vbucket, opaque = frames.vbucket, frames.opaque
        if vbucket != self._vbucket or opaque != self._opaque:
            self._vbucket, self._opaque = vbucket, opaque
            self._stream = f'"vbucket": {vbucket}, "opaque": {opaque}, '
        return self._stream

    def _collection(self, frames: PlainRows) -> bytes:
        inferred = ', "collection_inferred": true' if frames.inferred else ""
        name = frames.collection_name()
        named = f', "collection_name": {quoted(name)}' if name else ""
        return f', "collection": {frames.collection}{inferred}{named}'.encode()


def _quoted(text: bytes) -> bytes:
    """Return text without control characters as a string of JSON."""
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
