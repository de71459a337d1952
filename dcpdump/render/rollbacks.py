"""Rollbacks as text for people, and as objects: what was asked for, what came, and which clause explains it."""

from collections.abc import Iterator, Sequence

from dcpdump.record import Json, iso_time
from dcpdump.render.lines import Kind, Line
from dcpdump.render.streams import client
from dcpdump.streams.rollback import Rollback, written
from dcpdump.streams.spoken import clock, seqno, span, times
from dcpdump.streams.verdict import LOOP


def lines(found: Sequence[Rollback]) -> list[Line]:
    """It writes each rollback as a few lines."""
    out: list[Line] = []
    for each in found:
        request, stream = each.first, each.stream
        sid = f" sid {stream.stream_id}" if stream.stream_id else ""
        asked = f"start {seqno(request.start_seqno)} snapshot {seqno(request.snap_start_seqno)}.."
        asked += f"{seqno(request.snap_end_seqno)} uuid {_hex(request.vbucket_uuid)}"
        head = f"vb {stream.vbucket}{sid}  conn {stream.connection.number} {client(stream.connection)}  "
        head += f"{clock(request.ts_ns)}  {asked} -> rollback to {seqno(request.rollback_seqno)}"
        out.append(Line(Kind.TITLE, head))
        explanation = each.explanation
        if explanation is not None:
            out.append(Line(Kind.PLAIN, f"  why: {explanation.text}"))
            if explanation.log is not None:
                where = f"frame {explanation.log.frame}"
                out.append(Line(Kind.PLAIN, f"  failover log: {written(explanation.log.entries)} ({where})"))
        out += _after(each)
    return out


def _after(each: Rollback) -> list[Line]:
    count, out = len(each.requests), []
    if count > 1:
        loop = " (loop)" if count > LOOP else ""
        text = f"  repeated: {times(count)} in {span(each.lasted_ns)}{loop}"
        out.append(Line(Kind.PROBLEM if loop else Kind.PLAIN, text))
    if each.granted is not None:
        text = f"granted from {seqno(each.granted.start_seqno)} at {clock(each.granted.answered_ns)}"
    else:
        text = "not granted"
    return [*out, Line(Kind.PLAIN, f"  then: {text}")]


def objects(found: Sequence[Rollback]) -> Iterator[Json]:
    """It gives rollbacks as objects."""
    for each in found:
        request, stream, explanation = each.first, each.stream, each.explanation
        out: Json = {"connection": stream.connection.number, "name": stream.connection.name, "vbucket": stream.vbucket}
        out["stream_id"] = stream.stream_id or None
        out |= {
            "frame": request.frame,
            "response_frame": request.answer_frame,
            "time": None if request.ts_ns is None else iso_time(request.ts_ns),
            "start_seqno": request.start_seqno,
            "end_seqno": request.end_seqno,
            "vbucket_uuid": None if request.vbucket_uuid is None else _hex(request.vbucket_uuid),
            "snap_start_seqno": request.snap_start_seqno,
            "snap_end_seqno": request.snap_end_seqno,
            "rollback_seqno": request.rollback_seqno,
            "count": len(each.requests),
            "loop": len(each.requests) > LOOP,
            "frames": [one.frame for one in each.requests],
        }
        if explanation is not None:
            out |= {"clause": explanation.clause, "why": explanation.text, "expected_seqno": explanation.expected}
            if explanation.log is not None:
                entries = explanation.log.entries
                out["failover_log"] = [{"vbucket_uuid": _hex(entry.uuid), "seqno": entry.seqno} for entry in entries]
                out["failover_log_frame"] = explanation.log.frame
        out["granted_start_seqno"] = each.granted.start_seqno if each.granted is not None else None
        yield {name: value for name, value in out.items() if value is not None}


def _hex(uuid: int | None) -> str:
    return "?" if uuid is None else f"0x{uuid:016x}"
