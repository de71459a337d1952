"""Define DCP and DCPResponse: any frame as a packet of scapy's, in sections."""

from typing import Any, ClassVar

from scapy.fields import (
    ByteEnumField,
    ByteField,
    ConditionalField,
    FieldLenField,
    FlagsField,
    IntField,
    LongField,
    ShortEnumField,
    ShortField,
    StrLenField,
    XIntField,
    XLongField,
)
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw

from dcpdump.spec import MESSAGES, PUSHES, choose
from dcpdump.spec.field import Bits, EnumValue, Field, FlatTable, Layout
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    ALT_CLIENT_RESPONSE,
    CLIENT_REQUEST,
    CLIENT_RESPONSE,
    HEADER_LENGTH,
    MAGICS,
)
from dcpdump.spec.names import DATATYPE
from dcpdump.spec.statuses import STATUS
from dcpdump.wire.decode import FlatError, locate_slots
from dcpdump.wire.frame import Header, magic_of, unpack_header

# -- the header in fields of scapy's: the magic, and lengths that are filled in where none is given ---

_NUMBERS = {1: ByteField, 2: ShortField, 4: IntField, 8: LongField}
_NAMED = {1: ByteEnumField, 2: ShortEnumField}


def _flexible(packet: Any) -> bool:
    return bool(packet.framing) if packet.magic is None else magic_of(packet.magic).flexible


class _Magic(ByteEnumField):  # type: ignore[misc]
    """The first byte: that of the class, or the flexible one where there are framing extras."""

    def i2m(self, pkt: Any, x: int | None) -> int:
        return (pkt.FLEXIBLE if _flexible(pkt) else pkt.MAGIC) if x is None else x


class _KeyLength(FieldLenField):  # type: ignore[misc]
    """The key length: two bytes, or one after the length of framing extras."""

    def addfield(self, pkt: Any, s: bytes, val: int | None) -> bytes:
        return s + int(self.i2m(pkt, val)).to_bytes(1 if _flexible(pkt) else 2, "big")

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, int]:
        width = 1 if _flexible(pkt) else 2
        return s[width:], int.from_bytes(s[:width], "big")


class _ExtrasLength(ByteField):  # type: ignore[misc]
    """The length of the extras: the layout's, or that of the bytes given."""

    def i2m(self, pkt: Any, x: int | None) -> int:
        return (len(pkt.extras) if pkt.EXTRAS is None else pkt.EXTRAS) if x is None else x


def number(field: Field) -> Any:
    """Return scapy's field for an integer of the table."""
    if isinstance(field.names, Bits):
        return FlagsField(field.name, 0, 8 * field.width, dict(field.names.names))
    if isinstance(field.names, EnumValue) and field.width in _NAMED:
        return _NAMED[field.width](field.name, 0, dict(field.names.names))
    if field.identity:
        return XLongField(field.name, 0)
    return _NUMBERS[field.width](field.name, 0)


def header_of(*, response: bool, server: bool, opcode: int | None) -> list[Any]:
    """Return the fields of the header and the framing extras."""
    opcodes = {number: message.name for number, message in (PUSHES if server else MESSAGES).items()}
    word = ShortEnumField("status", 0, dict(STATUS.names)) if response else ShortField("vbucket", 0)
    return [
        _Magic("magic", None, {number: magic.name for number, magic in MAGICS.items()}),
        ByteEnumField("opcode", 0 if opcode is None else opcode, opcodes),
        ConditionalField(FieldLenField("framing_length", None, length_of="framing", fmt="B"), _flexible),
        _KeyLength("key_length", None, length_of="key", fmt="!H"),
        _ExtrasLength("extras_length", None),
        FlagsField("datatype", 0, 8, dict(DATATYPE.names)),
        word,
        IntField("body_length", None),
        XIntField("opaque", 0),
        XLongField("cas", 0),
        StrLenField("framing", b"", length_from=lambda packet: packet.framing_length or 0),
    ]


_Key = tuple[int, bool, bool, int]  #: opcode, response, server, identity of the layout
BY_LAYOUT: dict[_Key, Any] = {}  #: the classes of layouts, as they are made


# -- frames, in sections ------------------------------------------------------------------------------


class DCP(ScapyPacket):  # type: ignore[misc]
    """Any frame, in sections. ``DCP(data)`` makes an instance of the class whose layout fits."""

    name = "DCP"
    match_subclass = True  # pkt[DCP] finds every frame, pkt[DCP_SNAPSHOT_MARKER] those of all its layouts
    MAGIC, FLEXIBLE = CLIENT_REQUEST, ALT_CLIENT_REQUEST
    EXTRAS: int | None = None  #: length of the extras, None if it varies
    FIXED = 0  #: how many bytes of the value are fields
    TAIL = ""  #: the field with the size of metadata after the value
    TABLE: FlatTable | None = None  #: the FlatBuffers table of the value
    fields_desc: ClassVar[list[Any]] = [
        *header_of(response=False, server=False, opcode=None),
        StrLenField("extras", b"", length_from=lambda packet: packet.extras_length or 0),
        StrLenField("key", b"", length_from=lambda packet: packet.key_length or 0),
        StrLenField("value", b"", length_from=lambda packet: packet.value_length()),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: Any, **_fields: Any) -> Any:
        """Return the class of the layout that fits a frame's bytes."""
        if not _pkt:
            return cls
        return class_of(_pkt) if len(_pkt) >= HEADER_LENGTH else Raw

    def value_length(self) -> int:
        """Return the length of the value, without its fields and metadata."""
        taken = (self.framing_length or 0) + (self.extras_length or 0) + (self.key_length or 0) + self.FIXED
        metadata = (self.getfieldval(self.TAIL) or 0) if self.TAIL else 0
        return max(0, (self.body_length or 0) - taken - metadata)

    def flat(self) -> dict[str, int | bytes]:
        """Return the present fields of a FlatBuffers value; none for other values."""
        if self.TABLE is None:
            return {}
        try:
            return {placed.field.name: placed.value for placed in locate_slots(self.value, self.TABLE)}
        except FlatError:
            return {}

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the length of the body."""
        if self.body_length is None:
            pkt = pkt[:8] + (len(pkt) - HEADER_LENGTH).to_bytes(4, "big") + pkt[12:]
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> Any:
        """Return the class for the bytes after this frame, if they begin like one."""
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
    """Return the class of a frame's bytes; DCP or DCPResponse if no layout fits completely."""
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
        status=header.vbucket_or_status,
        extras=data[extras_at : extras_at + header.extras_length],
        extras_length=header.extras_length,
        value_length=header.value_length,
    )
    made = BY_LAYOUT.get((message.opcode, magic.response, magic.server, id(layout)))
    return base if why or made is None or not _has_fields(layout, header, data) else made


def _has_fields(layout: Layout, header: Header, data: bytes) -> bool:
    """Return whether all fields of a layout have their bytes."""
    fixed = sum(part.width for part in layout.parts if isinstance(part, Field))
    needed = header.key_at + (header.key_length + fixed if layout.parts else 0)
    return header.value_length >= fixed and len(data) >= needed
