"""Feed: parts of frames in, sights out, in the order of the frames. The ledger's only door to columns."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dcpdump.columnar.block import NO_TIME
from dcpdump.columnar.dissection import Dissection, Lost
from dcpdump.columnar.key import prefixes
from dcpdump.columnar.later import Later
from dcpdump.columnar.part import YES, Part
from dcpdump.columnar.plan import Array, Group
from dcpdump.net.connections import Delivery
from dcpdump.net.event import End
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.spec.names import JSON
from dcpdump.streams.burst import Burst, Close
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.order import Order
from dcpdump.streams.sight import OWN_SEQNO, UNKNOWN_LOSS, Shape, Sight, shape_of, sight_of
from dcpdump.streams.window import COUNTED

_NOTHING = Shape("", (), {}, -1)
#: Messages that are nearly all of a capture: their fields are given only to who asks for them.
_MARKER, _MUTATION = 0x56, 0x57
_IN_ORDER = (_MUTATION, 0x58, 0x59)
_DOCUMENTS = frozenset(_IN_ORDER)


_NO_LOSSES: Mapping[int, int] = MappingProxyType({})
_NO_ROWS = np.zeros(0, np.int64)


def sights(part: Part, *, documents: bool = True, rows: Array | None = None) -> list[Sight]:
    """It gives the sights of a part, or of some of its rows.

    ``documents``: mutations, deletions and expirations have their fields too (their seqno is there in any case).
    """
    everything = rows is None
    rows = np.arange(len(part)) if rows is None else rows
    count, header = len(rows), part.header
    fields: list[Any] = [()] * count
    shapes: list[Any] = [_NOTHING] * count
    seqnos: list[Any] = [None] * count
    at = np.full(len(part), -1)
    at[rows] = np.arange(count)
    for group in part.groups:
        plan, shape = group.plan, shape_of(group.plan.layout)
        places, mine = at[group.rows], np.arange(len(group.rows))
        if not everything:
            mine = np.flatnonzero(places >= 0)
            places = places[mine]
        tuples: Any = repeat(())
        if documents or plan.message.opcode not in _DOCUMENTS:
            tuples = group.extras[mine].tolist() if group.extras.dtype.names else repeat(())
            if group.value is not None:
                tuples = [extras + value for extras, value in zip(tuples, group.value[mine].tolist(), strict=False)]
        own = next((name for name in OWN_SEQNO if plan.has(name)), None)
        brought: Any = group.column(own)[mine].tolist() if own is not None else repeat(None)
        if len(mine) == count and own is not None and not isinstance(tuples, repeat):
            fields, seqnos, shapes = tuples, brought, [shape] * count
            break
        for place, values, seqno in zip(places.tolist(), tuples, brought, strict=False):
            fields[place] = values
            seqnos[place] = seqno
            shapes[place] = shape
    times: list[Any] = part.ts_ns[rows].tolist()
    if (part.ts_ns[rows] == NO_TIME).any():
        times = [None if time == NO_TIME else time for time in times]
    key_at = (part.start + HEADER_LENGTH + header.framing + header.extras)[rows]
    whole = np.ones(len(part), bool)
    whole[list(part.odd)] = False
    place, magic = part.place[rows], header.magic[rows]
    columns = zip(
        (part.first + rows).tolist(),
        times,
        np.array([ends.connection for ends in part.places])[place].tolist(),
        np.array([ends.direction for ends in part.places])[place].tolist(),
        magic.tolist(),
        header.opcode[rows].tolist(),
        _RESPONSE[magic].tolist(),
        _SERVER[magic].tolist(),
        header.word[rows].tolist(),
        header.opaque[rows].tolist(),
        header.cas[rows].tolist(),
        header.datatype[rows].tolist(),
        part.length[rows].tolist(),
        _stream_ids(part)[rows].tolist(),
        seqnos,
        shapes,
        fields,
        repeat(part.data),
        key_at.tolist(),
        (key_at + header.key[rows]).tolist(),
        np.maximum(header.value[rows], 0).tolist(),
        part.gap_before[rows].tolist(),
        whole[rows].tolist(),
        (part.weak[rows] != 0).tolist(),
        repeat(None),
        strict=False,
    )
    out: list[Sight] = list(map(Sight._make, columns))
    for row, record in part.records.items():
        if at[row] >= 0 and not isinstance(record, Later):
            out[at[row]] = sight_of(record)
    return out


def steps(part: Part, *, closely: int = 0, losses: Mapping[int, int] = _NO_LOSSES) -> list[Sight | Burst]:
    """It gives the sights of a part, documents of one stream that follow one another as bursts.

    ``closely``: only plain mutations, with a closer look at them; each frame whose number is a multiple of this
    stands alone, as does the first of a snapshot. ``losses``: rows, and what was lost before them.
    """
    count, header = len(part), part.header
    document, seqno = np.zeros(count, bool), np.zeros(count, np.uint64)
    for group in part.groups:
        opcode = group.plan.message.opcode
        if opcode in _DOCUMENTS:
            document[group.rows] = _plain(group) if closely else True
            seqno[group.rows] = group.column("by_seqno")
    document &= (part.weak == 0) & (part.gap_before == 0) & (part.ts_ns != NO_TIME)
    document[list(losses)] = False
    if closely:
        opens = np.concatenate(([False], header.opcode[:-1] == _MARKER))
        document &= (header.datatype <= JSON) & ~opens & ((np.arange(count) + part.first) % closely != 0)
    stream_id = _stream_ids(part)
    goes_on = document[1:] & document[:-1]
    for column in (part.place, header.word, header.opaque, stream_id):
        goes_on &= column[1:] == column[:-1]
    begins = np.flatnonzero(np.concatenate(([True], ~goes_on))) if count else _NO_ROWS
    ends = np.append(begins[1:], count)
    burst = ends - begins > 1
    single = sights(part, documents=bool(closely), rows=begins[~burst])
    for row, length in losses.items():
        at = int(np.searchsorted(begins[~burst], row))
        single[at] = single[at]._replace(gap_before=length)
    if not burst.any():
        return list(single)
    alone = iter(single)
    kinds: list[Array] = []
    for opcode in _IN_ORDER:
        mine = header.opcode == opcode
        kinds += [np.add.reduceat(mine, begins, dtype=np.int64), np.add.reduceat(part.length * mine, begins)]
    columns = (
        burst,
        begins,
        ends,
        np.array([each.connection for each in part.places])[part.place[begins]],
        np.array([each.direction for each in part.places])[part.place[begins]],
        header.word[begins],
        header.opaque[begins],
        stream_id[begins],
        np.add.reduceat(part.length, begins),
        part.ts_ns[ends - 1],
        seqno[begins],
        seqno[ends - 1],
        np.maximum.reduceat(seqno, begins),
        *kinds,
    )
    look = _closely(part, seqno, begins, ends) if closely else None
    out: list[Sight | Burst] = []
    for is_burst, begin, end, *facts in zip(*(column.tolist() for column in columns), strict=True):
        if is_burst:
            told = tuple(zip(_IN_ORDER, facts[-6::2], facts[-5::2], strict=True))
            close = next(look) if look is not None else None
            out.append(Burst._make((end - begin, *facts[:-6], told, partial(_each, part, begin, end), close)))
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


def _closely(part: Part, seqno: Array, begins: Array, ends: Array) -> Iterator[Close]:
    """It looks closely at bursts, those between ``begins`` and ``ends`` of more than one frame."""
    header = part.header
    key_at = part.start + HEADER_LENGTH + header.framing + header.extras
    value_at = key_at + header.key
    texts_end = (value_at + np.where(header.datatype == JSON, header.value, 0)).tolist()
    sound = prefixes(part.view, key_at, header.key).sound
    falls = np.concatenate(([False], seqno[1:] <= seqno[:-1]))
    pauses = np.diff(part.ts_ns, prepend=part.ts_ns[:1])
    falls[begins], pauses[begins] = False, 0
    columns = (
        begins,
        ends,
        part.ts_ns[begins],
        np.maximum.reduceat(pauses, begins),
        ~np.logical_or.reduceat(falls, begins),
        np.logical_and.reduceat(sound, begins),
    )
    keys_at, values_at, seqnos, data = key_at.tolist(), value_at.tolist(), seqno.tolist(), part.data
    for begin, end, first_ns, pause_ns, rising, all_sound in zip(*(each.tolist() for each in columns), strict=True):
        if end - begin > 1:
            values = values_at[begin:end]
            keys = [data[at:to] for at, to in zip(keys_at[begin:end], values, strict=True)]
            texts = [data[at:to] for at, to in zip(values, texts_end[begin:end], strict=True) if to > at]
            yield Close(part.first + begin, first_ns, pause_ns, rising, all_sound, seqnos[begin:end], keys, texts)


def _each(part: Part, begin: int, end: int) -> list[Sight]:
    return sights(part, rows=np.arange(begin, end))


def keys(part: Part) -> Iterator[tuple[int, bytes]]:
    """It gives the rows of planned documents, and their keys without collection prefix."""
    header = part.header
    rows = np.concatenate([group.rows for group in part.groups if group.plan.message.collection_key] or [_NO_ROWS])
    start = part.start[rows] + HEADER_LENGTH + header.framing[rows] + header.extras[rows]
    size = np.where(part.collections[rows] == YES, prefixes(part.view, start, header.key[rows]).size, 0)
    ends = (start + header.key[rows]).tolist()
    for row, begin, end in zip(rows.tolist(), (start + size).tolist(), ends, strict=True):
        yield row, part.data[begin:end]


def with_losses(part: Part, seen: list[Sight], lost: list[Lost]) -> list[Lost]:
    """It marks in ``seen`` losses of unknown size, which no frame's ``gap_before`` tells; gives those yet to come."""
    found, later = losses_in(part, lost)
    for row, length in found.items():
        seen[row] = seen[row]._replace(gap_before=length)
    return later


def losses_in(part: Part, lost: list[Lost]) -> tuple[dict[int, int], list[Lost]]:
    """It gives the rows before which bytes were lost that their ``gap_before`` does not tell, and how many.

    With it, the losses yet to come. A loss stands before the first frame of its direction that begins behind it.
    """
    found: dict[int, int] = {}
    later: list[Lost] = []
    places = {(ends.connection, ends.direction): number for number, ends in enumerate(part.places)}
    for loss in lost:
        place = places.get((loss.ends.connection, loss.ends.direction))
        after = _NO_ROWS
        if place is not None:
            after = np.flatnonzero((part.place == place) & (part.offset >= loss.gap.offset))
        if not len(after):
            later.append(loss)
        elif not part.gap_before[after[0]]:
            found.setdefault(int(after[0]), loss.gap.length or UNKNOWN_LOSS)
    return found, later


def _stream_ids(part: Part) -> Array:
    """It gives the stream ids, 0 where there is none."""
    framing = part.header.framing
    if not framing.any():
        return np.zeros(len(part), np.int64)
    return np.where(framing > 0, part.stream_id, 0)


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

    def __init__(self, dissection: Watching, ledger: Ledger, *, closely: int = 0) -> None:
        self._dissection = dissection
        self._ledger = ledger
        self._closely = closely  #: as ``steps`` has it; 0: documents are of no interest but for what they count
        self._lost: list[Lost] = []
        self._order = Order()
        self._latest = NO_TIME

    def sights(self, parts: Sequence[Part]) -> list[Sight]:
        """It takes the parts that one block completed, and gives the sights that the ledger is to be fed with next."""
        return self._sights(parts, self._orderly(parts))

    def steps(self, parts: Sequence[Part]) -> list[Sight | Burst]:
        """It does the same, with bursts where nothing needs to be put in order."""
        in_order = self._orderly(parts)
        if self._order.holds or self._waits or not in_order:
            return list(self._sights(parts, in_order))
        found: list[Sight | Burst] = []
        for part in parts:
            losses, self._lost = losses_in(part, self._lost)
            found += steps(part, closely=self._closely, losses=losses)
        return found

    def _orderly(self, parts: Sequence[Part]) -> bool:
        """It hears of parts, and says whether their times never go back."""
        in_order = True
        self._lost += self._dissection.gaps
        self._dissection.gaps.clear()
        for part in parts:
            for ends in part.places:
                self._ledger.meet(ends.connection, ends.direction, ends.src, ends.dst)
            if len(part):
                in_order &= bool(part.ts_ns[0] >= self._latest and (np.diff(part.ts_ns) >= 0).all())
                self._latest = max(self._latest, int(part.ts_ns.max()))
        return in_order

    def _sights(self, parts: Sequence[Part], in_order: bool) -> list[Sight]:
        found: list[Sight] = []
        for part in parts:
            seen = sights(part, documents=bool(self._closely))
            if self._lost:
                self._lost = with_losses(part, seen, self._lost)
            found += seen
        return self._order.feed(found, waiting=self._waits, in_order=in_order)

    @property
    def _waits(self) -> bool:
        return self._dissection.balance.pending_bytes > 0

    def rest(self) -> list[Sight]:
        """It gives the sights that still wait for others, once there are no more parts."""
        return self._order.close()

    @property
    def losses(self) -> list[Lost]:
        """What was lost and no frame followed."""
        return [*self._lost, *self._dissection.gaps]

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
