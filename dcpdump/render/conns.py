"""Write connections as rows for people, and as objects: names, negotiated settings, traffic, ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from dcpdump.net.event import Gap
from dcpdump.record import Direction, Json
from dcpdump.render.column import INSTANT, Column, ColumnSet, of, within
from dcpdump.render.streams import lost_columns
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import folded, number
from dcpdump.spec.names import FEATURE, OPEN_FLAGS
from dcpdump.spec.statuses import STATUS, SUCCESS
from dcpdump.startup import dataclass
from dcpdump.streams.opcode_kinds import NOOP, SELECT_BUCKET
from dcpdump.streams.setup import Control, Noops, SetupRefusal
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import agent_name, client, clock, span, status
from dcpdump.tls.outcome import Alert, Failure, TlsReport
from dcpdump.wire.collection_names import Names

_NOTHING: Mapping[int, tuple[str, TlsReport]] = MappingProxyType({})
_ON = {"true": "on", "false": "off"}


class ConnectionRow(NamedTuple):
    """A connection; of TLS what became of that. ``state`` None: nothing of it was opened."""

    number: int
    src: str
    dst: str
    state: ConnectionState | None
    tls_text: str = ""
    tls: TlsReport | None = None


def rows_of(
    connections: Iterable[ConnectionState], tls: Mapping[int, tuple[str, TlsReport]] = _NOTHING
) -> list[ConnectionRow]:
    """Return rows of connections. ``tls``: what became of those that are TLS, by number, in words and as a report."""
    return [ConnectionRow(each.number, each.src, each.dst, each, *tls.get(each.number, ())) for each in connections]


@dataclass(frozen=True, slots=True)
class ConnectionTable:
    """Lay out connections: a row each where nothing is cut, a card each on a terminal, which is never wide enough."""

    rows: Sequence[ConnectionRow]

    def lines(self, width: int | None = None) -> Iterator[Line]:
        """Yield rows, or for a terminal of a width cards. There is a column for TLS only where there is any."""
        table = CONNECTIONS.table(self.rows)
        if width is None:
            return table.lines()
        return (line for row in table.rows for line in _card(dict(zip(table.heads, row, strict=True)), width))


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


def _collections(names: Names | None) -> Json | None:
    """Return the names of collections by id."""
    known = names.known() if names is not None else []
    return {f"{number:x}": path for number, path in known} or None


def ends(each: ConnectionState) -> str:
    """Return both ends of a connection: client and server, or a question mark between them."""
    if each.client_address is None:
        return f"{each.src} ? {each.dst}"
    return f"{each.client_address} → {each.server_address}{' (inferred)' * each.roles.inferred}"


def _bucket(each: ConnectionState) -> str:
    """Return the bucket; where one was refused, that and why."""
    refusal = _refused_bucket(each)
    if refusal is None:
        return each.setup.bucket or "?"
    return f"{f'{each.setup.bucket}, ' if each.setup.bucket else ''}{refusal.asked or '?'} ({status(refusal.status)})"


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


def _accepted(each: ConnectionState) -> str:
    accepted = (control for control in each.setup.controls.values() if control.status in (None, SUCCESS))
    return " ".join(map(_control, accepted))


def _refused(each: ConnectionState) -> str:
    refused = (control for control in each.setup.controls.values() if control.status not in (None, SUCCESS))
    return ", ".join(f"{_control(control)}({status(control.status)}{_said(control)})" for control in refused)


def _refused_bucket(each: ConnectionState) -> SetupRefusal | None:
    return each.setup.refusals.get((SELECT_BUCKET, 0))


def _end(each: ConnectionState) -> str:
    return f"{each.end.reason} {clock(each.end.ts_ns)}" if each.end.reason else "?" if each.carved else "open"


C = Column[ConnectionState]
CONTROL = ColumnSet[Control](
    *of("key"),
    *of("value", meaning="what it was set to"),
    *of("frame status?"),
    Column("status_name?", lambda each: None if each.status is None else STATUS.names.get(each.status)),
)
NOOPS = ColumnSet[Noops](*of("sent answered"))
_ALERT = ColumnSet[Alert](
    *of("number"),
    *of("name", meaning="its name"),
    *of("level=level_name"),
)
_FAILURE = ColumnSet[Failure](
    *of("text established"),
    *of("alert", columns=_ALERT),
    *of("sent_by=sender after=step close closed_by=closer"),
)
TLS = ColumnSet[TlsReport](
    *of("version suite server_name opened_bytes encrypted_bytes lost_records"),
    *of("why=cause", meaning="the code of why something of it stays closed; empty where nothing does"),
    *of("failure", columns=_FAILURE),
)
#: Connections, and those of TLS of which nothing was opened.
CONNECTIONS = ColumnSet[ConnectionRow](
    *of("connection=number:conn src dst"),
    Column(
        head="client → server",
        text=lambda row: f"{row.src} → {row.dst}" if row.state is None else ends(row.state),
        sort=lambda row: None if row.state is None else client(row.state),
    ),
    *of("client?=client_address server?=server_address", "state"),
    *of("tls?", columns=TLS),
    Column(head="tls", text=lambda row: row.tls_text),
    *within(
        "state",
        (
            *of("roles=roles.word role?"),
            C(head="server is", text=lambda each: each.role or "?"),
            C("name?", lambda each: each.setup.name, "name", lambda each: each.setup.name or "?"),
            *of("agent?=setup.agent"),
            C(head="agent", text=lambda each: agent_name(each.setup.agent) or "?", drop_rank=1),
            C("bucket?", lambda each: each.setup.bucket, "bucket", _bucket, drop_rank=2),
            C(
                "bucket_refused?",
                lambda each: getattr(_refused_bucket(each), "asked", None) or None,
            ),
            C(
                "bucket_status?",
                lambda each: getattr(_refused_bucket(each), "status", None) or None,
            ),
            *of("mechanism?=setup.mechanism authenticated?=setup.authenticated"),
            C(head="auth", text=_authentication),
            C("features_asked?", lambda each: _features(each.setup.asked_features)),
            C("features?", lambda each: _features(each.setup.features)),
            C(
                head="HELLO",
                text=lambda each: (
                    "?" if each.setup.features is None else ",".join(_features(each.setup.features) or ())
                ),
            ),
            *of("open_flags?=setup.flags"),
            C(
                "open_flags_names?",
                lambda each: None if each.setup.flags is None else [*OPEN_FLAGS.describe(each.setup.flags)],
            ),
            *of("open_status?=setup.status"),
            C(head="open", text=_flags),
            C("controls", lambda each: list(each.setup.controls.values()), columns=CONTROL),
            C(head="controls", text=_accepted),
            C(head="refused", text=_refused),
            *of("streams=stream_count:streams stream_requests?=lookup.requests"),
            *of("noops?", columns=NOOPS),
            C(head="NOOPs", text=_noops),
            *of("unanswered?=exchanges.count frames:frames"),
            *of("bytes:bytes", drop_rank=3),
            *of("losses?=missing.gaps"),
            *lost_columns("missing"),
            *of("skipped_bytes?=missing.skipped manifest_uid?"),
            C("collection_names?", lambda each: _collections(each.collection_names)),
            *of("first?=first_ns last?=last_ns end??=end.reason ended_at?=end.ts_ns"),
            C(head="end", text=_end, sort=lambda each: each.end.ts_ns),
        ),
    ),
)
#: The keys of those of which nothing was opened.
CLOSED = ColumnSet[ConnectionRow](*CONNECTIONS.some("connection src dst"), replace(CONNECTIONS.keyed["tls"], key="tls"))

LostBytes = tuple[Direction, int, Gap]  #: the direction, the offset, and the bytes that were lost
#: Bytes of connections that were never captured.
GAPS = ColumnSet[LostBytes](
    *of("connection:conn direction=side src:from dst", "0"),
    *of("offset=1:offset", meaning="where they begin in their direction"),
    Column(
        "bytes",
        lambda row: row[2].length,
        "bytes",
        lambda row: number(row[2].length) or "?",
        meaning="how many bytes; null where it cannot be known",
    ),
    *of("reason:why", "2", meaning="why they are missing"),
    *of("time=ts_ns:time", "2.seen", shown=clock, type=INSTANT),
    *of("packet=number", "2.seen", meaning="the number of the packet that showed it, in its file"),
    *of("file", "2.seen"),
)
