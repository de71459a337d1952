"""Make events of snapshot markers and documents from their bytes, without decoding them: captures are full of them."""

import struct
from functools import cache
from typing import NamedTuple

from dcpdump.batch.document_runs import DOCUMENTS, Single
from dcpdump.record import Record
from dcpdump.spec import find
from dcpdump.spec.field import Field, Layout
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER
from dcpdump.streams.frame_event import FrameEvent, Shape, event_of, shape_of
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import Header, RawFrame, Where, unpack_header
from dcpdump.wire.value import Meaning

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MOST = 4_096
_WORD = 6  #: where the vbucket begins
_VERSION_END = HEADER_LENGTH + 4  #: behind the version of a marker that has one, with a stream id before it or without
#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row = tuple.__new__


class _Form(NamedTuple):
    """What frames with the same lengths have in common."""

    fields: struct.Struct  #: word, opaque, CAS, the stream id if there is one, extras and fixed fields of the value
    shape: Shape
    header: Header  #: of one of them
    value_at: int


@cache
def _layouts() -> dict[tuple[int, int, int, int | None], Layout]:
    """Return layouts by opcode, lengths of extras and of other fields, and by version where there is one."""
    found = {}
    for opcode in (DCP_SNAPSHOT_MARKER, *DOCUMENTS):
        for layout in find(opcode).request:
            widths = [part.width for part in _fields(layout)]
            found[opcode, layout.extras_length, sum(widths) - layout.extras_length, layout.when.get("version")] = layout
    return found


def _fields(layout: Layout) -> list[Field]:
    return [part for part in (*layout.extras, *layout.parts) if isinstance(part, Field)]


def _form_of(data: bytes) -> _Form | None:
    """Return the form of a frame; None where it has none of these layouts."""
    header = unpack_header(data)
    opcode, extras, length = header.opcode, header.extras_length, header.value_length
    if opcode in DOCUMENTS:
        layout = _layouts().get((opcode, extras, 0, None))
    else:
        version = data[HEADER_LENGTH + header.framing_length] if extras == 1 else None
        layout = None if header.key_length else _layouts().get((opcode, extras, length, version))
    if layout is None:
        return None
    codes = "".join(_CODES[field.width] for field in _fields(layout))
    fields = struct.Struct(f">6xH4xIQ{'xH' if header.framing_length else ''}{codes}")
    return _Form(fields, shape_of(layout), header, header.key_at + header.key_length)


#: Forms by what tells them: the header up to the vbucket, the bytes among which a marker has its version, the length.
_KNOWN: dict[tuple[bytes, bytes, int], _Form] = {}


def plain_event(single: Single, number: int) -> FrameEvent:
    """Return the event of a snapshot marker or a document, which is frame ``number`` and whole."""
    data, place = single.data, single.place
    length = len(data)
    alike = data[:_WORD], data[HEADER_LENGTH:_VERSION_END], length
    form = _KNOWN.get(alike)
    if form is None:
        form = _form_of(data)
        if form is not None and len(_KNOWN) < _MOST:
            _KNOWN[alike] = form
    if form is None:
        raw = RawFrame(data, unpack_header(data), where=Where(ts_ns=single.ts_ns))
        record = Record(number, decode(raw), Meaning(), None, None, place >> 1, place & 1, "", "")
        return event_of(record)._replace(record=None)
    fields, shape, header, value_at = form
    read = fields.unpack_from(data)
    word, opaque, cas = read[:3]
    stream_id, values = (read[3], read[4:]) if header.framing_length else (0, read[3:])
    return _row(FrameEvent, (
        number, single.ts_ns, place >> 1, place & 1, header.magic, header.opcode, False, False, word, opaque, cas,
        header.datatype, length, stream_id, None if shape.own < 0 else values[shape.own], shape, values, data,
        header.key_at, value_at, header.value_length, 0, True, False, None, False,
    ))  # fmt: skip
