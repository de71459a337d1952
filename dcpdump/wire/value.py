"""Decode what keys and values mean: collection ids, Snappy, xattrs, JSON.

This is the second step, after decode(): the caller passes what the connection negotiated (see session.py), or that this
is only inferred. It never decompresses what claims to be too large.
"""

from typing import Any

from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.spec.opcodes import COLLECTIONS_GET_MANIFEST, DCP_CACHE_TRANSFER, GET_CLUSTER_CONFIG
from dcpdump.wire.body import Body, open_rest, open_value
from dcpdump.wire.frame import Fault, Frame, Problem, Section
from dcpdump.wire.json_text import NotParsed, json_complaint, parse_json
from dcpdump.wire.key_prefix import preview_collection, split_key
from dcpdump.wire.snappy import decompress

#: The hint of a value that is not what its datatype says, where the datatype may describe one that was left out.
LEFT_OUT = "the connection keeps the datatype of values that it leaves out: shown as it is"


@dataclass(frozen=True, slots=True)
class Item:
    """One record of a cache transfer, decoded."""

    collection: int | None
    key: bytes
    body: Body


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a frame's key and value say, given what is known of its connection."""

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
) -> Meaning:
    """Return what the frame's key and value mean.

    ``collections``: whether keys have a prefix (None: unknown, without evidence); ``inferred``: whether that is
    inferred; ``underlying_datatype``: whether the connection was opened with the flag under which a datatype may
    describe bytes that are not there.
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
    return Meaning(key, collection, guess, name, body, document, items, tuple(problems), tuple(hints))


# -- values -------------------------------------------------------------------------------------------------


def _document(frame: Frame, datatype: int, underlying: bool, problems: list[Problem], hints: list[str]) -> Body | None:
    if frame.value is None:
        return None
    if not frame.value:
        return Body(b"")  # the datatype may describe a body that was removed
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
    if not _is_control_json(frame):  # there it is found wrong below
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
