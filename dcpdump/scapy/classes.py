"""Make a class of scapy's for each layout of each message, from the protocol table."""

import re
from collections.abc import Iterable
from typing import Any

from scapy.fields import FieldLenField, FieldListField, PacketListField, StrLenField
from scapy.packet import Packet as ScapyPacket

from dcpdump.scapy.packets import BY_LAYOUT, DCP, DCPResponse, header_of, number
from dcpdump.spec import ERROR, MESSAGES, PUSHES, RAW
from dcpdump.spec.field import Blob, EnumValue, Field, FlatTable, Layout, Message, Repeat
from dcpdump.spec.header import SERVER_REQUEST, SERVER_RESPONSE

CLASSES: dict[str, Any] = {}  #: by name
#: The most items of a group: scapy's own limit is 100, but a bucket has 1,024 vbuckets. The bytes bound it anyway.
_MOST = 1 << 32


class _Item(ScapyPacket):  # type: ignore[misc]
    """One item of a repeated group."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class _Items(PacketListField):  # type: ignore[misc]
    """The items of a repeated group; each may be given as a dict of its fields."""

    def any2i(self, pkt: Any, x: Any) -> Any:
        return super().any2i(pkt, [self.cls(**each) if isinstance(each, dict) else each for each in x or ()])


class _Table(StrLenField):  # type: ignore[misc]
    """The bytes of a FlatBuffers table, shown with the values of its fields."""

    def i2repr(self, pkt: Any, x: bytes) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in pkt.flat().items())
        return f"{x!r} ({shown})" if shown else repr(x)


def _blob(blob: Blob) -> list[Any]:
    return [StrLenField(blob.name, b"", length_from=lambda item: item.getfieldval(blob.size) or 0)]


def _sized(field: Field | Blob, blobs: dict[str, str]) -> list[Any]:
    if isinstance(field, Blob):
        return _blob(field)
    if field.name in blobs:
        width = {1: "B", 2: "!H", 4: "!I"}[field.width]
        return [FieldLenField(field.name, None, length_of=blobs[field.name], fmt=width)]
    return [number(field)]


def _repeat(name: str, repeat: Repeat) -> Any:
    how = {"length_from": lambda pkt: pkt.value_length(), "max_count": _MOST}
    if len(repeat.fields) == 1 and isinstance(repeat.fields[0], Field):
        return FieldListField(repeat.name, [], number(repeat.fields[0]), **how)
    blobs = {field.size: field.name for field in repeat.fields if isinstance(field, Blob)}
    fields = [made for field in repeat.fields for made in _sized(field, blobs)]
    item = type(f"{name}_{repeat.name}", (_Item,), {"fields_desc": fields, "name": repeat.name})
    return _Items(repeat.name, [], item, **how)


def _body(name: str, layout: Layout) -> tuple[list[Any], int]:
    """Return the fields after the framing extras, and how many bytes of the value are fields."""
    if layout in (RAW, ERROR):
        return DCP.fields_desc[-3:], 0
    fields = [
        FieldLenField(each.name, None, length_of="metadata", fmt="!H") if each.name == layout.tail else number(each)
        for each in layout.extras
    ]
    fields.append(StrLenField("key", b"", length_from=lambda pkt: pkt.key_length or 0))
    fixed = [part for part in layout.parts if isinstance(part, Field)]
    fields += map(number, fixed)
    repeats = [part for part in layout.parts if isinstance(part, Repeat)]
    fields += [_repeat(name, part) for part in repeats]
    if not repeats:  # those reach to the end of the value
        kind = StrLenField if _table(layout) is None else _Table
        fields.append(kind("value", b"", length_from=lambda pkt: pkt.value_length()))
    if layout.tail:
        tail = layout.tail
        fields.append(StrLenField("metadata", b"", length_from=lambda pkt: pkt.getfieldval(tail) or 0))
    return fields, sum(part.width for part in fixed)


def _table(layout: Layout) -> FlatTable | None:
    """Return the FlatBuffers table of a layout's value, if it is one."""
    return next((part for part in layout.parts if isinstance(part, FlatTable)), None)


def _make(message: Message, layout: Layout, name: str, parent: Any, *, response: bool, server: bool) -> Any:
    body, fixed = _body(name, layout)
    values = {
        "EXTRAS": None if layout in (RAW, ERROR) else layout.extras_length,
        "FIXED": fixed,
        "TAIL": layout.tail,
        "TABLE": _table(layout),
    }
    magic, flexible = (
        (SERVER_RESPONSE if response else SERVER_REQUEST,) * 2 if server else (parent.MAGIC, parent.FLEXIBLE)
    )
    facts = {key: fact for key, fact in layout.when.items() if key not in ("extras_length", "value_length")}
    fields = [*header_of(response=response, server=server, opcode=message.opcode), *body]
    for field in fields:
        if field.name in facts:
            field.default = facts[field.name]
    made = type(
        name,
        (parent,),
        {
            "fields_desc": fields,
            "name": name,
            "MAGIC": magic,
            "FLEXIBLE": flexible,
            "__doc__": f"{message.name} {'response' if response else 'request'}, layout {layout.version}.",
            "__module__": "dcpdump.scapy",
            **values,
        },
    )
    BY_LAYOUT[message.opcode, response, server, id(layout)] = made
    CLASSES[name] = made
    return made


def _suffix(layout: Layout) -> str:
    """Return the suffix of a layout's class name, from its conditions and its version."""
    called = [
        next(iter(field.names.describe(layout.when[field.name])), "")
        for field in layout.extras
        if field.name in layout.when and isinstance(field.names, EnumValue)
    ]
    return re.sub(r"\W", "_", "_".join([*filter(None, called), layout.version]))


def _make_all(messages: Iterable[Message], *, server: bool) -> None:
    for message in messages:
        for response, base in ((False, DCP), (True, DCPResponse)):
            layouts = message.response if response else message.request
            if not message.known:
                layouts = (RAW,)
            elif response:
                layouts = (*layouts, ERROR)
            stem = re.sub(r"\W", "_", message.name) + ("_RESPONSE" if response else "")
            first = _make(message, layouts[0], stem, base, response=response, server=server)
            for layout in layouts[1:]:
                _make(message, layout, f"{stem}_{_suffix(layout)}", first, response=response, server=server)


def class_of_layout(message: Message, layout: Layout, *, response: bool) -> Any:
    """Return the class of one layout of a message."""
    return BY_LAYOUT[message.opcode, response, PUSHES.get(message.opcode) is message, id(layout)]


_make_all(MESSAGES.values(), server=False)
_make_all(PUSHES.values(), server=True)
