"""Say why TLS connections stay closed, and what to try."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dcpdump.dissect import Dissector
from dcpdump.record import Json
from dcpdump.redact import Redactor
from dcpdump.spec.field import Holds
from dcpdump.text import counted
from dcpdump.tls import report as why
from dcpdump.tls.report import TlsReport

if TYPE_CHECKING:
    from dcpdump.tls.report import Failure

#: Connections of which there is a line, an entry of the error, an object.
_LINES, _NAMED, _OBJECTS = 8, 4, 64
_ELSEWHERE = "or capture an unencrypted port: 11210, or 11209 between nodes"
_HINT = "--keylog FILE with the key log of the client or the server, "
_OF_THE_SAME = "the key log has to be of the same run of the client or the server as the capture, "
_VARIABLE = "SSLKEYLOGFILE"


def reason(report: TlsReport) -> str:
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
        why.TOO_LATE: f"{_size(report.passed)} passed before its secrets came",
        why.HANDSHAKE: "its secrets are of the handshake only",
        why.ONE_DIRECTION: f"no secret of the {'server' if report.server else 'client'}'s direction",
    }.get(report.cause, "")


def state(report: TlsReport) -> str:
    """Say in a few words what a connection is, and what became of it."""
    words = [report.short or report.version]
    if report.joined_at is not None:
        words.append(f"joined at record {report.joined_at:,}")
    if report.lost_records:
        words.append(f"{counted(report.lost_records, 'record')} lost")
    if report.cause:
        words.append(reason(report))
    if report.failure is not None:
        words.append(_failed(report.failure))
    return ", ".join(words)


def closed(report: TlsReport) -> str:
    """Say of a connection of which nothing was opened what it is, and why it stays closed."""
    name = f" to {report.server_name}" if report.server_name else ""
    if report.failure is not None:
        return f"{report.short or report.version}{name}, {_failed(report.failure)}"
    return f"{report.short or report.version}{name}, {report.encrypted_bytes:,} B stay encrypted: {reason(report)}"


def hide(dissector: Dissector, redactor: Redactor) -> None:
    """Hash names and addresses of connections, where those are to be hidden."""
    for number, each in dissector.tls_reports.items():
        if not each.hidden:
            src, dst = redactor.endpoint(each.src), redactor.endpoint(each.dst)
            name = redactor.text(each.server_name, Holds.SYSTEM)
            dissector.tls_reports[number] = replace(each, src=src, dst=dst, server_name=name, hidden=True)


def lines(dissector: Dissector) -> Iterator[str]:
    """Yield a line for each connection of which something stays closed or that was joined late, and a count."""
    events = silent = 0
    none = [each for each in dissector.tls_reports.values() if _lacks_secrets(each)]
    for number, each in sorted(dissector.tls_reports.items()):
        text = _line(each)
        if not text or _lacks_secrets(each) or (each.failure is not None and not dissector.tally.frames):
            continue
        if events < _LINES:
            yield f"dcpdump: note: connection {number} ({each.src} → {each.dst}): {text}"
        events, silent = events + 1, silent + (events >= _LINES)
    if silent:
        yield f"dcpdump: note: and {counted(silent, 'connection')} like these"
    if none and dissector.tally.frames:
        size = sum(each.encrypted_bytes for each in none)
        yield f"dcpdump: note: {counted(len(none), 'connection')} of TLS, {size:,} B stay encrypted: {hint(dissector)}"


def objects(dissector: Dissector) -> list[Json]:
    """Return the connections as objects of the summary."""
    return [
        {"connection": number, **as_object(each)} for number, each in sorted(dissector.tls_reports.items())[:_OBJECTS]
    ]


def as_object(report: TlsReport) -> Json:
    """Return one connection as an object."""
    return {
        "version": report.version,
        "suite": report.suite,
        "server_name": report.server_name,
        "opened_bytes": report.opened_bytes,
        "encrypted_bytes": report.encrypted_bytes,
        "lost_records": report.lost_records,
        "why": report.cause,
        "failure": None if report.failure is None else _failure_object(report.failure),
    }


def _failure_object(failure: "Failure") -> Json:
    """Return how a connection failed as an object."""
    alert = failure.alert
    return {
        "text": failure.text,
        "established": failure.established,
        "alert": None if alert is None else {"number": alert.number, "name": alert.name, "level": alert.level_name},
        "sent_by": failure.sender,
        "after": failure.step,
        "close": failure.close,
        "closed_by": failure.closer,
    }


def failed(dissector: Dissector) -> list[str]:
    """Say of the TLS connections that failed how they did."""
    counts: Counter[str] = Counter()
    for each in dissector.tls_reports.values():
        if each.failure is not None:
            counts[f"{each.version} on port {each.port}{_server_name(each)}: {_failed(each.failure)}"] += 1
    return [
        text + (f" ({counted(count, 'connection')})" if count > 1 else "") for text, count in counts.most_common(_NAMED)
    ]


def found(dissector: Dissector) -> list[str]:
    """Name the TLS connections of an input in which no DCP was found."""
    sizes: dict[tuple[str, str], int] = {}
    for each in dissector.tls_reports.values():
        if each.inside:
            sizes.setdefault((f"{each.inside} inside TLS on port {each.port}", ""), 0)
            continue
        if each.failure is not None:
            continue
        key = (
            f"{each.version} on port {each.port}{_server_name(each)}",
            "" if each.cause == why.NO_SECRETS else reason(each),
        )
        sizes[key] = sizes.get(key, 0) + each.encrypted_bytes
    return [
        what + (f", {size:,} B encrypted" if size else "") + (f": {text}" if text else "")
        for (what, text), size in list(sizes.items())[:_NAMED]
    ]


def hint(dissector: Dissector) -> str:
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


def _line(report: TlsReport) -> str:
    if report.failure is not None:
        return f"{report.version} {_failed(report.failure)}"
    text = reason(report)
    if text:
        return f"{report.version}, {report.encrypted_bytes:,} B stay encrypted: {text}"
    if report.joined_at is not None:
        return f"{report.version} joined after its handshake: recognised at record {report.joined_at:,}"
    return ""


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count:,} B"
