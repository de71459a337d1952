"""Write the summary of a run: the balance of bytes, damage, why nothing was found, and why TLS stays closed."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from dcpdump.capture.file import Capture
from dcpdump.cli.terminal import note
from dcpdump.dissect import PAYLOAD_WORDS, TLS, Dissector, payload
from dcpdump.errors import ExitCode
from dcpdump.escape import safe
from dcpdump.net.event import SNAPLEN
from dcpdump.record import Json
from dcpdump.redact import Redactor
from dcpdump.render.text_columns import bytes_text
from dcpdump.spec.field import Holds
from dcpdump.text import counted
from dcpdump.tls import outcome as why
from dcpdump.tls.outcome import TlsReport

if TYPE_CHECKING:
    from dcpdump.tls.outcome import Failure

#: What commands do with frames: print those that are chosen, analyse all, or count those that are chosen.
SHOWN, READ, COUNTED = "shown", "read", "counted"
#: Ports that are named.
_PORTS = 3


def summarise(
    dissector: Dissector,
    captures: Sequence[Capture],
    shown: int,
    form: str,
    *,
    interrupted: bool = False,
    verb: str = SHOWN,
) -> None:
    """Write the summary on standard error: damage always, the balance in the format ``form``.

    An interrupted run does not report that it found no frames: the rest of the input may have them.
    """
    notes = (eviction_lines(dissector), clock_lines(dissector, captures), tls_lines(dissector))
    for line in chain(damage_lines(captures), mixed_lines(dissector), *(() if form == "none" else notes)):
        note(line)
    if form == "json":
        note(json.dumps(balance(dissector, captures, shown) | ({"interrupted": True} if interrupted else {})))
    elif dissector.tally.frames == 0 and not interrupted:
        what, hint = nothing_found(dissector)
        note(f"dcpdump: error: {what}")
        note(f"hint: {hint}")
    elif form == "text":
        note(("interrupted · " if interrupted else "") + balance_line(dissector, shown, verb))


def status_of(dissector: Dissector, captures: Sequence[Capture]) -> int:
    """Return the exit code of a run that read everything it could."""
    tally, net = dissector.tally, dissector.balance
    if tally.frames == 0:
        return ExitCode.UNUSABLE
    hurt = any(capture.health.damage_count for capture in captures)
    hurt = hurt or any(each.lost_records for each in dissector.tls_reports.values())
    return ExitCode.DAMAGED if hurt or tally.lost.gaps or tally.skipped_bytes or net.conflicts else ExitCode.DONE


def balance(dissector: Dissector, captures: Sequence[Capture], shown: int) -> dict[str, Any]:
    """Return the balance as one object: ``payload_bytes`` is the sum of the values of ``payload``."""
    tally, net = dissector.tally, dissector.balance
    return {
        "packets": net.packets,
        "tcp_packets": net.tcp_packets,
        "connections": net.connections,
        "frames": tally.frames,
        "dcp_frames": tally.dcp_frames,
        "shown": shown,
        "payload_bytes": net.payload_bytes,
        "payload": payload(dissector.tally, dissector.balance),
        "gaps": tally.lost.gaps,
        "unknown_gaps": tally.lost.unknown,
        "lost_bytes": dict(tally.lost.by_reason),
        "lost_without_frames": dict(tally.lost_elsewhere.by_reason),
        "conflicts": net.conflicts,
        "evicted_connections": net.closed,
        "not_understood": dict(net.not_understood),
        "other_protocols": [
            {"protocol": name, "port": port, "connections": count} for (name, port), count in tally.foreign.items()
        ],
        "tls": tls_objects(dissector),
        "damage": [str(damage) for capture in captures for damage in capture.damage],
        "dropped_while_capturing": sum(capture.drops for capture in captures),
    }


def balance_line(dissector: Dissector, shown: int, verb: str = SHOWN) -> str:
    """Return the balance as one line.

    ``verb``: what was done with the frames; ``shown``: with how many of them.
    """
    tally, net = dissector.tally, dissector.balance
    phrases = (
        PAYLOAD_WORDS if net.offset_ms is None else PAYLOAD_WORDS | {"retransmitted": "captured twice, at another time"}
    )
    used = [
        f"{count:,} {phrases.get(name, name)}"
        for name, count in payload(dissector.tally, dissector.balance).items()
        if count or name == "frames"
    ]
    parts = [
        _frames(shown, tally.frames, verb),
        counted(net.packets, "packet"),
        counted(net.connections, "connection"),
        _payload(net.payload_bytes, used),
    ]
    if tally.carved_bytes:
        parts.append(f"{tally.carved_bytes:,} B left out when it was carved")
    if tally.lost.gaps:
        parts.append(tally.lost.words("B"))
    if tally.lost_elsewhere.gaps:
        parts.append(f"connections without frames: {tally.lost_elsewhere.words('B')}")
    if net.conflicts:
        parts.append(f"{counted(net.conflicts, 'overlap')} that disagree{'s' * (net.conflicts == 1)}")
    return " · ".join(parts)


def _payload(size: int, parts: Sequence[str]) -> str:
    """Return where the bytes of payload are, each of them in one part; the first are in frames."""
    if len(parts) > 1:
        return f"payload {size:,} B = {' + '.join(parts)}"
    return f"{size:,} B of payload" + ", all decoded" * bool(size)


def _frames(count: int, frames: int, verb: str) -> str:
    """Return how many frames were shown of how many; where nothing is chosen, how many were read."""
    if verb != SHOWN and count == frames:
        return f"{counted(frames, 'frame')} read"
    return f"{count:,} of {counted(frames, 'frame')} {verb}"


def damage_lines(captures: Sequence[Capture]) -> Iterator[str]:
    """Yield lines, file by file, on what of the input could not be read."""
    for capture in captures:
        where = f"{capture.name}: " if len(captures) > 1 else ""
        for damage in capture.damage:
            yield f"dcpdump: warning: {where}{damage}"
        for text in capture.health.warnings:
            yield f"dcpdump: warning: {where}{text}"
        for text in capture.health.notes:
            yield f"dcpdump: note: {where}{text}"
        if capture.drops:
            yield f"dcpdump: note: {capture.name}: {capture.drops:,} packets were dropped while capturing"


def mixed_lines(dissector: Dissector) -> Iterator[str]:
    """Yield a line for each pair of captures that have one connection at one time, and other bytes of it."""
    pairs = {frozenset(files): (src, dst) for src, dst, files in dissector.tally.mixed}
    for files, (src, dst) in pairs.items():
        names = " and ".join(safe(name) for name in sorted(files))
        yield (
            f"dcpdump: warning: these files are probably not of one network: {names} both have {src} → {dst} at one "
            "time, with other bytes; read them one by one"
        )


def eviction_lines(dissector: Dissector) -> Iterator[str]:
    """Yield a line where connections that had not ended were given up, and where names were."""
    if dissector.names.forgotten:
        yield "dcpdump: note: to stay within --memory, names of collections were forgotten: ids stand without them"
    count = dissector.balance.closed
    if count:
        verb, what = ("was", "it goes") if count == 1 else ("were", "they go")
        yield (
            f"dcpdump: note: to stay within --memory, {counted(count, 'connection')} that had not ended, silent for "
            f"longest, {verb} closed: where {what} on, frames are found again a little later"
        )


_ALIGN = "--align (of diagnose, streams, read …) makes them one timeline"


def clock_lines(dissector: Dissector, captures: Sequence[Capture]) -> Iterator[str]:
    """Say that connections were captured at two points, by how much their clocks differ, and what to do."""
    offset, aligns = dissector.balance.offset_ms, len(captures) > 1 and not any(each.moved_ns for each in captures)
    if offset is not None:
        yield (
            f"dcpdump: note: what was sent was captured twice, by clocks that differ by {abs(offset) / 1000:g} s: "
            f"times are those of what comes first; {f'{_ALIGN}; ' * aligns}to compare two captures, dcpdump diff A B"
        )
    elif aligns and dissector.balance.mostly_repeated:
        yield (
            "dcpdump: note: much of what was sent was captured twice, and not at one time: where captures have "
            f"different clocks, {_ALIGN}"
        )


def nothing_found(dissector: Dissector) -> tuple[str, str]:
    """Return what was found instead of frames, and a hint."""
    net, foreign = dissector.balance, dissector.tally.foreign
    if not net.packets:
        return "no packet in the input", "nothing was captured, or all of it is later than --until"
    failed = tls_failed(dissector)
    found = [*failed, counted(net.packets, "packet"), counted(net.connections, "TCP connection")]
    names = [
        f"{name} on port {port}" + (f" ({count:,} connections)" if count > 1 else "")
        for (name, port), count in foreign.most_common(4)
        if count and not name.endswith(TLS)
    ]
    if names:
        found.append("there is " + ", ".join(names))
    sealed = tls_found(dissector)
    found += sealed
    others = ", ".join(f"{count:,} {reason}" for reason, count in net.not_understood.items())
    if others:
        found.append(f"packets without TCP: {others}")
    cut = dissector.tally.lost_elsewhere.by_reason.get(SNAPLEN)
    if cut:
        found.append(f"packets were cut when they were captured: {cut:,} B of what they carry are missing")
    silent = bool(net.tcp_packets) and not net.payload_bytes and not cut
    if silent:
        found.append("they carry no data")
    unseen = _unseen(dissector.tally.unseen)
    if unseen:
        found.append(f"sequence numbers show that {unseen}")
    what = f"no DCP in the input: {'; '.join(found)}"
    if sealed or failed:
        return what, tls_hint(dissector)
    if cut or not net.tcp_packets:
        return what, "capture TCP, whole packets: tcpdump -s 0 -w out.pcap port 11210 or port 11209"
    if unseen:
        return what, (
            "a capture filter may have left them out, by flags of TCP or by length; "
            "capture all packets of a connection: tcpdump -s 0 -w out.pcap port 11210 or port 11209"
        )
    if silent:
        return what, "nothing was sent meanwhile; capture for longer, best from before the connection opens"
    return what, "DCP runs on ports 11210 and 11209; capture there, from before the connection opens"


def _unseen(sent: Counter[tuple[int, bool]]) -> str:
    """Say how much was sent on connections of which no payload was captured; empty where nothing was."""
    sizes: Counter[int] = Counter()
    for (port, _), size in sent.items():
        sizes[port] += size
    parts = []
    for port, _ in sizes.most_common(_PORTS):
        to, back = sent[port, True], sent[port, False]
        parts.append(f"{to:,} B to port {port}, {back:,} B from it")
    named = "; ".join(parts) + ("; other ports" if len(sizes) > _PORTS else "")
    return f"at least {sizes.total():,} B were sent, which are not in the capture ({named})" if sizes else ""


# -- why TLS connections stay closed, and what to try -------------------------------------------------

#: Connections of which there is a line, an entry of the error, an object.
_TLS_LINES, _NAMED, _OBJECTS = 8, 4, 64
_ELSEWHERE = "or capture an unencrypted port: 11210, or 11209 between nodes"
_HINT = "--keylog FILE with the key log of the client or the server, "
_OF_THE_SAME = "the key log has to be of the same run of the client or the server as the capture, "
_VARIABLE = "SSLKEYLOGFILE"


def tls_reason(report: TlsReport) -> str:
    """Say why something of a connection stays closed; empty where nothing does."""
    logs = f"{counted(report.logs, 'key log')} ({counted(report.secrets, 'connection')})"
    unknown = report.version == "TLS"
    return {
        why.NO_SECRETS: "no secrets were given",
        why.NO_SECRET: f"no secret of it in {logs}",
        why.NO_FIT: f"its secrets do not fit ({counted(report.records, 'record')} tried)",
        why.LATE: (
            f"joined after its handshake, no secret of TLS 1.3 in {logs}: of TLS 1.2 capture from before it connects"
            if unknown
            else "joined after its handshake it cannot be opened: capture from before it connects"
        ),
        why.NOT_FOUND: (
            f"joined after its handshake: none of the secrets of {counted(report.secrets, 'connection')} "
            f"opens it up to record {report.reach:,}" + (", and of TLS 1.2 none can" if unknown else "")
        ),
        why.SUITE: f"{report.suite} is not opened",
        why.VERSION: f"{report.version} is not opened",
        why.NO_SERVER_HELLO: "the server's hello was not captured, without which TLS 1.2 cannot be opened",
        why.TOO_LATE: f"{bytes_text(report.passed)} passed before its secrets came",
        why.HANDSHAKE: "its secrets are of the handshake only",
        why.ONE_DIRECTION: f"no secret of the {'server' if report.server else 'client'}'s direction",
    }.get(report.cause, "")


def tls_state(report: TlsReport) -> str:
    """Say in a few words what a connection is, and what became of it."""
    words = [report.short or report.version]
    if report.joined_at is not None:
        words.append(f"joined at record {report.joined_at:,}")
    if report.lost_records:
        words.append(f"{counted(report.lost_records, 'record')} lost")
    if report.cause:
        words.append(tls_reason(report))
    if report.failure is not None:
        words.append(_failed(report.failure))
    return ", ".join(words)


def tls_closed(report: TlsReport) -> str:
    """Say of a connection of which nothing was opened what it is, and why it stays closed."""
    name = f" to {report.server_name}" if report.server_name else ""
    if report.failure is not None:
        return f"{report.short or report.version}{name}, {_failed(report.failure)}"
    return f"{report.short or report.version}{name}, {report.encrypted_bytes:,} B stay encrypted: {tls_reason(report)}"


def hide_tls(dissector: Dissector, redactor: Redactor) -> None:
    """Hash names and addresses of connections, where those are to be hidden."""
    for number, each in dissector.tls_reports.items():
        if not each.hidden:
            src, dst = redactor.endpoint(each.src), redactor.endpoint(each.dst)
            name = redactor.text(each.server_name, Holds.SYSTEM)
            dissector.tls_reports[number] = replace(each, src=src, dst=dst, server_name=name, hidden=True)


def tls_lines(dissector: Dissector) -> Iterator[str]:
    """Yield a line for each connection of which something stays closed or that was joined late, and a count."""
    events = silent = 0
    none = [each for each in dissector.tls_reports.values() if _lacks_secrets(each)]
    for number, each in sorted(dissector.tls_reports.items()):
        text = _tls_line(each)
        if not text or _lacks_secrets(each) or (each.failure is not None and not dissector.tally.frames):
            continue
        if events < _TLS_LINES:
            yield f"dcpdump: note: connection {number} ({each.src} → {each.dst}): {text}"
        events, silent = events + 1, silent + (events >= _TLS_LINES)
    if silent:
        yield f"dcpdump: note: and {counted(silent, 'connection')} like these"
    if none and dissector.tally.frames:
        size = sum(each.encrypted_bytes for each in none)
        which = f"{counted(len(none), 'connection')} of TLS, {size:,} B"
        yield f"dcpdump: note: {which} stay encrypted: {tls_hint(dissector)}"


def tls_objects(dissector: Dissector) -> list[Json]:
    """Return the connections as objects of the summary."""
    from dcpdump.render.conns import TLS  # here, as only programs ask for it

    found = sorted(dissector.tls_reports.items())[:_OBJECTS]
    return [{"connection": number, **TLS.object(each)} for number, each in found]


def tls_failed(dissector: Dissector) -> list[str]:
    """Say of the TLS connections that failed how they did."""
    counts = Counter(
        f"{each.version} on port {each.port}{_server_name(each)}: {_failed(each.failure)}"
        for each in dissector.tls_reports.values()
        if each.failure is not None
    )
    return [
        text + (f" ({counted(count, 'connection')})" if count > 1 else "") for text, count in counts.most_common(_NAMED)
    ]


def tls_found(dissector: Dissector) -> list[str]:
    """Name the TLS connections of an input in which no DCP was found."""
    sizes: dict[tuple[str, str], int] = {}
    for each in dissector.tls_reports.values():
        if each.inside:
            sizes.setdefault((f"{each.inside} inside TLS on port {each.port}", ""), 0)
        elif each.failure is None:
            text = "" if each.cause == why.NO_SECRETS else tls_reason(each)
            key = f"{each.version} on port {each.port}{_server_name(each)}", text
            sizes[key] = sizes.get(key, 0) + each.encrypted_bytes
    return [
        what + (f", {size:,} B encrypted" if size else "") + (f": {text}" if text else "")
        for (what, text), size in list(sizes.items())[:_NAMED]
    ]


def tls_hint(dissector: Dissector) -> str:
    """Say what to try where TLS failed, or to have it opened."""
    found = dissector.tls_reports.values()
    advice = Counter(each.failure.advice for each in found if each.failure is not None)
    if advice:
        return advice.most_common(1)[0][0]
    reasons = {each.cause for each in found}
    if reasons == {why.LATE}:
        return "capture from before the connection opens, " + _ELSEWHERE
    if why.NO_SECRETS in reasons and os.environ.get(_VARIABLE):
        return f'--keylog "${_VARIABLE}", ' + _ELSEWHERE
    given = any(each.logs for each in found)
    return (_OF_THE_SAME if given else _HINT) + _ELSEWHERE


def _lacks_secrets(report: TlsReport) -> bool:
    """Return whether secrets may open a connection, and none were given."""
    return report.cause == why.NO_SECRETS and report.failure is None


def _server_name(report: TlsReport) -> str:
    return f" (server name {report.server_name})" if report.server_name else ""


def _failed(failure: "Failure") -> str:
    return f"{'ended by an alert' if failure.established else 'handshake failed'}: {failure.text}"


def _tls_line(report: TlsReport) -> str:
    if report.failure is not None:
        return f"{report.version} {_failed(report.failure)}"
    text = tls_reason(report)
    if text:
        return f"{report.version}, {report.encrypted_bytes:,} B stay encrypted: {text}"
    if report.joined_at is not None:
        return f"{report.version} joined after its handshake: recognised at record {report.joined_at:,}"
    return ""
