"""The bytes of a frame: made again of its fields, and changed; and those of values."""

import cramjam

from dcpdump.wire.frame import Frame


def encoded_fields(frame: Frame) -> bytes:
    """Return the bytes of a decoded frame, from its fields' values alone. Lost fields become zeros."""
    out = bytearray()
    for field in frame.fields:
        width = field.end - field.start
        if isinstance(field.value, int):
            out += field.value.to_bytes(width, "little" if field.group == "flat" else "big")
        else:
            out += bytes(width) if field.value is None else field.value
    return bytes(out)


def changed(data: bytes, at: int, new: str) -> bytes:
    """Return the data with other bytes at a place, given in hexadecimal."""
    put = bytes.fromhex(new)
    return data[:at] + put + data[at + len(put) :]


def snappy(data: bytes) -> bytes:
    """Return the data compressed."""
    return bytes(cramjam.snappy.compress_raw(data))


def xattr_block(*pairs: tuple[bytes, bytes]) -> bytes:
    """Return the xattrs that stand before a body."""
    block = b"".join((len(k) + len(v) + 2).to_bytes(4, "big") + k + b"\0" + v + b"\0" for k, v in pairs)
    return len(block).to_bytes(4, "big") + block
