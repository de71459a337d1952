"""The bytes of a frame, made again of its fields."""

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
