"""Hold a frame with its context, and make its flat form: the keys of ndjson, the columns of csv, names in filters.

All names and their types are derived from the protocol table; nothing about an opcode is written here.
"""

from collections.abc import Callable, Iterator
from dataclasses import field as member
from functools import cache
from typing import Any, NamedTuple

from dcpdump.escape import safe
from dcpdump.net.event import Gap
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Bits, Blob, EnumValue, Field, FlatTable, Repeat
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import DATATYPE, OWN_SEQNO
from dcpdump.spec.statuses import STATUS
from dcpdump.startup import dataclass
from dcpdump.text import iso_time
from dcpdump.wire.collection_names import Names
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import FieldValue, Frame, Problem, RawFrame, Section
from dcpdump.wire.session import SessionRequest
from dcpdump.wire.value import Body, Content

Json = dict[str, Any]
DEFAULT_VALUE_BYTES = 64
#: The field with the collection that a message is about; in rows it shares the column of keys' collections.
_NAMED_COLLECTION = "collection_id"
#: The keys for a header, and how many bytes of the header each needs.
_NEEDS = {
    "opcode": 2,
    "name": 2,
    "layout": 5,
    "datatype": 6,
    "vbucket": 8,
    "status": 8,
    "status_name": 8,
    "length": 12,
    "opaque": 16,
    "cas": 24,
}


@dataclass(frozen=True, slots=True)
class Record:
    """A frame with its content and its context. ``connection`` is None for pasted bytes."""

    number: int  #: 1, 2, 3 … in the order in which frames completed
    frame: Frame
    content: Content
    vbucket: int | None  #: of a response, that of its request
    request: SessionRequest | None = None
    connection: int | None = None
    direction: int = 0  #: 0: sent by the end that opened the connection
    src: str = ""
    dst: str = ""
    names: Names | None = member(default=None, repr=False, compare=False)  #: of collections

    @property
    def collection(self) -> int | None:
        """Return the id of its key's collection, or of the collection that it names; None without one."""
        return self.content.collection if self.content.collection is not None else self.frame.get(_NAMED_COLLECTION)

    def collection_path(self, collection: int | None) -> str | None:
        """Return the name of a collection, ``scope.collection``, if one was captured up to this frame."""
        if collection is None or self.names is None:
            return None
        return self.names.path(collection, self.number)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the frame, its key and its value."""
        return self.frame.problems + self.content.problems

    @property
    def hints(self) -> tuple[str, ...]:
        """Return what is odd, but no problem."""
        return self.frame.hints + self.content.hints

    @property
    def stream_id(self) -> int | None:
        """Return the stream id of the frame; of a stream request, the one that it requests."""
        if self.frame.stream_id is not None:
            return self.frame.stream_id
        asked = self.content.document.get("sid") if isinstance(self.content.document, dict) else None
        return asked if isinstance(asked, int) else None

    @property
    def latency_ns(self) -> int | None:
        """Return the time from the request to this response; None if either has no time, or the clock went back."""
        ts = self.frame.raw.where.ts_ns
        asked = self.request.ts_ns if self.request else None
        return None if ts is None or asked is None or ts < asked else ts - asked


#: A frame without content.
_BLANK = decode(RawFrame.of(b"\x80" + bytes(HEADER_LENGTH - 1)))


def blank_record(
    key: bytes | None = None, connection: int | None = None, direction: int = 0, src: str = "", dst: str = ""
) -> Record:
    """Return a record for filters of which only the key or the origin matters."""
    return Record(0, _BLANK, Content(key=key), None, None, connection, direction, src, dst)


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction of a connection: who sends to whom."""

    connection: int
    side: int  #: 0 or 1: which end sends
    src: str
    dst: str
    syn: bool = False  #: the opening was captured: direction 0 is the client's
    carved: bool = False  #: the file holds chosen packets only

    @property
    def id(self) -> int:
        """Return the number of the direction among all: twice the connection's number, plus 0 or 1."""
        return 2 * self.connection + self.side


class Lost(NamedTuple):
    """Bytes of a direction that are in no frame: never captured, or skipped."""

    direction: Direction
    gap: Gap  #: in the offsets of frames; of TLS its length is that of the missing text
    sent: tuple[Gap, ...] = ()  #: the bytes never captured, in the offsets of TCP
    skipped: int = 0


def seqnos(frame: Frame) -> Iterator[int]:
    """Yield all sequence numbers in a frame's fields."""
    for field in frame.fields:
        if isinstance(field.field, Field) and field.field.seqno and isinstance(field.value, int):
            yield field.value


def own_seqno(frame: Frame) -> int | None:
    """Return the seqno of the message itself; None without one."""
    return next((seqno for name in OWN_SEQNO if (seqno := frame.get(name)) is not None), None)


def seqno_range(frame: Frame) -> tuple[int, int] | None:
    """Return the range that a snapshot marker or a stream request spans; None for other frames."""
    start, end = frame.get("start_seqno"), frame.get("end_seqno")
    return None if start is None or end is None else (start, end)


# -- the flat form ------------------------------------------------------------------------------------------


def as_json(record: Record, *, value_bytes: int | None = DEFAULT_VALUE_BYTES) -> Json:
    """Return the frame as a JSON object. ``value_bytes``: how many bytes of values to show, None for all."""
    frame, header, content = record.frame, record.frame.header, record.content
    out: Json = {}
    if record.connection is not None:
        out |= _origin_json(record)
    out["length"] = frame.raw.length
    if record.connection is not None:
        out["gap_before"] = frame.raw.gap_before
        if frame.raw.confidence:
            out["confidence"] = frame.raw.confidence
    out |= {
        "magic": header.magic,
        "kind": frame.magic.kind,
        "opcode": header.opcode,
        "name": frame.message.name,
        "layout": frame.layout.version,
    }
    out |= _word(record)
    out |= {"opaque": header.opaque, "cas": f"0x{header.cas:016x}", "datatype": header.datatype}
    if header.datatype:
        out["datatype_names"] = list(DATATYPE.describe(header.datatype))
    infos = framing(frame, _plain)
    if infos:
        out["framing"] = infos
    if record.stream_id is not None:
        out["stream_id"] = record.stream_id
    fields = _fields(frame)
    if content.items:
        for item, flat in zip(content.items, fields["items"], strict=False):
            flat |= {} if item.collection is None else {"collection": item.collection}
            flat["key"] = safe(item.key)
            if path := record.collection_path(item.collection):
                flat["collection_name"] = path
            flat["value"] = safe(item.body.value[:value_bytes])
            flat |= _xattrs(item.body)
    if fields:
        out["fields"] = fields
    out |= _key_and_value(record, value_bytes)
    if record.problems:
        out["problems"] = [
            {"code": code.value, "text": text, "offset": start, "length": end - start}
            for code, text, start, end, *_ in record.problems
        ]
    if record.hints:
        out["hints"] = list(record.hints)
    size = len(frame.raw.data)  # a pasted header may be cut
    return out if size >= HEADER_LENGTH else {name: out[name] for name in out if size >= _NEEDS.get(name, 0)}


def _origin_json(record: Record) -> Json:
    raw = record.frame.raw
    origin: Json = {"frame": record.number, "packet": raw.where.packet, "file": safe(raw.where.file)}
    if raw.where.ts_ns is not None:
        origin["time"] = iso_time(raw.where.ts_ns)
    return origin | {
        "connection": record.connection,
        "src": record.src,
        "dst": record.dst,
        "offset": raw.offset,
    }


def _word(record: Record) -> Json:
    word = record.frame.header.vbucket_or_status
    if not record.frame.magic.response:
        return {"vbucket": word}
    out: Json = {} if record.vbucket is None else {"vbucket": record.vbucket}
    out["status"] = word
    name = STATUS.names.get(word)
    if name:
        out["status_name"] = name
    if record.request is not None:
        out["request_frame"] = record.request.frame
        if record.latency_ns is not None:
            out["latency_us"] = record.latency_ns // 1000
    return out


def framing(frame: Frame, shown: Callable[[FieldValue], Any]) -> list[Json]:
    """Return the frame infos; ``shown`` converts the value of a field."""
    infos: list[Json] = []
    for field in frame.fields:
        if field.section is not Section.FRAMING:
            continue
        if field.field.name == "frame_info":
            infos.append({"name": field.field.label.removesuffix(" frame")})
        elif infos:
            infos[-1][field.field.name] = shown(field)
    return infos


def _fields(frame: Frame) -> Json:
    """Return the fields of extras and value, repeated items as lists."""
    out: Json = dict(frame.lookup)
    out |= {each.name: _number(each, 0) for each in frame.unsent}
    for field in frame.fields:
        if field.section not in (Section.EXTRAS, Section.VALUE) or field.group == "secret":
            continue
        if field.group and field.group != "flat":
            _append(out.setdefault(field.group, []), field)
        elif isinstance(field.field, Field) and field.value is not None:
            if field.field.renamed:
                out.pop(field.field.name, None)
            out[field.field.key] = _plain(field)
            out |= _value_names(field.field, field.value)
        elif field.group == "flat":
            out[field.field.name] = _plain(field)
    features = out.get("features")
    if isinstance(features, list):
        names = next(f.field.names for f in frame.fields if f.group == "features" and isinstance(f.field, Field))
        if names:
            out["features_names"] = ["".join(names.describe(value)) or f"0x{value:04x}" for value in features]
    return out


def _append(items: list[Any], field: FieldValue) -> None:
    if field.value is None:  # lost, or not to be shown
        return
    if field.field.name == field.group:  # a Repeat of one field is a list of its values
        items.append(field.value)
        return
    while len(items) <= field.item:
        items.append({})
    name = f"{field.field.name}_hex" if isinstance(field.field, Blob) else field.field.name
    items[field.item][name] = field.value.hex() if isinstance(field.value, bytes) else _plain(field)


def _value_names(field: Field, value: int | bytes) -> Json:
    """Return the extra key with the names of an enumeration's value, or of flags."""
    if not isinstance(value, int):
        return {}
    if isinstance(field.names, Bits):
        return {f"{field.key}_names": list(field.names.describe(value))}
    if isinstance(field.names, EnumValue):
        return {f"{field.key}_name": name for name in field.names.describe(value)}
    return {}


def _plain(field: FieldValue) -> int | str | None:
    value = field.value
    if isinstance(value, bytes):
        return safe(value)
    return _number(field.field, value) if value is not None and isinstance(field.field, Field) else value


def _number(field: Field, number: int) -> int | str:
    """Return a number for programs: 64-bit ids as text, since JSON numbers lose precision."""
    return f"0x{number:0{2 * field.width}x}" if field.identity else number


def shown_body(record: Record) -> Body | None:
    """Return a frame's value, decompressed; None if it has none, or consists of fields, or must not be shown."""
    frame = record.frame
    hidden = frame.masked or not frame.value_length or isinstance(frame.layout.value, tuple)
    return None if hidden else record.content.body


def _key_and_value(record: Record, value_bytes: int | None) -> Json:
    frame, content = record.frame, record.content
    out: Json = {}
    collection = record.collection
    if collection is not None:
        out["collection"] = collection
        if content.collection is not None and content.collection_inferred:
            out["collection_inferred"] = True
        if path := record.collection_path(collection):
            out["collection_name"] = path
    if frame.key is not None and content.key is not None:
        out["key"] = safe(content.key)
        out["key_hex"] = frame.key.hex()
    length, body = frame.value_length, shown_body(record)
    if length:
        whole = body is not None and len(frame.raw.data) == frame.raw.length
        out["value_length"] = len(body.value) if body is not None and whole else length
    if frame.masked:
        out["value"] = f"<secret {length} B>"
    elif content.body is not None:
        if body is not None and value_bytes != 0:
            out["value"] = safe(body.value[:value_bytes])
        out |= _xattrs(content.body)
    if content.document is not None:
        out["value_json"] = content.document
    return out


def _xattrs(body: Body) -> Json:
    """Return the xattrs of a document, with the bytes that cannot be read."""
    out: Json = {}
    if body.xattrs is not None:
        out["xattrs"] = {safe(key): safe(text) for key, text in body.xattrs}
    if body.unread:
        out["xattrs_unread_hex"] = body.unread.hex()
    return out


# -- columns ------------------------------------------------------------------------------------------------

_LEADING = tuple(
    "frame packet file time connection src dst offset length gap_before confidence magic kind opcode name layout "
    "vbucket status status_name request_frame latency_us opaque cas datatype datatype_names stream_id".split()
)
_TRAILING = tuple(
    "collection collection_inferred collection_name key key_hex value_length value xattrs xattrs_unread_hex problems "
    "hints".split()
)


@cache
def columns() -> list[str]:
    """Return the names of all flat columns: the same for every capture, in the order of the table."""
    names: dict[str, None] = dict.fromkeys(_LEADING)
    for part in protocol_parts():
        names |= dict.fromkeys(_columns_of(part))
    names.pop(_NAMED_COLLECTION)
    return [*names, *_TRAILING]


def protocol_parts() -> Iterator[Field | Blob | Repeat]:
    """Yield the parts of extras and values of all messages; of a table of FlatBuffers its slots."""
    for message in (*MESSAGES.values(), *PUSHES.values()):
        for layout in message.layouts:
            for part in (*layout.extras, *layout.parts):
                if isinstance(part, FlatTable):
                    yield from part.fields
                else:
                    yield part


def _columns_of(part: Field | Blob | Repeat) -> list[str]:
    if isinstance(part, Field):
        name = f"{part.key}_names" if isinstance(part.names, Bits) else f"{part.key}_name"
        return [part.key] if part.names is None else [part.key, name]
    return [part.name, "features_names"] if isinstance(part, Repeat) and part.name == "features" else [part.name]
