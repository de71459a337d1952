"""Count frames and bytes by key, and find the keys with most, in bounded memory.

A dictionary counts each key. When it has grown too large, the keys with the least counts are forgotten. A key that
comes later may be one of these, so it may have up to the largest forgotten count more.
"""

from collections.abc import Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dcpdump.batch.part import Part
from dcpdump.batch.statistics import REQUEST, Amount
from dcpdump.spec.opcodes import DCP_ABORT, DCP_COMMIT, DCP_DELETION, DCP_EXPIRATION, DCP_MUTATION, DCP_PREPARE

if TYPE_CHECKING:
    from dcpdump.redact import Redactor

#: Bytes of memory for a key and its counts.
_KEY = 512
_LEAST = 1_024  #: the least number of keys that are kept
_OF_DOCUMENTS = np.isin(
    np.arange(256), (DCP_MUTATION, DCP_DELETION, DCP_EXPIRATION, DCP_PREPARE, DCP_COMMIT, DCP_ABORT)
)


class HotKey(NamedTuple):
    """The counts of one key."""

    key: bytes
    collection: int | None  #: the collection's id; None where keys have none
    path: str  #: its name, where that was captured
    amount: Amount
    error: Amount  #: how many more frames and bytes it may have had

    def redacted(self, redactor: "Redactor | None") -> "HotKey":
        """Return the key with its texts redacted."""
        if redactor is None:
            return self
        return self._replace(key=redactor.hash(self.key), path=redactor.path(self.path) if self.path else "")


_Key = tuple[int | None, bytes]  #: a collection id, and a key


class HotKeys:
    """Counts of frames and bytes by key. ``memory``: bytes for the command, an eighth of which may be used here."""

    def __init__(self, memory: int) -> None:
        self._most = max(_LEAST, memory // 8 // _KEY)
        self._counts: dict[_Key, list[int]] = {}
        self._error = Amount()  #: how many frames and bytes a new key may have had before
        self._paths: dict[int, str] = {}  #: names of collections by id; empty where an id has several

    def feed(self, part: Part, rows: Sequence[int]) -> None:
        """Count those of the rows that are about a document. Rows without a valid key are not counted."""
        chosen, header, keys = np.asarray(rows), part.header, part.keys
        chosen = chosen[_OF_DOCUMENTS[header.opcode[chosen]] & REQUEST[header.magic[chosen]]]
        by_itself = np.fromiter(part.records, np.int64, len(part.records))
        planned = chosen[keys.sound[chosen] & ~np.isin(chosen, by_itself)]
        of = keys.of(planned)
        for begin, end, collection, split, length in zip(
            of.logical.tolist(),
            of.end.tolist(),
            of.collection.tolist(),
            of.split.tolist(),
            part.length[planned].tolist(),
            strict=True,
        ):
            self._count((collection if split else None, part.data[begin:end]), length)
        for row in np.intersect1d(chosen, by_itself).tolist():
            meaning = part.record(row).meaning
            if meaning.key is not None:
                self._count((meaning.collection, meaning.key), int(part.length[row]))
        self._learn_paths(part)
        if len(self._counts) > 2 * self._most:
            self._forget()

    def _count(self, key: _Key, length: int) -> None:
        counts = self._counts.get(key)
        if counts is None:
            self._counts[key] = [1, length, self._error.frames, self._error.bytes]
        else:
            counts[0] += 1
            counts[1] += length

    def _learn_paths(self, part: Part) -> None:
        for names in part.names.values():
            for number, path in names.known():
                if self._paths.setdefault(number, path) != path:
                    self._paths[number] = ""  # the same id in two buckets

    def _forget(self) -> None:
        """Forget all keys but those with most frames, and those with most bytes."""
        kept = dict([*self._with_most(0, self._most // 2), *self._with_most(1, self._most // 2)])
        gone = [counts for key, counts in self._counts.items() if key not in kept]
        self._error.add(max(each[0] for each in gone), max(each[1] for each in gone))
        self._counts = kept

    def _with_most(self, which: int, count: int) -> list[tuple[_Key, list[int]]]:
        return nlargest(count, self._counts.items(), key=lambda item: (item[1][which], item[1], item[0][1]))

    def top(self, count: int) -> list[HotKey]:
        """Return the ``count`` keys with most frames and the ``count`` with most bytes, sorted by frames."""
        found = dict([*self._with_most(0, count), *self._with_most(1, count)])
        rows = [
            HotKey(key, collection, self._paths.get(collection or 0, ""), Amount(*counts[:2]), Amount(*counts[2:]))
            for (collection, key), counts in found.items()
        ]
        return sorted(rows, key=lambda row: (-row.amount.frames, -row.amount.bytes, row.key, row.collection or 0))
