"""Keep the last change of each document of one capture, by vbucket, collection and key, for comparison."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.gather import Array
from dcpdump.batch.statistics import REQUEST, STREAMED
from dcpdump.compare.capture_rows import mixed, seqnos_of
from dcpdump.record import Lost
from dcpdump.rewrite.spill import Spill
from dcpdump.spec import find
from dcpdump.spec.opcodes import DCP_STREAM_REQ
from dcpdump.streams.opcode_kinds import DOCUMENTS
from dcpdump.text import counted

# -- documentLosses: of which vbuckets a capture lacks changes of documents, or can lack them ---------
# Lost bytes may be of any vbucket that their direction carries; for a vbucket never captured, of any direction.

_VBUCKETS = 1 << 16


class DocumentLosses:
    """The losses of a capture by vbucket, from its batches and gaps. A direction id is 2 × connection + direction."""

    def __init__(self) -> None:
        self._lost: Counter[int] = Counter()  # bytes, by direction id
        self._unmeasured: set[int] = set()  # directions with losses of unknown length
        self._carried: set[int] = set()  # direction id << 16 | vbucket
        self._cut: Counter[int] = Counter()  # incomplete changes, which cannot be compared, by vbucket

    def look(self, batch: FrameBatch) -> None:
        """Note the vbuckets of a batch's directions, and its incomplete changes."""
        header = batch.header
        direction_ids = np.array([direction.id for direction in batch.directions], np.int64)[batch.direction]
        asks = header.opcode == DCP_STREAM_REQ
        found = REQUEST[header.magic] & (asks | STREAMED[header.opcode])
        carried = np.where(asks, direction_ids ^ 1, direction_ids) << 16 | header.vbucket_or_status
        self._carried.update(np.unique(carried[found]).tolist())
        for row in batch.records:
            if header.opcode[row] in DOCUMENTS and found[row]:
                self._cut[int(header.vbucket_or_status[row])] += 1

    def lose(self, gaps: Sequence[Lost]) -> None:
        """Note lost bytes."""
        for loss in gaps:
            lengths = [each.length for each in loss.sent]
            if None in lengths:
                self._unmeasured.add(loss.direction.id)
            self._lost[loss.direction.id] += sum(each or 0 for each in lengths)

    @cached_property
    def doubtful(self) -> Array:
        """Return for each vbucket whether changes of its documents may be missing, after the capture was read."""
        found = np.zeros(_VBUCKETS, bool)
        lossy = self._unmeasured | set(self._lost)
        if lossy:
            found[:] = True
            vbuckets, direction_ids = self._columns
            found[vbuckets] = False
            found[vbuckets[np.isin(direction_ids, list(lossy))]] = True
        found[list(self._cut)] = True
        return found

    def text(self, vbucket: int) -> str:
        """Return in words what may be missing of a doubtful vbucket."""
        vbuckets, carriers = self._columns
        mine = set(carriers[vbuckets == vbucket].tolist())
        lossy = (self._unmeasured | set(self._lost)) & mine if mine else self._unmeasured | set(self._lost)
        batches = []
        if lossy & self._unmeasured:
            batches.append("lacks an unknown number of bytes")
        elif lossy:
            batches.append(f"lacks {counted(sum(self._lost[direction_id] for direction_id in lossy), 'byte')}")
        if self._cut[vbucket]:
            batches.append(f"has {counted(self._cut[vbucket], 'change')} that cannot be compared")
        return " and ".join(batches)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        """Return the vbuckets carried, and their direction ids."""
        carried = np.fromiter(self._carried, np.int64, len(self._carried))
        return carried & (_VBUCKETS - 1), carried >> 16


#: The row of a change; ``at`` and ``size``: of its key among the keys.
_ROW = np.dtype(
    [
        ("seqno", "<u8"),
        ("cas", "<u8"),
        ("value", "<u8"),
        ("at", "<i8"),
        ("size", "<u2"),
        ("vbucket", "<u2"),
        ("collection", "<u4"),
        ("frame", "<u4"),
        ("opcode", "u1"),
    ]
)
#: The hashes of a change's document and of its content; and the change's row.
_CHANGE = np.dtype([("document", "<u8"), ("change", "<u8"), ("row", "<u4")])
_ROWS, _KEYS, _FIRST_SHARD = 0, 1, 2  # the streams of the file
#: The number of shards, by the hashes of documents: memory holds one shard of each capture.
_SHARDS, _SHARD = 64, np.uint64(58)
#: How many rows are read at a time.
_READ = 65_536


class Document(NamedTuple):
    """The last change of a document."""

    vbucket: int
    collection: int
    key: bytes
    seqno: int
    cas: int
    value: int
    opcode: int
    frame: int

    @property
    def message(self) -> str:
        """Return the name of the change's message."""
        return find(self.opcode).name


class Documents:
    """The last change of each document in one capture, in the order of frames."""

    def __init__(self, folder: str) -> None:
        self._spill = Spill(folder)
        self._count = self._key_bytes = 0
        self._changes = [0] * _SHARDS
        self.losses = DocumentLosses()
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def __enter__(self) -> "Documents":
        return self

    def __exit__(self, *error: object) -> None:
        self._spill.__exit__(*error)

    def feed(self, batch: FrameBatch, rows: Sequence[int]) -> None:
        """Add the rows of a batch that are mutations, deletions or expirations."""
        chosen = np.asarray(rows, np.int64)
        header = batch.header
        planned = batch.keys.sound.copy()
        for group in batch.groups:
            planned[group.rows] &= group.plan.message.opcode in DOCUMENTS
        chosen = chosen[planned[chosen] & (batch.plan >= 0)[chosen]]
        if not len(chosen):
            return
        keys = batch.keys.of(chosen)
        table = np.zeros(len(chosen), _ROW)
        seqno, _ = seqnos_of(batch)
        table["seqno"], table["cas"], table["vbucket"] = (
            seqno[chosen],
            header.cas[chosen],
            header.vbucket_or_status[chosen],
        )
        table["opcode"], table["collection"] = header.opcode[chosen], keys.collection
        table["frame"] = batch.first + chosen
        ends = batch.start[chosen] + batch.length[chosen]
        data = batch.data
        spans = list(zip(keys.logical.tolist(), keys.end.tolist(), ends.tolist(), strict=True))
        table["value"] = _hashes(hash(data[end:stop]) for _, end, stop in spans)
        names = [data[start:end] for start, end, _ in spans]
        table["size"] = sizes = keys.end - keys.logical
        table["at"] = self._key_bytes + np.cumsum(sizes) - sizes
        where = table["vbucket"].astype(np.int64) << 32 | table["collection"].astype(np.int64)
        self._put(table, mixed(_hashes(map(hash, names)), where), b"".join(names))

    def lose(self, gaps: Sequence[Lost]) -> None:
        """Note what was not captured."""
        self.losses.lose(gaps)

    def document(self, row: int) -> Document:
        """Return a document by its row."""
        size = _ROW.itemsize
        found: Any = np.frombuffer(self._spill.get(_ROWS, row * size, (row + 1) * size), _ROW)[0]
        at = int(found["at"])
        key = self._spill.get(_KEYS, at, at + int(found["size"]))
        identity = int(found["vbucket"]), int(found["collection"]), key
        change = (int(found[name]) for name in ("seqno", "cas", "value", "opcode", "frame"))
        return Document(*identity, *change)

    def seqnos(self, rows: Array) -> Array:
        """Return the vbuckets (``vbucket``) and seqnos of rows."""
        found = np.zeros(len(rows), [("vbucket", "<u2"), ("seqno", "<u8")])
        order = np.argsort(rows)
        for at in range(0, self._count, _READ):
            begin, end = np.searchsorted(rows, (at, at + _READ), sorter=order).tolist()
            if begin < end:
                size, stop = _ROW.itemsize, min(at + _READ, self._count)
                table = np.frombuffer(self._spill.get(_ROWS, at * size, stop * size), _ROW)
                mine = order[begin:end]
                found["vbucket"][mine] = table["vbucket"][rows[mine] - at]
                found["seqno"][mine] = table["seqno"][rows[mine] - at]
        return found

    def against(self, other: "Documents") -> tuple[Array, Array, Array, int]:
        """Return the rows of documents only here, only in the other, or different; and how many are equal."""
        found = [_compared(self._last(shard), other._last(shard)) for shard in range(_SHARDS)]
        only_a, only_b, pairs = (np.concatenate(column) for column in list(zip(*found, strict=True))[:3])
        return np.sort(only_a), np.sort(only_b), pairs[np.argsort(pairs[:, 0])], sum(each[3] for each in found)

    def _last(self, shard: int) -> Array:
        """Return the last change of each document of a shard, by the hashes of documents."""
        size = self._changes[shard] * _CHANGE.itemsize
        changes = np.frombuffer(self._spill.get(_FIRST_SHARD + shard, 0, size), _CHANGE)
        order = np.argsort(changes["document"], kind="stable")  # equal ones stay in the order of frames
        hashes = changes["document"][order]
        last: Array = np.concatenate([hashes[1:] != hashes[:-1], [True]])[: len(hashes)]
        found: Array = changes[order[last]]
        return found

    def _put(self, table: Array, hashes: Array, names: bytes) -> None:
        self._spill.put(_ROWS, self._count * _ROW.itemsize, table.tobytes())
        self._spill.put(_KEYS, self._key_bytes, names)
        changes = np.zeros(len(table), _CHANGE)
        change = mixed(mixed(table["value"].copy(), table["cas"].view(np.int64)), table["seqno"].view(np.int64))
        changes["document"], changes["change"] = hashes, mixed(change, table["opcode"])
        changes["row"] = np.arange(self._count, self._count + len(table))
        which = hashes >> _SHARD
        for number in np.unique(which).tolist():
            mine = changes[which == number]
            self._spill.put(_FIRST_SHARD + number, self._changes[number] * _CHANGE.itemsize, mine.tobytes())
            self._changes[number] += len(mine)
        self._count += len(table)
        self._key_bytes += len(names)


def _compared(mine: Array, theirs: Array) -> tuple[Array, Array, Array, int]:
    """Compare the documents of two shards as ``Documents.against`` does, in any order."""
    at = np.intersect1d(mine["document"], theirs["document"], assume_unique=True, return_indices=True)[1:]
    alone, missing = np.ones(len(mine), bool), np.ones(len(theirs), bool)
    alone[at[0]] = missing[at[1]] = False
    both_mine, both_theirs = mine[at[0]], theirs[at[1]]
    differ = both_mine["change"] != both_theirs["change"]
    pairs = np.column_stack([both_mine["row"][differ], both_theirs["row"][differ]])
    return mine["row"][alone], theirs["row"][missing], pairs, int((~differ).sum())


def _hashes(numbers: Iterable[int]) -> Array:
    return np.fromiter(numbers, np.int64).view(np.uint64)


class DocumentDifferences(NamedTuple):
    """Rows of documents: pairs that differ, and those in A or B only."""

    differ: Array
    only_a: Array
    only_b: Array

    def __len__(self) -> int:
        return len(self.differ) + len(self.only_a) + len(self.only_b)


def judged(a: Documents, b: Documents, rows: DocumentDifferences) -> tuple[DocumentDifferences, DocumentDifferences]:
    """Return the rows that certainly differ, and those where the older side may lack bytes."""
    doubtful = a.losses.doubtful, b.losses.doubtful
    if not any(each.any() for each in doubtful):
        return rows, DocumentDifferences(*(each[:0] for each in rows))
    mine, theirs = a.seqnos(rows.differ[:, 0]), b.seqnos(rows.differ[:, 1])
    words: Array = mine["vbucket"]
    older: Array = np.where(mine["seqno"] < theirs["seqno"], doubtful[0][words], doubtful[1][words])
    unknown = (
        older & (mine["seqno"] != theirs["seqno"]),
        doubtful[1][a.seqnos(rows.only_a)["vbucket"]],
        doubtful[0][b.seqnos(rows.only_b)["vbucket"]],
    )
    batches = list(zip(rows, unknown, strict=True))
    known = DocumentDifferences(*(each[~lost] for each, lost in batches))
    return known, DocumentDifferences(*(each[lost] for each, lost in batches))
