"""Encode values to the bytes of a frame: the inverse of decode(), from the same table.

It fills in every length and checks nothing else, so that tests, samples and fuzzers can write anything that the format
can carry.
"""

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from dcpdump.spec import ERROR, MESSAGES, PUSHES, RAW
from dcpdump.spec.field import Blob, Field, FlatTable, Layout, Message, Part, Repeat
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    ALT_CLIENT_RESPONSE,
    CLIENT_REQUEST,
    CLIENT_RESPONSE,
    SERVER_REQUEST,
    SERVER_RESPONSE,
    STREAM_ID_TAG,
)
from dcpdump.spec.statuses import NOT_ERRORS
from dcpdump.wire.decode import packed
from dcpdump.wire.frame import Header, magic_of, pack_header

Scalar = int | bytes
#: One item of a repeated group: its fields by name, or the value itself where there is only one field.
Item = int | Mapping[str, Scalar]
Values = Mapping[str, Scalar | Sequence[Item]]

#: The first of a name, of clients' messages and then the server's own.
_BY_NAME = {known.name: known for known in reversed([*MESSAGES.values(), *PUSHES.values()])}
#: The widths of the header's numbers; a key length has one byte where the framing is flexible.
_WIDTHS = Header(1, 1, 1, 2, 1, 1, 2, 4, 4, 8)
METADATA = "metadata"  #: bytes after the value; the field with their size is filled in


class EncodeError(ValueError):
    """A value is not one of the message's, or does not fit its field."""


def encode(
    message: str | int | Message,
    values: Values | None = None,
    *,
    response: bool = False,
    layout: str | None = None,
    key: bytes = b"",
    value: bytes = b"",
    vbucket: int = 0,
    status: int = 0,
    opaque: int = 0,
    cas: int = 0,
    datatype: int = 0,
    stream_id: int | None = None,
    framing: bytes = b"",
    magic: int | None = None,
) -> bytes:
    """Return the bytes of one frame.

    ``values``: the fields of extras and value by name; missing ones are 0. A repeated group is a list of mappings, or
    of numbers where an item has one field. ``layout``: a version; without it, the first layout that has all the names
    and agrees with the values. ``value`` follows the structured part of the value. Framing extras, and a ``stream_id``,
    choose the flexible magic.
    """
    given = dict(values or {})
    known = _message(message)
    shape = _layout(known, given, response, status, layout)
    if stream_id is not None:
        framing += bytes((STREAM_ID_TAG,)) + _number("stream_id", stream_id, 2)
    metadata = given.pop(METADATA, b"")
    if not isinstance(metadata, bytes) or (metadata and not shape.tail):
        raise EncodeError(f"{known.name} has no metadata here")
    if metadata:
        given.setdefault(shape.tail, len(metadata))
    facts = {name: fact for name, fact in shape.when.items() if name in _names(shape)}
    extras = _fixed(shape.extras, {**facts, **given})
    body = b"".join(_part(part, given) for part in shape.parts) + value + metadata
    header = Header(
        _magic(known, response, bool(framing)) if magic is None else magic,
        known.opcode,
        len(framing),
        len(key),
        len(extras),
        datatype,
        status if response else vbucket,
        len(framing) + len(extras) + len(key) + len(body),
        opaque,
        cas,
    )
    return _header(header) + framing + extras + key + body


# -- which message, which layout ----------------------------------------------------------------------------


def _message(message: str | int | Message) -> Message:
    if isinstance(message, Message):
        return message
    if isinstance(message, int):
        return MESSAGES.get(message) or Message(message, f"opcode 0x{message:02x}")
    if message not in _BY_NAME:
        raise EncodeError(f"no message is named {message!r}")
    return _BY_NAME[message]


def _layout(message: Message, values: Values, response: bool, status: int, version: str | None) -> Layout:
    kind = "response" if response else "request"
    layouts = (message.response if response else message.request) if message.known else (RAW,)
    if response and status not in NOT_ERRORS:
        layouts = (*layouts, ERROR)
    named = [layout for layout in layouts if version in (None, layout.version)]
    if not named:
        versions = ", ".join(layout.version for layout in layouts) or "none"
        raise EncodeError(f"{message.name} {kind} has no layout {version!r} ({versions})")
    agreeing = [layout for layout in named if _agrees(layout, values, status if response else None)]
    for layout in agreeing:
        if values.keys() <= _names(layout) | ({METADATA} if layout.tail else set()):
            return layout
    if not agreeing:
        raise EncodeError(f"no layout of the {message.name} {kind} has these values")
    legal = _names(agreeing[0])
    unknown = ", ".join(sorted(values.keys() - legal))
    raise EncodeError(f"{message.name} {kind} has no field {unknown} ({', '.join(sorted(legal)) or 'none'})")


def _agrees(layout: Layout, values: Values, status: int | None) -> bool:
    """Return whether no value contradicts the conditions of the layout."""
    if status is not None and layout.when.get("status", status) != status:
        return False
    return all(values.get(name, fact) == fact for name, fact in layout.when.items() if name in _names(layout))


@cache
def _names(layout: Layout) -> set[str]:
    """Return the names that ``values`` may use: of extras, fixed fields, groups and slots."""
    names = {field.name for field in layout.extras}
    for part in layout.parts:
        names |= {field.name for field in part.fields} if isinstance(part, FlatTable) else {part.name}
    return names


# -- the header ---------------------------------------------------------------------------------------------


def _magic(message: Message, response: bool, flexible: bool) -> int:
    if PUSHES.get(message.opcode) is message:
        return SERVER_RESPONSE if response else SERVER_REQUEST
    if flexible:
        return ALT_CLIENT_RESPONSE if response else ALT_CLIENT_REQUEST
    return CLIENT_RESPONSE if response else CLIENT_REQUEST


def _header(header: Header) -> bytes:
    flexible = magic_of(header.magic).flexible
    if header.framing_length and not flexible:
        raise EncodeError(f"magic 0x{header.magic:02x} has no framing extras")
    if not flexible or header.key_length >> 8 == 0:
        with suppress(struct.error):
            return pack_header(header)
    widths = _WIDTHS._replace(key_length=1) if flexible else _WIDTHS
    return b"".join(map(_number, Header._fields, header, widths))  # which says what is wrong


# -- the body -----------------------------------------------------------------------------------------------


def _number(name: str, number: object, width: int) -> bytes:
    if not isinstance(number, int) or not 0 <= number < 1 << (8 * width):
        raise EncodeError(f"{name} is not a number of {width} bytes: {number!r}")
    return number.to_bytes(width, "big")


def _fixed(fields: tuple[Field, ...], values: Values) -> bytes:
    numbers = [values.get(field.name, 0) for field in fields]
    try:
        return packed(fields).pack(*numbers)
    except struct.error:
        each = zip(fields, numbers, strict=True)
        return b"".join(_number(field.name, number, field.width) for field, number in each)  # which says what is wrong


def _part(part: Part, values: Values) -> bytes:
    if isinstance(part, Field):
        return _fixed((part,), values)
    if isinstance(part, FlatTable):
        return _flat(part, values)
    if isinstance(part, Blob):
        return _bytes(part.name, values.get(part.name, b""))
    items = values.get(part.name, ())
    if isinstance(items, (int, bytes)):
        raise EncodeError(f"{part.name} is a list, not {items!r}")
    return b"".join(_item(part, item) for item in items)


def _item(repeat: Repeat, item: Item) -> bytes:
    if isinstance(item, int):
        if len(repeat.fields) != 1:
            raise EncodeError(f"an item of {repeat.name} has several fields, not {item!r}")
        item = {repeat.fields[0].name: item}
    unknown = item.keys() - {field.name for field in repeat.fields}
    if unknown:
        raise EncodeError(f"an item of {repeat.name} has no field {', '.join(sorted(unknown))}")
    blobs = [field for field in repeat.fields if isinstance(field, Blob)]
    sizes = {blob.size: len(_bytes(blob.name, item.get(blob.name, b""))) for blob in blobs}
    full = {**sizes, **item}
    return b"".join(_part(field, full) for field in repeat.fields)


def _bytes(name: str, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise EncodeError(f"{name} is bytes, not {value!r}")
    return value


def _flat(table: FlatTable, values: Values) -> bytes:
    """Return a FlatBuffers root table that holds the slots with a value, widest first, texts behind it.

    Root offset, vtable, table: the table begins 4 bytes before a multiple of 8, since its first word is 4 bytes wide
    and the 8-byte numbers that follow have to be aligned.
    """
    present = [(slot, field) for slot, field in enumerate(table.fields) if values.get(field.name)]
    present.sort(key=lambda each: -each[1].width if isinstance(each[1], Field) else -4)
    entries = [0] * (1 + max((slot for slot, _ in present), default=-1))
    vtable = 4
    start = vtable + 4 + 2 * len(entries)
    start += (4 - start) % 8
    at, inline, texts = start + 4, b"", b""
    size = 4 + sum(field.width if isinstance(field, Field) else 4 for _, field in present)
    for slot, field in present:
        entries[slot] = at - start
        name, value = field.name, values[field.name]
        if isinstance(field, Field):
            inline += _number(name, value, field.width)[::-1]
            at += field.width
        else:
            text = _bytes(name, value)
            texts += bytes(-(start + size + len(texts)) % 4)
            inline += _little(start + size + len(texts) - at, 4)
            texts += _little(len(text), 4) + text + b"\0"
            at += 4
    head = _little(start, 4) + _little(4 + 2 * len(entries), 2) + _little(size, 2)
    head += b"".join(_little(entry, 2) for entry in entries)
    return head.ljust(start, b"\0") + _little(start - vtable, 4) + inline + texts


def _little(number: int, width: int) -> bytes:
    return number.to_bytes(width, "little")
