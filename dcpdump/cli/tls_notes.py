"""Say why TLS connections stay closed, and what to try."""

import os
from collections.abc import Iterator
from dataclasses import replace

from dcpdump.dissect import Dissector
from dcpdump.plural import counted
from dcpdump.record import Json
from dcpdump.redact import Redactor
from dcpdump.spec.field import Holds
from dcpdump.tls import sealing as why
from dcpdump.tls.sealing import Sealing

#: Connections of which there is a line, an entry of the error, an object.
_LINES, _NAMED, _OBJECTS = 8, 4, 64
_ELSEWHERE = "or capture an unencrypted port: 11210, or 11209 between nodes"
_HINT = "--keylog FILE with the key log of the client or the server, "
_VARIABLE = "SSLKEYLOGFILE"


def reason(sealing: Sealing) -> str:
    """Say why something of a connection stays closed; empty where nothing does."""
    logs = f"{counted(sealing.logs, 'key log')} ({counted(sealing.secrets, 'connection')})"
    unknown = sealing.version == "TLS"
    return {
        why.NO_SECRETS: "no secrets were given",
        why.NO_SECRET: f"no secret of it in {logs}",
        why.NO_FIT: f"its secrets do not fit ({counted(sealing.records, 'record')} tried)",
        why.LATE: (
            f"joined after its handshake, no secret of TLS 1.3 in {logs}: of TLS 1.2 capture from before it connects"
            if unknown
            else "joined after its handshake it cannot be opened: capture from before it connects"
        ),
        why.NOT_FOUND: (
            f"joined after its handshake: none of the secrets of {counted(sealing.secrets, 'connection')} "
            f"opens it up to record {sealing.reach:,}" + (", and of TLS 1.2 none can" if unknown else "")
        ),
        why.SUITE: f"{sealing.suite} is not opened",
        why.VERSION: f"{sealing.version} is not opened",
        why.NO_SERVER_HELLO: "the server's hello was not captured, without which TLS 1.2 cannot be opened",
        why.TOO_LATE: f"{_size(sealing.passed)} passed before its secrets came",
        why.HANDSHAKE: "its secrets are of the handshake only",
        why.ONE_DIRECTION: f"no secret of the {'server' if sealing.server else 'client'}'s direction",
    }.get(sealing.cause, "")


def state(sealing: Sealing) -> str:
    """Say in a few words what a connection is, and what became of it."""
    words = [sealing.short or sealing.version]
    if sealing.joined_at is not None:
        words.append(f"joined at record {sealing.joined_at:,}")
    if sealing.lost_records:
        words.append(f"{counted(sealing.lost_records, 'record')} lost")
    if sealing.cause:
        words.append(reason(sealing))
    return ", ".join(words)


def closed(sealing: Sealing) -> str:
    """Say of a connection of which nothing was opened what it is, and why it stays closed."""
    name = f" to {sealing.server_name}" if sealing.server_name else ""
    return f"{sealing.short or sealing.version}{name}, {sealing.encrypted_bytes:,} B stay encrypted: {reason(sealing)}"


def hide(dissector: Dissector, redactor: Redactor) -> None:
    """Hash names and addresses of connections, where those are to be hidden."""
    for number, each in dissector.sealings.items():
        if not each.hidden:
            src, dst = redactor.endpoint(each.src), redactor.endpoint(each.dst)
            name = redactor.text(each.server_name, Holds.SYSTEM)
            dissector.sealings[number] = replace(each, src=src, dst=dst, server_name=name, hidden=True)


def lines(dissector: Dissector) -> Iterator[str]:
    """Yield a line for each connection of which something stays closed or that was joined late, and a count."""
    events = silent = 0
    none = [each for each in dissector.sealings.values() if each.cause == why.NO_SECRETS]
    for number, each in sorted(dissector.sealings.items()):
        text = _line(each)
        if not text or each.cause == why.NO_SECRETS:
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
    return [{"connection": number, **as_object(each)} for number, each in sorted(dissector.sealings.items())[:_OBJECTS]]


def as_object(sealing: Sealing) -> Json:
    """Return one connection as an object."""
    return {
        "version": sealing.version,
        "suite": sealing.suite,
        "server_name": sealing.server_name,
        "opened_bytes": sealing.opened_bytes,
        "encrypted_bytes": sealing.encrypted_bytes,
        "lost_records": sealing.lost_records,
        "why": sealing.cause,
    }


def found(dissector: Dissector) -> list[str]:
    """Name the TLS connections of an input in which no DCP was found."""
    sizes: dict[tuple[str, str], int] = {}
    for each in dissector.sealings.values():
        if each.inside:
            sizes.setdefault((f"{each.inside} inside TLS on port {each.port}", ""), 0)
            continue
        name = f" (server name {each.server_name})" if each.server_name else ""
        key = f"{each.version} on port {each.port}{name}", "" if each.cause == why.NO_SECRETS else reason(each)
        sizes[key] = sizes.get(key, 0) + each.encrypted_bytes
    return [
        what + (f", {size:,} B encrypted" if size else "") + (f": {text}" if text else "")
        for (what, text), size in list(sizes.items())[:_NAMED]
    ]


def hint(dissector: Dissector) -> str:
    """Say what to try to have TLS opened."""
    reasons = {each.cause for each in dissector.sealings.values()}
    if reasons == {why.LATE}:
        return "capture from before the connection opens, " + _ELSEWHERE
    if why.NO_SECRETS in reasons and os.environ.get(_VARIABLE):
        return f'--keylog "${_VARIABLE}", ' + _ELSEWHERE
    return _HINT + _ELSEWHERE


def _line(sealing: Sealing) -> str:
    text = reason(sealing)
    if text:
        return f"{sealing.version}, {sealing.encrypted_bytes:,} B stay encrypted: {text}"
    if sealing.joined_at is not None:
        return f"{sealing.version} joined after its handshake: recognised at record {sealing.joined_at:,}"
    return ""


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count:,} B"
