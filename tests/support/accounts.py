"""Add up what is true of the connections and streams of a cluster, from what its ends sent."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.cluster import END, MARKER, PREPARE, Event, Wire

LONG_NS = 10_000_000_000  #: without a message for so long, a stream is quiet or stuck
SECOND_NS = 1_000_000_000


@dataclass
class Asked:
    ts_ns: int
    numbers: tuple[int, ...]
    status: int | None = None
    back: int | None = None


@dataclass(eq=False)
class Brought:
    """A stream: its request, and its messages."""

    line: "Talked"
    vb: int
    sid: int
    asked: list[Asked] = field(default_factory=list)
    granted_ns: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    size: int = 0
    first: int | None = None
    high: int | None = None
    marker: tuple[int, int] | None = None
    last_ns: int = 0
    status: int | None = None
    ended_ns: int | None = None
    closed_ns: int | None = None
    keys: list[tuple[int | None, bytes, int]] = field(default_factory=list)

    @property
    def over_ns(self) -> int | None:
        """Return when it was over, by whatever."""
        return min((ns for ns in (self.ended_ns, self.closed_ns, self.line.ended_ns) if ns is not None), default=None)

    @property
    def place(self) -> tuple[object, ...]:
        """Return what has one stream at a time: a leg of a consumer, a vbucket, a stream id."""
        return (*self.line.wire.owner, self.vb, self.sid)


@dataclass(eq=False)
class Talked:
    """A connection, and its flow control, as its producer counts."""

    wire: Wire
    first_ns: int
    agent: str | None = None
    bucket: str | None = None
    name: str | None = None
    flags: int | None = None
    controls: dict[str, str] = field(default_factory=dict)
    streams: list[Brought] = field(default_factory=list)
    current: dict[tuple[int, int], Brought] = field(default_factory=dict)
    frames: int = 0
    bytes: int = 0
    noops: list[int] = field(default_factory=lambda: [0, 0])
    ended_ns: int | None = None
    ended: tuple[str, int] | None = None
    size: int | None = None
    sent: int = 0
    acked: int = 0
    outstanding: int = 0
    peak: int = 0
    full_ns: int | None = None
    blocked: list[tuple[int, int]] = field(default_factory=list)

    def count(self, event: Event) -> None:
        """Count a message or an acknowledgement."""
        if event.kind == "ack":
            self.acked += event.facts[0]
            self.outstanding = max(0, self.outstanding - event.facts[0])
            if self.full_ns is not None and self.size and self.outstanding < self.size:
                self.blocked.append((self.full_ns, event.ts_ns))
                self.full_ns = None
            return
        size = len(event.data) + 2 * (event.opcode == PREPARE)
        self.sent += size
        self.outstanding += size
        self.peak = max(self.peak, self.outstanding)
        if self.size and self.outstanding >= self.size:
            self.full_ns = event.ts_ns


def account(events: Iterable[Event]) -> list[Talked]:
    """Return what is true of all connections, in the order in which they appear."""
    lines: dict[int, Talked] = {}
    for event in events:
        wire = event.wire
        line = lines.get(wire.number)
        if line is None:
            line = lines[wire.number] = Talked(wire, event.ts_ns)
        if event.data:
            line.frames += 1
            line.bytes += len(event.data)
        _learn(line, event)
    return list(lines.values())


def _learn(line: Talked, event: Event) -> None:
    kind, text = event.kind, event.key.decode("latin-1")
    if kind in ("fin", "rst"):
        if line.ended is None:
            line.ended, line.ended_ns = (kind, event.direction), event.ts_ns
    elif kind == "hello":
        line.agent = text
    elif kind == "bucket":
        line.bucket = text
    elif kind == "open":
        line.name, line.flags = text, event.facts[0]
    elif kind == "control-answer":
        line.controls[text] = event.facts[0]
        if text == "connection_buffer_size":
            line.size = int(event.facts[0])
    elif kind in ("noop", "noop-answer"):
        line.noops[kind != "noop"] += 1
    elif kind == "ack":
        line.count(event)
    elif event.vb >= 0:
        _stream(line, event)


def _stream(line: Talked, event: Event) -> None:
    """Take what an event says of a stream. A request after one that was not granted continues the same stream."""
    place = event.vb, event.sid
    stream = line.current.get(place)
    if event.kind == "request":
        if stream is None or stream.granted_ns is not None:
            stream = line.current[place] = Brought(line, *place)
            line.streams.append(stream)
        stream.asked.append(Asked(event.ts_ns, event.facts))
    assert stream is not None
    if event.kind == "answer":
        asked = stream.asked[-1]
        asked.status, asked.back = event.facts
        if asked.status == 0:
            stream.granted_ns = event.ts_ns
    elif event.kind == "close-answer":
        stream.closed_ns = event.ts_ns
    elif event.kind == "message":
        line.count(event)
        stream.counts[event.opcode] += 1
        stream.size += len(event.data)
        if event.opcode == MARKER:
            stream.marker = event.facts[0], event.facts[1]
        elif event.opcode == END:
            stream.status, stream.ended_ns = event.facts[0], event.ts_ns
        if event.seqno is not None:
            stream.first = event.seqno if stream.first is None else stream.first
            stream.high = max(event.seqno, stream.high or 0)
            stream.keys.append((event.seqno, event.key, event.opcode))
    if event.kind != "close":
        stream.last_ns = event.ts_ns


def judged(stream: Brought, lines: Iterable[Talked], now_ns: int) -> tuple[str, str, tuple[int, int] | None]:
    """Return kind and cause of a verdict, and where and when the consumer asked again: connection, time."""
    line = stream.line
    if stream.granted_ns is None and stream.asked[-1].status is not None:
        later = _again(stream, lines, stream.last_ns)
        status = stream.asked[-1].status
        kind = "rolled back" if status == 0x23 else "refused"
        never = _never("not-asked-again", stream, lines, stream.last_ns, now_ns)
        cause = "not-my-vbucket" if kind == "refused" else never if later is None else "asked-again"
        return kind, cause, None
    if stream.granted_ns is None and line.ended_ns is None:
        return ("stuck" if now_ns - stream.last_ns >= LONG_NS else "asked for"), "not-answered", None
    over = stream.ended_ns or stream.closed_ns or line.ended_ns
    if over is not None:
        return _over(stream, lines, over, now_ns)
    if line.full_ns is not None and now_ns - line.full_ns >= SECOND_NS:
        return "blocked by flow control", "window-full", None
    idle = now_ns - stream.last_ns
    if idle < LONG_NS:
        return ("open and flowing", "flowing", None) if stream.counts else ("quiet", "nothing-sent", None)
    if stream.high is not None and stream.high >= stream.asked[-1].numbers[1]:
        return "stuck", "end-not-sent", None
    if stream.marker is not None and (stream.high or 0) < stream.marker[1]:
        return "stuck", "snapshot-incomplete", None
    return "quiet", "idle", None


def _over(stream: Brought, lines: Iterable[Talked], over: int, now_ns: int) -> tuple[str, str, tuple[int, int] | None]:
    line = stream.line
    if stream.ended_ns is None and stream.closed_ns is None:
        how, by = line.ended or ("", 0)
        end = "reset-by-" if how == "rst" else "connection-closed-by-"
        cause: str | None = end + ("server" if by else "client")
    else:
        cause = {0: "finished", 1: "closed-by-consumer", None: "closed-by-consumer"}.get(stream.status)
    if stream.granted_ns is None:
        return "ended", cause or "", None
    later = _again(stream, lines, over)
    if later is not None:
        verb = "reopened" if later.granted_ns is not None else "asked-again"
        return "ended", verb, (later.line.wire.number, _asked(later, over))
    return "ended", cause or _never("abandoned", stream, lines, over, now_ns), None


def _never(cause: str, stream: Brought, lines: Iterable[Talked], after_ns: int, now_ns: int) -> str:
    """Return why a stream was not asked for again after a time, as far as the nodes show that its client talks to."""
    mine = stream.line.wire
    if now_ns - after_ns < SECOND_NS:
        return "not-reopened-yet"
    ends = [
        now_ns if line.ended_ns is None else line.ended_ns
        for line in lines
        if line.wire.owner == mine.owner and line.wire.server != mine.server and line.name is not None
    ]
    return cause if max(ends, default=0) >= after_ns else "other-nodes"


def _again(stream: Brought, lines: Iterable[Talked], after_ns: int) -> Brought | None:
    """Return the next stream of its place that was granted, on the same connection at best, or was asked for."""
    same = [each for line in lines for each in line.streams if each.place == stream.place and each is not stream]
    later = sorted((each for each in same if _asked(each, after_ns)), key=lambda each: _asked(each, after_ns))
    here = [each for each in later if each.line is stream.line][:1]
    granted = sorted((each for each in later if each.granted_ns is not None), key=lambda each: each.granted_ns or 0)
    return next(iter([*(each for each in here if each.granted_ns is not None), *granted, *here, *later]), None)


def _asked(stream: Brought, after_ns: int) -> int:
    """Return when a stream was first asked for after a time; 0 if it was not."""
    return next((each.ts_ns for each in stream.asked if each.ts_ns > after_ns), 0)
