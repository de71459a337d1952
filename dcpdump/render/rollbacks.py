"""Write rollbacks as text for people, and as objects: the request, the response, and the clause that explains it."""

from collections.abc import Iterator, Sequence

from dcpdump.record import Json
from dcpdump.render.ndjson import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Table
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.request import Request
from dcpdump.streams.rollbacks import Explanation, Resume, Rollback, branch_of, written
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import LOOP
from dcpdump.streams.wording import client, clock, place, seqno, span, status, times
from dcpdump.text import counted, iso_time

_SOON_NS = 1_000_000_000


Advised = tuple[Rollback, Resume | None]  #: a rollback, and what its client should have sent

_HEADS = ("conn", "client", "vb", "sid", "rolled back", "start", "snapshot", "uuid", "purge seqno", "flags", "why")
_RIGHT = ("vb", "sid", "start", "purge seqno")


def lines(found: Sequence[Advised], streams: Sequence[Stream], until_ns: int | None) -> list[Line]:
    """Return each rollback as a few lines. ``streams``: those that were searched; ``until_ns``: the capture's end."""
    if not found:
        return [Line(LineKind.PLAIN, _none(streams))]
    out: list[Line] = []
    for each, advice in found:
        request, stream = each.first, each.stream
        asked = f"start {seqno(request.start_seqno)} snapshot {seqno(request.snap_start_seqno)}.."
        asked += f"{seqno(request.snap_end_seqno)} uuid {_hex(request.vbucket_uuid)}"
        head = f"{place(stream)}  conn {stream.connection.number} {client(stream.connection)}  "
        head += f"{clock(request.ts_ns)}  {asked} -> rollback to {seqno(request.rollback_seqno)}"
        out.append(Line(LineKind.TITLE, head))
        out += _evidence(each.explanation, request)
        branch = branch_of(advice, each.attempts[-1].request)
        if branch:
            out.append(Line(LineKind.PLAIN, f"  branch: {branch}"))
        out += _after(each, until_ns)
        if advice is not None:
            out.append(Line(LineKind.PLAIN, f"  resume: {advice.text} ({advice.why})"))
    return out


def resume_table(found: Sequence[Advised]) -> Table:
    """Return a table of what clients should have sent, a row a rollback."""
    rows = []
    for each, advice in found:
        stream = each.stream
        where = (str(stream.connection.number), client(stream.connection), str(stream.vbucket))
        back = f"{clock(each.first.answered_ns)} to {seqno(each.first.rollback_seqno)}"
        if advice is None:
            rows.append(
                (*where, str(stream.stream_id or ""), back, "?", "", "?", "", "", "its numbers were not captured")
            )
            continue
        numbers = (str(advice.start), f"{advice.snap_start}..{advice.snap_end}", _hex(advice.uuid))
        more = ("" if advice.purge_seqno is None else str(advice.purge_seqno), f"0x{advice.flags:x}", advice.why)
        rows.append((*where, str(stream.stream_id or ""), back, *numbers, *more))
    return Table(_HEADS, rows, _RIGHT, ("rolled back", "sid", "client"))


def latest(found: Sequence[Advised]) -> list[Advised]:
    """Return the latest rollback of each consumer, vbucket and stream id."""
    last: dict[object, Advised] = {}
    for each in sorted(found, key=lambda one: one[0].attempts[-1].request.frame):
        last[each[0].stream.connection.number, each[0].stream.vbucket, each[0].stream.stream_id] = each
    kept = {id(each) for each in last.values()}
    return [each for each in found if id(each) in kept]


def _none(streams: Sequence[Stream]) -> str:
    """Return the sentence that there are no rollbacks, and among how many requests."""
    requests = sum(stream.requests.count() for stream in streams)
    if not requests:
        return "no stream requests were captured"
    unanswered = sum(stream.requests.count(None) for stream in streams)
    text = f"no rollbacks in {counted(requests, 'stream request')}"
    return text + (f", {unanswered:,} of them without an answer in the capture" if unanswered else "")


def _evidence(explanation: Explanation, request: Request) -> Iterator[Line]:
    """Yield the explanation, and the frames that it rests on."""
    yield Line(LineKind.PLAIN, f"  why: {explanation.text}")
    log, purge, answered = explanation.log, explanation.purge, request.answer_frame
    if log is not None:
        after = ", after the rollback" if answered is not None and log.frame > answered else ""
        yield Line(LineKind.PLAIN, f"  failover log: {written(log.entries)} (frame {log.frame}{after})")
    if purge is not None:
        after = ", after the rollback" if answered is not None and purge.frame > answered else ""
        yield Line(LineKind.PLAIN, f"  purge seqno: {purge.seqno} (frame {purge.frame}{after})")


def _after(each: Rollback, until_ns: int | None) -> list[Line]:
    count, out = each.count, []
    if count > 1 or each.least:
        loop = " (loop)" if count > LOOP else ""
        text = f"  repeated: {'at least ' * each.least}{times(count)} in {span(each.lasted_ns)}{loop}"
        out.append(Line(LineKind.PROBLEM if loop else LineKind.PLAIN, text))
    return [*out, Line(LineKind.PLAIN, f"  then: {_then(each, until_ns)}")]


def _then(each: Rollback, until_ns: int | None) -> str:
    """Return what the consumer did after the last of equal rollbacks."""
    if each.granted is not None:
        request = each.granted.request
        where = _where(each, each.granted.stream)
        return f"granted from {seqno(request.start_seqno)}{where} at {clock(request.answered_ns)}"
    if each.again is not None:
        request = each.again.request
        text = f"asked again from {seqno(request.start_seqno)}{_where(each, each.again.stream)} at "
        text += f"{clock(request.ts_ns)}: {_outcome(request)}"
        return text if each.lost is None else f"{text}; whether it was granted then is not known: {each.lost.text}"
    if each.lost is not None:
        return f"not known: {each.lost.text}"
    answered = each.answered_ns
    left = None if answered is None or until_ns is None else until_ns - answered
    after = "after the last one " * (each.count > 1)
    if left is None or left >= _SOON_NS:
        return f"{after}the client did not ask again"
    return f"{after}the client did not ask again before the capture ends" + (f", {span(left)} later" if left else "")


def _where(each: Rollback, stream: Stream) -> str:
    """Return the stream id and connection, where they are others."""
    out = f" with stream id {stream.stream_id}" if stream.stream_id != each.stream.stream_id else ""
    number = stream.connection.number
    return out + (f" on connection {number}" if number != each.stream.connection.number else "")


def _outcome(request: Request) -> str:
    if request.status is None:
        return "no answer was captured"
    if request.status == ROLLBACK:
        return f"rolled back to {seqno(request.rollback_seqno)}"
    return f"refused with {status(request.status)}"


def objects(found: Sequence[Advised]) -> Iterator[Json]:
    """Yield rollbacks as objects."""
    for each, advice in found:
        request, stream, explanation, granted = each.first, each.stream, each.explanation, each.granted
        out: Json = {
            "connection": stream.connection.number,
            "name": stream.connection.setup.name,
            "vbucket": stream.vbucket,
        }
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
            "count": each.count,
            "count_exact": False if each.least else None,
            "loop": each.count > LOOP,
            "frames": [one.frame for one in each.requests],
            "clause": explanation.clause.value,
            "cause": None if explanation.cause is None else explanation.cause.value,
            "why": explanation.text,
            "expected_seqno": explanation.expected,
        }
        if explanation.log is not None:
            entries = explanation.log.entries
            out["failover_log"] = [{"vbucket_uuid": _hex(entry.uuid), "seqno": entry.seqno} for entry in entries]
            out["failover_log_frame"] = explanation.log.frame
        if explanation.purge is not None:
            out |= {"purge_seqno": explanation.purge.seqno, "purge_seqno_frame": explanation.purge.frame}
        if granted is not None:
            out |= {"granted_start_seqno": granted.request.start_seqno, "granted_frame": granted.request.answer_frame}
            out["granted_connection"] = granted.stream.connection.number
        if each.lost is not None:
            out["not_known"] = each.lost.text
        if advice is not None:
            out["resume"] = without_none(
                {
                    "start_seqno": advice.start,
                    "snap_start_seqno": advice.snap_start,
                    "snap_end_seqno": advice.snap_end,
                    "vbucket_uuid": None if advice.uuid is None else _hex(advice.uuid),
                    "purge_seqno": advice.purge_seqno,
                    "flags": advice.flags,
                    "why": advice.why,
                }
            )
        yield without_none(out)


def _hex(uuid: int | None) -> str:
    return "?" if uuid is None else f"0x{uuid:016x}"
