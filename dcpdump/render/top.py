"""Write connections and streams as they are at one moment, as tables for people and as one object."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from dcpdump.record import Json
from dcpdump.render.column import BOOL, ROWS, Column, ColumnSet, of
from dcpdump.render.streams import KINDS, STREAMS, StreamRow, lag_columns, lost_columns
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, number, rate_text
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.silence import held_up
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock, span
from dcpdump.text import counted

# -- rates: how many messages there are now, by what a ledger counted ----------------------------------

#: The period (ns) of rates, where it was counted, and of counts.
_LASTING, _EVERY = 5_000_000_000, 1_000_000_000
#: A count costs a step for each stream: the most steps for each frame, and in addition.
_STEPS_A_FRAME, _FREE_STEPS = 4, 100_000


class Rate(NamedTuple):
    """Frames and bytes a second."""

    frames: float
    bytes: float


class _Look(NamedTuple):
    """What there was from a time to another: frames and bytes of streams and connections."""

    since_ns: int  #: when the last frame came
    until_ns: int
    counts: dict[Stream | ConnectionState, tuple[int, int]]


class RateMeter:
    """Measure the rates of a ledger by what it counted some seconds ago, and by now."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()  #: up to the oldest that is needed
        self._before: _Look | None = None  #: from which the rates count
        self._now: _Look | None = None
        self._steps = 0

    @property
    def lasting_ns(self) -> int:
        """Over how long the rates are, as of the last look."""
        before, now = self._before, self._now
        if before is None or now is None:
            return 0
        return now.until_ns - min(max(now.until_ns - _LASTING, before.since_ns), before.until_ns)

    def pass_to(self, ledger: Ledger, ts_ns: int | None) -> None:
        """Count what there is before the next frame, which comes at a time, where that is due."""
        last = self._looks[-1].until_ns if self._looks else ledger.first_ns
        if ts_ns is None or last is None or ts_ns - last < _EVERY:
            return
        steps = len(ledger.streams) + len(ledger.connections)
        if self._steps + steps <= _FREE_STEPS + _STEPS_A_FRAME * ledger.frames:
            self._steps += steps
            self._keep(_look(ledger, ts_ns))

    def look(self, ledger: Ledger, now_ns: int) -> None:
        """Count what there is by now, and measure the rates up to now."""
        now = self._now = _look(ledger, now_ns)
        before = next((each for each in (*self._looks, now) if each.until_ns >= now_ns - _LASTING), now)
        if before is now and now.since_ns > now_ns - _LASTING:
            begin_ns = ledger.first_ns or now_ns
            before = self._looks[-1] if self._looks else _Look(begin_ns, begin_ns, {})
        self._before = before
        if not self._looks or now_ns - self._looks[-1].until_ns >= _EVERY:
            self._keep(now)

    def of(self, thing: Stream | ConnectionState) -> Rate:
        """Return the rate as of the last look."""
        if self._now is None or self._before is None or not self.lasting_ns:
            return Rate(0, 0)
        seconds = self.lasting_ns / 1e9
        was, had = self._before.counts.get(thing, (0, 0))
        frames, size = self._now.counts.get(thing, (0, 0))
        return Rate((frames - was) / seconds, (size - had) / seconds)

    def _keep(self, look: _Look) -> None:
        self._looks.append(look)
        while self._looks[0].until_ns < look.until_ns - _LASTING:
            self._looks.popleft()


def _look(ledger: Ledger, now_ns: int) -> _Look:
    counts: dict[Stream | ConnectionState, tuple[int, int]] = {
        stream: (sum(stream.traffic.counts), stream.traffic.size) for stream in ledger.streams
    }
    counts |= {each: (each.frames, each.bytes) for each in ledger.connections.values()}
    latest = max((each.last_ns or 0 for each in ledger.connections.values()), default=0)
    return _Look(min(latest, now_ns), now_ns, counts)


# -- what there is at one moment -----------------------------------------------------------------------

#: What an interface delivered, as objects have it.
PACKET_COUNTS = ("received", "dropped_by_kernel", "dropped_by_dcpdump", "decoded", "not_looked_at")


class Peer(NamedTuple):
    """A connection at that moment; names and addresses as they may be shown."""

    connection: ConnectionState
    rate: Rate
    client: str
    server: str
    src: str
    dst: str
    name: str | None
    now_ns: int | None


class TopView(NamedTuple):
    """Everything at one moment. ``packet_counts``: the packets of an interface, by what was done with them."""

    source: str
    now_ns: int | None
    frames: int
    connections: Sequence[Peer]
    streams: Sequence[StreamRow]
    packet_counts: Json
    rates_ns: int = 0  #: over how long the rates are


def lines(view: TopView, most: int | None = None) -> "list[Line | Fitting]":
    """Return tables. ``most``: the most rows; the least important ones are left out."""
    out: list[Line | Fitting] = [Line(LineKind.TITLE, _title(view))]
    connections = sorted(view.connections, key=lambda peer: (bool(peer.connection.end.reason), -peer.rate.bytes))
    streams = sorted(view.streams, key=_rank)
    limit = None if most is None else max(2, min(len(connections), most // 3))
    shown = connections[:limit]
    out.append(TOP_CONNECTIONS.table(shown))
    if len(connections) > len(shown):
        out.append(Line(LineKind.PLAIN, f"… {len(connections) - len(shown):,} more connections, with less traffic"))
    if streams:
        out.append(Line(LineKind.PLAIN, ""))
    listed = streams if most is None else streams[: max(1, most - len(shown))]
    out.append(TOP_STREAMS.table(listed))
    if len(streams) > len(listed):
        out.append(Line(LineKind.PLAIN, f"… {len(streams) - len(listed):,} more streams, slower and without trouble"))
    return out


def _rank(row: StreamRow) -> tuple[bool, int, int, int, int]:
    """Return a sort key: trouble first, then roughly by speed, since rows that keep changing places cannot be read."""
    stream = row.stream
    fast = int(row.rate.frames).bit_length()
    return not row.verdict.trouble, -fast, stream.connection.number, stream.vbucket, stream.number


def _title(view: TopView) -> str:
    words = [view.source]
    if view.now_ns is not None:
        words.append(clock(view.now_ns))
    words.append(counted(len(view.connections), "connection"))
    kinds = Counter(row.verdict.kind.value for row in view.streams).most_common()
    words.append(counted(len(view.streams), "stream") + "".join(f", {count:,} {kind}" for kind, count in kinds))
    words.append(counted(view.frames, "frame"))
    if view.rates_ns:
        words.append(f"rates of the last {span(view.rates_ns)}")
    for name, what in (("dropped_by_kernel", "the kernel"), ("dropped_by_dcpdump", "dcpdump")):
        if name in view.packet_counts:
            words.append(f"dropped by {what} {view.packet_counts[name]:,}")
    return " · ".join(words)


def _mark(each: ConnectionState, now_ns: int | None) -> str:
    """Return what stops a connection, or what its producer ignores, as one mark; empty where it is nothing."""
    window = each.window
    held = held_up(each, now_ns) or held_up(each, now_ns, "producer")
    if held is not None:
        return held.fault.value.replace("-", " ").upper()
    if not window.complete or window.size is None:
        return ""
    return "EXCEEDED" if window.is_exceeded else "BLOCKED" if window.is_blocked else ""


def _known(peer: Peer) -> bool:
    """Return whether it is known how many bytes are not acknowledged."""
    return peer.connection.window.complete and peer.connection.window.size is not None


def _full(peer: Peer) -> str:
    window = peer.connection.window
    return f"{100 * window.outstanding // window.size} %" if _known(peer) and window.size else ""


def _state(peer: Peer) -> str:
    each = peer.connection
    return f"{each.end.reason} {clock(each.end.ts_ns)}" if each.end.reason else _mark(each, peer.now_ns)


def _blocked(peer: Peer) -> bool | None:
    window = peer.connection.window
    return window.is_blocked if _known(peer) else None


def _rates(rate_of: Callable[[Any], Rate]) -> tuple[Column[Any], ...]:
    """Return the columns of a rate."""
    return (
        Column(
            "frames_per_second",
            lambda row: round(rate_of(row).frames, 1),
            "frames/s",
            lambda row: rate_text(rate_of(row).frames),
        ),
        Column(
            "bytes_per_second",
            lambda row: round(rate_of(row).bytes),
            "kB/s",
            lambda row: rate_text(rate_of(row).bytes / 1000),
            drop_rank=1,
        ),
    )


C = Column[Peer]
TOP_CONNECTIONS = ColumnSet[Peer](
    *of("connection=connection.number:conn src dst name? roles=connection.roles.word"),
    C(head="client", text=lambda peer: peer.client),
    C(head="server", text=lambda peer: peer.server, drop_rank=3),
    C("streams", lambda peer: sum(each.alive for each in peer.connection.streams), "streams", drop_rank=2),
    *_rates(lambda peer: peer.rate),
    C(
        head="unacked",
        text=lambda peer: number(peer.connection.window.outstanding) if _known(peer) else "",
        right=True,
    ),
    *of("buffer?=window.size:buffer", "connection"),
    C("outstanding?", lambda peer: peer.connection.window.outstanding if _known(peer) else None),
    C("blocked?", _blocked),
    C(
        "exceeded?",
        lambda peer: peer.connection.window.is_exceeded or None if _known(peer) else None,
        type=BOOL,
        meaning="more was sent than flow control allows",
    ),
    C(head="full", text=_full, right=True),
    *lost_columns("connection.missing"),
    *of("end??=end.reason ended_at?=end.ts_ns", "connection"),
    C(head=" ", text=_state),
)

TOP_STREAMS = ColumnSet[StreamRow](
    STREAMS["conn"],
    replace(STREAMS["client"], drop_rank=2),
    *STREAMS.some("vb sid"),
    *_rates(lambda row: row.rate),
    replace(STREAMS["last-seqno"], key="last_seqno?"),
    STREAMS["lag"],
    *lag_columns("verdict.lag"),
    *STREAMS.some("lost unknown_gaps state cause why trouble"),
    Column(head="state", text=lambda row: row.verdict.text),
    kind=lambda row: KINDS[row.verdict.degree],
)


#: All of it at one moment, and of packets how many of an interface were handled how.
TOP = ColumnSet[TopView](
    *of("time?=now_ns frames"),
    Column("rate_seconds", lambda view: round(view.rates_ns / 1e9, 3)),
    *(Column(f"{key}?", partial(lambda key, view: view.packet_counts.get(key), key)) for key in PACKET_COUNTS),
    *of("connections", type=ROWS, columns=TOP_CONNECTIONS, meaning="the connections"),
    *of("streams", type=ROWS, columns=TOP_STREAMS, meaning="the streams"),
)
