"""Decode one RawFrame to one Frame. Knows the protocol table; knows no connection and no history.

Never fails: any bytes decode to a Frame whose fields cover each byte exactly once, and each contradiction becomes a
Problem. Meaning that depends on the connection (collection ids in keys) and the content of values (Snappy, xattrs,
JSON) is decoded in a second step, by ``value``.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import NamedTuple

from dcpdump.spec import ERROR, choose, find
from dcpdump.spec.field import NEVER, Blob, Field, FlatTable, Holds, Layout, Message, Part, Presence, Repeat
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    HEADER_LENGTH,
    MAX_FRAME,
    REQUEST_INFOS,
    RESPONSE_INFOS,
    STREAM_ID_NOT_COUNTED,
    STREAM_ID_TAG,
    FrameInfo,
    Magic,
    header_fields,
)
from dcpdump.spec.names import MECHANISMS
from dcpdump.spec.statuses import APPLICATION_STATUS, STATUS
from dcpdump.startup import lazy_pattern
from dcpdump.wire.frame import Fault, FieldValue, Frame, Header, Problem, RawFrame, Section, magic_of

# -- the slots of a FlatBuffers root table inside a value; every step is bound-checked ----------------
# The format is little-endian: a root offset leads to the table, the table's first word leads back to its vtable, whose
# 16-bit entries hold each slot's place within the table; 0 or a missing entry means the default. Text is behind one
# more offset, with its length before it.

_U16, _I32, _U32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")


class Placed(NamedTuple):
    """A slot that is present: its field, the range of its bytes in the value, and its value."""

    field: Field | Blob
    start: int
    end: int
    value: int | bytes


class FlatError(Exception):
    """The bytes are no FlatBuffers table; the text names the step that left the value."""


def locate_slots(value: bytes, table: FlatTable) -> list[Placed]:
    """Return the slots of a root table that are present, in the order of their bytes. Raises FlatError."""
    root = _read(_U32, value, 0, "root offset")
    vtable = root - _read(_I32, value, root, "table")
    size = _read(_U16, value, vtable, "vtable")
    if size < 4 or vtable + size > len(value):
        raise FlatError(f"vtable of {size} bytes at {vtable} does not fit")
    found: list[Placed] = []
    for slot, field in enumerate(table.fields):
        entry = 4 + 2 * slot
        if entry + 2 > size:
            continue
        inside = _read(_U16, value, vtable + entry, "vtable entry")
        if inside:
            found.append(_locate(value, root + inside, field))
    found.sort(key=lambda placed: placed.start)
    for before, after in pairwise(found):
        if before.end > after.start:
            raise FlatError(f"{before.field.name} and {after.field.name} overlap")
    return found


def structure(value: bytes, table: FlatTable) -> list[tuple[int, int]]:
    """Return the ranges of a table's own bookkeeping: its offsets, its vtable, the lengths of texts.

    Vtable entries for slots that are not in our table are left out, since the content of such slots is unknown.
    """
    root = _read(_U32, value, 0, "root offset")
    vtable = root - _read(_I32, value, root, "table")
    size = min(_read(_U16, value, vtable, "vtable"), 4 + 2 * len(table.fields))
    words = [(0, 4), (vtable, vtable + size), (root, root + 4)]
    for slot, field in enumerate(table.fields):
        entry = 4 + 2 * slot
        inside = _read(_U16, value, vtable + entry, "vtable entry") if entry + 2 <= size else 0
        if inside and not isinstance(field, Field):
            at = root + inside
            text = at + _read(_U32, value, at, field.name)
            words += [(at, at + 4), (text, text + 4)]
    return words


def _locate(value: bytes, at: int, field: Field | Blob) -> Placed:
    if isinstance(field, Field):
        if at + field.width > len(value):
            raise FlatError(f"{field.name} lies outside, at {at}")
        return Placed(field, at, at + field.width, int.from_bytes(value[at : at + field.width], "little"))
    text = at + _read(_U32, value, at, field.name)
    length = _read(_U32, value, text, field.name)
    start = text + 4
    if start + length > len(value):
        raise FlatError(f"{field.name} of {length} bytes lies outside, at {start}")
    return Placed(field, start, start + length, value[start : start + length])


def _read(word: struct.Struct, value: bytes, at: int, what: str) -> int:
    if at < 0 or at + word.size > len(value):
        raise FlatError(f"{what} lies outside, at {at}")
    number: int = word.unpack_from(value, at)[0]
    return number


# -- fields over bytes, and what does not fit: knows no layout ----------------------------------------

VALUE = Blob("value", "Value")
REST = Blob("unexplained", "Unexplained")

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a field.
new_field = tuple.__new__

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@cache
def packed(fields: tuple[Field, ...]) -> Struct:
    """Return the big-endian struct that reads these fields at once."""
    return Struct(">" + "".join(_FORMATS[field.width] for field in fields))


class Tiles:
    """The fields of a frame decoded so far, end to end, so that finally each byte is in exactly one field.

    ``data``: the bytes to show, with asterisks in place of credentials. ``lookup``: the numbers by name.
    """

    __slots__ = ("data", "fields", "key", "lookup", "problems", "raw", "secret", "stream_id", "value")

    def __init__(self, raw: RawFrame) -> None:
        self.raw = raw
        self.data = raw.data
        self.fields: list[FieldValue] = []
        self.problems: list[Problem] = []
        self.lookup: dict[str, int] = {}
        self.secret = False
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.stream_id: int | None = None

    def blob(self, blob: Blob, start: int, end: int, section: Section) -> None:
        """Add one field of plain bytes; it has no value where some of the bytes were lost."""
        value = None if self.raw.lost(start, end) else self.data[start:end]
        self.fields.append(FieldValue(blob, start, end, value, section))

    def fixed(self, fields: tuple[Field, ...], at: int, end: int, section: Section) -> int:
        """Add fields end to end as far as bytes reach; a field cut or lost has no value. Return where they end."""
        for field in fields:
            stop = at + field.width
            if at >= end:
                break
            if stop > end or self.raw.lost(at, stop):
                self.fields.append(FieldValue(field, at, min(stop, end), None, section))
            else:
                number = int.from_bytes(self.data[at:stop], "big")
                self.fields.append(FieldValue(field, at, stop, number, section))
                self.lookup[field.name] = number
                self.check_name(field, number, at)
            at = min(stop, end)
        return at

    def check_name(self, field: Field, number: int, at: int) -> None:
        """Note a problem where a number, or a bit, has no name although the field names its values."""
        odd = -1 if field.names is None else field.names.unknown(number)
        if odd < 0 or (field.names is STATUS and number >= APPLICATION_STATUS):
            return
        text = f"{field.label} 0x{odd:0{2 * field.width}x} has no name"
        self.problems.append(Problem(Fault.UNKNOWN_VALUE, text, at, at + field.width))

    def frame(self, show_secrets: bool) -> Frame:
        """Decode in three steps: the ends of the sections, the layout that fits, then each section by that layout."""
        header = self.raw.header
        magic = magic_of(header.magic)
        message = find(header.opcode, server=magic.server)
        tile_header(self, magic, message)
        framing, extras, key = section_ends(self)
        limit = min(len(self.data), self.raw.length)
        layout, why = choose(
            message,
            response=magic.response,
            status=header.vbucket_or_status,
            extras=self.data[framing:extras],
            extras_length=header.extras_length,
            value_length=header.frame_length - key,
        )
        if why and len(self.data) >= HEADER_LENGTH:
            self.problems.append(Problem(Fault.UNKNOWN_LAYOUT, why, framing, max(extras, framing)))
        secret = message.secret or looks_secret(self.data, extras, header.key_length)
        if not show_secrets and secret and not (layout is ERROR and is_error(self.data[HEADER_LENGTH:])):
            self.secret = True
            self.data = masked_body(self.data, framing, extras, key)
            self.raw = replace(self.raw, data=self.data)
        self._framing(magic, framing)
        self._extras(layout, framing, min(extras, limit))
        self._key(layout, extras, min(key, limit))
        self._value(layout, key, limit)
        self._shortage()
        return Frame(
            self.raw,
            magic,
            message,
            layout,
            tuple(self.fields),
            tuple(self.problems),
            (),
            self.key,
            self.value,
            self.stream_id,
            self.lookup,
        )

    # -- the body, section by section -------------------------------------------------------------------

    def _framing(self, magic: Magic, end: int) -> None:
        end = min(end, len(self.data))
        if end <= HEADER_LENGTH:
            return
        first = len(self.fields)
        tile_infos(self, HEADER_LENGTH, end, RESPONSE_INFOS if magic.response else REQUEST_INFOS)
        for field in self.fields[first:]:
            if field.field.name == "stream_id" and isinstance(field.value, int):
                self.stream_id = field.value

    def _extras(self, layout: Layout, start: int, end: int) -> None:
        if end <= start:
            return
        if not layout.extras:
            self.blob(EXTRAS, start, end, Section.EXTRAS)
            if layout.version not in ("?", "raw"):
                has = end - start
                text = f"extras must be empty but have {has} bytes"
                self.problems.append(Problem(Fault.MUST_BE_EMPTY, text, start, end, 0, has))
            return
        # Nearly all frames are whole, and their extras are read at once.
        if end - start == layout.extras_length and len(self.data) >= self.raw.length and not self.raw.holes:
            at, section = start, Section.EXTRAS
            numbers = packed(layout.extras).unpack_from(self.data, start)
            for field, number in zip(layout.extras, numbers, strict=True):
                stop = at + field.width
                self.fields.append(new_field(FieldValue, (field, at, stop, number, section, "", 0)))
                self.lookup[field.name] = number
                if field.names is not None:
                    self.check_name(field, number, at)
                at = stop
        else:
            self.fixed(layout.extras, start, end, Section.EXTRAS)

    def _key(self, layout: Layout, start: int, end: int) -> None:
        if end > start:
            self.key = None if self.raw.lost(start, end) else self.data[start:end]
            self.blob(KEY, start, end, Section.KEY)
        self._presence("key", layout.key, self.raw.header.key_length > 0, start, end)

    def _value(self, layout: Layout, start: int, end: int) -> None:
        if start > len(self.data):
            return
        promised = max(0, self.raw.length - start)
        if isinstance(layout.value, tuple):
            self.value = self.data[start:end]
            tile_value(self, layout.value, start, end, promised)
            return
        tail = self.lookup.get(layout.tail, 0) if layout.tail else 0
        if tail > promised:
            text = f"{layout.tail} says {tail} but the value has {promised} bytes"
            self.problems.append(Problem(Fault.WRONG_LENGTH, text, start, end, tail, promised))
            tail = promised
        stop = min(end, self.raw.length - tail)
        if stop > start:
            self._opaque_value(start, stop)
        if end > max(stop, start):
            self.blob(TAIL, max(stop, start), end, Section.TAIL)
        self._presence("value", layout.value, promised > 0, start, end)

    def _opaque_value(self, start: int, stop: int) -> None:
        if self.secret:
            self.value = self.data[start:stop]
            self.fields.append(FieldValue(VALUE, start, stop, self.value, Section.VALUE, group="secret"))
            return
        self.blob(VALUE, start, stop, Section.VALUE)
        self.value = None if self.raw.lost(start, stop) else self.data[start:stop]

    # -- what does not fit ------------------------------------------------------------------------------

    def _presence(self, what: str, rule: Presence, present: bool, start: int, end: int) -> None:
        if len(self.data) < HEADER_LENGTH:
            return
        if present and rule is NEVER:
            has = end - start
            text = f"{what} must be empty but has {has} bytes"
            self.problems.append(Problem(Fault.MUST_BE_EMPTY, text, start, end, 0, has))
        elif not present and rule is Presence.MUST:
            text = f"{what} must be present but is empty"
            self.problems.append(Problem(Fault.MUST_BE_PRESENT, text, start, start, 1, 0))

    def _shortage(self) -> None:
        """Note bytes that are missing of the length in the header, and bytes beyond it."""
        has, needs = len(self.data), self.raw.length
        if has < HEADER_LENGTH:
            text = f"the header needs {HEADER_LENGTH} bytes, {has} are there"
            self.problems.append(Problem(Fault.CUT, text, 0, has, HEADER_LENGTH, has))
        elif has > needs:
            self.blob(REST, needs, has, Section.REST)
            text = f"the header says {needs} bytes, {has} are there: {has - needs} are left over"
            self.problems.append(Problem(Fault.LEFT_OVER, text, needs, has, needs, has))
        elif has < needs:
            text = f"the frame is cut short: {needs} bytes promised, {has} are there"
            self.problems.append(Problem(Fault.CUT, text, has, has, needs, has))
        for start, end in self.raw.holes:
            self.problems.append(Problem(Fault.LOST, f"{end - start} bytes of the frame were lost", start, end))


# -- framing extras: the FrameInfo objects that flexible frames carry before their extras -------------
# Each begins with a byte: the id in the upper four bits, the length in the lower. 15 in either means that a further
# byte is added to it; the id's comes first.

_ESCAPE = 15


def tile_infos(tiles: Tiles, start: int, end: int, kinds: Mapping[int, FrameInfo]) -> None:
    """Add the fields of the frame infos in ``start`` … ``end``-1."""
    data, fields, problems = tiles.data, tiles.fields, tiles.problems
    at, number = start, 0
    while at < end:
        lead, identity, length = _tag(data, at, end)
        body = at + lead
        if body > end or body + length > end:
            has = max(0, end - body)
            fields.append(FieldValue(_REST, at, end, data[at:end], Section.FRAMING))
            text = f"frame info {identity} needs {length} bytes, {has} are left"
            problems.append(Problem(Fault.WRONG_LENGTH, text, at, end, length, has))
            break
        kind = kinds.get(identity)
        name = kind.name if kind else "unknown"
        fields.append(_tag_value(data, at, body, name, number))
        if kind is None:
            text = f"frame info id {identity} is not known"
            problems.append(Problem(Fault.UNKNOWN_FRAME_INFO, text, at, body + length))
        elif kind.lengths and length not in kind.lengths:
            needs = " or ".join(map(str, kind.lengths))
            text = f"{name} has {length} bytes, needs {needs}"
            problems.append(Problem(Fault.WRONG_LENGTH, text, at, body + length, kind.lengths[0], length))
        elif length < kind.least:
            text = f"{name} has {length} bytes, needs {kind.least} or more"
            problems.append(Problem(Fault.WRONG_LENGTH, text, at, body + length, kind.least, length))
        parts = _parts(data, body, body + length, kind, number)
        fields += parts
        for each in parts:
            if isinstance(each.field, Field) and isinstance(each.value, int):
                tiles.check_name(each.field, each.value, each.start)
        at, number = body + length, number + 1


def bare_infos(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the data of each frame info, up to the first that claims more bytes than are left."""
    at, end = 0, len(data)
    while at < end:
        lead, identity, length = _tag(data, at, end)
        at += lead + length
        if at <= end:
            yield identity, data[at - length : at]


_REST = Blob("frame_info_data", "frame info data")


def _tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return (bytes of tag, id, length) of the frame info at ``at``; bytes past the end count as zero."""
    identity, length = data[at] >> 4, data[at] & 15
    lead = 1
    if identity == _ESCAPE:
        identity += data[at + lead] if at + lead < end else 0
        lead += 1
    if length == _ESCAPE:
        length += data[at + lead] if at + lead < end else 0
        lead += 1
    return lead, identity, length


def _tag_value(data: bytes, at: int, body: int, name: str, number: int) -> FieldValue:
    if body - at > 2:
        return FieldValue(
            Blob("frame_info", f"{name} frame", holds=Holds.NOTHING), at, body, data[at:body], Section.FRAMING
        )
    tag = Field("frame_info", f"{name} frame", body - at, code=True)
    return FieldValue(tag, at, body, int.from_bytes(data[at:body], "big"), Section.FRAMING, item=number)


def _parts(data: bytes, at: int, end: int, kind: FrameInfo | None, number: int) -> list[FieldValue]:
    fields: list[FieldValue] = []
    for part in kind.parts if kind else ():
        if isinstance(part, Field) and at + part.width <= end:
            value = int.from_bytes(data[at : at + part.width], "big")
            fields.append(FieldValue(part, at, at + part.width, value, Section.FRAMING, item=number))
            at += part.width
        elif isinstance(part, Blob) and at < end:
            fields.append(FieldValue(part, at, end, data[at:end], Section.FRAMING, item=number))
            at = end
    if at < end:
        fields.append(FieldValue(_REST, at, end, data[at:end], Section.FRAMING, item=number))
    return fields


# -- credentials, masked by asterisks -----------------------------------------------------------------

MASK = b"*"
_MECHANISM = lazy_pattern(rb"(?:%b)\Z" % MECHANISMS.encode())
_PLAIN_NAME = lazy_pattern(rb"[\w.@-]*")  # a mechanism or a user: the only part of a secret message that is shown

_MOST_SAID = 4096
#: The JSON of an error as servers write it: context and log reference, and no credential.
_ERROR = lazy_pattern(
    rb'\{"error": ?\{(?:"(?:context|ref)": ?"(?:[^"\\]|\\.)*"(?:, ?(?=")|(?=\})))+\}\}',
)


def is_error(body: bytes) -> bool:
    """Return whether a body is a server's error JSON, which holds no credential."""
    return len(body) <= _MOST_SAID and _ERROR.fullmatch(body) is not None


def looks_secret(data: bytes, extras: int, key_length: int) -> bool:
    """Return whether the key is a mechanism of authentication, so that the opcode or magic may be damaged.

    ``extras``: where the extras end and the key begins.
    """
    if extras != HEADER_LENGTH:
        return False
    return _MECHANISM.match(data, HEADER_LENGTH, HEADER_LENGTH + max(key_length, 0)) is not None


def masked_body(data: bytes, framing: int, extras: int, key: int) -> bytes:
    """Return the bytes with every possible credential masked: all of the body but a key that is a plain name.

    ``framing``, ``extras`` and ``key``: where these sections end. Where lengths are damaged, a credential may stand in
    any section, and after the frame's end; the key is trusted only where the body begins with it.
    """
    name = data[extras:key]
    kept = name if extras == HEADER_LENGTH and _PLAIN_NAME.fullmatch(name) else MASK * len(name)
    return data[:framing] + MASK * len(data[framing:extras]) + kept + MASK * len(data[key:])


# -- sections: the header, and where framing extras, extras and key end, as far as lengths allow ------


@cache
def _header_spans(value: int) -> tuple[list[tuple[Field, int, int]], Struct]:
    """Return the header's fields under a magic, where each begins and ends, and the struct that reads them at once."""
    fields = header_fields(magic_of(value))
    ends = list(accumulate(field.width for field in fields))
    return list(zip(fields, [0, *ends], ends, strict=False)), packed(fields)


def tile_header(tiles: Tiles, magic: Magic, message: Message) -> None:
    """Add the header's fields, and note values that are unknown or impossible."""
    raw, data, problems = tiles.raw, tiles.data, tiles.problems
    header, size = raw.header, len(data)
    spans, numbers = _header_spans(magic.value)
    if size >= HEADER_LENGTH and not raw.holes:  # nearly all headers are complete, and read at once
        values, section = numbers.unpack_from(data), Section.HEADER
        tiles.fields += [
            new_field(FieldValue, (field, at, end, value, section, "", 0))
            for (field, at, end), value in zip(spans, values, strict=True)
        ]
    else:
        for field, at, end in spans:
            if at >= size:
                break
            number = None if raw.lost(at, end) else int.from_bytes(data[at:end], "big")
            tiles.fields.append(FieldValue(field, at, min(end, size), number, Section.HEADER))
    if not data:
        return
    if not magic.name:
        problems.append(Problem(Fault.UNKNOWN_MAGIC, f"0x{header.magic:02x} is not a magic of the protocol", 0, 1))
    if size < HEADER_LENGTH:
        return
    if magic.name and message.name == "UNKNOWN":
        problems.append(Problem(Fault.UNKNOWN_OPCODE, f"opcode 0x{header.opcode:02x} is not known", 1, 2))
    if header.datatype > 7:
        problems.append(Problem(Fault.UNKNOWN_DATATYPE, f"datatype 0x{header.datatype:02x} has unknown bits", 5, 6))
    if header.frame_length > MAX_FRAME:
        text = f"total body {header.body_length} (bytes 8-11) is more than a server accepts ({MAX_FRAME})"
        problems.append(Problem(Fault.TOO_LARGE, text, 8, 12, has=header.body_length))


def section_ends(tiles: Tiles) -> tuple[int, int, int]:
    """Return the ends of framing extras, extras and key, none beyond what total body allows."""
    header = tiles.raw.header
    length, left = header.framing_length, header.body_length
    if _has_stream_id_bug(header, tiles.data):
        length = 3
        text = (
            "framing extras length says 0 (byte 2) but a stream id stands there: a known bug of the server; read as 3"
        )
        tiles.problems.append(Problem(Fault.STREAM_ID_NOT_COUNTED, text, 2, 3, 3, 0))
    ends: list[int] = []
    at = HEADER_LENGTH
    flexible = magic_of(header.magic).flexible
    for name, where, span, size in (
        ("framing extras length", "byte 2", (2, 3), length),
        ("extras length", "byte 4", (4, 5), header.extras_length),
        ("key length", "byte 3" if flexible else "bytes 2,3", (2 + flexible, 4), header.key_length),
    ):
        if size > left:
            if len(tiles.data) >= HEADER_LENGTH:  # of a header that is cut, total body may not be there
                text = f"{name} says {size} ({where}) but total body leaves {left}"
                tiles.problems.append(Problem(Fault.LENGTHS_CONTRADICT, text, *span, size, left))
            size = left
        at += size
        left -= size
        ends.append(at)
    return ends[0], ends[1], ends[2]


def _has_stream_id_bug(header: Header, data: bytes) -> bool:
    return (
        header.magic == ALT_CLIENT_REQUEST
        and header.framing_length == 0
        and (header.opcode, header.extras_length) in STREAM_ID_NOT_COUNTED
        and data[HEADER_LENGTH : HEADER_LENGTH + 1] == bytes((STREAM_ID_TAG,))
        and header.body_length >= 3 + header.extras_length + header.key_length
    )


# -- values of fields, of items that repeat, or of a FlatBuffers table --------------------------------

#: The most items of a value that become fields. A cluster has at most 1,024 vBuckets, and no server's failover log,
#: list of features or cache transfer comes near; more items would take a hundred times the frame's memory.
MOST_ITEMS = 1 << 14
TABLE = Blob("flatbuffers", "(FlatBuffers)", holds=Holds.NOTHING)


def tile_value(tiles: Tiles, parts: tuple[Part, ...], start: int, end: int, promised: int) -> None:
    """Add the fields of a structured value of which ``promised`` bytes should be there."""
    at = start
    for part in parts:
        if isinstance(part, Repeat):
            at = _repeat(tiles, part, at, end)
        elif isinstance(part, FlatTable):
            at = _flat(tiles, part, at, end)
        elif isinstance(part, Field):
            at = tiles.fixed((part,), at, end, Section.VALUE)
        if isinstance(part, Repeat) and part.least and not promised:
            text = f"{part.name}: there are none, at least {part.least} must be there"
            tiles.problems.append(Problem(Fault.MUST_BE_PRESENT, text, start, start, part.least * part.width, 0))
    fixed = sum(part.width for part in parts if isinstance(part, Field))
    if all(isinstance(part, Field) for part in parts) and promised < fixed:
        text = f"value has {promised} bytes, needs {fixed}"
        tiles.problems.append(Problem(Fault.WRONG_LENGTH, text, start, end, fixed, promised))
    if at < end:
        tiles.blob(REST, at, end, Section.REST)
        text = f"{end - at} bytes of value are left over"
        tiles.problems.append(Problem(Fault.LEFT_OVER, text, at, end, 0, end - at))


def _repeat(tiles: Tiles, repeat: Repeat, at: int, end: int) -> int:
    """Add items to the end of the value; a rest shorter than an item's fixed part is left unexplained."""
    raw, needs, number = tiles.raw, repeat.width, 0
    while at < end:
        if number == MOST_ITEMS:
            tiles.blob(REST, at, end, Section.REST)
            text = f"{repeat.name}: after {number:,} items {end - at} bytes are not taken apart"
            tiles.problems.append(Problem(Fault.LEFT_OVER, text, at, end, 0, end - at))
            return end
        if end - at < needs or raw.lost(at, at + needs):
            tiles.blob(REST, at, end, Section.REST)
            if raw.length <= len(tiles.data):
                text = f"{repeat.name}: {end - at} bytes are left, an item needs {needs}"
                tiles.problems.append(Problem(Fault.WRONG_LENGTH, text, at, end, needs, end - at))
            return end
        at = _item(tiles, repeat, number, at, end)
        number += 1
    return at


def _item(tiles: Tiles, repeat: Repeat, number: int, at: int, end: int) -> int:
    sizes: dict[str, int] = {}
    for part in repeat.fields:
        if isinstance(part, Field):
            stop = at + part.width
            value: int | bytes = int.from_bytes(tiles.data[at:stop], "big")
            sizes[part.name] = int(value)
            tiles.check_name(part, sizes[part.name], at)
        else:
            needs = sizes[part.size]
            stop = at + needs
            if stop > end:
                text = f"{repeat.name}[{number}]: {part.label} needs {needs} bytes, {end - at} are left"
                tiles.problems.append(Problem(Fault.WRONG_LENGTH, text, at, end, needs, end - at))
                stop = end
            value = tiles.data[at:stop]
        tiles.fields.append(FieldValue(part, at, stop, value, Section.VALUE, repeat.name, number))
        at = stop
    return at


def _flat(tiles: Tiles, table: FlatTable, start: int, end: int) -> int:
    """Add the fields of a FlatBuffers table: the slots that are present, and the bytes between them."""
    if tiles.raw.lost(start, end):  # zeros in place of lost bytes would be wrong offsets
        tiles.blob(VALUE, start, end, Section.VALUE)
        return end
    try:
        slots = locate_slots(tiles.data[start:end], table)
    except FlatError as error:
        tiles.blob(VALUE, start, end, Section.VALUE)
        tiles.problems.append(Problem(Fault.NOT_FLATBUFFERS, f"no FlatBuffers table: {error}", start, end))
        return end
    for field in table.fields:
        if isinstance(field, Field):
            tiles.lookup[field.name] = 0  # a slot that is missing has the default
    at = start
    for placed in slots:
        if start + placed.start > at:
            tiles.blob(TABLE, at, start + placed.start, Section.VALUE)
        at = start + placed.end
        tiles.fields.append(FieldValue(placed.field, start + placed.start, at, placed.value, Section.VALUE, "flat"))
        if isinstance(placed.value, int):
            tiles.lookup[placed.field.name] = placed.value
    if at < end:
        tiles.blob(TABLE, at, end, Section.VALUE)
    return end


KEY = Blob("key", "Key")
TAIL = Blob("metadata", "Metadata")
EXTRAS = Blob("extras", "Extras")


def decode(raw: RawFrame, *, show_secrets: bool = False) -> Frame:
    """Decode every byte of a frame. Never raises; credentials are replaced by asterisks."""
    return Tiles(raw).frame(show_secrets)
