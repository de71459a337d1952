"""Planned: what the frames of plans mean to their connections' sessions, told many at a time."""

import numpy as np

from dcpdump.columnar.key import prefixes
from dcpdump.columnar.part import NO, UNKNOWN, YES, Part
from dcpdump.columnar.plan import STREAM_ID_LENGTH, Array
from dcpdump.columnar.runs import RunSession
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.session import COLLECTION_MESSAGES


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

    def remember(self, session: RunSession, rows: Array) -> None:
        """It tells a session of some of its frames, and notes what it knew when they came."""
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
        rows = rows[self._streamed[rows] & ~part.weak[rows]]  # what was found on weak evidence is no witness
        if len(rows):
            header = part.header
            session.remember(header.opaque[rows], header.word[rows], self._seqno[rows], self._has_seqno[rows])

    def _inferred(self, session: RunSession, rows: Array) -> Array:
        part, header = self._part, self._part.header
        fits, tells = np.ones(len(rows), bool), np.zeros(len(rows), bool)
        keyed = np.flatnonzero(self._keyed[rows])
        mine = rows[keyed]
        start = part.start[mine] + HEADER_LENGTH + header.framing[mine] + header.extras[mine]
        found = prefixes(part.view, start, header.key[mine])
        first = part.view[start]
        fits[keyed] = found.sound
        tells[keyed] = found.sound & ((first < 0x20) | (first > 0x7E))
        return session.infer(self._certain[rows], fits, tells)
