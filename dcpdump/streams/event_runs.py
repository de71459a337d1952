"""Runs: what the ledger is fed with, events and runs of documents that follow one another in a stream."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from dcpdump.batch.gather import Array, records_at
from dcpdump.batch.key_columns import prefixes
from dcpdump.batch.layouts import Group
from dcpdump.batch.part import Part
from dcpdump.net.no_time import NO_TIME
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.spec.opcodes import DCP_DELETION, DCP_MUTATION
from dcpdump.streams.column_events import NO_ROWS, frame_events, stream_ids
from dcpdump.streams.document_run import Close, DocumentRun, Step, Texts
from dcpdump.streams.frame_event import Before, FrameEvent
from dcpdump.streams.opcode_kinds import DOCUMENTS

#: Which bit of ``Close.forms`` a layout of deletions sets.
_FORMS = {"1": 1, "2": 2}
_NO_LOSSES: Mapping[int, Before] = MappingProxyType({})


def steps(part: Part, *, closely: bool = False, losses: Mapping[int, Before] = _NO_LOSSES) -> list[Step]:
    """Return the events of a part, documents of one stream that follow one another as runs.

    ``closely``: only plain mutations and deletions, which are inspected closely. ``losses``: rows, and what was lost
    before them.
    """
    count, header = len(part), part.header
    document, seqno = _documents(part, closely=closely)
    document[list(losses)] = False
    stream_id = stream_ids(part)
    goes_on = document[1:] & document[:-1] & (part.ts_ns[1:] >= part.ts_ns[:-1])
    for column in (part.place, header.word, header.opaque, stream_id):
        goes_on &= column[1:] == column[:-1]
    begins = np.flatnonzero(np.concatenate(([True], ~goes_on))) if count else NO_ROWS
    ends = np.append(begins[1:], count)
    run = ends - begins > 1
    single = frame_events(part, documents=closely, rows=begins[~run])
    for row, before in losses.items():
        at = int(np.searchsorted(begins[~run], row))
        single[at] = single[at]._replace(gap_before=before.length, before=before)
    if not run.any():
        return list(single)
    alone = iter(single)
    pauses = np.diff(part.ts_ns, prepend=part.ts_ns[:1])
    pauses[begins] = 0
    kinds: list[Array] = []
    for opcode in DOCUMENTS:
        mine = header.opcode == opcode
        kinds += [np.add.reduceat(mine, begins, dtype=np.int64), np.add.reduceat(part.length * mine, begins)]
    columns = (
        run,
        begins,
        ends,
        np.array([each.connection for each in part.places])[part.place[begins]],
        np.array([each.direction for each in part.places])[part.place[begins]],
        header.word[begins],
        header.opaque[begins],
        stream_id[begins],
        np.add.reduceat(part.length, begins),
        part.ts_ns[begins],
        part.ts_ns[ends - 1],
        seqno[begins],
        seqno[ends - 1],
        np.maximum.reduceat(seqno, begins),
        np.maximum.reduceat(pauses, begins),
        *kinds,
    )
    look = _closely(part, document, seqno, begins, ends) if closely else None
    out: list[Step] = []
    for is_run, begin, end, *facts in zip(*(column.tolist() for column in columns), strict=True):
        if is_run:
            kinds_of = tuple(each for each in zip(DOCUMENTS, facts[-6::2], facts[-5::2], strict=True) if each[1])
            close = next(look) if look is not None else None
            each = partial(_each, part, begin, end)
            *numbers, pause_ns = facts[:-6]
            out.append(
                DocumentRun._make((part.first + begin, end - begin, *numbers, kinds_of, pause_ns, each, close, None))
            )
        else:
            out.append(next(alone))
    return out


def _documents(part: Part, *, closely: bool) -> tuple[Array, Array]:
    """Return which frames are documents that a run may have, and the seqnos of all documents."""
    document, seqno = np.zeros(len(part), bool), np.zeros(len(part), np.uint64)
    for group in part.groups:
        if group.plan.message.opcode in DOCUMENTS:
            seqno[group.rows] = group.column("by_seqno")
            document[group.rows] = _plain(part, group) if closely else True
    document &= (part.weak == 0) & (part.gap_before == 0) & (part.ts_ns != NO_TIME)
    if closely:
        document &= (seqno != 0) & ((part.header.framing == 0) | (stream_ids(part) != 0))
    return document, seqno


def _plain(part: Part, group: Group) -> Array:
    """Return which documents are plain: nothing in a reserved field, no metadata, no body where none should be."""
    rows, opcode = group.rows, group.plan.message.opcode
    plain = np.full(len(rows), opcode in (DCP_MUTATION, DCP_DELETION))
    for field in group.plan.fields:
        if field.reserved or field.name == "nmeta":
            plain &= group.column(field.name) == 0
    if opcode == DCP_DELETION:
        header = part.header
        at = np.minimum(part.start[rows] + header.key_at[rows] + header.key[rows], max(0, len(part.data) - 4))
        xattrs = records_at(part.view, np.dtype(">u4"), at).astype(np.int64) + 4
        size = np.where(header.datatype[rows] & (XATTR | SNAPPY) == XATTR, xattrs, 0)
        plain &= ((header.datatype[rows] == 0) | (size > 0)) & (header.value[rows] == size)
        plain &= group.plan.layout.version in _FORMS
    return plain


def _closely(part: Part, document: Array, seqno: Array, begins: Array, ends: Array) -> Iterator[Close]:
    """Inspect runs closely, those between ``begins`` and ``ends`` of more than one ``document``."""
    header, data = part.header, part.data
    key_at = part.start + header.key_at
    value_at = key_at + header.key
    sound = prefixes(part.view, key_at, np.where(document, header.key, 0)).sound
    falls = np.concatenate(([False], seqno[1:] <= seqno[:-1]))
    falls[begins] = False
    forms = np.zeros(len(part), np.int64)
    for group in part.groups:
        if group.plan.message.opcode == DCP_DELETION:
            forms[group.rows] = _FORMS.get(group.plan.layout.version, 0)
    text = np.flatnonzero(document & (header.datatype == JSON) & (header.value > 0))
    packed = np.flatnonzero(document & (header.datatype > JSON))
    columns = (
        begins,
        ends,
        ~np.logical_or.reduceat(falls, begins),
        np.maximum.reduceat(header.key, begins),
        np.logical_and.reduceat(sound, begins),
        np.bitwise_or.reduceat(forms, begins),
        np.searchsorted(text, begins),
        np.searchsorted(text, ends),
        np.searchsorted(packed, begins),
        np.searchsorted(packed, ends),
    )
    run = ends - begins > 1
    keys_at, values_at, seqnos = key_at.tolist(), value_at.tolist(), seqno.tolist()
    place = np.arange(len(part)) - np.repeat(begins, ends - begins)
    places = place[text].tolist()
    starts, stops = value_at[text].tolist(), (value_at + header.value)[text].tolist()
    values = zip(
        *(column[packed].tolist() for column in (place, header.datatype, value_at, value_at + header.value)),
        strict=True,
    )
    bodies = [(place, datatype, data[at:to]) for place, datatype, at, to in values]
    for begin, end, *facts, first, last, first_packed, last_packed in zip(
        *(column[run].tolist() for column in columns), strict=True
    ):
        keys = [data[at:to] for at, to in zip(keys_at[begin:end], values_at[begin:end], strict=True)]
        texts = Texts(data, places[first:last], starts[first:last], stops[first:last])
        yield Close._make((*facts, seqnos[begin:end], keys, texts, bodies[first_packed:last_packed]))


def _each(part: Part, begin: int, end: int) -> list[FrameEvent]:
    return frame_events(part, rows=np.arange(begin, end))
