"""Runs: what the ledger is fed with, events and runs of documents that follow one another in a stream."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from dcpdump.batch.key_columns import prefixes
from dcpdump.batch.layouts import Array, Group
from dcpdump.batch.part import Part
from dcpdump.net.batch import NO_TIME
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import JSON
from dcpdump.streams.column_events import DOCUMENTS, NO_ROWS, Before, frame_events, stream_ids
from dcpdump.streams.document_run import Close, DocumentRun, Step
from dcpdump.streams.frame_event import FrameEvent

_MARKER, _MUTATION = 0x56, 0x57
_IN_ORDER = (_MUTATION, 0x58, 0x59)
_NO_LOSSES: Mapping[int, Before] = MappingProxyType({})


def steps(part: Part, *, closely: int = 0, losses: Mapping[int, Before] = _NO_LOSSES) -> list[Step]:
    """Return the events of a part, documents of one stream that follow one another as runs.

    ``closely``: only plain mutations, with a closer look at them; each frame whose number is a multiple of this
    stands alone, as does the first of a snapshot. ``losses``: rows, and what was lost before them.
    """
    count, header = len(part), part.header
    document, seqno = np.zeros(count, bool), np.zeros(count, np.uint64)
    for group in part.groups:
        opcode = group.plan.message.opcode
        if opcode in DOCUMENTS:
            document[group.rows] = _plain(group) if closely else True
            seqno[group.rows] = group.column("by_seqno")
    document &= (part.weak == 0) & (part.gap_before == 0) & (part.ts_ns != NO_TIME)
    document[list(losses)] = False
    if closely:
        opens = np.concatenate(([False], header.opcode[:-1] == _MARKER))
        document &= (header.datatype <= JSON) & ~opens & ((np.arange(count) + part.first) % closely != 0)
    stream_id = stream_ids(part)
    goes_on = document[1:] & document[:-1] & (part.ts_ns[1:] >= part.ts_ns[:-1])
    for column in (part.place, header.word, header.opaque, stream_id):
        goes_on &= column[1:] == column[:-1]
    begins = np.flatnonzero(np.concatenate(([True], ~goes_on))) if count else NO_ROWS
    ends = np.append(begins[1:], count)
    run = ends - begins > 1
    single = frame_events(part, documents=bool(closely), rows=begins[~run])
    for row, before in losses.items():
        at = int(np.searchsorted(begins[~run], row))
        single[at] = single[at]._replace(gap_before=before.length, skipped=before.skipped)
    if not run.any():
        return list(single)
    alone = iter(single)
    kinds: list[Array] = []
    for opcode in _IN_ORDER:
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
        *kinds,
    )
    look = _closely(part, document, seqno, begins, ends) if closely else None
    out: list[Step] = []
    for is_burst, begin, end, *facts in zip(*(column.tolist() for column in columns), strict=True):
        if is_burst:
            told = tuple(zip(_IN_ORDER, facts[-6::2], facts[-5::2], strict=True))
            close = next(look) if look is not None else None
            out.append(
                DocumentRun._make(
                    (part.first + begin, end - begin, *facts[:-6], told, partial(_each, part, begin, end), close)
                )
            )
        else:
            out.append(next(alone))
    return out


def _plain(group: Group) -> Array:
    """It says which documents are mutations without anything in a reserved field, and without metadata."""
    plain = np.full(len(group.rows), group.plan.message.opcode == _MUTATION)
    for field in group.plan.fields:
        if field.reserved or field.name == "nmeta":
            plain &= group.column(field.name) == 0
    return plain


def _closely(part: Part, document: Array, seqno: Array, begins: Array, ends: Array) -> Iterator[Close]:
    """Inspect runs closely, those between ``begins`` and ``ends`` of more than one ``document``."""
    header = part.header
    key_at = part.start + HEADER_LENGTH + header.framing + header.extras
    value_at = key_at + header.key
    texts_end = (value_at + np.where(header.datatype == JSON, header.value, 0)).tolist()
    sound = prefixes(part.view, key_at, np.where(document, header.key, 0)).sound
    falls = np.concatenate(([False], seqno[1:] <= seqno[:-1]))
    pauses = np.diff(part.ts_ns, prepend=part.ts_ns[:1])
    falls[begins], pauses[begins] = False, 0
    columns = (
        begins,
        ends,
        np.maximum.reduceat(pauses, begins),
        ~np.logical_or.reduceat(falls, begins),
        np.maximum.reduceat(header.key, begins),
        np.logical_and.reduceat(sound, begins),
    )
    keys_at, values_at, seqnos, data = key_at.tolist(), value_at.tolist(), seqno.tolist(), part.data
    for begin, end, pause_ns, rising, longest, all_sound in zip(*(each.tolist() for each in columns), strict=True):
        if end - begin > 1:
            values = values_at[begin:end]
            keys = [data[at:to] for at, to in zip(keys_at[begin:end], values, strict=True)]
            texts = [data[at:to] for at, to in zip(values, texts_end[begin:end], strict=True) if to > at]
            yield Close(pause_ns, rising, longest, all_sound, seqnos[begin:end], keys, texts)


def _each(part: Part, begin: int, end: int) -> list[FrameEvent]:
    return frame_events(part, rows=np.arange(begin, end))
