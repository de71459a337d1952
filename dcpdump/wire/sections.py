"""Find a frame's sections: its header, and where framing extras, extras and key end, as far as its lengths allow."""

from functools import cache
from itertools import accumulate
from struct import Struct

from dcpdump.spec.field import Field, Message
from dcpdump.spec.header import (
    ALT_CLIENT_REQUEST,
    HEADER_LENGTH,
    MAX_FRAME,
    STREAM_ID_NOT_COUNTED,
    STREAM_ID_TAG,
    Magic,
    header_fields,
)
from dcpdump.wire.frame import Fault, FieldValue, Header, Problem, Section, magic_of
from dcpdump.wire.tiles import Tiles, new_field, packed


@cache
def _header_spans(value: int) -> tuple[list[tuple[Field, int, int]], Struct]:
    """Return the fields of the header behind a first byte, where each begins and ends, and what reads them at once."""
    fields = header_fields(magic_of(value))
    ends = list(accumulate(field.width for field in fields))
    return list(zip(fields, [0, *ends], ends, strict=False)), packed(fields)


def tile_header(tiles: Tiles, magic: Magic, message: Message) -> None:
    """Tile the header, and note what in it is unknown or impossible."""
    raw, data, problems = tiles.raw, tiles.data, tiles.problems
    header, size = raw.header, len(data)
    spans, numbers = _header_spans(magic.value)
    if size >= HEADER_LENGTH and not raw.holes:  # nearly all are whole, and read at once
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
    for name, place, span, size in (
        ("framing extras length", "byte 2", (2, 3), length),
        ("extras length", "byte 4", (4, 5), header.extras_length),
        ("key length", "byte 3" if flexible else "bytes 2,3", (2 + flexible, 4), header.key_length),
    ):
        if size > left:
            if len(tiles.data) >= HEADER_LENGTH:  # of a header that is cut, total body may not be there
                text = f"{name} says {size} ({place}) but total body leaves {left}"
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
