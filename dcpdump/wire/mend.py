"""Find the smallest edit of a header that makes a contradictory frame consistent.

People paste examples with wrong lengths: from logs, from clients under development, from the specification itself. The
bytes are shown as they are; the edit is a suggestion of what the writer meant. Every layout of the message is tried on
the bytes, and the resulting readings are ranked.
"""

from collections.abc import Callable, Iterator

from dcpdump.spec import ERROR, MESSAGES
from dcpdump.spec.field import MUST, NEVER, Field, Layout
from dcpdump.spec.header import HEADER_LENGTH, header_fields
from dcpdump.spec.names import CONTROL_KEYS
from dcpdump.spec.opcodes import DCP_CONTROL
from dcpdump.spec.statuses import NOT_ERRORS
from dcpdump.startup import dataclass
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import Frame, Header, RawFrame, pack_header
from dcpdump.wire.json_text import json_fault
from dcpdump.wire.resync import value_fits
from dcpdump.wire.session import Session
from dcpdump.wire.value import SEPARATOR, Content, read_prefix


@dataclass(frozen=True, slots=True)
class Edit:
    """One field of the frame, and the value that it should have."""

    label: str
    start: int
    end: int
    before: int
    after: int

    def __str__(self) -> str:
        width = 2 * (self.end - self.start)
        last = self.end - 1
        where = str(self.start) if self.start == last else f"{self.start}-{last}"
        return f"{self.label} ({where}): 0x{self.before:0{width}x} -> 0x{self.after:0{width}x}"


@dataclass(frozen=True, slots=True)
class Mended:
    """A consistent frame made from the bytes of a contradictory one, and the edits that it takes."""

    data: bytes
    edits: tuple[Edit, ...]


def mend(frame: Frame, data: bytes, breaks: Callable[[Frame], bool] | None = None) -> Mended | None:
    """Return the smallest edit that makes ``data`` exactly one frame, of the same message where possible; else None.

    ``frame`` is the literal reading of ``data``; ``breaks`` returns whether a reading breaks a rule of the protocol. A
    reading counts if it has no problems and breaks no rule, its key is text or empty, and a JSON value stays complete.
    Preferred are, in this order: a key without a collection id and reserved fields at zero; current layouts; a single
    edit; the value length of the header; the fewest edits. None where no reading counts, or where none needs an edit.
    """
    if len(data) < HEADER_LENGTH:
        return None
    best: tuple[tuple[int, ...], Mended] | None = None
    document = _whole_json(frame.value or b"")
    for mended in _readings(frame, data):
        reading = decode(RawFrame.of(mended.data))
        content = Session().understand(reading).content
        if reading.problems or content.problems:
            continue
        if not mended.edits:
            return None
        key = content.key or b""
        if not _plausible(reading, content) or (document and reading.value != document):
            continue
        if breaks is not None and breaks(reading):
            continue
        rank = (
            int(not _printable(key)) + _reserved_bits(reading),
            int(reading.layout.old),
            int(len(mended.edits) > 1),
            int(reading.header.value_length != frame.header.value_length >= 0),
            len(mended.edits),
        )
        if best is None or rank < best[0]:
            best = (rank, mended)
    return best[1] if best else None


def _readings(frame: Frame, data: bytes) -> Iterator[Mended]:
    """Yield readings of the bytes with other lengths and versions, then with the opcode of another document message."""
    for header, extras in _candidates(frame, data):
        yield _apply(frame, data, header, extras)
    message, lengths = frame.message, {layout.extras_length for layout in frame.message.request}
    if frame.magic.response or not (message.document and message.dcp) or frame.header.extras_length in lengths:
        return
    for other in MESSAGES.values():  # whose layout the extras have, where they fit none of the message's own
        if other.document and other.dcp and other is not message:
            edit = Edit(header_fields(frame.magic)[1].label, 1, 2, message.opcode, other.opcode)
            yield Mended(data[:1] + bytes([other.opcode]) + data[2:], (edit,))


def _candidates(frame: Frame, data: bytes) -> Iterator[tuple[Header, dict[str, int]]]:
    """Yield headers, and extras fields to set, with which the bytes would fit a layout of the message."""
    header = frame.header
    body = len(data) - HEADER_LENGTH
    for layout in _layouts(frame):
        rest = body - header.framing_length - layout.extras_length
        names = {field.name for field in layout.extras}
        extras = {name: value for name, value in layout.when.items() if name in names}
        if rest < 0 or not _keeps_what_happened(layout, extras, data[HEADER_LENGTH + header.framing_length :]):
            continue
        for key in sorted(_key_lengths(frame, layout, rest, data)):
            if value_fits(layout, rest - key):
                yield header._replace(extras_length=layout.extras_length, key_length=key, body_length=body), extras


def _layouts(frame: Frame) -> tuple[Layout, ...]:
    if not frame.magic.response:
        return frame.message.request
    if frame.header.vbucket_or_status not in NOT_ERRORS:
        return (ERROR,)
    return tuple(
        layout
        for layout in frame.message.response
        if layout.when.get("status", frame.header.vbucket_or_status) == frame.header.vbucket_or_status
    )


def _key_lengths(frame: Frame, layout: Layout, rest: int, data: bytes) -> set[int]:
    """Return the key lengths to try: the header's, and those that leave a value of a likely length."""
    if layout.key is NEVER:
        return {0}
    header = frame.header
    lengths = {header.key_length}
    if header.value_length >= 0:
        lengths.add(rest - header.value_length)
    if layout.value_length is not None:
        lengths.add(rest - layout.value_length)
    if header.opcode == DCP_CONTROL:
        body = data[len(data) - rest :]
        lengths |= {len(name) for name in CONTROL_KEYS if body.startswith(name.encode())}
    least = 1 if layout.key is MUST else 0
    most = min(rest, 0xFF if frame.magic.flexible else 0xFFFF)
    return {length for length in lengths if least <= length <= most}


def _keeps_what_happened(layout: Layout, extras: dict[str, int], data: bytes) -> bool:
    """Return whether the extras that a layout requires stand in the bytes, a version excepted."""
    at = 0
    for field in layout.extras:
        number = int.from_bytes(data[at : at + field.width], "big")
        if field.name != "version" and extras.get(field.name, number) != number:
            return False
        at += field.width
    return True


def _apply(frame: Frame, data: bytes, header: Header, extras: dict[str, int]) -> Mended:
    edits: list[Edit] = []
    new = bytearray(pack_header(header) + data[HEADER_LENGTH:])
    at = 0
    for field in header_fields(frame.magic):
        before = int.from_bytes(data[at : at + field.width], "big")
        after = int.from_bytes(new[at : at + field.width], "big")
        if before != after:
            edits.append(Edit(field.label, at, at + field.width, before, after))
        at += field.width
    at = HEADER_LENGTH + header.framing_length
    layout = next(lay for lay in _layouts(frame) if _is(lay, header, extras))
    key = at + layout.extras_length
    separator = bytes(new[key : key + header.key_length]).find(SEPARATOR)
    for field in layout.extras:
        named = field.name == "clen" and 0 <= separator < 1 << 8 * field.width
        wanted = separator if named else extras.get(field.name)
        before = int.from_bytes(new[at : at + field.width], "big")
        if wanted is not None and wanted != before:
            new[at : at + field.width] = wanted.to_bytes(field.width, "big")
            edits.append(Edit(field.label, at, at + field.width, before, wanted))
        at += field.width
    return Mended(bytes(new), tuple(edits))


def _is(layout: Layout, header: Header, extras: dict[str, int]) -> bool:
    return layout.extras_length == header.extras_length and all(
        layout.when.get(name) == value for name, value in extras.items()
    )


def _reserved_bits(frame: Frame) -> int:
    """Return how many reserved fields are not zero; in real messages none is."""
    return sum(1 for field in frame.fields if isinstance(field.field, Field) and field.field.reserved and field.value)


def _whole_json(value: bytes) -> bytes:
    """Return a value that is an object or array of JSON; nothing of any other."""
    return value if value[:1] in (b"{", b"[") and not json_fault(value) else b""


def _plausible(frame: Frame, content: Content) -> bool:
    """Return whether a key is text, or text behind the id of a collection where it can have one."""
    key = content.key or b""
    if content.collection is not None or not frame.message.collection_key:
        return _printable(key)
    prefix = read_prefix(key)
    behind = prefix is not None and prefix.sound and key[prefix.size :]
    return _printable(key) or bool(behind and _printable(behind))


def _printable(key: bytes) -> bool:
    try:
        return key.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False
