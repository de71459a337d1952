"""Report the frames of plans to their connections' sessions, many at a time."""

from functools import cached_property

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.batch.key_columns import prefixes
from dcpdump.batch.part import NO, UNKNOWN, YES, Part
from dcpdump.spec.header import STREAM_ID_LENGTH
from dcpdump.wire.session import COLLECTION_MESSAGES, MAX_STREAMS, Session

#: So few frames are sooner reported one by one.
_FEW = 8


class Planned:
    """The frames of a part that plans took: ``mask`` says which, ``dcp`` how many are DCP's own."""

    def __init__(self, part: Part) -> None:
        self._part = part
        count = len(part)
        self.mask = np.zeros(count, bool)
        self.dcp = 0
        self._streamed = np.zeros(count, bool)
        self._seqno, self._has_seqno = np.zeros(count, np.uint64), np.zeros(count, bool)
        self._keyed = np.zeros(count, bool)
        self._certain = np.zeros(count, bool)
        for group in part.groups:
            rows, plan = group.rows, group.plan
            self.mask[rows] = True
            self.dcp += len(rows) if plan.message.dcp else 0
            self._streamed[rows] = plan.message.streamed
            self._keyed[rows] = plan.message.collection_key
            if plan.layout.version.startswith("2.2"):
                self._certain[rows] = True
            if plan.has("by_seqno"):
                self._seqno[rows] = group.column("by_seqno")
                self._has_seqno[rows] = True
        header = part.header
        self._certain |= np.isin(header.opcode, COLLECTION_MESSAGES) | (header.framing == STREAM_ID_LENGTH)
        self._keyed &= header.key > 0

    def remember(self, session: Session, rows: Array) -> None:
        """Report some of its frames to a session, and note what it knew when they came."""
        rows = rows[self.mask[rows]]
        if not len(rows):
            return
        part = self._part
        if session.features is None:
            part.collections[rows] = np.where(self._inferred(session, rows), YES, UNKNOWN)
            part.inferred[rows] = True
        else:
            part.collections[rows] = YES if session.collections else NO
        part.underlying[rows] = session.underlying_datatype
        rows = rows[self._streamed[rows] & ~part.weak[rows]]  # what was found on weak evidence proves nothing
        if len(rows):
            header = part.header
            _remember(session, header.opaque[rows], header.word[rows], self._seqno[rows], self._has_seqno[rows])

    def _inferred(self, session: Session, rows: Array) -> Array:
        fits, tells = self._prefixed
        return _infer(session, self._certain[rows], fits[rows], tells[rows])

    @cached_property
    def _prefixed(self) -> tuple[Array, Array]:
        """Return of which frames the key may start with a collection id, or there is none; and is then no plain text.

        Of all frames at once: there may be few between two that change what is known of their connection.
        """
        part, header = self._part, self._part.header
        fits, tells = np.ones(len(part), bool), np.zeros(len(part), bool)
        keyed = np.flatnonzero(self._keyed)
        start = part.start[keyed] + header.key_at[keyed]
        found = prefixes(part.view, start, header.key[keyed])
        first = part.view[start]
        fits[keyed] = found.sound
        tells[keyed] = found.sound & ((first < 0x20) | (first > 0x7E))
        return fits, tells


def _remember(session: Session, opaque: Array, word: Array, seqno: Array, has_seqno: Array) -> None:
    """Have a session remember the streams of frames, in order, and the last seqno of each."""
    if not len(opaque):
        return
    if len(opaque) <= _FEW:
        _note_each(session, opaque, word, seqno, has_seqno)
        return
    runs = _runs(opaque)  # of a stream, many frames follow one another
    order = np.argsort(opaque[runs], kind="stable")
    begins = _runs(opaque[runs][order])
    first, final = runs[order[begins]], order[np.append(begins[1:], len(order)) - 1]
    last = np.append(runs[1:], len(opaque))[final] - 1
    if len(session.streams) + len(begins) >= MAX_STREAMS:
        _note_each(session, opaque, word, seqno, has_seqno)  # old streams may have to be forgotten on the way
        return
    latest = np.maximum.reduceat(np.where(has_seqno, np.arange(len(opaque)), -1), runs)
    latest = np.maximum.reduceat(latest[order], begins)
    met = np.argsort(first)  # streams are remembered in the order in which they were met
    columns = opaque[first[met]], word[last[met]], seqno[latest[met]], latest[met] >= 0
    for number, vbucket, high, has in zip(*(column.tolist() for column in columns), strict=True):
        session.streams[number] = vbucket
        if has:
            session.seqnos[number] = high


def _note_each(session: Session, opaque: Array, word: Array, seqno: Array, has_seqno: Array) -> None:
    """Have a session remember the streams of frames one by one."""
    columns = opaque.tolist(), word.tolist(), seqno.tolist(), has_seqno.tolist()
    for number, vbucket, high, has in zip(*columns, strict=True):
        session.note(number, vbucket, high if has else None)


def _runs(values: Array) -> Array:
    """Return where runs of equal values begin."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def _infer(session: Session, certain: Array, fits: Array, tells: Array) -> Array:
    """Return frame by frame whether keys have a collection id, where HELLO was not seen.

    ``certain``: the frame is one that only a connection with collections has; ``fits``: its key may start
    with an id (or it has none); ``tells``: and the key is no plain text.
    """
    surely = np.logical_or.accumulate(certain) | session.certain
    fit = np.logical_and.accumulate(fits) & session.keys_fit
    tell = np.logical_or.accumulate(tells) | session.keys_tell
    session.certain, session.keys_fit, session.keys_tell = bool(surely[-1]), bool(fit[-1]), bool(tell[-1])
    have: Array = surely | (fit & tell)
    return have
