"""Write rollbacks as text for people, and as objects: the request, the response, and the clause that explains it."""

from collections.abc import Callable, Iterator, Sequence

from dcpdump.render.column import ID, TEXT, Column, ColumnSet, at, of
from dcpdump.render.streams import ENTRY
from dcpdump.render.style import Line, LineKind
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.request import Request
from dcpdump.streams.rollbacks import Explanation, Resume, Rollback, branch_of, written
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, name_stream, seqno, span, status
from dcpdump.text import counted

_SOON_NS = 1_000_000_000


Advised = tuple[Rollback, Resume | None]  #: a rollback, and what its client should have sent


def lines(found: Sequence[Advised], streams: Sequence[Stream], until_ns: int | None) -> list[Line]:
    """Return each rollback as a few lines. ``streams``: those that were searched; ``until_ns``: the capture's end."""
    if not found:
        return [Line(LineKind.PLAIN, _none(streams))]
    out: list[Line] = []
    for each, advice in found:
        request, stream = each.first, each.stream
        asked = f"start {seqno(request.start_seqno)} snapshot {seqno(request.snap_start_seqno)}.."
        asked += f"{seqno(request.snap_end_seqno)} uuid {_hex(request.vbucket_uuid)}"
        head = f"{name_stream(stream)}  conn {stream.connection.number} {client(stream.connection)}  "
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


def latest(found: Sequence[Advised]) -> list[Advised]:
    """Return the latest rollback of each consumer, vbucket and stream id."""
    last: dict[object, Advised] = {}
    for each in sorted(found, key=lambda one: one[0].attempts[-1].request.frame):
        last[each[0].stream.connection.number, each[0].stream.vbucket, each[0].stream.stream_id] = each
    kept = {id(each) for each in last.values()}
    return [each for each in found if id(each) in kept]


def _none(streams: Sequence[Stream]) -> str:
    """Return the sentence for no rollbacks, with the number of requests."""
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
    out: list[Line] = []
    if each.count > 1 or each.least:
        text = f"  repeated: {each.often}{' (loop)' * each.is_loop}"
        out.append(Line(LineKind.PROBLEM if each.is_loop else LineKind.PLAIN, text))
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


def _hex(uuid: int | None) -> str:
    return "?" if uuid is None else f"0x{uuid:016x}"


_ADVICE = ColumnSet[Resume](
    *of(
        "start_seqno=start snap_start_seqno=snap_start snap_end_seqno=snap_end vbucket_uuid?=uuid "
        "purge_seqno? flags why"
    )
)
C = Column[Advised]
ROLLBACKS = ColumnSet[Advised](
    *of("connection=connection.number:conn", "0.stream"),
    C(get=lambda row: client(row[0].stream.connection), head="client", type=TEXT, drop_rank=3),
    *of("name?=connection.setup.name vbucket:vb stream_id??", "0.stream"),
    *of("frame response_frame?=answer_frame time?=ts_ns:time start_seqno?:start", "0.first"),
    *of("end_seqno? vbucket_uuid? snap_start_seqno? snap_end_seqno? rollback_seqno?:to", "0.first"),
    *of("count:count", "0"),
    C("count_exact?", lambda row: False if row[0].least else None),
    *of("loop=is_loop", "0"),
    C(
        "frames",
        lambda row: [each.frame for each in row[0].requests],
        type="[int]",
        meaning="the numbers of the frames",
    ),
    *of("clause=clause.value cause?=cause.value why=text expected_seqno?=expected", "0.explanation"),
    *of("failover_log?=entries", "0.explanation.log", columns=ENTRY),
    *of("failover_log_frame?=log.frame purge_seqno?=purge.seqno purge_seqno_frame?=purge.frame", "0.explanation"),
    *of(
        "granted_start_seqno?=request.start_seqno granted_frame?=request.answer_frame "
        "granted_connection?=stream.connection.number",
        "0.granted",
    ),
    *of("not_known?=lost.text", "0"),
    *of("resume?=1", columns=_ADVICE),
)


def _advice(text: Callable[[Resume], str], *, unknown: str = "") -> Callable[[Advised], str]:
    """Return what writes something of an advice; ``unknown``: where there is none."""
    return lambda row: unknown if row[1] is None else text(row[1])


#: What clients should have sent, a row a rollback.
RESUME = ColumnSet[Advised](
    *ROLLBACKS.some("conn client vb"),
    C(head="sid", text=lambda row: str(row[0].stream.stream_id or ""), right=True, drop_rank=2),
    C(
        head="rolled back",
        text=lambda row: f"{clock(row[0].first.answered_ns)} to {seqno(row[0].first.rollback_seqno)}",
        drop_rank=1,
    ),
    C(head="start", text=_advice(lambda advice: str(advice.start), unknown="?"), right=True),
    C(head="snapshot", text=_advice(lambda advice: f"{advice.snap_start}..{advice.snap_end}")),
    C(head="uuid", text=_advice(lambda advice: _hex(advice.uuid), unknown="?")),
    C(get=at("1.purge_seqno"), head="purge seqno", type=ID),
    *of("=flags:flags", "1", shown="0x{:x}".format),
    C(head="why", text=_advice(lambda advice: advice.why, unknown="its numbers were not captured")),
)
