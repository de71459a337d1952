"""Read the collection at the beginning of a key: an id as LEB128, or a name in the 5.x preview.

A key does not show whether it has either: the caller knows that from the connection, or has inferred it.
"""

from dcpdump.startup import dataclass
from dcpdump.wire.frame import Fault, Problem

RESERVED_IDS = range(1, 8)  #: collection ids that no document's key has
SEPARATOR = b"::"  #: between collection and key in the 5.x preview


@dataclass(frozen=True, slots=True)
class Prefix:
    """The LEB128 collection id at the start of a key: the id, its bytes, and what is odd about it."""

    collection: int
    size: int
    fault: str = ""


def read_prefix(key: bytes) -> Prefix | None:
    """Return the unsigned LEB128 collection id that starts a key; None where the key ends inside it."""
    value = 0
    for size, byte in enumerate(key[:6], 1):
        value |= (byte & 0x7F) << (7 * (size - 1))
        if byte & 0x80:
            continue
        if size > 5 or value > 0xFFFFFFFF:
            return Prefix(value, size, "the collection id is longer than 32 bits")
        if size > 1 and byte == 0:
            return Prefix(value, size, "the collection id is not in its shortest form")
        return Prefix(value, size)
    return None


def leb128(number: int) -> bytes:
    """Return a number as unsigned LEB128, in its shortest form: a collection id, or a length in Snappy's."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def split_key(key: bytes, start: int, problems: list[Problem], *, cut: bool = False) -> tuple[bytes, int | None]:
    """Return a key without its collection id, and the id.

    ``start``: the offset of the key in the frame; ``cut``: the key's end is missing, so a prefix without an end is no
    problem.
    """
    prefix = read_prefix(key)
    if prefix is None:
        text = "the key ends inside its collection id"
        problems += [] if cut else [Problem(Fault.COLLECTION_ID, text, start, start + len(key))]
        return key, None
    end = start + prefix.size
    if prefix.fault:
        problems.append(Problem(Fault.COLLECTION_ID, prefix.fault, start, end))
    elif prefix.collection in RESERVED_IDS:
        problems.append(Problem(Fault.COLLECTION_ID, f"collection id {prefix.collection} is reserved", start, end))
    if prefix.size == len(key) and not cut:
        problems.append(Problem(Fault.COLLECTION_ID, "the key has a collection id and nothing else", start, end))
    return key[prefix.size :], prefix.collection


def preview_collection(key: bytes, clen: int, start: int, problems: list[Problem], hints: list[str]) -> bytes | None:
    """Return the name of the collection in the first ``clen`` bytes of a key, as the 5.x preview had it."""
    if clen > len(key):
        text = f"clen says {clen} but the key has {len(key)} bytes"
        problems.append(Problem(Fault.WRONG_LENGTH, text, start - 1, start, clen, len(key)))
        return None
    found = key.find(SEPARATOR)
    if found >= 0 and found != clen:
        hints.append(f"clen says {clen}, but the separator '::' stands at byte {found} of the key")
    return key[:clen] if clen else None
