"""Inspect documents without columns: whether anything about one is special, and what the rules ask for of a run.

A plain document is a mutation or a deletion with a seqno, without metadata, anything in a reserved field, the stream
id 0, or a body where none should be. Others are looked at one by one. Bare is a request for a stream, or its grant,
with nothing to it but numbers.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.batch.plans import body_of, has_id, key_length
from dcpdump.big_endian import be16, be32, be64
from dcpdump.spec import find
from dcpdump.spec.field import Field
from dcpdump.spec.header import CLIENT_REQUEST, HEADER_LENGTH, STREAM_ID_LENGTH
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.spec.opcodes import DCP_DELETION, DCP_MUTATION, DCP_SNAPSHOT_MARKER

if TYPE_CHECKING:
    from mypy_extensions import i64

_ENTRY: Final = 16  #: bytes of an entry of a failover log
_LONGEST_LOG: Final = 256 * _ENTRY
_PACKED: Final = XATTR | SNAPPY
_ID_LENGTH: Final = STREAM_ID_LENGTH - 1  #: of a stream id, without the tag of its frame info
#: Which bit of ``Inspected.forms`` a layout of deletions sets, by the length of its extras.
_FORMS: Final = bytes([{18: 1, 21: 2}.get(length, 0) for length in range(256)])


def _zeros() -> list[bytes | None]:
    """Return by opcode and length of extras where in these a plain document has zeros; None where none is plain."""
    table: list[bytes | None] = [None] * (256 * 256)
    for opcode in (DCP_MUTATION, DCP_DELETION):
        for layout in find(opcode).request:
            places: list[int] = []
            at = 0
            for field in layout.extras:
                assert isinstance(field, Field)
                if field.reserved or field.name == "nmeta":
                    places += range(at, at + field.width)
                at += field.width
            if not layout.old:
                table[opcode << 8 | layout.extras_length] = bytes(places)
    return table


_ZEROS: Final = _zeros()


def _numbers() -> dict[int, bytes]:
    """Return by version, 0 for none and else 1 more, where behind it a marker has its numbers; 0 for one it has not."""
    table: dict[int, bytes] = {}
    names = ("start_seqno", "end_seqno", "snapshot_type", "high_completed_seqno", "purge_seqno")
    for layout in find(DCP_SNAPSHOT_MARKER).request:
        version = layout.when.get("version", -1)
        fields = [part for part in (*layout.extras, *layout.parts) if isinstance(part, Field)][version >= 0 :]
        places = {field.name: sum(each.width for each in fields[:at]) for at, field in enumerate(fields)}
        table[version + 1] = bytes(places.get(name, 0) for name in names)
    return table


_NUMBERS: Final = _numbers()
#: Start, end and flags of a snapshot, and the highest completed seqno where its marker has one.
Announced = tuple[int, int, int, int | None]


class Inspected(NamedTuple):
    """What inspecting a run of plain documents found. ``starts`` and ``ends`` lie in ``data``."""

    rising: bool  #: each seqno is above the one before
    longest: int  #: bytes of the longest key, prefix included
    sound: bool  #: each key starts with a collection id as it should be
    forms: int  #: of deletions: bit 0 where there is one of layout 1, bit 1 where there is one of layout 2
    seqnos: list[int]
    keys: list[bytes]  #: as they are on the wire
    data: bytes
    places: list[int]  #: of values marked JSON and nothing else: which documents they are of,
    starts: list[int]  #: where each begins,
    ends: list[int]  #: and where it ends
    packed: list[tuple[int, int, bytes]]  #: of what is compressed or has xattrs: which document, datatype and value


def announced(data: bytes, start: "i64") -> Announced | None:
    """Return the snapshot that a regular marker announces; None where it also says up to where was purged."""
    body = body_of(data, start)
    versioned: i64 = 1 if data[start + 4] == 1 else 0
    places = _NUMBERS[data[body] + 1 if versioned else 0]
    body += versioned
    if places[4] and be64(data, body + places[4]):
        return None
    completed = be64(data, body + places[3]) if places[3] else None
    flags: int = be32(data, body + places[2])
    return be64(data, body + places[0]), be64(data, body + places[1]), flags, completed


def is_bare(data: bytes, start: "i64") -> bool:
    """Return whether a request for a stream has extras alone, or its answer is a grant with a short failover log."""
    body = be32(data, start + 8)
    if data[start] == CLIENT_REQUEST:
        extras: i64 = data[start + 4]
        return body == extras
    return not (be16(data, start + 2) or be16(data, start + 6)) and 0 < body <= _LONGEST_LOG and not body % _ENTRY


def is_plain(data: bytes, start: "i64") -> bool:
    """Return whether a whole document is plain."""
    body = body_of(data, start)
    opcode: i64 = data[start + 1]
    extras: i64 = data[start + 4]
    zeros = _ZEROS[opcode << 8 | extras]
    if zeros is None or not (be32(data, body) or be32(data, body + 4)):
        return False
    if body != start + HEADER_LENGTH and not be16(data, body - _ID_LENGTH):
        return False
    for place in zeros:
        if data[body + place]:
            return False
    if opcode != DCP_DELETION:
        return True
    value = _value_length(data, start)
    datatype: i64 = data[start + 5]
    if datatype & _PACKED != XATTR:
        return not datatype and not value
    return value >= 4 and be32(data, body + extras + key_length(data, start)) + 4 == value


def inspect(data: bytes, first: int, count: int) -> Inspected:
    """Inspect so many plain documents, which follow one another in ``data`` from ``first`` on."""
    seqnos: list[int] = []
    keys: list[bytes] = []
    places: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    packed: list[tuple[int, int, bytes]] = []
    rising = sound = True
    before, longest, forms = 0, 0, 0
    start: i64 = first
    for place in range(count):
        body = body_of(data, start)
        extras: i64 = data[start + 4]
        key_at, key_size = body + extras, key_length(data, start)
        value_at = key_at + key_size
        stop = start + HEADER_LENGTH + be32(data, start + 8)
        seqno = be64(data, body)
        rising = rising and seqno > before
        before = seqno
        seqnos.append(seqno)
        keys.append(data[key_at:value_at])
        longest = max(longest, key_size)
        sound = sound and has_id(data, key_at, value_at)
        if data[start + 1] == DCP_DELETION:
            forms |= _FORMS[extras]
        datatype: i64 = data[start + 5]
        if datatype > JSON:
            packed.append((place, datatype, data[value_at:stop]))
        elif datatype and stop > value_at:
            places.append(place)
            starts.append(value_at)
            ends.append(stop)
        start = stop
    return Inspected(rising, longest, sound, forms, seqnos, keys, data, places, starts, ends, packed)


def _value_length(data: bytes, start: "i64") -> "i64":
    extras: i64 = data[start + 4]
    return start + HEADER_LENGTH + be32(data, start + 8) - body_of(data, start) - extras - key_length(data, start)
