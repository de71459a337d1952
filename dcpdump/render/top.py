"""Write connections and streams as they are at one moment, as tables for people and as one object."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dcpdump.record import Json
from dcpdump.render.ndjson import without_none
from dcpdump.render.streams import KINDS, lag_object
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, Table, lost, lost_keys, number
from dcpdump.streams.causes import Verdict
from dcpdump.streams.rates import Rate
from dcpdump.streams.silence import held_up
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock, lag_text, span
from dcpdump.text import counted, iso_time

_CONNECTION_HEADS = ("conn", "client", "server", "streams", "frames/s", "kB/s", "unacked", "buffer", "full", "lost", "")
_STREAM_HEADS = ("conn", "client", "vb", "sid", "frames/s", "kB/s", "last seqno", "lag", "lost", "state")
_RIGHT = ("streams", "frames/s", "kB/s", "unacked", "buffer", "full", "lost", "vb", "sid", "last seqno", "lag")


class Peer(NamedTuple):
    """A connection at that moment; names and addresses as they may be shown."""

    connection: ConnectionState
    rate: Rate
    client: str
    server: str
    src: str
    dst: str
    name: str | None


class StreamRow(NamedTuple):
    """A stream at that moment."""

    stream: Stream
    client: str
    verdict: Verdict
    rate: Rate


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
    """Return tables. ``most``: of at most so many rows; those that matter least are left out."""
    out: list[Line | Fitting] = [Line(LineKind.TITLE, _title(view))]
    connections = sorted(view.connections, key=lambda peer: (bool(peer.connection.end.reason), -peer.rate.bytes))
    streams = sorted(view.streams, key=_rank)
    limit = None if most is None else max(2, min(len(connections), most // 3))
    shown = connections[:limit]
    rows = [_connection(peer, view.now_ns) for peer in shown]
    out.append(Table(_CONNECTION_HEADS, rows, _RIGHT, ("kB/s", "streams", "server")))
    if len(connections) > len(shown):
        out.append(Line(LineKind.PLAIN, f"… {len(connections) - len(shown):,} more connections, with less traffic"))
    if streams:
        out.append(Line(LineKind.PLAIN, ""))
    listed = streams if most is None else streams[: max(1, most - len(shown))]
    kinds = [KINDS[row.verdict.degree] for row in listed]
    out.append(Table(_STREAM_HEADS, [_stream(row, view.now_ns) for row in listed], _RIGHT, ("kB/s", "client"), kinds))
    if len(streams) > len(listed):
        out.append(Line(LineKind.PLAIN, f"… {len(streams) - len(listed):,} more streams, slower and without trouble"))
    return out


def as_object(view: TopView) -> Json:
    """Return all of it as one object. What was not captured is left out."""
    return {
        "time": None if view.now_ns is None else iso_time(view.now_ns),
        "frames": view.frames,
        "rate_seconds": round(view.rates_ns / 1e9, 3),
        **view.packet_counts,
        "connections": [_connection_object(peer) for peer in view.connections],
        "streams": [_stream_object(row) for row in view.streams],
    }


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
    held = held_up(each, now_ns) or held_up(each, now_ns, by_producer=True)
    if held is not None:
        return held.fault.value.replace("-", " ").upper()
    if not window.complete or window.size is None:
        return ""
    return "EXCEEDED" if window.is_exceeded else "BLOCKED" if window.is_blocked else ""


def _connection(peer: Peer, now_ns: int | None) -> tuple[str, ...]:
    each, rate, window = peer.connection, peer.rate, peer.connection.window
    known = window.complete and window.size is not None
    return (
        str(each.number),
        peer.client,
        peer.server,
        number(sum(stream.alive for stream in each.streams)),
        _rate(rate.frames),
        _rate(rate.bytes / 1000),
        number(window.outstanding) if known else "",
        number(window.size),
        f"{100 * window.outstanding // window.size} %" if known and window.size else "",
        lost(each.missing),
        f"{each.end.reason} {clock(each.end.ts_ns)}" if each.end.reason else _mark(each, now_ns),
    )


def _stream(row: StreamRow, now_ns: int | None) -> tuple[str, ...]:
    stream = row.stream
    return (
        str(stream.connection.number),
        row.client,
        str(stream.vbucket),
        str(stream.stream_id or ""),
        _rate(row.rate.frames),
        _rate(row.rate.bytes / 1000),
        number(stream.seqnos.high),
        lag_text(row.verdict.lag, now_ns),
        lost(stream.gaps.missed),
        row.verdict.text,
    )


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def _connection_object(peer: Peer) -> Json:
    each, rate, window = peer.connection, peer.rate, peer.connection.window
    known = window.complete and window.size is not None
    return without_none(
        {
            "connection": each.number,
            "src": peer.src,
            "dst": peer.dst,
            "name": peer.name,
            "roles": each.roles.word,
            "streams": sum(stream.alive for stream in each.streams),
            "frames_per_second": round(rate.frames, 1),
            "bytes_per_second": round(rate.bytes),
            "buffer": window.size,
            "outstanding": window.outstanding if known else None,
            "blocked": window.is_blocked and not window.is_exceeded if known else None,
            "exceeded": window.is_exceeded or None if known else None,
            **lost_keys(each.missing),
            "end": each.end.reason or None,
            "ended_at": None if each.end.ts_ns is None else iso_time(each.end.ts_ns),
        }
    )


def _stream_object(row: StreamRow) -> Json:
    stream = row.stream
    return without_none(
        {
            "connection": stream.connection.number,
            "vbucket": stream.vbucket,
            "stream_id": stream.stream_id or None,
            "frames_per_second": round(row.rate.frames, 1),
            "bytes_per_second": round(row.rate.bytes),
            "last_seqno": stream.seqnos.high,
            **lag_object(row.verdict.lag),
            **lost_keys(stream.gaps.missed),
            "state": row.verdict.kind.value,
            "cause": row.verdict.cause.value,
            "why": row.verdict.why,
            "trouble": row.verdict.trouble,
        }
    )
