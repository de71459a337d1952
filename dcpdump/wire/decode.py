"""Decode one RawFrame to one Frame. Knows the protocol table; knows no connection and no history.

It is total: any bytes decode to a Frame whose fields tile them exactly, and whatever contradicts the table or itself
becomes a Problem. What only the connection knows (collections, and so what a key means) and what a value holds (Snappy,
xattrs, JSON) is a second step: see value.py.
"""

from dataclasses import replace

from dcpdump.spec import ERROR, choose, find
from dcpdump.spec.field import NEVER, Blob, Layout, Presence
from dcpdump.spec.header import HEADER_LENGTH, REQUEST_INFOS, RESPONSE_INFOS, Magic
from dcpdump.wire.frame import Fault, FieldValue, Frame, Problem, RawFrame, Section, magic_of
from dcpdump.wire.framing import frame_infos
from dcpdump.wire.secret import is_error, looks_secret, masked_body
from dcpdump.wire.sections import section_ends, tile_header
from dcpdump.wire.structure import tile_value
from dcpdump.wire.tiles import REST, VALUE, Tiles, new_field, packed

KEY = Blob("key", "Key")
TAIL = Blob("metadata", "Metadata")
EXTRAS = Blob("extras", "Extras")


def decode(raw: RawFrame, *, show_secrets: bool = False) -> Frame:
    """Decode every byte of a frame. Never raises; credentials are replaced by asterisks."""
    return _Decoding(raw).frame(show_secrets)


class _Decoding(Tiles):
    """The tiles of one frame, laid section by section, and the frame that they make."""

    __slots__ = ("key", "secret", "stream_id", "value")

    def __init__(self, raw: RawFrame) -> None:
        super().__init__(raw)
        self.secret = False
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.stream_id: int | None = None

    def frame(self, show_secrets: bool) -> Frame:
        """Decode: first the ends of the sections, then the layout that they fit, then each section by it."""
        header = self.raw.header
        magic = magic_of(header.magic)
        message = find(header.opcode, server=magic.server)
        tile_header(self, magic, message)
        framing, extras, key = section_ends(self)
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
        """Note bytes that the header promises and that are missing, and bytes beyond its promise."""
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
