"""Write what differs between two captures: a block a connection for people, rows for programs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple

from dcpdump.clock import clock_in_use
from dcpdump.compare.comparison import (
    Absence,
    ChangedFrame,
    Comparison,
    LastSeqno,
    Latency,
    Linked,
    OnlyFrame,
    latency,
    seqno_of,
)
from dcpdump.compare.documents import Document, DocumentDifferences, Documents, judged
from dcpdump.compare.pairing import Way, direction_of
from dcpdump.escape import safe
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Json
from dcpdump.redact import Redactor, redacted_direction
from dcpdump.render.column import ID, Column, ColumnSet, at, given, of, within
from dcpdump.render.line import message_name
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, nonzero
from dcpdump.spec import find
from dcpdump.streams.wording import span
from dcpdump.text import counted
from dcpdump.wire.frame import magic_of

_NAMES = "AB"


def why(cause: Absence, of: int, lost: int) -> str:
    """Return in words why a frame is in A (0) or B (1) only."""
    mine, other = _NAMES[of], _NAMES[1 - of]
    return {
        Absence.UNACKNOWLEDGED: f"never arrived: the receiver's TCP did not acknowledge it in {mine}'s capture",
        Absence.LOST: f"{other}'s capture lacks {f'{lost:,}' if lost else 'an unknown number of'} bytes there",
        Absence.BEFORE: f"{other}'s capture of the connection begins later",
        Absence.AFTER: f"{other}'s capture of the connection ends before it",
        Absence.OTHERWISE: f"{other} has other frames there",
        Absence.LEFT_OUT: f"{other}'s bytes continue without it",
    }[cause]


_TOTALS = {
    "both": "in both",
    "only_a": "only in A",
    "only_b": "only in B",
    "changed": "changed",
    "moved": "in another order",
}


_Timed = tuple[int, OnlyFrame | ChangedFrame, Any]


def _timed(frames: Iterable[tuple[Any, OnlyFrame | ChangedFrame]], ahead: int) -> Iterator[_Timed]:
    """Yield frames, each with the time of its row by A's clock; never before that of the frame ahead of it."""
    latest = NO_TIME
    for row, frame in frames:
        if row["ts"] != NO_TIME:
            latest = max(latest, int(row["ts"]) - ahead)
        yield latest, frame, row


def _precise(ns: int) -> str:
    """Return a duration to the microsecond."""
    return f"{ns / 1_000_000:.3f} ms" if ns < 1_000_000_000 else f"{ns / 1_000_000_000:,.6f} s"


def _name(row: Any) -> str:
    opcode, magic = int(row["opcode"]), magic_of(int(row["magic"]))
    return message_name(find(opcode), opcode, response=magic.response)


def _vbucket(row: Any) -> int | None:
    opcode, magic = int(row["opcode"]), magic_of(int(row["magic"]))
    word = int(row["vbucket_or_status"])
    return word if not magic.response and (find(opcode).streamed or word) else None


# -- the columns of what differs ----------------------------------------------------------------------


class _WayRow(NamedTuple):
    """A direction of a connection that both captures have."""

    src: str
    dst: str
    way: Way
    times: Latency | None  #: on the way between the captures, where the offset of their clocks is known


_W = Column[_WayRow]
WAYS = ColumnSet[_WayRow](
    _W(head="direction", text=lambda row: f"  {row.src} → {row.dst}"),
    *of("src dst"),
    *of("=median:median", "times", shown=span, right=True),
    *of("=p99:p99", "times", shown=span, right=True, drop_rank=1),
    *of("both=way.equal:both"),
    _W("only_a", lambda row: len(row.way.only[0][0]), "only A"),
    _W("only_b", lambda row: len(row.way.only[1][0]), "only B"),
    *of("=moved:moved", "way", shown=nonzero, right=True, drop_rank=2),
    _W("changed", lambda row: len(row.way.changed), "changed"),
    *of("moved=way.moved"),
    _W("later_us?", lambda row: None if row.way.later is None else row.way.later.p50 // 1000),
    _W(
        "p50?",
        lambda row: None if row.times is None else row.times.median // 1000,
        meaning="microseconds on the way between the captures: half are not above it",
    ),
    _W(
        "p99?",
        lambda row: None if row.times is None else row.times.p99 // 1000,
        meaning="microseconds on the way: ninety-nine hundredths are not above it",
    ),
)


#: A connection that both captures have.
CONNECTION = ColumnSet[Json](
    *given("connection other_connection src dst other_src other_dst"),
    Column("ways", itemgetter("ways"), columns=WAYS),
    *given("clock_offset_us? clock_spread_us?"),
    type="connection",
)

_S = Column[tuple[Linked, LastSeqno]]
STREAMS = ColumnSet[tuple[Linked, LastSeqno]](
    *of("connection=0.pair.a"),
    _S("vbucket", lambda row: row[1].vbucket, "vb", lambda row: f"  {row[1].vbucket}"),
    _S("stream_id?", lambda row: row[1].stream_id or None, "stream id"),
    _S("last_seqno_a?", lambda row: row[1].a, "A's last seqno", lambda row: _or_none(row[1].a)),
    _S("last_seqno_b?", lambda row: row[1].b, "B's last seqno", lambda row: _or_none(row[1].b)),
    type="stream",
)


def _or_none(seqno: int | None) -> str:
    return "none" if seqno is None else str(seqno)


class _FrameRow(NamedTuple):
    """A frame that one capture has, or that both have and that differs."""

    linked: Linked
    frame: OnlyFrame | ChangedFrame
    row: Any  #: what was kept of it; of one that both captures have, in A


_F = Column[_FrameRow]


def _evidence(each: _FrameRow) -> str:
    frame = each.frame
    if isinstance(frame, OnlyFrame):
        return why(frame.cause, frame.of, frame.lost)
    text = f"frame {int(frame.b['frame'])} of B differs in {', '.join(frame.differs)}"
    return text + (
        f": bytes of it were not captured in {' and '.join(frame.incomplete_in)}" if frame.incomplete_in else ""
    )


def _time(row: Any) -> int | None:
    return None if int(row["ts"]) == NO_TIME else int(row["ts"])


_ROW = within(
    "row",
    (
        Column[Any]("frame", lambda row: int(row["frame"]), "frame", type=ID),
        Column("time?", _time, "time", shown=lambda ts_ns: clock_in_use().row(ts_ns, short=True), drop_rank=1),
        Column("name", lambda row: find(int(row["opcode"])).name, meaning="the name of the message"),
        Column(head="message", text=_name, drop_rank=2),
        Column("opcode", lambda row: int(row["opcode"])),
        Column("kind", lambda row: "response" if magic_of(int(row["magic"])).response else "request"),
        Column("vbucket?", _vbucket, "vb"),
        Column("seqno?", seqno_of, "seqno", type=ID),
        Column("length", lambda row: int(row["length"])),
    ),
)
#: Frames that differ, of either kind.
FRAMES = ColumnSet[_FrameRow](
    _F(head="in", text=lambda each: _NAMES[each.frame.of] if isinstance(each.frame, OnlyFrame) else "both"),
    *_ROW,
    _F(head="evidence", text=_evidence),
)
ONLY = ColumnSet[Any](  # of rows whose frame only one capture has
    Column("only_in", lambda each: _NAMES[each.frame.of]),
    Column("connection", lambda each: each.frame.direction_id >> 1),
    *_ROW,
    *of("cause=frame.cause.value", meaning="the code of the evidence"),
    Column("why", _evidence),
    *of("lost_bytes??=frame.lost"),
    type="frame",
)
CHANGED = ColumnSet[Any](  # of rows whose frame both captures have
    *of("connection=linked.pair.a"),
    Column("other_frame", lambda each: int(each.frame.b["frame"])),
    *_ROW,
    *of("differs=frame.differs"),
    Column("whole?", lambda each: False if each.frame.incomplete_in else None),
    type="changed",
)


#: A connection that only one of the captures has.
ALONE = ColumnSet[Json](*given("only_in connection src dst frames"), type="alone")
TOTAL = ColumnSet[Json](
    *given("equal both only_a only_b changed moved"),
    replace(*given("connections"), meaning="how many connections both captures have"),
    type="total",
)


# -- a comparison by frames -------------------------------------------------------------------------


class DiffRows:
    """The rows of a comparison, for people and for programs."""

    def __init__(self, found: Comparison, redactor: Redactor | None, most: int) -> None:
        self._found, self._redactor, self._most = found, redactor, most
        clocks = (each.clock for each in found.linked if each.clock is not None)
        self._clock = max(clocks, key=lambda each: each.frames, default=None)  #: that rests on most frames

    @property
    def differs(self) -> bool:
        """Return whether any frame differs."""
        return self._found.differs

    @property
    def remark(self) -> tuple[str, str] | None:
        """Return what to say of captures that have nothing to compare, and what to try."""
        if not self._found.unrelated:
            return None
        what = "these look like captures of different connections: no change of a document is in both"
        return what, "dcpdump conns lists the connections of a capture; --by key compares documents of any connections"

    # -- for people -------------------------------------------------------------------------------------

    def lines(self) -> "Iterator[Line | Fitting]":
        """Yield a block for each connection, those that differ with their frames; the total last."""
        found = self._found
        for each in found.linked:
            yield Line(LineKind.ORIGIN, self._who(each))
            yield Line(LineKind.PLAIN, f"  clocks: {self._clock_text(each)}")
            yield WAYS.table(self._ways(each))
            yield from self._details(each)
            yield Line(LineKind.PLAIN, "")
        for side in (0, 1):
            for unpaired in found.unpaired[side]:
                where = f"{_NAMES[side]} c{unpaired} {self._between(side, unpaired)}"
                frames = counted(found.sides[side].frames_of(unpaired), "frame")
                yield Line(LineKind.PROBLEM, f"{where}: only in {_NAMES[side]}, {frames}")
        yield self.total()

    def total(self) -> Line:
        """Return in one line whether the captures differ."""
        found = self._found
        total = self._totals()
        pairs = counted(len(found.linked), "connection") + " in both"
        if not found.differs:
            return Line(LineKind.GOOD, f"no difference: {counted(total['both'], 'frame')}, {pairs}")
        parts = [f"{total[name]:,} {text}" for name, text in _TOTALS.items() if total[name] or name == "both"]
        unpaired = [
            f"{counted(len(numbers), 'connection')} only in {_NAMES[of]}"
            for of, numbers in enumerate(found.unpaired)
            if numbers
        ]
        return Line(LineKind.PROBLEM, f"frames: {', '.join(parts)} · {', '.join([pairs, *unpaired])}")

    def _who(self, each: Linked) -> str:
        mine, other = self._between(0, each.pair.a), self._between(1, each.pair.b)
        here, there = f"A c{each.pair.a}", f"B c{each.pair.b}"
        return f"{here} = {there}  {mine}" if mine == other else f"{here} {mine} = {there} {other}"

    def _between(self, of: int, number: int) -> str:
        return " → ".join(self._ends(of, number))

    def _ends(self, of: int, number: int) -> tuple[str, str]:
        direction = redacted_direction(direction_of(self._found.sides[of], number), self._redactor)
        return direction.src, direction.dst

    def _clock_text(self, each: Linked) -> str:
        found = each.clock or self._clock
        if found is None:
            later = next((way.later for way in each.ways if way.later is not None), None)
            if later is None:
                return "no frame with a time is in both"
            how = f"{span(abs(later.p50))} {'later' if later.p50 >= 0 else 'earlier'} in B"
            return f"frames are {how} (median); of one direction alone, offset and latency cannot be separated"
        offset = f"{_precise(abs(found.offset))} {'ahead of' if found.offset >= 0 else 'behind'}"
        of = "" if each.clock is not None else ", by another connection"
        return f"B's is {offset} A's ± {span(found.spread)}{of}"

    def _ways(self, each: Linked) -> list[_WayRow]:
        """Return both directions of a connection."""
        (src, dst), found = self._ends(0, each.pair.a), each.clock or self._clock
        rows = []
        for direction, way in enumerate(each.ways):
            times = None if found is None or way.later is None else latency(way.later, found, direction)
            rows.append(_WayRow(src, dst, way, times) if direction == 0 else _WayRow(dst, src, way, times))
        return rows

    def _details(self, each: Linked) -> "Iterator[Line | Fitting]":
        streams = [(each, last) for way in each.ways for last in self._found.last_seqnos(way)]
        if streams:
            yield Line(LineKind.TITLE, f"  {counted(len(streams), 'stream')} whose last seqno differs")
            yield STREAMS.table(streams[: self._most])
        frames = list(islice(self._frames(each), self._most))
        if frames:
            yield Line(LineKind.TITLE, "  frames that differ")
            yield FRAMES.table(frames)
        count = sum(len(way.changed) + sum(len(rows) for rows, _ in way.only) for way in each.ways)
        if count > self._most:
            yield Line(LineKind.PLAIN, f"  {count - self._most:,} more: --frames N, or -f ndjson for all")

    def _frames(self, each: Linked) -> Iterator[_FrameRow]:
        """Yield the frames of both directions that differ in order of time, by A's clock."""
        clock = each.clock or self._clock
        parts: list[Iterator[_Timed]] = []
        for way in each.ways:
            ahead = clock.offset if clock is not None else way.later.p50 if way.later is not None else 0
            parts.append(_timed(((only.row, only) for only in self._found.only(way, 0)), 0))
            parts.append(_timed(((only.row, only) for only in self._found.only(way, 1)), ahead))
            parts.append(_timed(((both.a, both) for both in self._found.changed(way)), 0))
        return (_FrameRow(each, frame, row) for _, frame, row in merge(*parts, key=itemgetter(0)))

    # -- for programs -----------------------------------------------------------------------------------

    def objects(self) -> Iterator[Json]:
        """Yield all that differs as objects; the total last."""
        found = self._found
        for each in found.linked:
            yield CONNECTION.object(self._connection(each))
            yield from (STREAMS.object((each, last)) for way in each.ways for last in found.last_seqnos(way))
            for frame in self._frames(each):
                yield (CHANGED if isinstance(frame.frame, ChangedFrame) else ONLY).object(frame)
        for side in (0, 1):
            for unpaired in found.unpaired[side]:
                src, dst = self._ends(side, unpaired)
                row = {"only_in": _NAMES[side], "connection": unpaired, "src": src, "dst": dst}
                yield ALONE.object(row | {"frames": found.sides[side].frames_of(unpaired)})
        yield TOTAL.object({**self._totals(), "equal": not found.differs, "connections": len(found.linked)})

    def _connection(self, each: Linked) -> Json:
        (src, dst), other, clock = self._ends(0, each.pair.a), self._ends(1, each.pair.b), each.clock or self._clock
        row: Json = {"connection": each.pair.a, "other_connection": each.pair.b, "ways": self._ways(each)}
        row |= {"src": src, "dst": dst, "other_src": other[0], "other_dst": other[1]}
        if clock is None:
            return row
        return row | {"clock_offset_us": clock.offset // 1000, "clock_spread_us": clock.spread // 1000}

    def _totals(self) -> dict[str, int]:
        out = dict.fromkeys(_TOTALS, 0)
        for each in self._found.linked:
            for way in each.ways:
                counts = way.equal, *(len(rows) for rows, _ in way.only), len(way.changed), way.moved
                for name, count in zip(_TOTALS, counts, strict=True):
                    out[name] += count
        for side, name in enumerate(("only_a", "only_b")):
            out[name] += sum(self._found.sides[side].frames_of(number) for number in self._found.unpaired[side])
        return out


# -- which documents differ: their last changes -------------------------------------------------------


class _DocumentRow(NamedTuple):
    """A document as A and B have it."""

    a: Document | None
    b: Document | None
    key: str
    unknown: str  #: why it cannot be known whether it differs; empty where it does

    @property
    def one(self) -> Document:
        """Return it as one of them has it, A if it does."""
        found = self.a or self.b
        assert found is not None
        return found

    @property
    def only_in(self) -> str | None:
        """Return which capture has it, where only one does."""
        return "B" if self.a is None else "A" if self.b is None else None

    @property
    def differs(self) -> list[str] | None:
        """Return what differs between its last changes, where both captures have it."""
        if self.a is None or self.b is None:
            return None
        names = ("message", "seqno", "cas", "value")
        return [name for name in names if getattr(self.a, name) != getattr(self.b, name)]

    @property
    def text(self) -> str:
        """Return what differs, in words."""
        return self.unknown or ", ".join(self.differs or [f"only in {self.only_in}"])


_CAS = "0x{:016x}".format
_D = Column[_DocumentRow]
DOCUMENT = ColumnSet[_DocumentRow](
    *of("vbucket=one.vbucket:vb"),
    *of("collection=one.collection:collection", shown=hex, drop_rank=3),
    *of("key:key only_in?"),
    *of("differs?", meaning="what differs: message, seqno, cas, value"),
    _D(
        "cause?",
        lambda row: Absence.LOST.value if row.unknown else None,
        meaning="lost: it cannot be known whether the document differs",
    ),
    *of("why??=unknown"),
    _D(get=at("a.seqno"), head="A's seqno", type=ID),
    _D(get=at("b.seqno"), head="B's seqno", type=ID),
    *of("last_seqno_a?=seqno", "a"),
    _D("cas_a?", at("a.cas"), "A's CAS", shown=_CAS, drop_rank=1),
    *of("name_a?=a.message frame?=a.frame last_seqno_b?=b.seqno"),
    _D("cas_b?", at("b.cas"), "B's CAS", shown=_CAS, drop_rank=2),
    *of("name_b?=b.message other_frame?=b.frame"),
    _D(head="differs", text=lambda row: row.text),
    type="document",
)
_COUNTS = {
    "both": "whose last change is the same in both captures",
    "only_a": "that only A has",
    "only_b": "that only B has",
    "changed": "whose last change differs",
    "unknown?": "of which it cannot be known, as bytes were not captured",
}
DOCUMENTS = ColumnSet[Json](
    *given("equal"),
    *(replace(*given(key), meaning=f"documents {text}") for key, text in _COUNTS.items()),
    type="documents",
)
#: The rows of a comparison.
DIFF: tuple[ColumnSet[Any], ...] = (CONNECTION, STREAMS, ONLY, CHANGED, ALONE, TOTAL, DOCUMENT, DOCUMENTS)


class DocumentRows:
    """The documents that differ between two captures, and those of which losses forbid to say so."""

    def __init__(self, a: Documents, b: Documents, redactor: Redactor | None, most: int) -> None:
        self._a, self._b, self._redactor, self._most = a, b, redactor, most
        only_a, only_b, differ, self._equal = a.against(b)
        self._known, self._unknown = judged(a, b, DocumentDifferences(differ, only_a, only_b))

    @property
    def differs(self) -> bool:
        """Return whether any document is known to differ."""
        return bool(len(self._known))

    @property
    def remark(self) -> tuple[str, str] | None:
        """Return what to say of captures that have no document in common, and what to try."""
        known = self._known
        if self._equal or len(self._unknown) or len(known.differ) or not (len(known.only_a) and len(known.only_b)):
            return None
        return "no document is in both captures", "dcpdump stats shows the vbuckets and messages of a capture"

    def lines(self) -> "Iterator[Line | Fitting]":
        """Yield the documents that differ, those in both captures first, then what cannot be known, and the total."""
        rows = list(islice(self._rows(), self._most))
        if rows:
            yield DOCUMENT.table(rows)
        count = len(self._known) + len(self._unknown)
        if count > self._most:
            yield Line(LineKind.PLAIN, f"{count - self._most:,} more: --frames N, or -f ndjson for all")
        both = counted(self._equal, "document")
        if not count:
            yield Line(LineKind.GOOD, f"no difference: the last change of {both} is the same in both")
            return
        parts = [f"{both} equal", f"{len(self._known.differ):,} changed"]
        only = zip(_NAMES, (self._known.only_a, self._known.only_b), strict=True)
        parts += [f"{len(rows):,} only in {name}" for name, rows in only]
        parts += [f"{len(self._unknown):,} not known, as bytes were not captured"] * bool(len(self._unknown))
        yield Line(LineKind.PROBLEM, "documents by their last change: " + ", ".join(parts))

    def objects(self) -> Iterator[Json]:
        """Yield the documents that differ as objects, and the total."""
        yield from map(DOCUMENT.object, self._rows())
        known = self._known
        counts = {"both": self._equal, "only_a": len(known.only_a), "only_b": len(known.only_b)}
        counts |= {"changed": len(known.differ)} | ({"unknown": len(self._unknown)} if len(self._unknown) else {})
        yield DOCUMENTS.object({"equal": not (len(known) or len(self._unknown)), **counts})

    def _rows(self) -> Iterator[_DocumentRow]:
        """Yield documents as A and B have them, those that are known to differ first."""
        for rows, known in ((self._known, True), (self._unknown, False)):
            pairs = ((self._a.document(int(a)), self._b.document(int(b))) for a, b in rows.differ)
            only_a = ((self._a.document(int(row)), None) for row in rows.only_a)
            only_b = ((None, self._b.document(int(row))) for row in rows.only_b)
            for a, b in chain[tuple[Document | None, Document | None]](pairs, only_a, only_b):
                one = a or b
                assert one is not None
                yield _DocumentRow(a, b, self._key(one.key), "" if known else self._why(a, b, one.vbucket))

    def _key(self, key: bytes) -> str:
        return safe(key if self._redactor is None else self._redactor.hash(key))

    def _why(self, a: Document | None, b: Document | None, vbucket: int) -> str:
        """Return why it cannot be known whether a document differs."""
        name, side = ("A", self._a) if a is None or (b is not None and a.seqno < b.seqno) else ("B", self._b)
        return f"cannot be known: {name}'s capture {side.losses.text(vbucket)}"
