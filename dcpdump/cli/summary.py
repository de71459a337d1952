"""Write the summary of a run: the balance of bytes, damage, and why nothing was found."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dcpdump.capture import Capture
from dcpdump.cli import exit as code
from dcpdump.cli import tls_notes
from dcpdump.cli.terminal import note
from dcpdump.dissect import TLS, Dissector, payload
from dcpdump.escape import safe
from dcpdump.net.event import SNAPLEN
from dcpdump.text import counted

#: What is done with frames: by a command that prints them, by one that analyses all, by one that counts the chosen.
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
    for line in damage_lines(captures):
        note(line)
    for line in mixed_lines(dissector):
        note(line)
    for line in () if form == "none" else eviction_lines(dissector):
        note(line)
    for line in () if form == "none" else clock_lines(dissector):
        note(line)
    for line in () if form == "none" else tls_notes.lines(dissector):
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
        return code.UNUSABLE
    hurt = any(capture.health.damage_count for capture in captures)
    hurt = hurt or any(each.lost_records for each in dissector.tls_reports.values())
    return code.DAMAGED if hurt or tally.lost.gaps or tally.skipped_bytes or net.conflicts else code.DONE


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
        "tls": tls_notes.objects(dissector),
        "damage": [str(damage) for capture in captures for damage in capture.damage],
        "dropped_while_capturing": sum(capture.drops for capture in captures),
    }


_PHRASES = {
    "frames": "in frames",
    "begun_before": "of frames begun before the capture",
    "tls": "of TLS around frames",
    "encrypted": "of TLS not opened",
    "foreign": "of other protocols",
    "duplicate": "captured twice",
    "keepalive": "of keep-alives",
    "late": "too late",
}


def balance_line(dissector: Dissector, shown: int, verb: str = SHOWN) -> str:
    """Return the balance as one line: payload is the sum of what follows it.

    ``verb``: what was done with the frames; ``shown``: with how many of them.
    """
    tally, net = dissector.tally, dissector.balance
    phrases = _PHRASES if net.offset_ms is None else _PHRASES | {"retransmitted": "captured twice, at another time"}
    used = [
        f"{count:,} {phrases.get(name, name)}"
        for name, count in payload(dissector.tally, dissector.balance).items()
        if count or name == "frames"
    ]
    parts = [
        _frames(shown, tally.frames, verb),
        counted(net.packets, "packet"),
        counted(net.connections, "connection"),
        f"payload {net.payload_bytes:,} B = " + " + ".join(used),
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


def clock_lines(dissector: Dissector) -> Iterator[str]:
    """Say that connections were captured at two points, and by how much their clocks differ."""
    offset = dissector.balance.offset_ms
    if offset is not None:
        yield (
            f"dcpdump: note: what was sent was captured twice, by clocks that differ by {abs(offset) / 1000:g} s: "
            "times are those of what comes first; to compare two captures, dcpdump diff A B"
        )


def nothing_found(dissector: Dissector) -> tuple[str, str]:
    """Return what was found instead of frames, and a hint."""
    net, foreign = dissector.balance, dissector.tally.foreign
    if not net.packets:
        return "no packet in the input", "nothing was captured, or all of it is later than --until"
    failed = tls_notes.failed(dissector)
    found = [*failed, counted(net.packets, "packet"), counted(net.connections, "TCP connection")]
    names = [
        f"{name} on port {port}" + (f" ({count:,} connections)" if count > 1 else "")
        for (name, port), count in foreign.most_common(4)
        if count and not name.endswith(TLS)
    ]
    if names:
        found.append("there is " + ", ".join(names))
    sealed = tls_notes.found(dissector)
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
        return what, tls_notes.hint(dissector)
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
