"""Write histories of documents as text for people, and as objects; and how far they are complete."""

from collections.abc import Iterator, Sequence
from typing import Any

from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.record import Json, Record, as_json
from dcpdump.render.column import Column, ColumnSet
from dcpdump.render.line import dialogue_name
from dcpdump.render.objects import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, number
from dcpdump.spec.names import DATATYPE
from dcpdump.streams.history import VBUCKETS, Change, Coverage
from dcpdump.streams.request import Request
from dcpdump.streams.wording import client, clock, place, seqno
from dcpdump.text import iso_time
from dcpdump.wire.frame import Where


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
            out["revoked"] = _revocation(each.revoked)
        if each.item is not None:
            out["fields"] = {**flat["fields"], "items": flat["fields"]["items"][each.item : each.item + 1]}
        yield without_none(out)
    yield from map(COVERAGE.object, coverages)


def _revoked(request: Request | None) -> str:
    """Say by which rollback a change was taken back."""
    if request is None:
        return ""
    return f"by the rollback to {request.rollback_seqno} at {clock(request.answered_ns)}, frame {request.answer_frame}"


def _revocation(request: Request) -> Json:
    return without_none(
        {
            "rollback_seqno": request.rollback_seqno,
            "start_seqno": request.start_seqno,
            "request_frame": request.frame,
            "response_frame": request.answer_frame,
            "time": None if request.answered_ns is None else iso_time(request.answered_ns),
        }
    )


def _where(change: Change) -> Where:
    return change.record.frame.raw.where


def _time(change: Change) -> str:
    ts_ns = _where(change).ts_ns
    return "" if ts_ns is None else clock_in_use().row(ts_ns)


def _xattrs(change: Change) -> str:
    meaning = change.record.meaning
    body = meaning.body if change.item is None else meaning.items[change.item].body
    return ",".join(safe(name) for name, _ in (body.xattrs if body is not None else None) or ())


def _collection(change: Change) -> str:
    if change.collection is None:
        return ""
    path = change.record.collection_path(change.collection)
    return f"0x{change.collection:x} {path}" if path else f"0x{change.collection:x}"


def _covered(each: Coverage) -> str:
    stream, answer = each.stream, {True: "yes", False: "no", None: "unknown"}[each.complete]
    where = f"{place(stream)} conn {stream.connection.number} {client(stream.connection)}"
    span = f"{seqno(each.first)}..{seqno(each.last)}" if each.last is not None else "no seqno"
    return f"capture complete for {where}, {span}: {answer} ({each.why})"


C = Column[Change]
#: Changes of documents; their objects are those of their frames.
CHANGES = ColumnSet[Change](
    C(head="key", text=lambda change: safe(change.key)),
    C(head="collection", text=_collection, drop_rank=7),
    C(head="vb", text=lambda change: str(change.record.vbucket), right=True),
    C(head="seqno", text=lambda change: number(change.seqno), right=True),
    C(head="rev", text=lambda change: number(change.rev_seqno), right=True, drop_rank=3),
    C(head="message", text=lambda change: dialogue_name(change.record.frame.message.name)),
    C(head="revoked", text=lambda change: _revoked(change.revoked)),
    C(head="CAS", text=lambda change: f"0x{change.cas:016x}", drop_rank=2),
    C(head="time", text=_time),
    C(head="conn", text=lambda change: str(change.record.connection), drop_rank=8),
    C(head="sid", text=lambda change: str(change.record.frame.stream_id or ""), right=True, drop_rank=6),
    C(head="frame", text=lambda change: str(change.record.number), right=True),
    C(
        head="file@offset",
        text=lambda change: f"{safe(_where(change).file)}@0x{change.record.frame.raw.offset:x}",
        drop_rank=1,
    ),
    C(head="datatype", text=lambda change: "|".join(DATATYPE.describe(change.datatype)), drop_rank=4),
    C(head="xattrs", text=_xattrs, drop_rank=5),
    C(head="bytes", text=lambda change: number(change.record.frame.raw.length), right=True),
)

COVERAGE = ColumnSet[Coverage](
    Column("connection", lambda covered: covered.stream.connection.number),
    Column("name?", lambda covered: covered.stream.connection.setup.name),
    Column("vbucket", lambda covered: covered.stream.vbucket),
    Column("stream_id?", lambda covered: covered.stream.stream_id or None),
    Column("first_seqno?", lambda covered: covered.first),
    Column("last_seqno?", lambda covered: covered.last),
    Column("complete?", lambda covered: covered.complete),
    Column("why", lambda covered: covered.why),
    type="coverage",
)
#: The rows of a history: a change has the keys of its frame.
HISTORY: tuple[str | ColumnSet[Any], ...] = ("key.change", COVERAGE)
