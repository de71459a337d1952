"""Runs: a session that also learns from many frames at once."""

import numpy as np

from dcpdump.columnar.plan import Array
from dcpdump.spec import find
from dcpdump.spec.opcodes import DCP_OPEN, DCP_STREAM_REQ, HELLO
from dcpdump.wire.frame import Header
from dcpdump.wire.outstanding import Asked
from dcpdump.wire.session import _UNDERLYING_DATATYPE, MAX_STREAMS, Session


class RunSession(Session):
    """A session that also remembers many frames of streams at once."""

    def heeds(self, header: Header) -> bool:
        """Whether this frame changes what is remembered of others, or is read in the light of it."""
        streamed = find(header.opcode).streamed
        return self.features is None or streamed or header.opcode in (HELLO, DCP_OPEN, DCP_STREAM_REQ)

    def overhear(self, direction: int, opcode: int, opaque: int, asked: Asked | None) -> Asked | None:
        """Take a message that is no concern of DCP: a request, or (None) a response.

        Return the request that the response answers.
        """
        if asked is None:
            return self._outstanding.answer((1 - direction, opcode, opaque))
        self._outstanding.ask((direction, opcode, opaque), asked)
        return None

    @property
    def underlying_datatype(self) -> bool:
        """Whether the connection was opened with the flag under which a datatype may describe absent bytes."""
        return bool((self.open_flags or 0) & _UNDERLYING_DATATYPE)

    def remember(self, opaque: Array, word: Array, seqno: Array, has_seqno: Array) -> None:
        """It remembers the streams of frames, in order, and the last seqno of each."""
        if not len(opaque):
            return
        order = np.argsort(opaque, kind="stable")
        begins = np.flatnonzero(np.concatenate(([True], np.diff(opaque[order]) != 0)))
        first, last = order[begins], order[np.append(begins[1:], len(order)) - 1]
        if len(self.streams) + len(begins) >= MAX_STREAMS:
            self._remember_each(opaque, word, seqno, has_seqno)
            return
        latest = np.maximum.reduceat(np.where(has_seqno, np.arange(len(opaque)), -1)[order], begins)
        met = np.argsort(first)  # streams are remembered in the order in which they were met
        columns = opaque[first[met]], word[last[met]], seqno[latest[met]], latest[met] >= 0
        for number, vbucket, high, has in zip(*(column.tolist() for column in columns), strict=True):
            self.streams[number] = vbucket
            if has:
                self._seqnos[number] = high

    def _remember_each(self, opaque: Array, word: Array, seqno: Array, has_seqno: Array) -> None:
        """It goes one by one where old streams may have to be forgotten on the way."""
        rows = zip(opaque.tolist(), word.tolist(), seqno.tolist(), has_seqno.tolist(), strict=True)
        for number, vbucket, latest, has in rows:
            if number not in self.streams and len(self.streams) >= MAX_STREAMS:
                oldest = next(iter(self.streams))
                del self.streams[oldest]
                self._seqnos.pop(oldest, None)
                self._forgot = True
            self.streams[number] = vbucket
            if has:
                self._seqnos[number] = latest

    def infer(self, certain: Array, fits: Array, tells: Array) -> Array:
        """It says frame by frame whether keys have a collection id, where HELLO was not seen.

        ``certain``: the frame is one that only a connection with collections has; ``fits``: its key may start
        with an id (or it has none); ``tells``: and the key is no plain text.
        """
        surely = np.logical_or.accumulate(certain) | self._certain
        fit = np.logical_and.accumulate(fits) & self._keys_fit
        tell = np.logical_or.accumulate(tells) | self._keys_tell
        self._certain, self._keys_fit, self._keys_tell = bool(surely[-1]), bool(fit[-1]), bool(tell[-1])
        have: Array = surely | (fit & tell)
        return have
