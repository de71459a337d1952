"""Write what differs between two captures: a block a connection for people, rows for programs."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from dcpdump.clock import clock_in_use
from dcpdump.compare.comparison import (
    Absence,
    ChangedFrame,
    ClockOffset,
    Comparison,
    LastSeqno,
    Linked,
    OnlyFrame,
    latency,
    seqno_of,
)
from dcpdump.compare.documents import Document, DocumentDifferences, Documents, judged
from dcpdump.compare.pairing import Way, ends_of
from dcpdump.escape import safe
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Json
from dcpdump.redact import Redactor
from dcpdump.render.line import message_name
from dcpdump.render.ndjson import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, Table
from dcpdump.spec import find
from dcpdump.streams.wording import span
from dcpdump.text import counted, iso_time
from dcpdump.wire.frame import magic_of

_NAMES = "AB"
_WAYS = ("direction", "median", "p99", "both", "only A", "only B", "moved", "changed")
_FRAMES = ("in", "frame", "time", "message", "vb", "seqno", "evidence")
_STREAMS = ("vb", "stream id", "A's last seqno", "B's last seqno")
_LEAST_OF_FRAMES = ("time", "message")


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
            yield Line(LineKind.PLACE, self._who(each))
            yield Line(LineKind.PLAIN, f"  clocks: {self._clock_text(each)}")
            yield self._ways(each)
            yield from self._details(each)
            yield Line(LineKind.PLAIN, "")
        for of in (0, 1):
            for number in found.alone[of]:
                where = f"{_NAMES[of]} c{number} {self._between(of, number)}"
                frames = counted(found.frames(of, number), "frame")
                yield Line(LineKind.PROBLEM, f"{where}: only in {_NAMES[of]}, {frames}")
        yield self.total()

    def total(self) -> Line:
        """Return in one line whether the captures differ."""
        found = self._found
        total = self._totals()
        pairs = counted(len(found.linked), "connection") + " in both"
        if not found.differs:
            return Line(LineKind.GOOD, f"no difference: {counted(total['both'], 'frame')}, {pairs}")
        parts = [f"{total[name]:,} {text}" for name, text in _TOTALS.items() if total[name] or name == "both"]
        alone = [
            f"{counted(len(numbers), 'connection')} only in {_NAMES[of]}"
            for of, numbers in enumerate(found.alone)
            if numbers
        ]
        return Line(LineKind.PROBLEM, f"frames: {', '.join(parts)} · {', '.join([pairs, *alone])}")

    def _who(self, each: Linked) -> str:
        mine, other = self._between(0, each.pair.a), self._between(1, each.pair.b)
        here, there = f"A c{each.pair.a}", f"B c{each.pair.b}"
        return f"{here} = {there}  {mine}" if mine == other else f"{here} {mine} = {there} {other}"

    def _between(self, of: int, number: int) -> str:
        return " → ".join(self._ends(of, number))

    def _ends(self, of: int, number: int) -> tuple[str, str]:
        ends = ends_of(self._found.sides[of], number).redacted(self._redactor)
        return ends.src, ends.dst

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

    def _ways(self, each: Linked) -> Table:
        rows = []
        for direction, way in enumerate(each.ways):
            src, dst = self._ends(0, each.pair.a)[:: 1 if direction == 0 else -1]
            times = ("", "")
            found = each.clock or self._clock
            if found is not None and way.later is not None:
                times = tuple(map(span, latency(way.later, found, direction)))  # type: ignore[assignment]
            counts = way.equal, *(len(only) for only, _ in way.only)
            moved = f"{way.moved:,}" if way.moved else ""
            numbers = *(f"{count:,}" for count in counts), moved, f"{len(way.changed):,}"
            rows.append((f"  {src} → {dst}", *times, *numbers))
        return Table(_WAYS, rows, _WAYS[1:], ("p99", "moved"))

    def _details(self, each: Linked) -> "Iterator[Line | Fitting]":
        streams = [(way, last) for way in each.ways for last in self._found.last_seqnos(way)]
        if streams:
            rows = [_stream_cells(last) for _, last in streams[: self._most]]
            yield Line(LineKind.TITLE, f"  {counted(len(streams), 'stream')} whose last seqno differs")
            yield Table(_STREAMS, rows, _STREAMS)
        frames = list(islice(self._frames(each), self._most + 1))
        if frames:
            yield Line(LineKind.TITLE, "  frames that differ")
            yield Table(
                _FRAMES,
                [self._cells(frame) for frame in frames[: self._most]],
                ("frame", "vb", "seqno"),
                _LEAST_OF_FRAMES,
            )
        count = sum(len(way.changed) + sum(len(rows) for rows, _ in way.only) for way in each.ways)
        if count > self._most:
            yield Line(LineKind.PLAIN, f"  {count - self._most:,} more: --frames N, or -f ndjson for all")

    def _frames(self, each: Linked) -> Iterator[OnlyFrame | ChangedFrame]:
        """Yield the frames of both directions that differ in order of time, by A's clock."""
        clock = each.clock or self._clock
        parts: list[Iterator[_Timed]] = []
        for way in each.ways:
            ahead = clock.offset if clock is not None else way.later.p50 if way.later is not None else 0
            parts.append(_timed(((only.row, only) for only in self._found.only(way, 0)), 0))
            parts.append(_timed(((only.row, only) for only in self._found.only(way, 1)), ahead))
            parts.append(_timed(((both.a, both) for both in self._found.changed(way)), 0))
        return (frame for _, frame in merge(*parts, key=itemgetter(0)))

    def _cells(self, frame: OnlyFrame | ChangedFrame) -> tuple[str, ...]:
        if isinstance(frame, ChangedFrame):
            text = f"frame {int(frame.b['frame'])} of B differs in {', '.join(frame.differs)}"
            if frame.torn:
                text += f": bytes of it were not captured in {' and '.join(frame.torn)}"
            return ("both", *_row_cells(frame.a), text)
        return (_NAMES[frame.of], *_row_cells(frame.row), why(frame.cause, frame.of, frame.lost))

    # -- for programs -----------------------------------------------------------------------------------

    def objects(self) -> Iterator[Json]:
        """Yield all that differs as objects; the total last."""
        found = self._found
        for each in found.linked:
            yield self._connection(each)
            for way in each.ways:
                for last in found.last_seqnos(way):
                    yield without_none(
                        {
                            "type": "stream",
                            "connection": each.pair.a,
                            "vbucket": last.vbucket,
                            "stream_id": last.stream_id or None,
                            "last_seqno_a": last.a,
                            "last_seqno_b": last.b,
                        }
                    )
            for frame in self._frames(each):
                yield _changed(each, frame) if isinstance(frame, ChangedFrame) else self._only(frame)
        for of in (0, 1):
            for number in found.alone[of]:
                src, dst = self._ends(of, number)
                row = {"type": "alone", "only_in": _NAMES[of], "connection": number, "src": src, "dst": dst}
                yield row | {"frames": found.frames(of, number)}
        total = self._totals()
        yield {"type": "total", "equal": not found.differs, **total, "connections": len(found.linked)}

    def _connection(self, each: Linked) -> Json:
        src, dst = self._ends(0, each.pair.a)
        other = self._ends(1, each.pair.b)
        found: ClockOffset | None = each.clock or self._clock
        ways = [self._way(each, direction, way, found) for direction, way in enumerate(each.ways)]
        out: Json = {"type": "connection", "connection": each.pair.a, "other_connection": each.pair.b}
        out |= {"src": src, "dst": dst, "other_src": other[0], "other_dst": other[1], "ways": ways}
        if found is not None:
            out |= {"clock_offset_us": found.offset // 1000, "clock_spread_us": found.spread // 1000}
        return out

    def _way(self, each: Linked, direction: int, way: Way, found: ClockOffset | None) -> Json:
        src, dst = self._ends(0, each.pair.a)[:: 1 if direction == 0 else -1]
        out: Json = {"src": src, "dst": dst, **_way_counts(way)}
        if way.later is not None:
            out["later_us"] = way.later.p50 // 1000
            if found is not None:
                times = latency(way.later, found, direction)
                out |= {"p50": times.median // 1000, "p99": times.p99 // 1000}
        return out

    def _only(self, frame: OnlyFrame) -> Json:
        head = {"type": "frame", "only_in": _NAMES[frame.of], "connection": frame.place >> 1}
        tail = {"cause": frame.cause.value, "why": why(frame.cause, frame.of, frame.lost)}
        return head | _row_object(frame.row) | tail | ({"lost_bytes": frame.lost} if frame.lost else {})

    def _totals(self) -> dict[str, int]:
        out = dict.fromkeys(_TOTALS, 0)
        for each in self._found.linked:
            for way in each.ways:
                for name, count in _way_counts(way).items():
                    out[name] += count
        for of, name in enumerate(("only_a", "only_b")):
            out[name] += sum(self._found.frames(of, number) for number in self._found.alone[of])
        return out


_TOTALS = {
    "both": "in both",
    "only_a": "only in A",
    "only_b": "only in B",
    "changed": "changed",
    "moved": "in another order",
}


_Timed = tuple[int, OnlyFrame | ChangedFrame]


def _timed(frames: Iterable[tuple[Any, OnlyFrame | ChangedFrame]], ahead: int) -> Iterator[_Timed]:
    """Yield frames, each with the time of its row by A's clock; never before that of the frame ahead of it."""
    latest = NO_TIME
    for row, frame in frames:
        if row["ts"] != NO_TIME:
            latest = max(latest, int(row["ts"]) - ahead)
        yield latest, frame


def _precise(ns: int) -> str:
    """Return a duration to the microsecond."""
    return f"{ns / 1_000_000:.3f} ms" if ns < 1_000_000_000 else f"{ns / 1_000_000_000:,.6f} s"


def _way_counts(way: Way) -> dict[str, int]:
    only = [len(rows) for rows, _ in way.only]
    return {"both": way.equal, "only_a": only[0], "only_b": only[1], "changed": len(way.changed), "moved": way.moved}


def _stream_cells(last: LastSeqno) -> tuple[str, ...]:
    numbers = ("none" if each is None else str(each) for each in (last.a, last.b))
    return (f"  {last.vbucket}", str(last.stream_id or ""), *numbers)


def _name(row: Any) -> str:
    opcode, magic = int(row["opcode"]), magic_of(int(row["magic"]))
    return message_name(find(opcode), opcode, response=magic.response)


def _vbucket(row: Any) -> int | None:
    opcode, magic = int(row["opcode"]), magic_of(int(row["magic"]))
    word = int(row["word"])
    return word if not magic.response and (find(opcode).streamed or word) else None


def _row_cells(row: Any) -> tuple[str, ...]:
    ts, vbucket, seqno = int(row["ts"]), _vbucket(row), seqno_of(row)
    when = "" if ts == NO_TIME else clock_in_use().row(ts, short=True)
    numbers = ("" if each is None else str(each) for each in (vbucket, seqno))
    return (f"{int(row['frame'])}", when, _name(row), *numbers)


def _row_object(row: Any) -> Json:
    ts = int(row["ts"])
    opcode, magic = int(row["opcode"]), magic_of(int(row["magic"]))
    return without_none(
        {
            "frame": int(row["frame"]),
            "time": None if ts == NO_TIME else iso_time(ts),
            "name": find(opcode).name,
            "opcode": opcode,
            "kind": "response" if magic.response else "request",
            "vbucket": _vbucket(row),
            "seqno": seqno_of(row),
            "length": int(row["length"]),
        }
    )


def _changed(each: Linked, frame: ChangedFrame) -> Json:
    head = {"type": "changed", "connection": each.pair.a, "other_frame": int(frame.b["frame"])}
    return head | _row_object(frame.a) | {"differs": list(frame.differs)} | ({"whole": False} if frame.torn else {})


# -- which documents differ: their last changes -------------------------------------------------------

_HEADS = ("vb", "collection", "key", "A's seqno", "B's seqno", "A's CAS", "B's CAS", "differs")
_RIGHT = ("vb", "collection", "A's seqno", "B's seqno")


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
        rows = [self._cells(a, b, known) for a, b, known in self._pairs(self._most)]
        if rows:
            yield Table(_HEADS, rows, _RIGHT, ("A's CAS", "B's CAS", "collection"))
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
        for a, b, is_known in self._pairs(None):
            yield self._object(a, b, is_known)
        known = self._known
        counts = {"both": self._equal, "only_a": len(known.only_a), "only_b": len(known.only_b)}
        counts |= {"changed": len(known.differ)} | ({"unknown": len(self._unknown)} if len(self._unknown) else {})
        yield {"type": "documents", "equal": not (len(known) or len(self._unknown)), **counts}

    def _pairs(self, most: int | None) -> Iterator[tuple[Document | None, Document | None, bool]]:
        """Yield documents as A and B have them, and whether it is known that they differ."""
        return islice(self._all_pairs(), most)

    def _all_pairs(self) -> Iterator[tuple[Document | None, Document | None, bool]]:
        for rows, known in ((self._known, True), (self._unknown, False)):
            for a, b in rows.differ:
                yield self._a.document(int(a)), self._b.document(int(b)), known
            for row in rows.only_a:
                yield self._a.document(int(row)), None, known
            for row in rows.only_b:
                yield None, self._b.document(int(row)), known

    def _key(self, key: bytes) -> str:
        return safe(key if self._redactor is None else self._redactor.hash(key))

    def _why(self, a: Document | None, b: Document | None) -> str:
        """Return why it cannot be known whether a document differs."""
        one = _one(a, b)
        name, side = ("A", self._a) if a is None or (b is not None and a.seqno < b.seqno) else ("B", self._b)
        return f"cannot be known: {name}'s capture {side.losses.text(one.vbucket)}"

    def _cells(self, a: Document | None, b: Document | None, known: bool) -> tuple[str, ...]:
        one = _one(a, b)
        numbers = ("" if each is None else str(each.seqno) for each in (a, b))
        cas = ("" if each is None else f"0x{each.cas:016x}" for each in (a, b))
        text = f"only in {'A' if b is None else 'B'}" if a is None or b is None else ", ".join(_differing(a, b))
        text = text if known else self._why(a, b)
        return (str(one.vbucket), f"0x{one.collection:x}", self._key(one.key), *numbers, *cas, text)

    def _object(self, a: Document | None, b: Document | None, known: bool) -> Json:
        one = _one(a, b)
        out: Json = {"type": "document", "vbucket": one.vbucket, "collection": one.collection}
        out["key"] = self._key(one.key)
        if a is None or b is None:
            out["only_in"] = "A" if b is None else "B"
        else:
            out["differs"] = list(_differing(a, b))
        if not known:
            out |= {"cause": Absence.LOST.value, "why": self._why(a, b)}
        for name, each in (("a", a), ("b", b)):
            if each is not None:
                out |= {f"last_seqno_{name}": each.seqno, f"cas_{name}": f"0x{each.cas:016x}"}
                out |= {f"name_{name}": each.message, "frame" if each is a else "other_frame": each.frame}
        return out


def _one(a: Document | None, b: Document | None) -> Document:
    found = a or b
    assert found is not None
    return found


def _differing(a: Document, b: Document) -> Iterator[str]:
    """Yield what differs between the last changes of a document."""
    for name in ("message", "seqno", "cas", "value"):
        if getattr(a, name) != getattr(b, name):
            yield name
