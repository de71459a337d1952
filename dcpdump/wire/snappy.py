"""Decompress Snappy values. The claimed length is checked before any memory is allocated."""

#: The server's limit for a document and its system xattrs; a claim above it is refused before any memory is allocated.
MAX_VALUE = 21 * 1024 * 1024
#: Snappy's best is 64 bytes out of 3; a claim beyond this ratio cannot be true.
MAX_RATIO = 24


def decompress(data: bytes) -> tuple[bytes | None, str]:
    """Return a raw Snappy block decompressed, or None and why it cannot be.

    The block starts with its own length as a varint. That is read here and checked first, because the library allocates
    what is claimed before it reads the data, and where memory is limited that ends the process.
    """
    claim, size = 0, 0
    for size, byte in enumerate(data[:6], 1):
        claim |= (byte & 0x7F) << (7 * (size - 1))
        if not byte & 0x80:
            break
    else:
        return None, "the value is not Snappy: its length does not end"
    if size > 5 or claim > 0xFFFFFFFF:
        return None, "the value is not Snappy: its length is longer than 32 bits"
    if claim > MAX_VALUE:
        return (
            None,
            f"the Snappy value claims {claim} bytes, more than the {MAX_VALUE} that a document may have",
        )
    if claim > MAX_RATIO * len(data):
        return None, f"the Snappy value claims {claim} bytes from {len(data)}, which cannot be"
    import cramjam  # here, because most pastes and many captures hold no Snappy value

    try:
        plain = bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError:
        return None, "the value is not Snappy: its compressed bytes are damaged"
    if len(plain) != claim:
        return None, f"the Snappy value claims {claim} bytes but holds {len(plain)}"
    return plain, ""
