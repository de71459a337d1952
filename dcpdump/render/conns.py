"""Write connections as rows for people, and as objects: names, negotiated settings, traffic, ends."""

from collections.abc import Iterator, Mapping, Sequence

from dcpdump.record import Json
from dcpdump.render.ndjson import without_none
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Table, folded, lost, lost_keys, number
from dcpdump.spec.names import FEATURE, OPEN_FLAGS
from dcpdump.spec.statuses import STATUS, SUCCESS
from dcpdump.startup import dataclass, field
from dcpdump.streams.facts import Control
from dcpdump.streams.opcode_kinds import NOOP, SELECT_BUCKET
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import clock, printable, span, status
from dcpdump.text import iso_time
from dcpdump.wire.collection_names import Names
from dcpdump.wire.json_text import parse_json

_HEADS = (
    "conn",
    "client → server",
    "server is",
    "name",
    "agent",
    "bucket",
    "auth",
    "HELLO",
    "open",
    "controls",
    "refused",
    "streams",
    "NOOPs",
    "frames",
    "bytes",
    "lost",
    "end",
)
_RIGHT = ("streams", "frames", "bytes", "lost")
_ON = {"true": "on", "false": "off"}


@dataclass(frozen=True, slots=True)
class ClosedConnection:
    """A connection of TLS of which nothing was opened: both ends, and why."""

    number: int
    src: str
    dst: str
    text: str
    tls: Json


@dataclass(frozen=True, slots=True)
class ConnectionTable:
    """Lay out connections: a row each where nothing is cut, a card each on a terminal, which is never wide enough."""

    connections: Sequence[ConnectionState]
    tls: Mapping[int, str] = field(default_factory=dict)  #: what became of those that are TLS, by number
    closed: Sequence[ClosedConnection] = ()

    def lines(self, width: int | None = None) -> Iterator[Line]:
        """Yield rows, or for a terminal of a width cards. There is a column for TLS only where there is any."""
        rows = _rows(self.connections)
        heads: tuple[str, ...] = _HEADS
        if self.tls or self.closed:
            heads = (*_HEADS[:2], "tls", *_HEADS[2:])
            sealed = [self.tls.get(each.number, "") for each in self.connections]
            rows = [(*row[:2], text, *row[2:]) for row, text in zip(rows, sealed, strict=True)]
            rows += [(str(c.number), f"{c.src} → {c.dst}", c.text, *[""] * (len(heads) - 3)) for c in self.closed]
            rows.sort(key=lambda row: int(row[0]))
        if width is None:
            return Table(heads, rows, _RIGHT).lines()
        return (line for row in rows for line in _card(dict(zip(heads, row, strict=True)), width))


def _card(cells: dict[str, str], width: int) -> Iterator[Line]:
    """Yield what is known of a connection, below one another."""
    opened = bool(cells["end"])
    said = f"{cells['name']} · {cells['agent']} · bucket {cells['bucket']} · {cells['end']}"
    title = f"connection {cells['conn']}  {said if opened else 'closed TLS'}"
    frames = f"{cells['frames']} frame{'s' * (cells['frames'] != '1')}"
    sent = f"{frames} · {cells['bytes']} B · streams: {cells['streams'] or 'none'}"
    sent += f" · {cells['lost']} B lost" if cells["lost"] else ""
    about = {
        "ends": cells["client → server"] + (f", the server is {cells['server is']}" if opened else ""),
        "TLS": cells.get("tls", ""),
        "auth": cells["auth"],
        "HELLO": cells["HELLO"].replace(",", ", "),
        "open": cells["open"],
        "controls": cells["controls"].replace(" ", ", "),
        "refused": cells["refused"],
        "NOOPs": cells["NOOPs"],
        "traffic": sent if opened else "",
    }
    yield from (Line(LineKind.TITLE, text) for text in folded(title, width, rest="  "))
    for name, text in about.items():
        if text:
            head = f"  {name:<10}"
            yield from (
                Line(LineKind.PLAIN, line) for line in folded(text, max(24, width), first=head, rest=" " * len(head))
            )


def _rows(connections: Sequence[ConnectionState]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for each in connections:
        accepted = [control for control in each.setup.controls.values() if control.status in (None, SUCCESS)]
        refused = [control for control in each.setup.controls.values() if control.status not in (None, SUCCESS)]
        rows.append(
            (
                str(each.number),
                ends(each),
                each.role or "?",
                each.setup.name or "?",
                agent(each.setup.agent) or "?",
                _bucket(each),
                _authentication(each),
                ",".join(_features(each.setup.features) or ()) if each.setup.features is not None else "?",
                _flags(each),
                " ".join(_control(control) for control in accepted),
                ", ".join(f"{_control(control)}({status(control.status)}{_said(control)})" for control in refused),
                number(each.stream_count),
                _noops(each),
                number(each.frames),
                number(each.bytes),
                lost(each.missing),
                f"{each.end.reason} {clock(each.end.ts_ns)}" if each.end.reason else "?" if each.carved else "open",
            )
        )
    return rows


def objects(
    connections: Sequence[ConnectionState],
    tls: Mapping[int, Json] | None = None,
    closed: Sequence[ClosedConnection] = (),
) -> Iterator[Json]:
    """Yield connections as objects, by number.

    What was not captured is left out, and ``tls`` of those that are in clear.
    """
    both: list[ConnectionState | ClosedConnection] = [*connections, *closed]
    for each in sorted(both, key=lambda connection: connection.number):
        if isinstance(each, ClosedConnection):
            yield {"connection": each.number, "src": each.src, "dst": each.dst, "tls": each.tls}
            continue
        yield without_none(
            {
                "connection": each.number,
                "src": each.src,
                "dst": each.dst,
                "client": each.client_address,
                "server": each.server_address,
                "tls": (tls or {}).get(each.number),
                "roles": each.roles.word,
                "role": each.role,
                "name": each.setup.name,
                "agent": each.setup.agent,
                "bucket": each.setup.bucket,
                **_refused_bucket(each),
                "mechanism": each.setup.mechanism,
                "authenticated": each.setup.authenticated,
                "features_asked": _features(each.setup.asked_features),
                "features": _features(each.setup.features),
                "open_flags": each.setup.flags,
                "open_flags_names": None if each.setup.flags is None else list(OPEN_FLAGS.describe(each.setup.flags)),
                "open_status": each.setup.status,
                "controls": [_control_object(control) for control in each.setup.controls.values()],
                "streams": each.stream_count,
                "stream_requests": each.lookup.requests,
                "noops": {"sent": each.noops.sent, "answered": each.noops.answered},
                "unanswered": each.exchanges.count,
                "frames": each.frames,
                "bytes": each.bytes,
                "losses": each.missing.gaps,
                **lost_keys(each.missing),
                "skipped_bytes": each.missing.skipped,
                "manifest_uid": None if each.manifest_uid is None else f"0x{each.manifest_uid:016x}",
                "collection_names": _collections(each.collection_names),
                "first": None if each.first_ns is None else iso_time(each.first_ns),
                "last": None if each.last_ns is None else iso_time(each.last_ns),
                "end": each.end.reason or None,
                "ended_at": None if each.end.ts_ns is None else iso_time(each.end.ts_ns),
            }
        )


def _collections(names: Names | None) -> Json | None:
    """Return the names of collections by id."""
    known = names.known() if names is not None else []
    return {f"{number:x}": path for number, path in known} or None


def agent(text: str | None) -> str:
    """Return the agent of a HELLO's key, which is text, or JSON with the agent in it."""
    try:
        parsed = parse_json((text or "").encode("utf-8", "surrogatepass"))
    except ValueError:
        return text or ""
    name = parsed.get("a") if isinstance(parsed, dict) else None
    return printable(name) if isinstance(name, str) else text or ""


def ends(each: ConnectionState) -> str:
    """Return both ends of a connection: client and server, or a question mark between them."""
    if each.client_address is None:
        return f"{each.src} ? {each.dst}"
    return f"{each.client_address} → {each.server_address}{' (inferred)' * each.roles.inferred}"


def _bucket(each: ConnectionState) -> str:
    """Return the bucket; where one was refused, that and why."""
    refusal = each.setup.refusals.get((SELECT_BUCKET, 0))
    if refusal is None:
        return each.setup.bucket or "?"
    return f"{f'{each.setup.bucket}, ' if each.setup.bucket else ''}{refusal.asked or '?'} ({status(refusal.status)})"


def _refused_bucket(each: ConnectionState) -> Json:
    refusal = each.setup.refusals.get((SELECT_BUCKET, 0))
    return {} if refusal is None else {"bucket_refused": refusal.asked or None, "bucket_status": refusal.status}


def _authentication(each: ConnectionState) -> str:
    if each.setup.mechanism is None:
        return "?"
    return each.setup.mechanism + {True: "", False: " refused", None: " unanswered"}[each.setup.authenticated]


def _features(features: frozenset[int] | None) -> list[str] | None:
    if features is None:
        return None
    return ["".join(FEATURE.describe(value)) or f"0x{value:04x}" for value in sorted(features)]


def _flags(each: ConnectionState) -> str:
    if each.setup.flags is None:
        return "?"
    refused = "" if each.setup.status in (None, SUCCESS) else f" ({status(each.setup.status)})"
    return ("+".join(OPEN_FLAGS.describe(each.setup.flags)) or "consumer") + refused


def _control(control: Control) -> str:
    return f"{control.key}={_ON.get(control.value, control.value)}{'?' if control.status is None else ''}"


def _said(control: Control) -> str:
    return f", server: {control.said}" if control.said else ""


def _control_object(control: Control) -> Json:
    out: Json = {"key": control.key, "value": control.value, "frame": control.frame, "status": control.status}
    if control.status is not None:
        out["status_name"] = STATUS.names.get(control.status)
    return without_none(out)


def _noops(each: ConnectionState) -> str:
    noops = each.noops
    if not noops.sent:
        return ""
    if not each.has_both_sides:
        return f"{noops.sent} seen, the other direction was not captured"
    text = f"{noops.answered} of {noops.sent} answered"
    if noops.latencies_ns:
        text += " in " + "..".join(dict.fromkeys((span(min(noops.latencies_ns)), span(max(noops.latencies_ns)))))
    if noops.open_ns is not None:
        waiting = sum(not noop.doubtful for noop in each.asked_for(NOOP))
        several = f"{waiting:,} wait, the first" if waiting > 1 else "one waits"
        text += f", {several} since {clock(noops.open_ns)}"
    return text
