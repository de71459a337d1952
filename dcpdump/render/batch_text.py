"""Write many frames at once: the text of a Part, column by column.

It takes sound frames whose meaning is plain from their columns, and passes these to templates; all others go through
the writers for one record. Both return the same text: the tests compare them.
"""

import re
from collections.abc import Sequence

import numpy as np

import dcpdump.batch.part as states
from dcpdump.batch.chosen import record_of
from dcpdump.batch.gather import Array
from dcpdump.batch.key_columns import prefixes
from dcpdump.batch.layouts import FLEXIBLE, STREAM_ID_LENGTH, Group, Plan
from dcpdump.batch.number_text import of_day
from dcpdump.batch.part import Part
from dcpdump.escape import safe
from dcpdump.iso_time import iso_time
from dcpdump.net.no_time import NO_TIME
from dcpdump.record import Record
from dcpdump.redact import Redactor
from dcpdump.render import OUTPUTS, View
from dcpdump.render.batch_columns import TemplateColumns
from dcpdump.render.batch_templates import TEMPLATES
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.body import DEEP, may_be_deep
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_text import json_faults
from dcpdump.wire.value import open_value

_DAY_NS = 86_400 * 1_000_000_000
_PLAIN = re.compile(rb"[ -~]*\Z").match


class Bulk:
    """A writer of parts in one format. ``redactor``: hides names and texts."""

    def __init__(self, form: str, view: View, redactor: Redactor | None = None) -> None:
        self._write = OUTPUTS[form].write
        self._view = view
        self._redactor = redactor
        self._judges = form == "table"  # it says that JSON is valid
        plain = not view.palette.paints and view.times.plain and redactor is None
        self._template = TEMPLATES.get(form) if plain else None

    @property
    def in_columns(self) -> bool:
        """Return whether most rows are written at once; not with colours, hashes, or other times."""
        return self._template is not None

    def text(self, part: Part, wanted: Sequence[int]) -> bytes:
        """Return the text of the rows that are wanted, in their order, as UTF-8."""
        if self._template is None:
            return b"".join([self._single(record_of(part, row)) for row in wanted])
        out = np.full(len(part), b"", object)
        chosen = None if len(wanted) == len(part) else set(wanted)
        for group in part.groups:
            for framed in (False, True):
                columns = self._columns(part, group, framed, chosen)
                if columns is not None:
                    texts = self._template(group.plan, framed, columns, self._view)
                    out[columns.row] = texts
        written: list[bytes] = out[wanted].tolist()
        both = zip(wanted, written, strict=True)
        return b"".join([text or self._single(record_of(part, row)) for row, text in both])

    def _single(self, record: Record) -> bytes:
        shown = record if self._redactor is None else self._redactor.record(record)
        return self._write(shown, self._view).encode()

    def _columns(self, part: Part, group: Group, framed: bool, chosen: set[int] | None) -> TemplateColumns | None:
        """Return what templates need of a group: its frames with, or without, a stream id."""
        plan, header = group.plan, part.header
        good = _sound(part, group, framed, chosen)
        good[good], opened, faults = _plain(plan, part, group.rows[good], judged=self._judges)
        if not good.any():
            return None
        rows = group.rows[good]
        key_at = part.start[rows] + header.key_at[rows]
        key_end = key_at + header.key[rows]
        logical, collection = key_at, [-1] * len(rows)
        if plan.message.collection_key:
            found = prefixes(part.view, key_at, header.key[rows])
            prefixed = part.collections[rows] == states.YES
            logical = key_at + found.size * prefixed
            collection = [
                number if has else -1 for number, has in zip(found.collection.tolist(), prefixed, strict=True)
            ]
        length = header.value[rows]
        shown = length if self._view.value_bytes is None else length.clip(max=self._view.value_bytes)
        if plan.value is not None:
            shown = shown * 0
        values = _cut(part.data, key_end, key_end + shown)
        plain_length = length.tolist()
        for place, row in enumerate(rows.tolist() if opened else ()):
            if row in opened:
                values[place], plain_length[place] = opened[row][: self._view.value_bytes], len(opened[row])
        files = [safe(file) for file in part.files]
        return TemplateColumns(
            row=rows.tolist(),
            number=(rows + part.first).tolist(),
            packet=part.packet[rows].tolist(),
            time=_times(part.ts_ns[rows]),
            file=[files[file] for file in part.file[rows].tolist()],
            place=part.place[rows].tolist(),
            places=part.places,
            offset=part.offset[rows].tolist(),
            length=part.length[rows].tolist(),
            gap=part.gap_before[rows].tolist(),
            key_length=header.key[rows],
            datatype=header.datatype[rows],
            vbucket=header.word[rows],
            body=header.body[rows],
            opaque=header.opaque[rows],
            cas=header.cas[rows],
            stream_id=part.stream_id(rows) if framed else None,
            fields=[group.column(field.name)[good] for field in plan.fields],
            key=_safe(_cut(part.data, logical, key_end)),
            wire_key=_cut(part.data, key_at, key_end),
            collection=collection,
            collection_name=_names(part, rows, collection),
            inferred=part.inferred[rows].tolist(),
            head=values,
            value=_safe(values),
            plain_length=plain_length,
            value_at=(key_end - part.start[rows]).tolist(),
            value_length=length.tolist(),
            fault=[faults.get(row, "") for row in rows.tolist()] if faults else [""] * len(rows),
        )


def _sound(part: Part, group: Group, framed: bool, chosen: set[int] | None) -> Array:
    """Return which frames of a group are chosen, whole, and framed as said."""
    rows, header = group.rows, part.header
    good: Array = header.framing[rows] == (STREAM_ID_LENGTH if framed else 0)
    good &= (header.magic[rows] == FLEXIBLE) == framed
    good &= (part.weak[rows] == 0) & (part.ts_ns[rows] != NO_TIME)
    if group.plan.layout.tail:
        good &= group.column(group.plan.layout.tail) == 0
    if chosen is not None:
        good &= [row in chosen for row in rows.tolist()]
    return good


def _plain(plan: Plan, part: Part, rows: Array, *, judged: bool) -> tuple[Array, dict[int, bytes], dict[int, str]]:
    """Return which frames have a key and a value that mean just what they say, but for being compressed or not JSON.

    ``judged``: so that it can be said of JSON that it is valid. Also return, by row, compressed values decompressed,
    and why values that are marked JSON are not.
    """
    header = part.header
    good = header.magic[rows] >= 0
    opened: dict[int, bytes] = {}
    faults: dict[int, str] = {}
    key_at = part.start[rows] + header.key_at[rows]
    if plan.message.collection_key:
        good &= (part.collections[rows] != states.YES) | prefixes(part.view, key_at, header.key[rows]).sound
    if plan.message.document:
        datatype, length = header.datatype[rows], header.value[rows]
        good &= (length == 0) | (datatype & XATTR == 0)
        packed = (datatype & SNAPPY != 0) & (length > 0)
        start = key_at + header.key[rows]
        for place in (good & packed).nonzero()[0].tolist():
            body = open_value(part.data[start[place] : start[place] + length[place]], int(datatype[place]))
            opened[int(rows[place])] = body.value
            for code, fault in body.faults:
                faults[int(rows[place])] = fault
                good[place] = code is Fault.NOT_JSON
        if judged:
            good &= ~(_deep(part, rows, start, length, opened) & (datatype & JSON != 0))
        json = (good & (datatype == JSON) & (length > 0)).nonzero()[0]
        found = json_faults(part.data, start[json].tolist(), (start + length)[json].tolist())
        faults |= {int(rows[json[place]]): fault for place, fault in found.items()}
        if faults:  # where the datatype may describe a value that was left out, it is not a fault
            good &= ~(part.underlying[rows] & np.isin(rows, list(faults)))
    return good, opened, faults


def _deep(part: Part, rows: Array, start: Array, length: Array, opened: dict[int, bytes]) -> Array:
    """Return which values may nest too deep to be judged as JSON."""
    found = np.zeros(len(rows), bool)
    for place in (length > DEEP).nonzero()[0].tolist():
        found[place] = may_be_deep(part.data[start[place] : start[place] + length[place]])
    for place, row in enumerate(rows.tolist() if opened else ()):
        if row in opened:
            found[place] = may_be_deep(opened[row])
    return found


def _names(part: Part, rows: Array, collection: list[int]) -> list[str]:
    """Return the names of the collections of rows; nearly always none is known."""
    if not part.names:
        return [""] * len(collection)
    both = zip(rows.tolist(), collection, strict=True)
    return [(part.collection_path(row, number) or "") if number >= 0 else "" for row, number in both]


def _cut(data: bytes, starts: Array, ends: Array) -> list[bytes]:
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _safe(texts: list[bytes]) -> list[bytes]:
    """Return texts that are safe to show; where all are plain, which one check shows, nothing is done."""
    joined = b"".join(texts)
    if joined.isascii() and joined.decode("ascii").isprintable():
        return texts
    plain = _PLAIN
    return [text if plain(text) else safe(text).encode() for text in texts]


def _times(times: Array) -> list[bytes]:
    """Return times as text. Nearly always they are of one day, and equally precise."""
    fine = times % 1000 != 0
    days = times // _DAY_NS
    date, mark, _ = iso_time(int(times[0])).partition("T")
    if mark and (days == days[0]).all() and (fine == fine[0]).all():
        return of_day(date, times - days[0] * _DAY_NS, bool(fine[0]))
    return [iso_time(ts_ns).encode() for ts_ns in times.tolist()]
