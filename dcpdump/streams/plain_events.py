"""Make events of messages from their bytes, without decoding them: captures are full of them.

These are messages that a plan takes, requests for streams without a value and their grants, and what does not concern
DCP, of which only the header counts.
"""

import struct
from typing import NamedTuple

from dcpdump.batch.document_runs import Single
from dcpdump.batch.learning import NEIGHBOURS
from dcpdump.net.no_time import NO_TIME
from dcpdump.record import Record
from dcpdump.spec import choose, find
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER
from dcpdump.streams.frame_event import NO_FRAME, FrameEvent, Shape, event_of, shape_of
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import Header, RawFrame, Where, unpack_header
from dcpdump.wire.value import Meaning

_NUMBERS = struct.Struct(">6xH4xIQ")  #: word, opaque and CAS: all that counts of what does not concern DCP
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
    response: bool
    value_at: int


def _form_of(data: bytes) -> _Form | None:
    """Return the form of a frame; None where it has no layout of its message, or a key before fields of its value."""
    header = unpack_header(data)
    at = HEADER_LENGTH + header.framing_length
    response = MAGICS[header.magic].response
    if NEIGHBOURS[header.opcode]:
        return _Form(_NUMBERS, NO_FRAME.shape, header, response, header.key_at + header.key_length)
    layout, why = choose(
        find(header.opcode),
        response=response,
        status=header.word,
        extras=data[at : at + header.extras_length],
        extras_length=header.extras_length,
        value_length=header.value_length,
    )
    fields = [part for part in (*layout.extras, *layout.parts) if isinstance(part, Field)]
    if why or (header.key_length and len(fields) > len(layout.extras)):
        return None
    codes = "".join(_CODES[field.width] for field in fields)
    packed = struct.Struct(f">6xH4xIQ{'xH' if header.framing_length else ''}{codes}")
    return _Form(packed, shape_of(layout), header, response, header.key_at + header.key_length)


#: Forms by what tells them: the header up to the vbucket, the bytes among which a marker has its version, the length.
_KNOWN: dict[tuple[bytes, bytes, int], _Form] = {}


def plain_event(single: Single, number: int) -> FrameEvent:
    """Return the event of a message, which is frame ``number`` and whole."""
    data, place = single.data, single.place
    length = len(data)
    alike = data[:_WORD], data[HEADER_LENGTH:_VERSION_END] if data[1] == DCP_SNAPSHOT_MARKER else b"", length
    form = _KNOWN.get(alike)
    if form is None:
        form = _form_of(data)
        if form is not None and len(_KNOWN) < _MOST and form.fields is not _NUMBERS:
            _KNOWN[alike] = form
    ts_ns = None if single.ts_ns == NO_TIME else single.ts_ns
    if form is None:
        raw = RawFrame(data, unpack_header(data), where=Where(ts_ns=ts_ns))
        record = Record(number, decode(raw), Meaning(), None, None, place >> 1, place & 1, "", "")
        return event_of(record)._replace(record=None)
    fields, shape, header, response, value_at = form
    read = fields.unpack_from(data)
    word, opaque, cas = read[:3]
    tagged = header.framing_length and fields is not _NUMBERS
    stream_id, values = (read[3], read[4:]) if tagged else (0, read[3:])
    return _row(FrameEvent, (
        number, ts_ns, place >> 1, place & 1, header.magic, header.opcode, response, False, word, opaque, cas,
        header.datatype, length, stream_id, None if shape.own < 0 else values[shape.own], shape, values, data,
        header.key_at, value_at, header.value_length, 0, True, False, None, None,
    ))  # fmt: skip
