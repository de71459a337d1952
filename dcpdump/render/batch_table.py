"""Write the specification's table of many frames at once, from their columns.

What frames of one layout have in common is written once, and copied with other digits; the rest of a frame is put
together from pieces that many frames share.
"""

from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array, distinct
from dcpdump.batch.layouts import FLEXIBLE, STREAM_ID_LENGTH, Plan
from dcpdump.batch.number_text import filled
from dcpdump.escape import safe
from dcpdump.render import View, table
from dcpdump.render.batch_columns import TemplateColumns
from dcpdump.render.value_note import state_of, value_note
from dcpdump.spec.field import Field, u8, u16
from dcpdump.spec.header import MAGICS, STREAM_ID_TAG, header_fields

_CLASSIC = 0x80
_TAG, _STREAM_ID = u8("frame_info", "DcpStreamId frame"), u16("stream_id", "stream id")


def sheets(plan: Plan, framed: bool, columns: TemplateColumns, view: View) -> list[bytes]:
    """Return the tables of frames, each below the line of its place and time, and with an empty line behind it."""
    rows, key_at = _rows(plan, framed, columns)
    label = max(12, *(len(row.label) for row in rows))
    narrow = max(7, *(len(row.place) for row in rows))
    sizes = [0] * len(columns.row) if plan.value is not None else columns.value_length
    shapes = list(zip((columns.key_length + key_at).tolist(), sizes, strict=True))
    shaped = {shape: _shape(key_at, *shape, label, narrow) for shape in set(shapes)}
    peers = [f"  {each.src} → {each.dst}  connection {each.connection}  packet ".encode() for each in columns.places]
    owned = list(zip(columns.collection, columns.collection_name, columns.inferred, strict=True))
    owners = {each: _owner(*each) for each in set(owned)}
    datatypes = columns.datatype.tolist() if plan.message.document else [0] * len(sizes)
    shown = list(zip(columns.plain_length, sizes, datatypes, _states(plan, columns, view), strict=True))
    beside = {each: _beside_value(*each, view.value_bytes) for each in set(shown)}
    out: list[bytes] = []
    for number, time, place, packet, remark, head, shape, key, owner, value, each, fault in zip(
        columns.number,
        columns.time,
        columns.place,
        columns.packet,
        _remarks(columns, view),
        _heads(plan, rows, label, [shaped[shape].width for shape in shapes]),
        shapes,
        columns.key,
        owned,
        columns.value,
        shown,
        columns.fault,
        strict=True,
    ):
        _, key_head, value_head = shaped[shape]
        owner_text = owners[owner]
        if not key_head:
            key = b""
        elif owner_text:
            key = b"%b%b%b\n" % (key_head, key, owner_text)
        else:
            key = b"%b%b\n" % (key_head, _stripped(key))
        if not value_head:
            out.append(b"#%d  %b%b%d%b\n%b%b\n" % (number, time, peers[place], packet, remark, head, key))
            continue
        rest = beside[each]
        if not value:
            rest = rest.lstrip()
        elif not rest:
            value = _stripped(value)
        if fault:
            rest += f"\n! {safe(fault)}".encode()
        out.append(
            b"#%d  %b%b%d%b\n%b%b%b%b%b\n\n"
            % (number, time, peers[place], packet, remark, head, key, value_head, value, rest)
        )
    return out


class _Shape(NamedTuple):
    """What is the same for frames whose keys and values have the same lengths."""

    width: int  #: of the column of places
    key: bytes  #: the line of the key up to the key; nothing where there is none
    value: bytes


def _shape(key_at: int, key_end: int, size: int, label: int, narrow: int) -> _Shape:
    key = table.span(key_at, key_end) if key_end > key_at else ""
    value = table.span(key_end, key_end + size) if size else ""
    width = max(narrow, len(key), len(value))
    return _Shape(
        width,
        f"{'Key':<{label}} {key:<{width}}: ".encode() if key else b"",
        f"{'Value':<{label}} {value:<{width}}: ".encode() if value else b"",
    )


def _remarks(columns: TemplateColumns, view: View) -> list[bytes]:
    """Return the rest of each place line: the capture, where there are several, and the bytes lost before the frame."""
    remarks = [b""] * len(columns.row)
    if view.file:
        remarks = [f"  file {file}".encode() for file in columns.file]
    if any(columns.gap):
        gaps = (f"  after {gap:,} bytes lost or skipped".encode() if gap else b"" for gap in columns.gap)
        remarks = [remark + gap for remark, gap in zip(remarks, gaps, strict=True)]
    return remarks


def _owner(number: int, name: str, inferred: bool) -> bytes:
    """Return the collection of a key as text; empty where it has none."""
    if number < 0:
        return b""
    return f" (collection 0x{number:x}{f' {name}' if name else ''}{', inferred' if inferred else ''})".encode()


def _states(plan: Plan, columns: TemplateColumns, view: View) -> list[str]:
    """Return what each value is: valid or not, or binary."""
    if not plan.message.document:
        return [""] * len(columns.row)
    both = zip(columns.datatype.tolist(), columns.head, columns.fault, columns.plain_length, strict=True)
    return [
        state_of(datatype, head, fault, cut=len(head) < whole, sure=whole > 0) for datatype, head, fault, whole in both
    ]


def _beside_value(whole: int, size: int, datatype: int, state: str, limit: int | None) -> bytes:
    """Return how much of a value is not shown, and what it is; ``size``: its bytes on the wire."""
    rest = f"… +{whole - limit:,} B" if limit is not None and whole > limit else ""
    if note := value_note(datatype, whole, size, state):
        rest += f" {note}"
    return rest.encode()


def _stripped(text: bytes) -> bytes:
    """Remove white space from the end; nearly all texts end in a letter or a digit."""
    return text if text[-1:].isalnum() else text.decode().rstrip().encode()


class _Row(NamedTuple):
    """A row of the table: its label, and the field's numbers, where these differ from frame to frame."""

    label: str
    place: str
    field: Field
    numbers: Array | int  #: the same for all frames, or one a frame


def _rows(plan: Plan, framed: bool, columns: TemplateColumns) -> tuple[list[_Row], int]:
    """Return the rows up to the key, and the offset of the key."""
    magic = MAGICS[FLEXIBLE if framed else _CLASSIC]
    known: dict[str, Array | int] = {
        "magic": magic.value,
        "opcode": plan.message.opcode,
        "framing_length": STREAM_ID_LENGTH,
        "extras_length": plan.layout.extras_length,
        "key_length": columns.key_length,
        "datatype": columns.datatype,
        "vbucket": columns.vbucket,
        "body_length": columns.body,
        "opaque": columns.opaque,
        "cas": columns.cas,
    }
    rows: list[_Row] = []
    at = 0
    for field in header_fields(magic):
        rows.append(_Row(field.label, table.span(at, at + field.width, header=True), field, known[field.name]))
        at += field.width
    if columns.stream_id is not None:
        rows.append(_Row("  DcpStreamId frame", table.span(at, at + 1), _TAG, STREAM_ID_TAG))
        rows.append(_Row("  stream id", table.span(at + 1, at + 3), _STREAM_ID, columns.stream_id))
        at += STREAM_ID_LENGTH
    for field, numbers in zip(plan.fields, columns.fields, strict=True):  # of the value too: then there is no key
        rows.append(_Row(f"  {field.label}", table.span(at, at + field.width), field, numbers))
        at += field.width
    return rows, at


def _heads(plan: Plan, rows: list[_Row], label: int, widths: list[int]) -> list[bytes]:
    """Return everything up to the key. Frames that differ only in their numbers are written at once."""
    named = [row for row in rows if row.field.names is not None]
    sorts = [np.array(widths), *(row.numbers for row in named if not isinstance(row.numbers, int))]
    variant = np.zeros(len(widths), np.int64)
    for column in sorts:
        values, _, which = distinct(column)
        _, _, variant = distinct(variant * len(values) + which)
    order = np.argsort(variant, kind="stable")
    heads: list[bytes] = []
    for indices in np.split(order, np.flatnonzero(np.diff(variant[order])) + 1):
        text, spots = f"{plan.message.name} command\n{'Field':<{label}} (offset) (value)\n", []
        for row in rows:
            text += f"{row.label:<{label}} {row.place:<{widths[indices[0]]}}: "
            if isinstance(row.numbers, int):
                text += table.number(row.field, row.numbers)
            elif row.field.names is not None:
                text += table.number(row.field, int(row.numbers[indices[0]]))
            else:
                spots.append((len(text) + 2, row.field.width, row.numbers[indices]))
                text += "0x" + "0" * (2 * row.field.width)
            text += "\n"
        heads += filled(text, spots, len(indices))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return [heads[place] for place in back.tolist()]
