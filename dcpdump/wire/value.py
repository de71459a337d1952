"""Decode what keys and values mean: collection ids, Snappy, xattrs, JSON.

This is the second step, after ``decode``: the caller passes what the connection negotiated (see ``session``), or that
this is inferred. A value that claims to be too large is not decompressed.
"""

from typing import Any, Final, NamedTuple

from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.spec.opcodes import COLLECTIONS_GET_MANIFEST, DCP_CACHE_TRANSFER, GET_CLUSTER_CONFIG
from dcpdump.startup import dataclass
from dcpdump.wire.frame import Fault, Frame, Problem, Section
from dcpdump.wire.json_text import NotParsed, json_complaint, json_fault, parse_json

# -- the collection at the beginning of a key: an id as LEB128, or a name in the 5.x preview ----------
# A key does not show whether it has either: the caller knows that from the connection, or has inferred it.

RESERVED_IDS = range(1, 8)  #: collection ids that no document's key has
SEPARATOR = b"::"  #: between collection and key in the 5.x preview


@dataclass(frozen=True, slots=True)
class Prefix:
    """The LEB128 collection id at the start of a key: the id, its bytes, and what is odd about it."""

    collection: int
    size: int
    fault: str = ""

    @property
    def sound(self) -> bool:
        """Return whether a document's key may begin with it."""
        return not self.fault and self.collection not in RESERVED_IDS


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


# -- Snappy: the claimed length is checked before any memory is allocated -----------------------------

#: The server's limit for a document and its system xattrs; a claim above it is refused before any memory is allocated.
MAX_VALUE = 21 * 1024 * 1024
#: Snappy's best is 64 bytes out of 3; a claim beyond this ratio cannot be true.
MAX_RATIO = 24


def decompress(data: bytes) -> tuple[bytes | None, str]:
    """Return a raw Snappy block decompressed, or None and why it cannot be.

    The block starts with its decompressed length as a varint. It is checked first, because the library allocates that
    length before it reads the data; where memory is limited, that would end the process.
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


# -- bodies by their datatype: Snappy, xattrs, JSON ---------------------------------------------------

DEEP: Final = 900  #: more brackets than this may nest too deep to be judged
MOST_XATTRS = 1 << 14  #: the most xattrs that are split off; real documents have a few


Xattrs = tuple[tuple[bytes, bytes], ...]  #: names and values


class SplitValue(NamedTuple):
    """A value split into xattrs and body; together they hold every byte but lengths and zeros."""

    xattrs: Xattrs | None  #: None where there is no valid block: then all of the value is the body
    body: bytes
    unread: bytes = b""  #: the rest of the block, from the first xattr that cannot be read
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """A decoded value: xattrs and the document's own bytes, decompressed."""

    value: bytes
    xattrs: Xattrs | None = None
    faults: tuple[tuple[Fault, str], ...] = ()  #: what is wrong: its kind, and in words
    compressed: bool = False  #: ``value`` could not be decompressed
    judged: bool = True  #: it does not nest too deep to judge whether it is JSON
    unread: bytes = b""  #: of damaged xattrs: from the first that cannot be read to the end of their block
    unread_at: int | None = None  #: where in the value ``rest`` begins; None also where the value is compressed


def open_value(value: bytes, datatype: int) -> Body:
    """Decompress a value, split off its xattrs and check its JSON, in that order, as its datatype says."""
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
    """Decode a document that was sent without its body but with its old datatype: xattrs that are no longer compressed,
    or other bytes.
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


#: The hint where a value contradicts its datatype, and the datatype may describe a value that was left out.
LEFT_OUT = "the connection keeps the datatype of values that it leaves out: shown as it is"


@dataclass(frozen=True, slots=True)
class Item:
    """One record of a cache transfer, decoded."""

    collection: int | None
    key: bytes
    body: Body


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a frame's key and value, given what is known of its connection."""

    key: bytes | None = None  #: without the collection prefix
    collection: int | None = None
    collection_inferred: bool = False  #: the HELLO was not captured: it is inferred whether keys have a prefix
    collection_name: bytes | None = None  #: only in the 5.x preview, where the key spells it
    body: Body | None = None
    document: Any = None  #: control-plane JSON, parsed
    items: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    hints: tuple[str, ...] = ()


def interpret(
    frame: Frame, *, collections: bool | None, inferred: bool = False, underlying_datatype: bool = False
) -> Content:
    """Return what the frame's key and value mean.

    ``collections``: whether keys have a prefix (None: unknown); ``inferred``: whether that is inferred;
    ``underlying_datatype``: whether the connection was opened with the flag that lets a datatype describe bytes that
    were not sent.
    """
    message, header = frame.message, frame.header
    problems: list[Problem] = []
    hints: list[str] = []
    key, collection, name = frame.key, None, None
    guess = False
    if key is not None and message.collection_key and not frame.magic.response:
        start = _start(frame, Section.KEY)
        clen = frame.get("clen")
        if clen is not None:
            name = preview_collection(key, clen, start, problems, hints)
        elif collections:
            key, collection = split_key(key, start, problems)
            guess = inferred
        else:
            guess = collections is None or inferred
    body: Body | None
    if frame.value is not None and frame.masked:
        body = Body(frame.value)
    elif header.datatype & (SNAPPY | XATTR | JSON) and message.document and not frame.magic.response:
        body = _document(frame, header.datatype, underlying_datatype, problems, hints)
    elif frame.value and header.datatype & SNAPPY and (frame.magic.response or frame.magic.server):
        body = _answered(frame, frame.value, problems)
    elif frame.value is not None:
        body = Body(frame.value)
    else:
        body = None
    document = None
    if frame.value and _is_control_json(frame) and not frame.masked:
        document = _control_json(frame, problems)
    items = _cached_items(frame, problems) if message.opcode == DCP_CACHE_TRANSFER else ()
    _swapped_ids(frame, hints)
    return Content(key, collection, guess, name, body, document, items, tuple(problems), tuple(hints))


# -- values -------------------------------------------------------------------------------------------------


def _document(frame: Frame, datatype: int, underlying: bool, problems: list[Problem], hints: list[str]) -> Body | None:
    if frame.value is None:
        return None
    if not frame.value:
        return Body(b"")  # the datatype may describe a body that was not sent
    body = open_value(frame.value, datatype)
    if body.faults and underlying:
        hints.append(LEFT_OUT)
        return open_rest(frame.value, datatype)
    start = _start(frame, Section.VALUE)
    problems += [Problem(code, text, start, start + len(frame.value)) for code, text in body.faults]
    return body


def _answered(frame: Frame, value: bytes, problems: list[Problem]) -> Body:
    """Decode a compressed value of a response or of a server's push: cluster maps are sent so."""
    body = open_value(value, SNAPPY)
    if not _is_control_json(frame):  # a document's value is checked below
        problems += [Problem(code, text, *_span(frame, Section.VALUE)) for code, text in body.faults]
    return body


def _is_control_json(frame: Frame) -> bool:
    """Return whether the value is JSON of the control plane: by its message, or an error's context by its datatype."""
    if frame.layout.version == "error" or (
        not frame.magic.server and frame.message.opcode in (GET_CLUSTER_CONFIG, COLLECTIONS_GET_MANIFEST)
    ):
        return bool(frame.header.datatype & JSON)
    return frame.message.json and not frame.magic.response


def _control_json(frame: Frame, problems: list[Problem]) -> Any:
    value = frame.value or b""
    if frame.header.datatype & SNAPPY:
        plain, fault = decompress(value)
        if plain is None:
            problems.append(Problem(Fault.NOT_SNAPPY, fault, *_span(frame, Section.VALUE)))
            return None
        value = plain
    try:
        return parse_json(value)
    except NotParsed as error:
        fault = f"the value {error}"
    except ValueError as error:
        fault = f"the value is not JSON: {json_complaint(error, value)}"
    problems.append(Problem(Fault.NOT_JSON, fault, *_span(frame, Section.VALUE)))
    return None


# -- cache transfer, system events --------------------------------------------------------------------------


def _cached_items(frame: Frame, problems: list[Problem]) -> tuple[Item, ...]:
    """Read the records of a cache transfer; their keys always have a collection prefix."""
    items: list[Item] = []
    datatype, length, key, start = 0, 0, b"", 0
    for field in frame.fields:
        if field.group != "items" or field.value is None:
            continue
        if field.field.name == "datatype" and isinstance(field.value, int):
            datatype = field.value
        elif field.field.name == "key_length" and isinstance(field.value, int):
            length = field.value
            if not 2 <= length <= 251:
                text = f"items[{field.item}]: key_len {length} is not 2 to 251"
                problems.append(Problem(Fault.WRONG_LENGTH, text, field.start, field.end))
        elif field.field.name == "key" and isinstance(field.value, bytes):
            key, start = field.value, field.start
        elif field.field.name == "value" and isinstance(field.value, bytes):
            logical, collection = split_key(key, start, problems, cut=len(key) < length)
            body = open_value(field.value, datatype) if field.value else Body(b"")
            for code, text in body.faults:
                problems.append(Problem(code, f"items[{field.item}]: {text}", field.start, field.end))
            items.append(Item(collection, logical, body))
    return tuple(items)


def _swapped_ids(frame: Frame, hints: list[str]) -> None:
    """Note ids in the order of an old draft: the example of the specification's page has them swapped."""
    if frame.get("event") == 0 and frame.get("collection_id") == 0 and (frame.get("scope_id") or 0) >= 8:
        hints.append("scope id and collection id look swapped: the default collection is never created")


def _start(frame: Frame, section: Section) -> int:
    return _span(frame, section)[0]


def _span(frame: Frame, section: Section) -> tuple[int, int]:
    spans = [field for field in frame.fields if field.section is section]
    return (spans[0].start, spans[-1].end) if spans else (len(frame.raw.data), len(frame.raw.data))
