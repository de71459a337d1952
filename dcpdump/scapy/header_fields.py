"""Define the header of a frame in fields of scapy's: the magic, and lengths that are filled in where none is given."""

from typing import Any

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

from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Bits, EnumValue, Field
from dcpdump.spec.header import MAGICS
from dcpdump.spec.names import DATATYPE
from dcpdump.spec.statuses import STATUS
from dcpdump.wire.frame import magic_of

_NUMBERS = {1: ByteField, 2: ShortField, 4: IntField, 8: LongField}
_NAMED = {1: ByteEnumField, 2: ShortEnumField}


def _flexible(packet: Any) -> bool:
    return bool(packet.framing) if packet.magic is None else magic_of(packet.magic).flexible


class _Magic(ByteEnumField):  # type: ignore[misc]
    """The first byte: that of the class, or the flexible one where there are framing extras."""

    def i2m(self, pkt: Any, x: int | None) -> int:
        return (pkt.FLEXIBLE if _flexible(pkt) else pkt.MAGIC) if x is None else x


class _KeyLength(FieldLenField):  # type: ignore[misc]
    """Two bytes, or one behind the length of framing extras."""

    def addfield(self, pkt: Any, s: bytes, val: int | None) -> bytes:
        return s + int(self.i2m(pkt, val)).to_bytes(1 if _flexible(pkt) else 2, "big")

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, int]:
        width = 1 if _flexible(pkt) else 2
        return s[width:], int.from_bytes(s[:width], "big")


class _ExtrasLength(ByteField):  # type: ignore[misc]
    """The length of the extras: what the layout says, or as many as there are."""

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
