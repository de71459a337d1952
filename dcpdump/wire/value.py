"""What keys and values mean: collection ids, Snappy, xattrs, JSON.

This is the second step, after decode(): it needs to be told what the connection negotiated (see
session.py), or that this is only inferred. It never decompresses what claims to be too large.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.frame import Frame, Problem, Section

#: The server's limit for a document; a claim above it is refused before any memory is asked for.
MAX_VALUE = 20 * 1024 * 1024
#: Snappy's best is 64 bytes out of 3; a claim beyond this ratio cannot be true.
MAX_RATIO = 24
RESERVED_IDS = range(1, 8)  #: collection ids that no data key has
SEPARATOR = b"::"  #: between collection and key in the 5.x preview


@dataclass(frozen=True, slots=True)
class Prefix:
    """The LEB128 collection id at the start of a key: the id, its bytes, and what is odd about it."""

    collection: int
    size: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """A value taken apart: xattrs and the document's own bytes, decompressed."""

    value: bytes
    xattrs: tuple[tuple[bytes, bytes], ...] | None = None
    faults: tuple[str, ...] = ()
    compressed: bool = False  #: what ``value`` holds could not be decompressed


@dataclass(frozen=True, slots=True)
class Item:
    """One record of a cache transfer, understood."""

    collection: int | None
    key: bytes
    body: Body


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a frame's key and value say, given what is known of its connection."""

    key: bytes | None = None  #: without the collection prefix
    collection: int | None = None
    collection_inferred: bool = False  #: the HELLO was not seen: it is a guess that keys have (or lack) a prefix
    collection_name: bytes | None = None  #: only in the 5.x preview, where the key spells it
    body: Body | None = None
    document: Any = None  #: control-plane JSON, parsed
    items: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    hints: tuple[str, ...] = ()


def read_prefix(key: bytes) -> Prefix | None:
    """It reads the unsigned LEB128 collection id that starts a key; None where the key ends inside it."""
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


def encode_prefix(collection: int) -> bytes:
    """It writes a collection id as unsigned LEB128, shortest form."""
    out = bytearray()
    while collection > 0x7F:
        out.append(collection & 0x7F | 0x80)
        collection >>= 7
    out.append(collection)
    return bytes(out)


def interpret(
    frame: Frame, *, collections: bool | None, inferred: bool = False, underlying_datatype: bool = False
) -> Meaning:
    """It says what the frame's key and value mean.

    ``collections`` is whether keys have a prefix (None: unknown, and nothing speaks for it), ``inferred``
    whether that is a guess, ``underlying_datatype`` whether the connection was opened with the flag under
    which a datatype may describe bytes that are not there.
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
            name = _legacy_collection(key, clen, start, problems, hints)
        elif collections:
            key, collection = _split_key(key, start, problems)
            guess = inferred
        else:
            guess = collections is None or inferred
    if header.datatype & (SNAPPY | XATTR | JSON) and message.document and not frame.magic.response:
        body = _document(frame, header.datatype, underlying_datatype, problems, hints)
    elif frame.value is not None:
        body = Body(frame.value)
    else:
        body = None
    document = None
    if frame.value and _is_control_json(frame):
        document = _control_json(frame, body, problems)
    items = _cached_items(frame, problems) if "items" in _groups(frame) else ()
    _swapped_ids(frame, hints)
    return Meaning(key, collection, guess, name, body, document, items, tuple(problems), tuple(hints))


# -- keys ---------------------------------------------------------------------------------------------------


def _split_key(key: bytes, start: int, problems: list[Problem]) -> tuple[bytes, int | None]:
    prefix = read_prefix(key)
    if prefix is None:
        problems.append(Problem("the key ends inside its collection id", start, start + len(key)))
        return key, None
    end = start + prefix.size
    if prefix.fault:
        problems.append(Problem(prefix.fault, start, end))
    elif prefix.collection in RESERVED_IDS:
        problems.append(Problem(f"collection id {prefix.collection} is reserved", start, end))
    if prefix.size == len(key):
        problems.append(Problem("the key has a collection id and nothing else", start, end))
    return key[prefix.size :], prefix.collection


def _legacy_collection(key: bytes, clen: int, start: int, problems: list[Problem], hints: list[str]) -> bytes | None:
    if clen > len(key):
        problems.append(Problem(f"clen says {clen} but the key has {len(key)} bytes", start - 1, start, clen, len(key)))
        return None
    found = key.find(SEPARATOR)
    if found >= 0 and found != clen:
        hints.append(f"clen says {clen}, but the separator '::' stands at byte {found} of the key")
    return key[:clen] if clen else None


# -- values -------------------------------------------------------------------------------------------------


def _document(frame: Frame, datatype: int, underlying: bool, problems: list[Problem], hints: list[str]) -> Body | None:
    if frame.value is None:
        return None
    if not frame.value:
        return Body(b"")  # the datatype may describe a body that was removed
    body = open_value(frame.value, datatype)
    if body.faults and underlying:
        hints.append("the connection keeps the datatype of values that it leaves out: shown as it is")
        return Body(frame.value)
    start = _start(frame, Section.VALUE)
    problems += [Problem(fault, start, start + len(frame.value)) for fault in body.faults]
    return body


def open_value(value: bytes, datatype: int) -> Body:
    """It decompresses a value, splits its xattrs off and tries its JSON, as its datatype says, in that order."""
    faults: list[str] = []
    if datatype & SNAPPY:
        plain, fault = decompress(value)
        if plain is None:
            return Body(value, None, (fault,), compressed=True)
        value = plain
    xattrs: tuple[tuple[bytes, bytes], ...] | None = None
    if datatype & XATTR:
        xattrs, value, fault = split_xattrs(value)
        if fault:
            faults.append(fault)
    if datatype & JSON and value and not faults:
        fault = json_fault(value)
        if fault:
            faults.append(fault)
    return Body(value, xattrs, tuple(faults))


def decompress(data: bytes) -> tuple[bytes | None, str]:
    """It decompresses a raw Snappy block, or says why not.

    The block starts with its own length as a varint. That is read here and judged first, because the
    library allocates what is claimed before it looks at the data, and where memory is limited that ends
    the process.
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
    except cramjam.DecompressionError as error:
        return None, f"the value is not Snappy: {error}"
    if len(plain) != claim:
        return None, f"the Snappy value claims {claim} bytes but holds {len(plain)}"
    return plain, ""


def split_xattrs(value: bytes) -> tuple[tuple[tuple[bytes, bytes], ...] | None, bytes, str]:
    """It splits a value into (xattrs, body, fault). The block is a 32-bit length, then length, key, 0, value, 0 …"""
    if len(value) < 4:
        return None, value, f"the xattrs need 4 bytes of length, the value has {len(value)}"
    length = int.from_bytes(value[:4], "big")
    if length > len(value) - 4:
        return None, value, f"the xattrs claim {length} bytes, {len(value) - 4} are there"
    pairs: list[tuple[bytes, bytes]] = []
    at, end = 4, 4 + length
    body = value[end:]
    while at < end:
        if at + 4 > end:
            return tuple(pairs), body, f"xattr {len(pairs)} needs 4 bytes of length, {end - at} are left"
        size = int.from_bytes(value[at : at + 4], "big")
        stop = at + 4 + size
        if stop > end:
            return (
                tuple(pairs),
                body,
                f"xattr {len(pairs)} claims {size} bytes, {end - at - 4} are left",
            )
        key, zero, text = value[at + 4 : stop].partition(b"\0")
        if not zero or not text.endswith(b"\0"):
            return (
                tuple(pairs),
                body,
                f"xattr {len(pairs)} is not a key and a value, each ended by a zero byte",
            )
        pairs.append((key, text[:-1]))
        at = stop
    return tuple(pairs), body, ""


def json_fault(body: bytes) -> str:
    """It says why a body that should be JSON is not; empty where it is, or where it nests too deep to tell."""
    try:
        text = body.decode("utf-8")
        if text[:1] not in "{[" or _SCAN(text, 0)[1] != len(text):
            _JUDGE.decode(text)
    except StopIteration:  # what the scanner alone makes of an early end
        return "the body is marked JSON but is not: it ends too soon"
    except RecursionError:
        return ""
    except ValueError as error:
        return f"the body is marked JSON but is not: {error}"
    return ""


def parse_json(text: bytes) -> Any:
    """It parses JSON as the standard has it: no NaN; numbers of any length. Raises ValueError, RecursionError."""
    return json.loads(text.decode("utf-8"), parse_int=_number, parse_float=_real, parse_constant=_no_constant)


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) < 4300 else digits  # Python refuses to convert longer ones


def _real(digits: str) -> float | str:
    number = float(digits)
    return digits if number in (float("inf"), float("-inf")) else number  # 1e400 is JSON, Infinity is not


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


#: It only judges: what numbers are worth does not matter, and converting them would cost most of the time.
_JUDGE = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_no_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = _JUDGE.scan_once  # type: ignore[attr-defined]


def _is_control_json(frame: Frame) -> bool:
    """Whether the value is JSON of the control plane: by its message, or an error's context by its datatype."""
    if frame.layout.version == "error" or frame.message.name in (
        "GET_CLUSTER_CONFIG",
        "COLLECTIONS_GET_MANIFEST",
    ):
        return bool(frame.header.datatype & JSON)
    return frame.message.json and not frame.magic.response


def _control_json(frame: Frame, body: Body | None, problems: list[Problem]) -> Any:
    value = frame.value or b""
    if frame.header.datatype & SNAPPY:
        plain, fault = decompress(value)
        if plain is None:
            problems.append(Problem(fault, *_span(frame, Section.VALUE)))
            return None
        value = plain
    try:
        return parse_json(value)
    except (ValueError, RecursionError) as error:
        problems.append(Problem(f"the value is not JSON: {error}", *_span(frame, Section.VALUE)))
        return None


# -- cache transfer, system events --------------------------------------------------------------------------


def _cached_items(frame: Frame, problems: list[Problem]) -> tuple[Item, ...]:
    """It reads the records of a cache transfer; their keys always have a collection prefix."""
    items: list[Item] = []
    datatype, key, start = 0, b"", 0
    for field in frame.fields:
        if field.group != "items" or field.value is None:
            continue
        if field.field.name == "datatype" and isinstance(field.value, int):
            datatype = field.value
        elif field.field.name == "key" and isinstance(field.value, bytes):
            key, start = field.value, field.start
            if not 2 <= len(key) <= 251:
                problems.append(Problem(f"items[{field.item}]: key_len {len(key)} is not 2 to 251", start, field.end))
        elif field.field.name == "value" and isinstance(field.value, bytes):
            logical, collection = _split_key(key, start, problems)
            body = open_value(field.value, datatype) if field.value else Body(b"")
            problems += [Problem(f"items[{field.item}]: {text}", field.start, field.end) for text in body.faults]
            items.append(Item(collection, logical, body))
    return tuple(items)


def _swapped_ids(frame: Frame, hints: list[str]) -> None:
    """It notes ids in the order of an old draft: the example of the specification's page has them swapped."""
    if frame.get("event") == 0 and frame.get("collection_id") == 0 and (frame.get("scope_id") or 0) >= 8:
        hints.append("scope id and collection id look swapped: the default collection is never created")


def _groups(frame: Frame) -> set[str]:
    return {field.group for field in frame.fields if field.group} if frame.message.opcode == 0x66 else set()


def _start(frame: Frame, section: Section) -> int:
    return _span(frame, section)[0]


def _span(frame: Frame, section: Section) -> tuple[int, int]:
    spans = [field for field in frame.fields if field.section is section]
    return (spans[0].start, spans[-1].end) if spans else (len(frame.raw.data), len(frame.raw.data))
