"""Make events of snapshot markers and documents from their bytes, without decoding them: captures are full of them."""

import struct
from functools import cache
from typing import NamedTuple

from dcpdump.batch.document_runs import DOCUMENTS, Single
from dcpdump.record import Record
from dcpdump.spec import find
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER
from dcpdump.streams.frame_event import FrameEvent, Shape, event_of, shape_of
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import Header, RawFrame, Where, unpack_header
from dcpdump.wire.value import Meaning

_STREAM_ID = struct.Struct(">xH")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class _Form(NamedTuple):
    """A layout: how its fields are read, which lie end to end behind the framing extras, and which they are."""

    fields: struct.Struct
    shape: Shape


@cache
def _forms() -> dict[tuple[int, int, int, int | None], _Form]:
    """Return the layouts by opcode, lengths of extras and of other fields, and by version where there is one."""
    found = {}
    for opcode in (DCP_SNAPSHOT_MARKER, *DOCUMENTS):
        for layout in find(opcode).request:
            fields = [part for part in (*layout.extras, *layout.parts) if isinstance(part, Field)]
            form = _Form(struct.Struct(">" + "".join(_CODES[each.width] for each in fields)), shape_of(layout))
            others = form.fields.size - layout.extras_length
            found[opcode, layout.extras_length, others, layout.when.get("version")] = form
    return found


def _form_of(header: Header, version: int) -> _Form | None:
    """Return the layout of a frame; None where it has none of these. ``version``: the first byte of its extras."""
    opcode, extras = header.opcode, header.extras_length
    if opcode in DOCUMENTS:
        return _forms().get((opcode, extras, 0, None))
    key = (opcode, extras, header.value_length, version if extras == 1 else None)
    return None if header.key_length else _forms().get(key)


def plain_event(single: Single, number: int) -> FrameEvent:
    """Return the event of a snapshot marker or a document, which is frame ``number`` and whole."""
    data, place = single.data, single.place
    header = unpack_header(data)
    at = HEADER_LENGTH + header.framing_length
    form = _form_of(header, data[at])
    if form is None:
        raw = RawFrame(data, header, where=Where(ts_ns=single.ts_ns))
        record = Record(number, decode(raw), Meaning(), None, None, place >> 1, place & 1, "", "")
        return event_of(record)._replace(record=None)
    shape, fields, value_at = form.shape, form.fields.unpack_from(data, at), header.key_at + header.key_length
    return FrameEvent(
        number,
        single.ts_ns,
        place >> 1,
        place & 1,
        header.magic,
        header.opcode,
        False,
        False,
        header.word,
        header.opaque,
        header.cas,
        header.datatype,
        len(data),
        _STREAM_ID.unpack_from(data, HEADER_LENGTH)[0] if header.framing_length else 0,
        None if shape.own < 0 else fields[shape.own],
        shape,
        fields,
        data,
        header.key_at,
        value_at,
        header.value_length,
        0,
        True,
        False,
        None,
    )
