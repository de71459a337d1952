"""decode(): one RawFrame → one Frame. Knows the protocol table; knows no connection and no history.

It is total: any bytes give a Frame whose fields tile them exactly, and whatever contradicts the table or
itself becomes a Problem. What only the connection knows (collections, and so what a key means) and what a
value holds (Snappy, xattrs, JSON) is a second step: see value.py.
"""

import re
from dataclasses import replace
from functools import cache
from struct import Struct

from dcpdump.spec import choose, find
from dcpdump.spec.field import NEVER, Blob, Field, FlatTable, Layout, Message, Presence, Repeat
from dcpdump.spec.header import HEADER_LENGTH, MAX_FRAME, REQUEST_INFOS, RESPONSE_INFOS, Magic, header_fields
from dcpdump.spec.names import APPLICATION_STATUS
from dcpdump.wire.flat import FlatError, place_slots
from dcpdump.wire.frame import FieldValue, Frame, Header, Problem, RawFrame, Section, Span, magic_of
from dcpdump.wire.framing import frame_infos

KEY = Blob("key", "Key")
VALUE = Blob("value", "Value")
TAIL = Blob("metadata", "Metadata")
EXTRAS = Blob("extras", "Extras")
REST = Blob("unexplained", "Unexplained")
TABLE = Blob("flatbuffers", "(FlatBuffers)")
MASK = b"*"
_MECHANISM = re.compile(rb"(?:PLAIN|OAUTHBEARER|SCRAM-SHA(?:1|256|512))\Z")
_PLAIN_NAME = re.compile(rb"[\w.@-]*")  # of a mechanism or a user: the only part of a secret that is shown

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
#: Servers write the stream id of these two but leave the framing length 0: (opcode, extras length).
_STREAM_ID_BUG = frozenset({(0x58, 21), (0x59, 20)})
_STREAM_ID_TAG = 0x22


def decode(raw: RawFrame, *, show_secrets: bool = False) -> Frame:
    """It explains every byte of a frame. Never raises; credentials are replaced by asterisks."""
    return _Decoding(raw, show_secrets).frame()


@cache
def packed(fields: tuple[Field, ...]) -> Struct:
    """It compiles the big-endian struct that reads these fields at once."""
    return Struct(">" + "".join(_FORMATS[field.width] for field in fields))


class _Decoding:
    """The state of decoding one frame: what was tiled so far, and what did not fit."""

    def __init__(self, raw: RawFrame, show_secrets: bool) -> None:
        self.raw = raw
        self.data = raw.data
        self.whole = len(raw.data) >= HEADER_LENGTH and not raw.holes and len(raw.data) >= raw.length
        self.show_secrets = show_secrets
        self.secret = False
        self.fields: list[FieldValue] = []
        self.problems: list[Problem] = []
        self.hints: list[str] = []
        self.lookup: dict[str, int] = {}
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.stream_id: int | None = None

    def frame(self) -> Frame:
        header = self.raw.header
        magic = magic_of(header.magic)
        message = find(header.opcode, server=magic.server)
        self._header(header, magic, message)
        framing, extras, key = self._sections(header)
        limit = min(len(self.data), self.raw.length)
        layout, why = choose(
            message,
            response=magic.response,
            status=header.word,
            extras=self.data[framing:extras],
            extras_length=header.extras_length,
            value_length=header.frame_length - key,
        )
        if why and len(self.data) >= HEADER_LENGTH:
            self.problems.append(Problem(why, framing, max(extras, framing)))
        self.secret = not self.show_secrets and (message.secret or self._looks_secret(header, extras))
        if self.secret:
            self._mask(framing, extras, key)
        self._framing(magic, framing)
        self._extras(layout, framing, min(extras, limit))
        self._key(layout, message, extras, min(key, limit))
        self._value(layout, message, key, limit)
        self._shortage()
        return Frame(
            self.raw,
            magic,
            message,
            layout,
            tuple(self.fields),
            tuple(self.problems),
            tuple(self.hints),
            self.key,
            self.value,
            self.stream_id,
            self.lookup,
        )

    # -- the header -------------------------------------------------------------------------------------

    def _header(self, header: Header, magic: Magic, message: Message) -> None:
        data, at = self.data, 0
        for field in header_fields(magic):
            end = at + field.width
            if at >= len(data):
                break
            there = end <= len(data) and not (self.raw.holes and self.raw.lost(at, end))
            value = int.from_bytes(data[at:end], "big") if there else None
            self.fields.append(FieldValue(field, at, min(end, len(data)), value, Section.HEADER))
            at = end
        if not data:
            return
        if not magic.name:
            self.problems.append(Problem(f"0x{header.magic:02x} is no magic of the protocol", 0, 1))
        if len(data) < HEADER_LENGTH:
            return
        if magic.name and message.name == "UNKNOWN":
            self.problems.append(Problem(f"opcode 0x{header.opcode:02x} is not known", 1, 2))
        if header.datatype > 7:
            self.problems.append(Problem(f"datatype 0x{header.datatype:02x} has unknown bits", 5, 6))
        if header.frame_length > MAX_FRAME:
            self.problems.append(
                Problem(
                    f"total body {header.body_length} (bytes 8-11) is more than a server accepts ({MAX_FRAME})",
                    8,
                    12,
                    has=header.body_length,
                )
            )

    def _sections(self, header: Header) -> tuple[int, int, int]:
        """It gives the ends of framing extras, extras and key, none beyond what total body allows."""
        length, left = header.framing_length, header.body_length
        if self._has_stream_id_bug(header):
            length = 3
            self.problems.append(
                Problem(
                    "framing extras length says 0 (byte 2) but a stream id stands there: "
                    "a known bug of the server; read as 3",
                    2,
                    3,
                    3,
                    0,
                )
            )
        ends: list[int] = []
        at = HEADER_LENGTH
        flexible = magic_of(header.magic).flexible
        for name, place, span, size in (
            ("framing extras length", "byte 2", (2, 3), length),
            ("extras length", "byte 4", (4, 5), header.extras_length),
            ("key length", "byte 3" if flexible else "bytes 2,3", (2 + flexible, 4), header.key_length),
        ):
            if size > left:
                self.problems.append(
                    Problem(f"{name} says {size} ({place}) but total body leaves {left}", *span, size, left)
                )
                size = left
            at += size
            left -= size
            ends.append(at)
        return ends[0], ends[1], ends[2]

    def _has_stream_id_bug(self, header: Header) -> bool:
        return (
            header.magic == 0x08
            and header.framing_length == 0
            and (header.opcode, header.extras_length) in _STREAM_ID_BUG
            and self.data[24:25] == bytes((_STREAM_ID_TAG,))
            and header.body_length >= 3 + header.extras_length + header.key_length
        )

    # -- the body, section by section -------------------------------------------------------------------

    def _framing(self, magic: Magic, end: int) -> None:
        end = min(end, len(self.data))
        if end <= HEADER_LENGTH:
            return
        kinds = RESPONSE_INFOS if magic.response else REQUEST_INFOS
        fields, problems = frame_infos(self.data, HEADER_LENGTH, end, kinds)
        self.fields += fields
        self.problems += problems
        for field in fields:
            if field.field.name == "stream_id" and isinstance(field.value, int):
                self.stream_id = field.value

    def _extras(self, layout: Layout, start: int, end: int) -> None:
        if end <= start:
            return
        if not layout.extras:
            self._blob(EXTRAS, start, end, Section.EXTRAS)
            if layout.version not in ("?", "raw"):
                self.problems.append(
                    Problem(f"extras must be empty but have {end - start} bytes", start, end, 0, end - start)
                )
            return
        if self.whole and end - start == layout.extras_length:
            at = start
            numbers = packed(layout.extras).unpack_from(self.data, start)
            for field, number in zip(layout.extras, numbers, strict=True):
                self.fields.append(FieldValue(field, at, at + field.width, number, Section.EXTRAS))
                self.lookup[field.name] = number
                if field.names is not None:
                    self._unknown(field, number, at)
                at += field.width
        else:
            self._fixed(layout.extras, start, end, Section.EXTRAS)

    def _key(self, layout: Layout, message: Message, start: int, end: int) -> None:
        length = max(0, end - start)
        present = self.raw.header.key_length > 0
        if length:
            self.key = None if self.raw.lost(start, end) else self.data[start:end]
            self._blob(KEY, start, end, Section.KEY)
        self._presence("key", layout.key, present, start, end)

    def _value(self, layout: Layout, message: Message, start: int, end: int) -> None:
        if start > len(self.data):
            return
        promised = max(0, self.raw.length - start)
        if isinstance(layout.value, tuple):
            self._structured(layout.value, start, end, promised)
            return
        tail = min(self.lookup.get(layout.tail, 0), promised) if layout.tail else 0
        if layout.tail and self.lookup.get(layout.tail, 0) > promised:
            needs = self.lookup[layout.tail]
            self.problems.append(
                Problem(
                    f"{layout.tail} says {needs} but the value has {promised} bytes",
                    start,
                    end,
                    needs,
                    promised,
                )
            )
        stop = min(end, self.raw.length - tail)
        if stop > start:
            self._secret_or_blob(message, start, stop)
        if end > max(stop, start):
            self._blob(TAIL, max(stop, start), end, Section.TAIL)
        self._presence("value", layout.value, promised > 0, start, end)

    def _secret_or_blob(self, message: Message, start: int, stop: int) -> None:
        if self.secret:
            self.value = self.data[start:stop]
            self.fields.append(FieldValue(VALUE, start, stop, self.value, Section.VALUE, group="secret"))
            return
        self._blob(VALUE, start, stop, Section.VALUE)
        self.value = None if self.raw.lost(start, stop) else self.data[start:stop]

    def _mask(self, framing: int, extras: int, key: int) -> None:
        """It replaces whatever may be a credential: all of the body but a key that is a plain name.

        Where lengths are damaged a credential may stand in any section, and behind the frame's end: also in
        what the header calls the key, unless that is where the body begins.
        """
        name = self.data[extras:key]
        kept = name if extras == HEADER_LENGTH and _PLAIN_NAME.fullmatch(name) else MASK * len(name)
        body = MASK * len(self.data[framing:extras]) + kept + MASK * len(self.data[key:])
        self.data = self.data[:framing] + body
        self.raw = replace(self.raw, data=self.data)

    def _looks_secret(self, header: Header, extras: int) -> bool:
        """Whether it is an authentication of which the opcode or the magic is damaged: its key is a mechanism."""
        return (
            extras == HEADER_LENGTH
            and _MECHANISM.match(self.data, HEADER_LENGTH, HEADER_LENGTH + max(header.key_length, 0)) is not None
        )

    def _structured(self, parts: tuple[object, ...], start: int, end: int, promised: int) -> None:
        at = start
        self.value = self.data[start:end]
        for part in parts:
            if isinstance(part, Repeat):
                at = self._repeat(part, at, end)
            elif isinstance(part, FlatTable):
                at = self._flat(part, at, end)
            elif isinstance(part, Field):
                at = self._fixed((part,), at, end, Section.VALUE)
        fixed = sum(part.width for part in parts if isinstance(part, Field))
        if all(isinstance(part, Field) for part in parts) and promised < fixed:
            self.problems.append(Problem(f"value has {promised} bytes, needs {fixed}", start, end, fixed, promised))
        if at < end:
            self._blob(REST, at, end, Section.REST)
            self.problems.append(Problem(f"{end - at} bytes of value are left over", at, end, 0, end - at))

    def _fixed(self, fields: tuple[Field, ...], at: int, end: int, section: Section) -> int:
        """It tiles fields end to end as far as there are bytes; a field cut or lost has no value."""
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
                self._unknown(field, number, at)
            at = min(stop, end)
        return at

    def _repeat(self, repeat: Repeat, at: int, end: int) -> int:
        number = 0
        while at < end:
            if end - at < repeat.width or self.raw.lost(at, at + repeat.width):
                self._blob(REST, at, end, Section.REST)
                if self.raw.length <= len(self.data):
                    self.problems.append(
                        Problem(
                            f"{repeat.name}: {end - at} bytes are left, an item needs {repeat.width}",
                            at,
                            end,
                            repeat.width,
                            end - at,
                        )
                    )
                return end
            at = self._item(repeat, number, at, end)
            number += 1
        return at

    def _item(self, repeat: Repeat, number: int, at: int, end: int) -> int:
        sizes: dict[str, int] = {}
        for part in repeat.fields:
            if isinstance(part, Field):
                stop = at + part.width
                value: int | bytes = int.from_bytes(self.data[at:stop], "big")
                sizes[part.name] = int(value)
                self._unknown(part, sizes[part.name], at)
            else:
                needs = sizes[part.size]
                stop = at + needs
                if stop > end:
                    self.problems.append(
                        Problem(
                            f"{repeat.name}[{number}]: {part.label} needs {needs} bytes, {end - at} are left",
                            at,
                            end,
                            needs,
                            end - at,
                        )
                    )
                    stop = end
                value = self.data[at:stop]
            self.fields.append(FieldValue(part, at, stop, value, Section.VALUE, repeat.name, number))
            at = stop
        return at

    def _flat(self, table: FlatTable, start: int, end: int) -> int:
        try:
            slots = place_slots(self.data[start:end], table)
        except FlatError as error:
            self._blob(VALUE, start, end, Section.VALUE)
            self.problems.append(Problem(f"no FlatBuffers table: {error}", start, end))
            return end
        for slot in table.slots:
            if isinstance(slot.field, Field):
                self.lookup[slot.field.name] = 0  # a slot that is missing has the default
        at = start
        for placed in slots:
            if start + placed.start > at:
                self._blob(TABLE, at, start + placed.start, Section.VALUE)
            at = start + placed.end
            self.fields.append(FieldValue(placed.field, start + placed.start, at, placed.value, Section.VALUE, "flat"))
            if isinstance(placed.value, int):
                self.lookup[placed.field.name] = placed.value
        if at < end:
            self._blob(TABLE, at, end, Section.VALUE)
        return end

    # -- what does not fit ------------------------------------------------------------------------------

    def _blob(self, blob: Blob, start: int, end: int, section: Section) -> None:
        value = None if self.raw.lost(start, end) else self.data[start:end]
        self.fields.append(FieldValue(blob, start, end, value, section))

    def _presence(self, what: str, rule: Presence, present: bool, start: int, end: int) -> None:
        if len(self.data) < HEADER_LENGTH:
            return
        if present and rule is NEVER:
            self.problems.append(
                Problem(f"{what} must be empty but has {end - start} bytes", start, end, 0, end - start)
            )
        elif not present and rule is Presence.MUST:
            self.problems.append(Problem(f"{what} must be present but is empty", start, start, 1, 0))

    def _unknown(self, field: Field, number: int, at: int) -> None:
        if field.names is None:
            return
        odd = field.names.unknown(number)
        if odd >= 0 and not (field.name == "status" and number >= APPLICATION_STATUS):
            self.problems.append(
                Problem(f"{field.label} 0x{odd:0{2 * field.width}x} has no name", at, at + field.width)
            )

    def _shortage(self) -> None:
        has, needs = len(self.data), self.raw.length
        if has < HEADER_LENGTH:
            self.problems.append(
                Problem(f"the header needs {HEADER_LENGTH} bytes, {has} are there", 0, has, HEADER_LENGTH, has)
            )
        elif has > needs:
            self._blob(REST, needs, has, Section.REST)
            self.problems.append(
                Problem(
                    f"the header says {needs} bytes, {has} are there: {has - needs} are left over",
                    needs,
                    has,
                    needs,
                    has,
                )
            )
        elif has < needs:
            self.problems.append(
                Problem(f"the frame is cut short: {needs} bytes promised, {has} are there", has, has, needs, has)
            )
        for start, end in self.raw.holes:
            self.problems.append(Problem(f"{end - start} bytes of the frame were lost", start, end))


__all__ = ["EXTRAS", "KEY", "REST", "TABLE", "TAIL", "VALUE", "Span", "decode", "packed"]
