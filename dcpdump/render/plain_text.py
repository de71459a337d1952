"""Make wire text safe to show, as ``escape`` does, where nearly all of it is plain and there is much of it."""

from typing import TYPE_CHECKING, Final

from dcpdump.escape import safe

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What of ASCII can be printed. To delete it and see whether anything is left takes a third of the time of isprintable.
_PLAIN: Final = bytes(range(0x20, 0x7F))
#: How a byte is shown that is a character by itself, or is part of none.
_SHOWN: Final = [safe(bytes([byte])).encode() for byte in range(256)]
#: First bytes of characters of two, three and four bytes.
_FIRST_LEAD: Final = 0xC2
_LEAD_OF_3: Final = 0xE0
_LEAD_OF_4: Final = 0xF0
#: The upper two bits of all other bytes of a character.
_MASK: Final = 0xC0
_FOLLOWS: Final = 0x80


def shown(wire: bytes) -> bytes:
    """Return bytes as text that is safe to show, in UTF-8: as they are, where they are plain."""
    if not wire.translate(None, _PLAIN):
        return wire
    out: list[bytes] = []
    size: i64 = len(wire)
    at: i64 = 0
    while at < size:
        byte: i64 = wire[at]
        if byte >= _FIRST_LEAD:
            char = _character(wire, at, at + (2 if byte < _LEAD_OF_3 else 3 if byte < _LEAD_OF_4 else 4))
            if char:
                out.append(safe(char).encode())
                at += len(char)
                continue
        out.append(_SHOWN[byte])
        at += 1
    return b"".join(out)


def _character(wire: bytes, at: "i64", end: "i64") -> bytes:
    """Return the bytes of the character that is at a place, of more than one; nothing where there is none."""
    # In binary data, the next byte and the last nearly always say that there is none; decoding takes longer.
    if end > len(wire) or wire[at + 1] & _MASK != _FOLLOWS or wire[end - 1] & _MASK != _FOLLOWS:
        return b""
    char = wire[at:end]
    return char if len(char.decode("utf-8", "surrogateescape")) == 1 else b""


def shown_text(wire: bytes) -> str:
    """Return bytes as text that is safe to show."""
    return shown(wire).decode("utf-8")
