"""Make frames with a token wherever a text can stand, from the protocol table: additions to it are planted
automatically.

Tokens begin with one of two stems: PRIVATE where user data or a bucket stands, or where it is unknown what does; NAMED
where the table says that it is the name of a collection, a scope, a client or a host.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from dcpdump.spec.field import NEVER, Blob, Field, FlatTable, Holds, Message, Part, Repeat
from dcpdump.spec.header import REQUEST_INFOS, RESPONSE_INFOS
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.encode import Item, Values, encode
from dcpdump.wire.frame import Header, pack_header
from tests.support.fields import snappy, xattr_block
from tests.support.strategies import PUSHED, SHAPES, Shape

PRIVATE, NAMED = b"Jq7xVw9K", b"Zt5yHb3R"
OPAQUE = 0x7777
_NAMES = frozenset({Holds.META, Holds.SYSTEM})
_NUMBERS = count()
_FEATURES: Values = {"features": [6, 0xA, 0xB, 0xE, 0x10, 0x12]}
#: Of the messages of which only the name is known, two: their layouts are all the same.
_ALIKE = ("GET", "SET_CTRL_TOKEN")
_FILTER = ("uid", "scope", "purge_seqno", "cts")


class Planted(NamedTuple):
    """A frame with tokens in it, and who sends it: 0 is the client."""

    direction: int
    data: bytes


class Body(NamedTuple):
    """What stands behind a header."""

    framing: bytes = b""
    extras: bytes = b""
    key: bytes = b""
    value: bytes = b""


def token(holds: Holds = Holds.USER) -> bytes:
    """Return a text that stands nowhere else."""
    return (NAMED if holds in _NAMES else PRIVATE) + b"%05d" % (next(_NUMBERS) % 100_000)


def frames() -> Iterator[Planted]:
    """Yield every shape of every message, with a token in each place that it has, and in some that it has not."""
    yield from hello()
    for shape in (*SHAPES, *PUSHED):
        if not shape.message.known and shape.message.name not in _ALIKE:
            continue
        pushed = shape in PUSHED
        for body, datatype in _bodies(shape):
            yield Planted(int(shape.response is not pushed), _frame(shape, body, datatype, pushed=pushed))
        if shape.message.name == "HELLO":  # which changes how keys are read
            yield from hello()
    for opcode in (0x9A, 0xFE):
        yield Planted(0, encode(Message(opcode, "unknown"), key=token(), value=token(), framing=_infos(REQUEST_INFOS)))


def _answered(
    name: str, opaque: int, *, answer: Values | None = None, status: int = 0, **given: Any
) -> Iterator[Planted]:
    yield Planted(0, encode(name, opaque=opaque, **given))
    yield Planted(1, encode(name, answer or {}, response=True, status=status, opaque=opaque))


def hello(agent: bytes = b"agent") -> Iterator[Planted]:
    """Yield the messages that negotiate collections, Snappy, xattrs and JSON."""
    yield from _answered("HELLO", 1, values=_FEATURES, answer=_FEATURES, key=agent)


def conversation() -> Iterator[Planted]:
    """Yield a connection that names everything after tokens: what ledgers and verdicts are made of."""
    yield from hello(json.dumps({"a": token().decode(), "i": token().decode()}).encode())
    yield from _answered("SASL_AUTH", 2, key=token(), value=b"\0" + token() + b"\0" + token())
    yield from _answered("SELECT_BUCKET", 3, key=token())
    name = json.dumps({"consumer_name": token(Holds.META).decode()}).encode()
    yield from _answered("DCP_OPEN", 4, values={"flags": 5}, key=token(), value=name)
    for opaque, key in enumerate((b"consumer_name", b"enable_noop", token(), b"set_priority"), 5):
        yield from _answered("DCP_CONTROL", opaque, key=key, value=token(), status=4 * (opaque == 8))
    context = json.dumps({"error": {"context": token().decode(), "ref": token().decode()}}).encode()
    asked: dict[str, object] = {name: token().decode() for name in _FILTER}
    asked |= {"collections": [token().decode(), "8"], token().decode(): 1}
    for vbucket, status in enumerate((0x88, 0x8C, 0x24, 0x22, 0x04)):
        where: dict[str, Any] = {"vbucket": vbucket, "opaque": 20 + vbucket}
        yield Planted(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, value=json.dumps(asked).encode(), **where))
        refusal: dict[str, Any] = {"status": status, "value": context, "datatype": JSON, "opaque": 20 + vbucket}
        yield Planted(1, encode("DCP_STREAM_REQ", response=True, **refusal))
    yield Planted(0, encode("DCP_STREAM_REQ", {"end_seqno": 99}, value=b'{"uid":"5"}', vbucket=9, opaque=30))
    log: Values = {"failover_log": [{"vbucket_uuid": 5, "seqno": 0}]}
    yield Planted(1, encode("DCP_STREAM_REQ", log, response=True, opaque=30))
    yield from (Planted(1, data) for data in _stream())
    # What is not answered waits to the end.
    yield Planted(0, encode("DCP_CONTROL", key=token(), value=token(), opaque=40))
    yield Planted(0, encode("SELECT_BUCKET", key=token(), opaque=41))


def _stream() -> Iterator[bytes]:
    where: dict[str, Any] = {"vbucket": 9, "opaque": 30}
    yield encode("DCP_SNAPSHOT_MARKER", {"start_seqno": 0, "end_seqno": 20, "snapshot_type": 1}, **where)
    event: Values = {"by_seqno": 1, "event": 0, "version": 0, "manifest_uid": 1, "scope_id": 8, "collection_id": 9}
    yield encode("DCP_SYSTEM_EVENT", event, layout="0", key=token(Holds.META), **where)
    for seqno in (2, 3, 3):
        yield encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"\x08" + token(), value=token(), datatype=5, **where)
    yield encode("DCP_PREPARE", {"by_seqno": 4, "durability_level": 1}, key=b"\x08" + token(), value=token(), **where)
    yield encode("DCP_STREAM_REQ", response=True, status=0x23, value=token(), opaque=31)


# -- bodies -------------------------------------------------------------------------------------------------


def _bodies(shape: Shape) -> Iterator[tuple[Body, int]]:
    """Yield the bodies that a shape has, each with its datatype; and then such as it should not have."""
    layout, message = shape.layout, shape.message

    def key() -> bytes:
        return b"" if layout.key is NEVER else b"\x08" * message.collection_key + token(message.key_holds)

    for value, datatype in _values(shape):
        yield Body(b"", _extras(shape), key(), value), datatype
    kinds = RESPONSE_INFOS if shape.response else REQUEST_INFOS
    for framing in (_infos(kinds), *_odd_infos(kinds)):
        yield Body(framing, _extras(shape), key(), next(_values(shape))[0]), 0
    text = token() if isinstance(layout.value, tuple) or layout.value is NEVER else token(_value_holds(shape))
    for value in (next(_values(shape))[0] + text, text, b""):
        yield Body(b"", _extras(shape), key(), value), 0
    # What is damaged is hidden at every level.
    if layout.key is NEVER:
        yield Body(b"", _extras(shape), token(), token()), 0
    yield Body(b"", token(), token(), token()), 0


def _value_holds(shape: Shape) -> Holds:
    return Holds.USER if shape.layout.version == "error" else shape.message.value_holds


def _extras(shape: Shape, tail: int = 13) -> bytes:
    given = {**shape.layout.when, shape.layout.tail: tail}
    return b"".join(given.get(field.name, 0).to_bytes(field.width, "big") for field in shape.layout.extras)


def _values(shape: Shape) -> Iterator[tuple[bytes, int]]:
    layout, message = shape.layout, shape.message
    if isinstance(layout.value, tuple):
        yield _structured(shape, layout.value), 0
        if any(isinstance(part, FlatTable) for part in layout.value):
            yield _structured(shape, tuple(_longer(part) for part in layout.value)), 0
        return
    if layout.value is NEVER:
        yield b"", 0
        return
    holds = _value_holds(shape)
    tail = token() if layout.tail else b""

    def quoted() -> bytes:
        texts = [token(holds).decode() for _ in range(3)]
        return json.dumps({"name": texts[0], texts[1]: [texts[2]]}).encode()

    xattrs = xattr_block((token(holds), token(holds)))
    yield token(holds) + tail, 0
    yield quoted() + tail, JSON
    yield token(holds) + tail, SNAPPY
    for value, datatype in (
        (quoted(), 0),
        (xattrs + quoted(), XATTR | JSON),
        (snappy(quoted()), SNAPPY | JSON),
        (snappy(xattrs + token(holds)), SNAPPY | XATTR),
        (token(holds), XATTR),
    ):
        if not (message.document or message.json or message.name == "GET"):
            return
        yield value + tail, datatype


def _structured(shape: Shape, parts: tuple[Part, ...]) -> bytes:
    """Return a value with a token in each text of its structure."""
    layout = replace(shape.layout, value=parts)
    alone = (layout,)
    message = replace(shape.message, response=alone) if shape.response else replace(shape.message, request=alone)
    given: dict[str, int | bytes | list[Item | int]] = {
        name: fact for name, fact in layout.when.items() if any(field.name == name for field in layout.extras)
    }
    for part in parts:
        if isinstance(part, Repeat):
            given[part.name] = [_item(part), _item(part)]
        elif isinstance(part, FlatTable):
            given |= {field.name: _scalar(field) for field in part.fields}
    status = layout.when.get("status", 0)
    data = encode(message, given, response=shape.response, status=status, layout=layout.version)
    return data[24 + layout.extras_length :]


def _scalar(part: Field | Blob) -> int | bytes:
    return token(part.holds) if isinstance(part, Blob) else 1


def _item(repeat: Repeat) -> Item | int:
    if len(repeat.fields) == 1:
        return 6
    sizes = {part.size for part in repeat.fields if isinstance(part, Blob)}
    item = {part.name: _scalar(part) for part in repeat.fields if part.name not in sizes}
    return item | {"datatype": 0} if "datatype" in item else item


def _longer(part: Part) -> Part:
    """Return a table that has one more text, as a later release may send it."""
    if not isinstance(part, FlatTable):
        return part
    return FlatTable((*part.fields, Blob("later", "later")))


# -- framing extras -----------------------------------------------------------------------------------------


def _infos(kinds: dict) -> bytes:  # type: ignore[type-arg]
    """Return every frame info of a kind, as it should be, and two of unknown kinds."""
    out = b""
    for info in kinds.values():
        data = b"".join(
            token(part.holds) if isinstance(part, Blob) else bytes(part.width - 1) + b"\1" for part in info.parts
        )
        out += _info(info.id, data[: info.lengths[-1]] if info.lengths else data)
    return out + _info(9, token()) + _info(40, token() + token())


def _odd_infos(kinds: dict) -> Iterator[bytes]:  # type: ignore[type-arg]
    """Yield framing extras with infos of a wrong length, and one that claims more than there is."""
    yield b"".join(_info(info.id, token()) for info in kinds.values() if info.lengths)
    yield bytes((0x9F, 200)) + token()
    yield bytes((0x40 | 14,)) + token()


def _info(number: int, data: bytes) -> bytes:
    size = len(data)
    lead = bytes((min(number, 15) << 4 | min(size, 15),))
    lead += bytes((number - 15,)) if number >= 15 else b""
    return lead + (bytes((size - 15,)) if size >= 15 else b"") + data


def _frame(shape: Shape, body: Body, datatype: int, *, pushed: bool) -> bytes:
    magic = {(False, False): 0x80, (True, False): 0x81, (False, True): 0x08, (True, True): 0x18}
    number = magic[shape.response, bool(body.framing)] if not pushed else 0x83 if shape.response else 0x82
    framing = b"" if pushed else body.framing
    status = shape.layout.when.get("status", 4 if shape.layout.version == "error" else 0)
    word = status if shape.response else 9
    size = sum(map(len, body)) - len(body.framing) + len(framing)
    lengths = len(framing), len(body.key), len(body.extras), datatype, word, size, OPAQUE, 0
    return pack_header(Header(number, shape.message.opcode, *lengths)) + framing + body.extras + body.key + body.value
