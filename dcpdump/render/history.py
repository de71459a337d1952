"""Write histories of documents as text for people, and as objects; and how far they are complete."""

from collections.abc import Iterator, Sequence

from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.record import Json, Record, as_json
from dcpdump.render.line import dialogue_name
from dcpdump.render.ndjson import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, Table, number
from dcpdump.spec.names import DATATYPE
from dcpdump.streams.history import VBUCKETS, Change, Coverage
from dcpdump.streams.request import Request
from dcpdump.streams.wording import client, clock, place, seqno
from dcpdump.text import iso_time

_HEADS = (
    "key",
    "collection",
    "vb",
    "seqno",
    "rev",
    "message",
    "revoked",
    "CAS",
    "time",
    "conn",
    "sid",
    "frame",
    "file@offset",
    "datatype",
    "xattrs",
    "bytes",
)
#: What a narrow terminal has no room for, the least first.
_LEAST = ("file@offset", "CAS", "rev", "datatype", "xattrs", "sid", "collection", "conn")
_RIGHT = ("vb", "seqno", "rev", "frame", "sid", "bytes")


def lines(
    changes: Sequence[Change], coverages: Sequence[Coverage], vbucket: int | None, *, incomplete: bool, evicted: bool
) -> "list[Line | Fitting]":
    """Return a table of changes, and below it what the capture has of their vbuckets.

    ``vbucket``: the one that the key hashes to, if it is only one key; ``incomplete``: a message may be missing;
    ``evicted``: there were streams of it of which no more is known.
    """
    rows = []
    for each in changes:
        record = each.record
        raw = record.frame.raw
        body = record.meaning.body if each.item is None else record.meaning.items[each.item].body
        xattrs = body.xattrs if body is not None else None
        rows.append(
            (
                safe(each.key),
                _collection(each),
                str(record.vbucket),
                number(each.seqno),
                number(each.rev_seqno),
                dialogue_name(record.frame.message.name),
                _revoked(each.revoked),
                f"0x{each.cas:016x}",
                "" if raw.where.ts_ns is None else clock_in_use().row(raw.where.ts_ns),
                str(record.connection),
                str(record.frame.stream_id or ""),
                str(record.number),
                f"{safe(raw.where.file)}@0x{raw.offset:x}",
                "|".join(DATATYPE.describe(each.datatype)),
                ",".join(safe(name) for name, _ in xattrs or ()),
                number(raw.length),
            )
        )
    belongs = f": it belongs to vb {vbucket} (of {VBUCKETS:,})" if vbucket is not None else ""
    if belongs and not coverages:
        belongs += f", of which {'a stream was evicted' if evicted else 'there is no stream'}"
    so_far = " in what was captured, which is incomplete" if incomplete else ""
    nothing = Line(LineKind.PLAIN, f"no message about such a key{so_far}{belongs}")
    return [
        Table(_HEADS, rows, _RIGHT, _LEAST) if rows else nothing,
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
    for covered in coverages:
        stream = covered.stream
        place: Json = {"type": "coverage", "connection": stream.connection.number, "name": stream.connection.setup.name}
        place |= {"vbucket": stream.vbucket, "stream_id": stream.stream_id or None}
        place |= {"first_seqno": covered.first, "last_seqno": covered.last, "complete": covered.complete}
        place["why"] = covered.why
        yield without_none(place)


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
