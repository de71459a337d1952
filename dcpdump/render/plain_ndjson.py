"""Write plain frames as JSON, an object a line."""

from json.encoder import encode_basestring as quoted
from typing import Final

from dcpdump.render import View
from dcpdump.render.plain_layout import PlainField, PlainLayout
from dcpdump.render.plain_rows import PlainRows
from dcpdump.render.plain_text import shown_text
from dcpdump.render.plain_writer import PlainWriter
from dcpdump.spec.field import Bits, EnumValue
from dcpdump.spec.names import DATATYPE
from dcpdump.wire.frame import Fault

_NOT_JSON: Final = quoted(Fault.NOT_JSON.value)


class _Member:
    """A field as members of an object: its number, and for some what that is called."""

    def __init__(self, slot: PlainField) -> None:
        self.slot = slot
        self.identity = slot.field.identity
        self.name = f'"{slot.field.name}": '
        self._named: dict[int, str] = {}

    @property
    def is_named(self) -> bool:
        """Return whether there is a second member, which says what the number is called."""
        return isinstance(self.slot.field.names, (Bits, EnumValue))

    def names(self, number: int) -> str:
        """Return the second member. There are few: a plan takes only numbers that have names."""
        known = self._named.get(number)
        if known is None:
            field = self.slot.field
            words = field.names.describe(number) if field.names else ()
            if isinstance(field.names, Bits):
                known = f', "{field.name}_names": [{", ".join(map(quoted, words))}]'
            else:
                known = f', "{field.name}_name": {quoted("".join(words))}'
            self._named[number] = known
        return known


class _Object:
    """What the objects of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.kind = (
            f'"magic": {layout.magic}, "kind": "request", "opcode": {message.opcode}, "name": {quoted(message.name)}, '
            f'"layout": {quoted(layout.plan.layout.version)}'
        )
        self.members = [_Member(slot) for slot in layout.slots]
        self.named = [member for member in self.members if member.is_named]


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

    def begin(self, frames: PlainRows) -> None:
        """Prepare for the frames of a part."""
        self._ends = [
            f'"connection": {ends.connection}, "src": {quoted(ends.src)}, "dst": {quoted(ends.dst)}'
            for ends in frames.places
        ]

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the object of the frame that is loaded."""
        layout = frames.layout
        shape = self._objects.get(layout)
        if shape is None:
            shape = self._objects[layout] = _Object(layout)
        text = [
            f'{{"frame": {frames.number}, "packet": {frames.packet}, "file": {quoted(frames.file)}, '
            f'"time": "{frames.time_text()}", {self._ends[frames.place]}, "offset": {frames.offset}, '
            f'"length": {frames.length}, "gap_before": {frames.gap}, {shape.kind}, "vbucket": {frames.vbucket}, '
            f'"opaque": {frames.opaque}, "cas": "0x{frames.hex_text(16, 24)}", '
            f'"datatype": {self._datatypes[frames.datatype]}'
        ]
        if layout.framed:
            text.append(f', "framing": [{{"name": "DcpStreamId", "stream_id": {frames.stream_id}}}]')
            text.append(f', "stream_id": {frames.stream_id}')
        if shape.members:
            text.append(self._fields(frames, shape))
        if frames.collection >= 0:
            text.append(f', "collection": {frames.collection}')
            if frames.inferred:
                text.append(', "collection_inferred": true')
            name = frames.collection_name()
            if name:
                text.append(f', "collection_name": {quoted(name)}')
        if frames.key_end > frames.key_at:
            text.append(f', "key": {quoted(shown_text(frames.key))}, "key_hex": "{frames.wire_key.hex()}"')
        if frames.value_length:
            text.append(f', "value_length": {frames.value_length}')
            if layout.has_value and self._limit:
                text.append(f', "value": {quoted(shown_text(self._head(frames.value)))}')
        if frames.fault:
            text.append(f', "problems": [{{"code": {_NOT_JSON}, "text": {quoted(frames.fault)}, ')
            text.append(f'"offset": {frames.key_end}, "length": {frames.value_length}}}]')
        text.append("}\n")
        out.append("".join(text).encode())

    def _fields(self, frames: PlainRows, shape: _Object) -> str:
        text = ', "fields": {'
        between = ""
        for member in shape.members:
            slot = member.slot
            if member.identity:
                text += f'{between}{member.name}"0x{frames.hex_text(slot.at, slot.end)}"'
            else:
                text += f"{between}{member.name}{frames.field(slot)}"
            between = ", "
        for member in shape.named:
            text += member.names(frames.field(member.slot))
        return f"{text}}}"

    def _head(self, value: bytes) -> bytes:
        return value if self._limit < 0 or len(value) <= self._limit else value[: self._limit]
