"""Define DCP and DCPResponse: any frame as a packet of scapy's, in sections."""

from typing import Any, ClassVar

from scapy.fields import StrLenField
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw

from dcpdump.scapy.header_fields import header_of
from dcpdump.spec import MESSAGES, PUSHES, choose
from dcpdump.spec.field import Field, FlatTable, Layout
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    ALT_CLIENT_RESPONSE,
    CLIENT_REQUEST,
    CLIENT_RESPONSE,
    HEADER_LENGTH,
    MAGICS,
)
from dcpdump.wire.flat import FlatError, place_slots
from dcpdump.wire.frame import Header, magic_of, unpack_header

_Key = tuple[int, bool, bool, int]  #: opcode, response, server, identity of the layout
BY_LAYOUT: dict[_Key, Any] = {}  #: the classes of layouts, as they are made


class DCP(ScapyPacket):  # type: ignore[misc]
    """Any frame, in sections. ``DCP(data)`` is the class of the layout that the bytes follow, where one fits."""

    name = "DCP"
    match_subclass = True  # pkt[DCP] finds every frame, pkt[DCP_SNAPSHOT_MARKER] those of all its layouts
    MAGIC, FLEXIBLE = CLIENT_REQUEST, ALT_CLIENT_REQUEST
    EXTRAS: int | None = None  #: bytes of extras, None where they vary
    FIXED = 0  #: bytes of the value that have fields of their own
    TAIL = ""  #: the field that sizes the metadata behind the value
    TABLE: FlatTable | None = None  #: the FlatBuffers table that the value is
    fields_desc: ClassVar[list[Any]] = [
        *header_of(response=False, server=False, opcode=None),
        StrLenField("extras", b"", length_from=lambda packet: packet.extras_length or 0),
        StrLenField("key", b"", length_from=lambda packet: packet.key_length or 0),
        StrLenField("value", b"", length_from=lambda packet: packet.value_length()),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: Any, **_fields: Any) -> Any:
        """Return the class of the layout that a frame's bytes follow."""
        if not _pkt:
            return cls
        return class_of(_pkt) if len(_pkt) >= HEADER_LENGTH else Raw

    def value_length(self) -> int:
        """Return the bytes that the header leaves for the value without its fields and without metadata."""
        taken = (self.framing_length or 0) + (self.extras_length or 0) + (self.key_length or 0) + self.FIXED
        metadata = (self.getfieldval(self.TAIL) or 0) if self.TAIL else 0
        return max(0, (self.body_length or 0) - taken - metadata)

    def flat(self) -> dict[str, int | bytes]:
        """Return the fields of a value that is a FlatBuffers table, those that it has; none where it is not one."""
        if self.TABLE is None:
            return {}
        try:
            return {placed.field.name: placed.value for placed in place_slots(self.value, self.TABLE)}
        except FlatError:
            return {}

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the length of the body."""
        if self.body_length is None:
            pkt = pkt[:8] + (len(pkt) - HEADER_LENGTH).to_bytes(4, "big") + pkt[12:]
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> Any:
        """Take what follows for the next frame, if it begins like one."""
        return DCP if payload[0] in MAGICS else Raw

    def answers(self, other: Any) -> int:
        """Return whether this is the response to a request: the same opcode and opaque."""
        response = isinstance(other, DCP) and magic_of(self.magic or self.MAGIC).response
        asked = response and not magic_of(other.magic or other.MAGIC).response
        return int(asked and (self.opcode, self.opaque) == (other.opcode, other.opaque))


class DCPResponse(DCP):
    """Any response, in sections."""

    name = "DCP response"
    MAGIC, FLEXIBLE = CLIENT_RESPONSE, ALT_CLIENT_RESPONSE
    fields_desc: ClassVar[list[Any]] = [*header_of(response=True, server=False, opcode=None), *DCP.fields_desc[-3:]]


def class_of(data: bytes) -> Any:
    """Return the class that the bytes of a frame are; DCP or DCPResponse where no layout fits them whole."""
    header = unpack_header(data)
    magic = MAGICS.get(header.magic)
    if magic is None or header.value_length < 0:
        return DCP
    base = DCPResponse if magic.response else DCP
    message = (PUSHES if magic.server else MESSAGES).get(header.opcode)
    if message is None:
        return base
    extras_at = HEADER_LENGTH + header.framing_length
    layout, why = choose(
        message,
        response=magic.response,
        status=header.word,
        extras=data[extras_at : extras_at + header.extras_length],
        extras_length=header.extras_length,
        value_length=header.value_length,
    )
    made = BY_LAYOUT.get((message.opcode, magic.response, magic.server, id(layout)))
    return base if why or made is None or not _has_fields(layout, header, data) else made


def _has_fields(layout: Layout, header: Header, data: bytes) -> bool:
    """Return whether the bytes of all fields are there: of extras, and of a key and a value with fields of its own."""
    fixed = sum(part.width for part in layout.parts if isinstance(part, Field))
    needed = header.key_at + (header.key_length + fixed if layout.parts else 0)
    return header.value_length >= fixed and len(data) >= needed
