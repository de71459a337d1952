"""Feed: parts of frames in, sights out, in the order of the frames. The ledger's only door to columns."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from dcpdump.columnar.block import NO_TIME
from dcpdump.columnar.dissection import Dissection, Lost
from dcpdump.columnar.key import prefixes
from dcpdump.columnar.part import YES, Part
from dcpdump.columnar.plan import Array
from dcpdump.net.connections import Delivery
from dcpdump.net.event import End
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.order import Order
from dcpdump.streams.sight import OWN_SEQNO, UNKNOWN_LOSS, Shape, Sight, shape_of, sight_of
from dcpdump.streams.window import COUNTED

_NOTHING = Shape("", (), {}, -1)
#: Messages that are nearly all of a capture: their fields are given only to who asks for them.
_DOCUMENTS = frozenset({0x57, 0x58, 0x59})


def sights(part: Part, *, documents: bool = True) -> list[Sight]:
    """It gives the sights of a part.

    ``documents``: mutations, deletions and expirations have their fields too (their seqno is there in any case).
    """
    count, header = len(part), part.header
    fields: list[Any] = [()] * count
    shapes: list[Any] = [_NOTHING] * count
    seqnos: list[Any] = [None] * count
    everywhere = len(part.groups) == 1 and len(part.groups[0].rows) == count
    for group in part.groups:
        plan, shape = group.plan, shape_of(group.plan.layout)
        tuples: Any = repeat(())
        if documents or plan.message.opcode not in _DOCUMENTS:
            tuples = group.extras.tolist() if group.extras.dtype.names else repeat(())
            if group.value is not None:
                tuples = [extras + value for extras, value in zip(tuples, group.value.tolist(), strict=False)]
        own = next((name for name in OWN_SEQNO if plan.has(name)), None)
        mine: Any = group.column(own).tolist() if own is not None else repeat(None)
        if everywhere and own is not None and not isinstance(tuples, repeat):
            fields, seqnos, shapes = tuples, mine, [shape] * count
            break
        for row, values, seqno in zip(group.rows.tolist(), tuples, mine, strict=False):
            fields[row] = values
            seqnos[row] = seqno
            shapes[row] = shape
    times: list[Any] = part.ts_ns.tolist()
    if (part.ts_ns == NO_TIME).any():
        times = [None if time == NO_TIME else time for time in times]
    key_at = part.start + HEADER_LENGTH + header.framing + header.extras
    whole = np.ones(count, bool)
    whole[list(part.odd)] = False
    rows = zip(
        range(part.first, part.first + count),
        times,
        np.array([ends.connection for ends in part.places])[part.place].tolist(),
        np.array([ends.direction for ends in part.places])[part.place].tolist(),
        header.magic.tolist(),
        header.opcode.tolist(),
        _RESPONSE[header.magic].tolist(),
        _SERVER[header.magic].tolist(),
        header.word.tolist(),
        header.opaque.tolist(),
        header.cas.tolist(),
        header.datatype.tolist(),
        part.length.tolist(),
        _stream_ids(part),
        seqnos,
        shapes,
        fields,
        repeat(part.data),
        key_at.tolist(),
        (key_at + header.key).tolist(),
        np.maximum(header.value, 0).tolist(),
        part.gap_before.tolist(),
        whole.tolist(),
        (part.weak != 0).tolist(),
        repeat(None),
        strict=False,
    )
    out: list[Sight] = list(map(Sight._make, rows))
    for row, record in part.records.items():
        out[row] = sight_of(record)
    return out


def keys(part: Part) -> Iterator[tuple[int, bytes]]:
    """It gives the rows of planned documents, and their keys without collection prefix."""
    header = part.header
    rows = np.concatenate([group.rows for group in part.groups if group.plan.message.collection_key] or [_NO_ROWS])
    start = part.start[rows] + HEADER_LENGTH + header.framing[rows] + header.extras[rows]
    size = np.where(part.collections[rows] == YES, prefixes(part.view, start, header.key[rows]).size, 0)
    ends = (start + header.key[rows]).tolist()
    for row, begin, end in zip(rows.tolist(), (start + size).tolist(), ends, strict=True):
        yield row, part.data[begin:end]


_NO_ROWS = np.zeros(0, np.int64)


def with_losses(part: Part, seen: list[Sight], lost: list[Lost]) -> list[Lost]:
    """It marks in ``seen`` losses of unknown size, which no frame's ``gap_before`` tells; gives those yet to come.

    A loss stands before the first frame of its direction that begins behind it.
    """
    later: list[Lost] = []
    places = {(ends.connection, ends.direction): number for number, ends in enumerate(part.places)}
    for loss in lost:
        place = places.get((loss.ends.connection, loss.ends.direction))
        if place is None:
            later.append(loss)
            continue
        after = np.flatnonzero((part.place == place) & (part.offset >= loss.gap.offset))
        if not len(after):
            later.append(loss)
            continue
        row = int(after[0])
        if not seen[row].gap_before:
            seen[row] = seen[row]._replace(gap_before=loss.gap.length or UNKNOWN_LOSS)
    return later


def _stream_ids(part: Part) -> Any:
    """It gives the stream ids, 0 where there is none."""
    framing = part.header.framing
    if not framing.any():
        return repeat(0)
    ids: Array = np.where(framing > 0, part.stream_id, 0)
    return ids.tolist()


_RESPONSE = np.array([value in MAGICS and MAGICS[value].response for value in range(256)])
_SERVER = np.array([value in MAGICS and MAGICS[value].server for value in range(256)])


class Ended(NamedTuple):
    """A direction of a connection ended."""

    connection: int
    direction: int
    reason: str
    ts_ns: int | None


class Watching(Dissection):
    """A dissection that also keeps how its connections ended, to be taken away by its owner."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False) -> None:
        super().__init__(limits, show_secrets=show_secrets)
        self.ended: list[Ended] = []

    def _take(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            if isinstance(event, End) and event.reason in _ENDS:
                self.ended.append(Ended(connection.number, direction, event.reason, event.seen.ts_ns))
        return super()._take(deliveries)


_ENDS = frozenset({"fin", "rst", "reused"})


class Feed:
    """It feeds a ledger with what a dissection gives, part by part, losses and ends included."""

    def __init__(self, dissection: Watching, ledger: Ledger, *, documents: bool = False) -> None:
        self._dissection = dissection
        self._ledger = ledger
        self._documents = documents
        self._lost: list[Lost] = []
        self._order = Order()
        self._latest = NO_TIME

    def sights(self, parts: Sequence[Part]) -> list[Sight]:
        """It takes the parts that one block completed, and gives the sights that the ledger is to be fed with next."""
        found: list[Sight] = []
        in_order = True
        self._lost += self._dissection.gaps
        self._dissection.gaps.clear()
        for part in parts:
            for ends in part.places:
                self._ledger.meet(ends.connection, ends.direction, ends.src, ends.dst)
            seen = sights(part, documents=self._documents)
            if self._lost:
                self._lost = with_losses(part, seen, self._lost)
            found += seen
            if len(part):
                in_order &= bool(part.ts_ns[0] >= self._latest and (np.diff(part.ts_ns) >= 0).all())
                self._latest = max(self._latest, int(part.ts_ns.max()))
        return self._order.feed(found, waiting=self._dissection.balance.pending_bytes > 0, in_order=in_order)

    def rest(self) -> list[Sight]:
        """It gives the sights that still wait for others, once there are no more parts."""
        return self._order.close()

    @property
    def losses(self) -> list[Lost]:
        """What was lost and no frame followed."""
        return [*self._lost, *self._dissection.gaps]

    def pause(self, now_ns: int) -> None:
        """It tells the ledger who has left and what time it is, so that it can be judged before it is closed."""
        for ended in self._dissection.ended:
            self._ledger.end(*ended)
        self._dissection.ended.clear()
        self._ledger.close(now_ns)

    def close(self, until_ns: int | None = None, last_ns: int | None = None) -> None:
        """It tells the ledger of losses that no frame followed and of ends, up to a time, and closes it.

        ``last_ns``: the time of the last packet, which may be none of a frame.
        """

        def counts(ts_ns: int | None) -> bool:
            return until_ns is None or ts_ns is None or ts_ns <= until_ns

        for ends, gap in self.losses:
            if counts(gap.seen.ts_ns):
                self._ledger.lose(ends.connection, ends.direction, gap.length, gap.seen.ts_ns)
        for ended in self._dissection.ended:
            if counts(ended.ts_ns):
                self._ledger.end(*ended)
        self._ledger.close(last_ns if until_ns is None or last_ns is None else min(last_ns, until_ns))


class Rates:
    """Messages of streams over time: counted in steps that double where there are too many of them."""

    def __init__(self) -> None:
        self._shift = 20  # of ns: about a millisecond
        self._counts: dict[tuple[int, int], Counter[int]] = {}

    def feed(self, part: Part) -> None:
        """It counts the messages of a part."""
        header = part.header
        rows = np.flatnonzero(_COUNTED[header.opcode] & ~_RESPONSE[header.magic] & (part.ts_ns != NO_TIME))
        if not len(rows):
            return
        while int(part.ts_ns[rows].max() - part.ts_ns[rows].min()) >> self._shift > _STEPS:
            self._double()
        connection = np.array([ends.connection for ends in part.places])[part.place[rows]]
        sid = np.where(header.framing[rows] > 0, part.stream_id[rows], 0)
        whose = connection.astype(np.int64) << 32 | header.word[rows].astype(np.int64) << 16 | sid
        both = np.stack([whose, part.ts_ns[rows] >> self._shift])
        met, counts = np.unique(both, axis=1, return_counts=True)
        for stream, step, count in zip(met[0].tolist(), met[1].tolist(), counts.tolist(), strict=True):
            self._counts.setdefault((stream >> 32, stream & 0xFFFFFFFF), Counter())[step] += count
        steps = [step for counter in self._counts.values() for step in (min(counter), max(counter))]
        while max(steps) - min(steps) > _STEPS:
            self._double()
            steps = [step >> 1 for step in steps]

    def of(self, connection: int, place: int, since_ns: int, until_ns: int, width: int) -> list[int]:
        """It gives the counts of a stream (vbucket << 16 | id) in ``width`` equal steps of a time."""
        out = [0] * width
        length = max(1, until_ns - since_ns + 1)
        for step, count in self._counts.get((connection, place), Counter()).items():
            at = max(since_ns, step << self._shift)
            if at <= until_ns:
                out[(at - since_ns) * width // length] += count
        return out

    def _double(self) -> None:
        self._shift += 1
        for whose, counter in self._counts.items():
            halved: Counter[int] = Counter()
            for step, count in counter.items():
                halved[step >> 1] += count
            self._counts[whose] = halved


_STEPS = 4096  #: of time, at most
_COUNTED = np.array(COUNTED)
