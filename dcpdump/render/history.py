"""Write histories of documents as text for people, and as objects; and how far they are complete."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.record import Json, Record, as_json
from dcpdump.render.column import ID, INT, Column, ColumnSet, of
from dcpdump.render.line import dialogue_name
from dcpdump.render.objects import FRAME, without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting
from dcpdump.spec.names import DATATYPE
from dcpdump.streams.causes import CARVED
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, name_stream, seqno, status
from dcpdump.text import counted

# -- what happened to documents, as streams report it, and how far that is all ------------------------

VBUCKETS = 1024


class Change(NamedTuple):
    """A message about a document."""

    record: Record
    seqno: int | None
    key: bytes
    collection: int | None
    rev_seqno: int | None
    cas: int
    datatype: int
    item: int | None = None  #: its place among the documents of a cache transfer
    revoked: Request | None = None  #: the request whose rollback took it back

    @property
    def identity(self) -> tuple[int | None, int | None, bytes, int | None, int]:
        """Return what the same change has wherever it is sent again."""
        return self.record.vbucket, self.seqno, self.key, self.collection, self.cas


class Coverage(NamedTuple):
    """How much of a vbucket's seqnos one stream has in the capture. ``complete`` None: that cannot be known."""

    stream: Stream
    first: int | None
    last: int | None
    complete: bool | None
    why: str


def coverage(stream: Stream) -> Coverage:
    """Return whether everything that a stream brought is in the capture."""
    request = stream.request
    begins = request.start_seqno + 1 if stream.begin_captured and request and request.start_seqno is not None else None
    first = begins if begins is not None else stream.seqnos.first
    last = stream.seqnos.high
    missing = _missing(stream)
    if missing:
        return Coverage(stream, first, last, False, missing)
    if request is not None and stream.granted and stream.seqnos.first is None:
        return Coverage(stream, first, last, True, "nothing was sent")
    why = "0 bytes lost"
    if stream.gaps.bridged:
        why += ": where bytes of its connection were lost, it continues at the next seqno or snapshot"
    if begins is None:
        why += f"; the capture joined at seqno {seqno(first)}"
    elif request is not None and request.filtered:
        why += "; of the collections that were requested"
    return Coverage(stream, first, last, True, why)


def _missing(stream: Stream) -> str:
    """Return why not everything of a stream is known; nothing where it is."""
    request = stream.request
    if request is not None and not stream.is_sending:
        if request.status is None:
            return "no answer to its request was captured"
        return f"it was not granted: {status(request.status)}"
    why = [_lost(stream)] if stream.gaps.times else []
    if stream.gaps.cut:
        why.append(f"{counted(stream.gaps.cut, 'message')} whose key was not captured whole")
    if stream.oso:
        why.append("an out-of-order snapshot is open: lower seqnos may follow")
    return "; ".join(why)


def _lost(stream: Stream) -> str:
    """Return what may be missing, and behind which seqnos."""
    if stream.connection.carved:
        return CARVED
    size = "" if stream.gaps.missed.unknown and not stream.gaps.missed.lost else "up to "
    known = [seqno(each) for each in stream.gaps.behind if each is not None]
    if len(known) < len(stream.gaps.behind):
        where = " before its first seqno" + (f", and after {', '.join(known)}" if known else "")
    else:
        where = f" after seqno {', '.join(known)}"
    return f"{size}{stream.gaps.missed.words()}{where}{', …' * (stream.gaps.times > len(stream.gaps.behind))}"


def vbucket_of(key: bytes) -> int:
    """Return the vbucket that a key without its collection prefix belongs to."""
    return (crc32(key) >> 16 & 0x7FFF) % VBUCKETS


# -- written ------------------------------------------------------------------------------------------


def lines(
    changes: Sequence[Change], coverages: Sequence[Coverage], vbucket: int | None, *, incomplete: bool, evicted: bool
) -> "list[Line | Fitting]":
    """Return a table of changes, and below it what the capture has of their vbuckets.

    ``vbucket``: the one that the key hashes to, if it is only one key; ``incomplete``: a message may be missing;
    ``evicted``: there were streams of it of which no more is known.
    """
    belongs = f": it belongs to vb {vbucket} (of {VBUCKETS:,})" if vbucket is not None else ""
    if belongs and not coverages:
        belongs += f", of which {'a stream was evicted' if evicted else 'there is no stream'}"
    so_far = " in what was captured, which is incomplete" if incomplete else ""
    nothing = Line(LineKind.PLAIN, f"no message about such a key{so_far}{belongs}")
    return [
        CHANGES.table(changes) if changes else nothing,
        *(Line(LineKind.PLAIN if each.complete else LineKind.PROBLEM, _covered(each)) for each in coverages),
    ]


def objects(changes: Sequence[Change], coverages: Sequence[Coverage], value_bytes: int | None) -> Iterator[Json]:
    """Yield the same as objects: ``type`` is change or coverage. Of a cache transfer, a change has its own item."""
    record: Record | None = None
    for each in changes:
        if each.record is not record:  # the changes of a frame follow each other
            record, flat = each.record, as_json(each.record, value_bytes=value_bytes)
        out: Json = {"type": "change", "seqno": each.seqno, "rev_seqno": each.rev_seqno, **flat}
        if each.revoked is not None:
            out["revoked"] = REVOCATION.object(each.revoked)
        if each.item is not None:
            out["fields"] = {**flat["fields"], "items": flat["fields"]["items"][each.item : each.item + 1]}
        yield without_none(out)
    yield from map(COVERAGE.object, coverages)


def _revoked(request: Request) -> str:
    """Say by which rollback a change was taken back."""
    return f"by the rollback to {request.rollback_seqno} at {clock(request.answered_ns)}, frame {request.answer_frame}"


def _xattrs(change: Change) -> str:
    meaning = change.record.content
    body = meaning.body if change.item is None else meaning.items[change.item].body
    return ",".join(safe(name) for name, _ in (body.xattrs if body is not None else None) or ())


def _collection(change: Change) -> str:
    if change.collection is None:
        return ""
    path = change.record.collection_path(change.collection)
    return f"0x{change.collection:x} {path}" if path else f"0x{change.collection:x}"


def _covered(each: Coverage) -> str:
    stream, answer = each.stream, {True: "yes", False: "no", None: "unknown"}[each.complete]
    where = f"{name_stream(stream)} conn {stream.connection.number} {client(stream.connection)}"
    span = f"{seqno(each.first)}..{seqno(each.last)}" if each.last is not None else "no seqno"
    return f"capture complete for {where}, {span}: {answer} ({each.why})"


#: The rollback that took a change back.
REVOCATION = ColumnSet[Request](
    *of("rollback_seqno start_seqno request_frame=frame response_frame=answer_frame time?=answered_ns")
)
C = Column[Change]
#: Changes of documents; their objects have the keys of their frames.
CHANGES = ColumnSet[Change](
    *of("=key:key", shown=safe),
    C(head="collection", text=_collection, drop_rank=7),
    *of("=vbucket:vb", "record", type=ID),
    *of("=seqno:seqno", type=INT),
    *of("=rev_seqno:rev", type=INT, drop_rank=3),
    *of("=record.frame.message.name:message", shown=dialogue_name),
    *of("=revoked:revoked", shown=_revoked),
    *of("=cas:CAS", shown="0x{:016x}".format, drop_rank=2),
    *of("=record.frame.raw.where.ts_ns:time", shown=lambda ts_ns: clock_in_use().row(ts_ns)),
    *of("=connection:conn", "record", drop_rank=8),
    C(head="sid", text=lambda change: str(change.record.frame.stream_id or ""), right=True, drop_rank=6),
    *of("=number:frame", "record", type=ID),
    C(
        head="file@offset",
        text=lambda change: f"{safe(change.record.frame.raw.where.file)}@0x{change.record.frame.raw.offset:x}",
        drop_rank=1,
    ),
    *of("=datatype:datatype", shown=lambda datatype: "|".join(DATATYPE.describe(datatype)), drop_rank=4),
    C(head="xattrs", text=_xattrs, drop_rank=5),
    *of("=record.frame.raw.length:bytes", type=INT),
    *(C("seqno?"), C("rev_seqno?"), C("revoked?", columns=REVOCATION), *FRAME),
    type="change",
)
COVERAGE = ColumnSet[Coverage](
    *of("connection=connection.number name?=connection.setup.name vbucket stream_id??", "stream"),
    *of("first_seqno?=first last_seqno?=last complete? why"),
    type="coverage",
)
#: The rows of a history.
HISTORY: tuple[ColumnSet[Any], ...] = (CHANGES, COVERAGE)
