"""Derive Hypothesis strategies from the protocol table: additions to the table are fuzzed automatically."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from dcpdump.spec import ERROR, MESSAGES, PUSHES, RAW
from dcpdump.spec.field import (
    MAY,
    MUST,
    Bits,
    Blob,
    EnumValue,
    Field,
    FlatTable,
    Layout,
    Message,
    Part,
    Presence,
    Repeat,
)
from dcpdump.spec.header import REQUEST_INFOS, RESPONSE_INFOS, FrameInfo
from dcpdump.spec.statuses import NOT_ERRORS, STATUS
from dcpdump.wire.encode import Item, Scalar, Values, encode


class Shape(NamedTuple):
    """One layout of one message, as a request or as a response."""

    message: Message
    layout: Layout
    response: bool

    def __str__(self) -> str:
        return f"{self.message.name} {'response' if self.response else 'request'} {self.layout.version}"


class Sent(NamedTuple):
    """A frame, and what it was made from."""

    shape: Shape
    values: Values
    key: bytes
    value: bytes
    metadata: bytes
    stream_id: int | None
    status: int
    data: bytes


def _shapes_of(message: Message) -> list[Shape]:
    if not message.known:
        return [Shape(message, RAW, False), Shape(message, RAW, True)]
    return [
        *(Shape(message, layout, False) for layout in message.request),
        *(Shape(message, layout, True) for layout in message.response),
        Shape(message, ERROR, True),
    ]


SHAPES: list[Shape] = [shape for message in MESSAGES.values() for shape in _shapes_of(message)]
PUSHED: list[Shape] = [shape for message in PUSHES.values() for shape in _shapes_of(message)]


def numbers(field: Field) -> SearchStrategy[int]:
    """Return values of a field that the table has a name for, or any where it names none."""
    if isinstance(field.names, EnumValue):
        return st.sampled_from(sorted(field.names.names))
    if isinstance(field.names, Bits):
        return st.sets(st.sampled_from(sorted(field.names.names))).map(sum)
    return st.integers(0, (1 << (8 * field.width)) - 1)


def _scalars(part: Field | Blob) -> SearchStrategy[Scalar]:
    return numbers(part) if isinstance(part, Field) else st.binary(max_size=20)


@st.composite
def _items(draw: DrawFn, repeat: Repeat) -> Item:
    sizes = {part.size for part in repeat.fields if isinstance(part, Blob)}
    item = {part.name: draw(_scalars(part)) for part in repeat.fields if part.name not in sizes}
    for part in repeat.fields:
        if isinstance(part, Blob):
            blob = item[part.name]
            item[part.size] = len(blob) if isinstance(blob, bytes) else 0
    if len(repeat.fields) == 1:
        only = item[repeat.fields[0].name]
        return only if isinstance(only, int) else item
    return item


@st.composite
def _part(draw: DrawFn, part: Part) -> Values:
    if isinstance(part, Repeat):
        return {part.name: draw(st.lists(_items(part), min_size=part.least, max_size=4))}
    if isinstance(part, FlatTable):
        return {field.name: draw(_scalars(field)) for field in part.fields if draw(st.booleans())}
    return {part.name: draw(_scalars(part))}


def _bytes(presence: Presence) -> SearchStrategy[bytes]:
    if presence is MUST:
        return st.binary(min_size=1, max_size=24)
    return st.binary(max_size=24) if presence is MAY else st.just(b"")


@st.composite
def _framing(draw: DrawFn, kinds: dict[int, FrameInfo]) -> bytes:
    out = b""
    for kind in draw(st.lists(st.sampled_from(list(kinds.values())), max_size=3)):
        if kind.id == 2 and kinds is REQUEST_INFOS:
            continue  # a stream id is drawn on its own, since decoding gives it a place of its own
        size = draw(st.sampled_from(kind.lengths) if kind.lengths else st.integers(kind.least, 14))
        body = draw(st.binary(min_size=size, max_size=size))
        if kind.name == "DurabilityRequirement":
            body = b"\1" + body[1:]
        out += bytes((kind.id << 4 | size,)) + body
    return out


@st.composite
def sent(draw: DrawFn, shape: Shape | None = None) -> Sent:
    """Make well-formed frames: of one shape, or of any that a client's magic may have."""
    shape = shape or draw(st.sampled_from(SHAPES))
    message, layout = shape.message, shape.layout
    values: dict[str, Scalar | object] = {field.name: draw(numbers(field)) for field in layout.extras}
    for part in layout.parts:
        values |= draw(_part(part))
    values |= {name: fact for name, fact in layout.when.items() if name in values}
    metadata = b""
    if layout.tail:
        metadata = draw(st.one_of(st.just(b""), st.binary(max_size=8)))
        values[layout.tail] = len(metadata)
    key = draw(_bytes(layout.key))
    value = b"" if isinstance(layout.value, tuple) else draw(_bytes(layout.value))
    status = layout.when.get("status", 0)
    if layout is ERROR:
        status = draw(st.sampled_from(sorted(STATUS.names.keys() - NOT_ERRORS)))
    pushed = PUSHES.get(message.opcode) is message
    framing, stream_id = b"", None
    if not pushed and draw(st.booleans()):
        framing = draw(_framing(RESPONSE_INFOS if shape.response else REQUEST_INFOS))
        if not shape.response:
            stream_id = draw(st.one_of(st.none(), st.integers(0, 0xFFFF)))
    clean: Values = values  # type: ignore[assignment]
    data = encode(
        message,
        {**clean, "metadata": metadata} if metadata else clean,
        response=shape.response,
        layout=layout.version,
        key=key,
        value=value,
        vbucket=draw(st.integers(0, 0xFFFF)),
        status=status,
        opaque=draw(st.integers(0, 0xFFFFFFFF)),
        cas=draw(st.integers(0, (1 << 64) - 1)),
        datatype=draw(st.integers(0, 7)),
        stream_id=stream_id,
        framing=framing,
    )
    return Sent(shape, clean, key, value, metadata, stream_id, status, data)


def pushed() -> SearchStrategy[Sent]:
    """Make well-formed frames that a server sends of its own accord, and the replies to them."""
    return st.sampled_from(PUSHED).flatmap(sent)


@st.composite
def damaged(draw: DrawFn) -> bytes:
    """Make frames of which bytes were changed, lost or added."""
    data = bytearray(draw(st.one_of(sent(), pushed())).data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from(("set", "set in the header", "cut", "insert", "delete")))
        if change == "cut":
            del data[at:]
        elif change == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif change == "delete":
            del data[at : at + draw(st.integers(1, 8))]
        elif data:
            at = min(at, len(data) - 1, 23 if change == "set in the header" else len(data))
            data[at] = draw(st.integers(0, 255))
    return bytes(data)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at places, given in any order and taken modulo the length."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]
