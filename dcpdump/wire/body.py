"""Decode a value's bytes by its datatype: Snappy, xattrs, JSON."""

from typing import Final, NamedTuple

from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_text import json_fault
from dcpdump.wire.snappy import decompress

DEEP: Final = 900  #: so many brackets may nest deeper than can be judged
MOST_XATTRS = 1 << 14  #: so many xattrs of a document are taken apart; a server's documents have a few


Xattrs = tuple[tuple[bytes, bytes], ...]  #: names and values


class SplitValue(NamedTuple):
    """A value whose xattrs were taken apart; every byte of it but lengths and zeros is in one of the parts."""

    xattrs: Xattrs | None  #: None where the block itself cannot be found: then all of the value is the body
    body: bytes
    unread: bytes = b""  #: the rest of the block, from the first xattr that cannot be read
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """A decoded value: xattrs and the document's own bytes, decompressed."""

    value: bytes
    xattrs: Xattrs | None = None
    faults: tuple[tuple[Fault, str], ...] = ()  #: what is wrong, and in words
    compressed: bool = False  #: what ``value`` holds could not be decompressed
    judged: bool = True  #: whether it is JSON can be told: it does not nest too deep
    unread: bytes = b""  #: the rest of damaged xattrs, from the first that cannot be read to the end of their block
    unread_at: int | None = None  #: where in the value that begins; None also where the value is compressed


def open_value(value: bytes, datatype: int) -> Body:
    """Decompress a value, split its xattrs off and check its JSON, as its datatype says, in that order."""
    faults: list[tuple[Fault, str]] = []
    if datatype & SNAPPY:
        plain, fault = decompress(value)
        if plain is None:
            return Body(value, None, ((Fault.NOT_SNAPPY, fault),), compressed=True)
        value = plain
    xattrs: Xattrs | None = None
    unread, unread_at = b"", None
    if datatype & XATTR:
        whole = len(value)
        xattrs, value, unread, fault = split_xattrs(value)
        if unread and not datatype & SNAPPY:
            unread_at = whole - len(value) - len(unread)
        if fault:
            faults.append((Fault.NOT_XATTRS, fault))
    if datatype & JSON and value and not faults:
        fault = json_fault(value)
        if fault:
            faults.append((Fault.NOT_JSON, fault))
    judged = not datatype & JSON or not may_be_deep(value)
    return Body(value, xattrs, tuple(faults), judged=judged, unread=unread, unread_at=unread_at)


def open_rest(value: bytes, datatype: int) -> Body:
    """Decode what is left of a document whose body was left out, while its datatype was kept: xattrs that are no longer
    compressed, or bytes that are shown as they are.
    """
    body = open_value(value, datatype & ~SNAPPY)
    return Body(value) if body.faults else body


def may_be_deep(value: bytes) -> bool:
    """Return whether JSON may nest too deep to be judged."""
    return len(value) > DEEP and value.count(b"{") + value.count(b"[") > DEEP


def split_xattrs(value: bytes) -> SplitValue:
    """Split the xattrs off a value. Their block is a 32-bit length, then again and again length, key, 0, value, 0."""
    if len(value) < 4:
        return SplitValue(None, value, fault=f"the xattrs need 4 bytes of length, the value has {len(value)}")
    length = int.from_bytes(value[:4], "big")
    if length > len(value) - 4:
        return SplitValue(None, value, fault=f"the xattrs claim {length} bytes, {len(value) - 4} are there")
    pairs: list[tuple[bytes, bytes]] = []
    at, end, fault = 4, 4 + length, ""
    while at < end:
        size = int.from_bytes(value[at : at + 4], "big")
        stop = at + 4 + size
        key, zero, text = value[at + 4 : min(stop, end)].partition(b"\0")
        if len(pairs) == MOST_XATTRS:
            fault = f"after {len(pairs):,} xattrs {end - at} bytes of xattrs are not taken apart"
        elif at + 4 > end:
            fault = f"xattr {len(pairs)} needs 4 bytes of length, {end - at} are left"
        elif stop > end:
            fault = f"xattr {len(pairs)} claims {size} bytes, {end - at - 4} are left"
        elif not (zero and text.endswith(b"\0")):
            fault = f"xattr {len(pairs)} is not a key and a value, each ended by a zero byte"
        if fault:
            break
        pairs.append((key, text[:-1]))
        at = stop
    return SplitValue(tuple(pairs), value[end:], value[at:end], fault)
