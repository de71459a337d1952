"""Map the bytes of a Snappy block's text to the literals of the block that they come from."""

from array import array

from dcpdump.wire.key_prefix import leb128

_VARINT = 5  #: bytes that the length before a block may have


def origins(block: bytes) -> "array[int]":
    """Return, for each byte of a valid block's text, the offset of the literal byte that it is a copy of."""
    at = next(size for size, byte in enumerate(block[:_VARINT], 1) if not byte & 0x80)
    out: array[int] = array("I")
    while at < len(block):
        tag = block[at]
        at += 1
        kind, size = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if size > 60:
                extra = size - 60
                size = int.from_bytes(block[at : at + extra], "little") + 1
                at += extra
            out.extend(range(at, at + size))
            at += size
            continue
        if kind == 1:
            size, back, at = 4 + (tag >> 2 & 7), tag >> 5 << 8 | block[at], at + 1
        else:
            width = 2 if kind == 2 else 4
            back, at = int.from_bytes(block[at : at + width], "little"), at + width
        piece = out[len(out) - back :]
        out.extend((piece * (size // back + 1))[:size])
    return out


def literals(text: bytes, size: int) -> bytes | None:
    """Return a block of ``size`` bytes that holds as much of a text as fits; None where none does."""
    for ones in range(4):  # a literal of one byte, to be one byte shorter in all
        for length in range(size - 2, max(0, size - 16), -1):
            claim = leb128(length)
            rest = length - ones
            if rest <= 0 or length > len(text):
                continue
            tag = _tag(rest)
            if len(claim) + 2 * ones + len(tag) + rest == size:
                first = b"".join(b"\0" + text[at : at + 1] for at in range(ones))
                return claim + first + tag + text[ones:length]
    return None


def _tag(length: int) -> bytes:
    if length <= 60:
        return bytes((length - 1 << 2,))
    width = ((length - 1).bit_length() + 7) // 8
    return bytes((59 + width << 2,)) + (length - 1).to_bytes(width, "little")
