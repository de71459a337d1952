"""The sentences of a diagnosis: one set for every command that prints it."""

from collections.abc import Iterable, Sequence

from dcpdump.diagnosis.evidence import speaks_dcp
from dcpdump.plural import counted
from dcpdump.spec.names import STATUS, STREAM_END_STATUS
from dcpdump.streams.causes import Cause, Reason
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.watching import Unanswered
from dcpdump.streams.wording import client, span

#: Of a list of vbuckets, people are shown so many entries.
_SHOWN = 8

#: By cause: what is said of one stream, and of several, that wait for something.
_WAITS = {
    Cause.SNAPSHOT_INCOMPLETE: "stuck in the middle of a snapshot",
    Cause.END_NOT_SENT: "stuck at the end: the end seqno is reached and no STREAM_END came",
    Cause.STATE_NOT_ANSWERED: "stuck in a takeover: SET_VBUCKET_STATE is not answered",
    Cause.SNAPSHOT_NOT_ACKNOWLEDGED: "stuck behind a snapshot that is not acknowledged",
    Cause.BEHIND_SERVER: "stuck behind the server's high seqno",
    Cause.NOOPS_MISSING: "stuck: the producer is silent, and sends no NOOP",
    Cause.NOT_ANSWERED: "asked for without an answer",
}
#: By cause: how connections were ended, and by whom.
_ENDS = {
    Cause.CLOSED_BY_SERVER: "closed by the server",
    Cause.RESET_BY_SERVER: "reset by the server",
    Cause.RESET_BY_CLIENT: "reset by the client",
    Cause.CLOSED_BY_CLIENT: "closed by the client",
}


def who(connection: ConnectionState, several: bool) -> str:
    """Name a connection; ``several``: there are others to tell it from."""
    return f"{client(connection)} (c{connection.number})" if several else client(connection)


def subject(streams: Sequence[Stream], several: bool) -> str:
    """Name streams: one by its vbucket, many by their number."""
    connections = {stream.connection: None for stream in streams}
    first = next(iter(connections))
    if len(connections) > 1:
        return f"{counted(len(streams), 'stream')} of {counted(len(connections), 'connection')}"
    if len(streams) == 1:
        return f"{place(streams[0])} of {who(first, several)}"
    return f"{counted(len(streams), 'stream')} of {who(first, several)}"


def place(stream: Stream) -> str:
    """Name a stream by its vbucket and stream id."""
    return f"vb {stream.vbucket}" + (f" sid {stream.stream_id}" if stream.stream_id else "")


def vbuckets(streams: Iterable[Stream]) -> str:
    """List the vbuckets of streams, as ranges, the first few."""
    return listed_vbuckets(stream.vbucket for stream in streams)


def listed_vbuckets(numbers: Iterable[int]) -> str:
    """List vbuckets as ranges, the first few."""
    found = ranges(numbers)
    shown = ", ".join(text for text, _ in found[:_SHOWN])
    more = sum(count for _, count in found[_SHOWN:])
    return f"vb {shown}" + (f" and {more:,} more" if more else "")


def ranges(numbers: Iterable[int]) -> list[tuple[str, int]]:
    """Return numbers as ranges, each with how many there are in it; neighbours of two stay apart."""
    out: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if out and number == out[-1][1] + 1:
            out[-1] = (out[-1][0], number)
        else:
            out.append((number, number))
    apart = [
        each
        for first, last in out
        for each in ([(first, first), (last, last)] if last == first + 1 else [(first, last)])
    ]
    return [(str(low) if low == high else f"{low}-{high}", high - low + 1) for low, high in apart]


def was(streams: Sequence[Stream]) -> str:
    """Return the verb for one or several streams."""
    return "was" if len(streams) == 1 else "were"


def listed(streams: Sequence[Stream]) -> str:
    """Return what lists several streams behind a sentence; nothing for one, which the sentence names."""
    return f": {vbuckets(streams)}" if len(streams) > 1 else ""


def ended(streams: Sequence[Stream], several: bool) -> str:
    """Say that streams ended and were not asked for again."""
    statuses = {stream.end_status for stream in streams if stream.end_frame is not None}
    names = sorted(STREAM_END_STATUS.names.get(each, str(each)) for each in statuses if each is not None)
    how = f" ({', '.join(names)})" if names else ""
    return f"{subject(streams, several)} ended{how} and {was(streams)} not asked for again{listed(streams)}"


def stuck(cause: Cause | Reason, streams: Sequence[Stream], several: bool) -> str:
    """Say what streams wait for."""
    verb = "is" if len(streams) == 1 else "are"
    waits = _WAITS[cause] if isinstance(cause, Cause) and cause in _WAITS else "stuck"
    return f"{subject(streams, several)} {verb} {waits}{listed(streams)}"


def refused(streams: Sequence[Stream], several: bool) -> str:
    """Say that streams were refused."""
    statuses = {stream.requests[-1].status for stream in streams if stream.requests}
    names = sorted(STATUS.names.get(each, f"0x{each:02x}") for each in statuses if each is not None)
    how = f" with {', '.join(names)}" if names else ""
    return f"{subject(streams, several)} {was(streams)} refused{how} and not granted since{listed(streams)}"


def rolled_back(streams: Sequence[Stream], several: bool) -> str:
    """Say that streams were rolled back and not asked for again."""
    return f"{subject(streams, several)} {was(streams)} rolled back and not asked for again{listed(streams)}"


def loop(streams: Sequence[Stream], why: str, several: bool) -> str:
    """Say that streams are rolled back again and again. ``why``: of the first."""
    if len(streams) == 1:
        return f"{subject(streams, several)} was rolled back {why}"
    return f"{subject(streams, several)} are rolled back again and again{listed(streams)}"


def unclear(cause: Cause | Reason, streams: Sequence[Stream], several: bool) -> str:
    """Say that streams are over, and that it is not known what came of them."""
    if cause is Cause.NOT_REOPENED_YET:
        return f"{subject(streams, several)} stopped just before the capture ends{listed(streams)}"
    return f"{subject(streams, several)} stopped, and the capture does not tell what followed{listed(streams)}"


def end_of_connection(cause: Cause | Reason) -> str:
    """Say how connections ended, and by whom, as far as that is known."""
    return _ENDS.get(cause, "ended") if isinstance(cause, Cause) else "ended"


def closed(cause: Cause | Reason, streams: Sequence[Stream], when: str, several: bool) -> str:
    """Say that connections ended with streams open."""
    connections = {stream.connection: None for stream in streams}
    by = end_of_connection(cause)
    if len(connections) > 1:
        return f"{counted(len(connections), 'connection')} were {by} with {counted(len(streams), 'stream')} open"
    (connection,) = connections
    open_ones = place(streams[0]) if len(streams) == 1 else counted(len(streams), "stream")
    return f"the connection of {who(connection, several)} was {by} at {when} with {open_ones} open"


def nothing_to_show(ledger: Ledger, connections: Sequence[ConnectionState]) -> str:
    """Say why there is no stream, or no connection, to show. ``connections``: those that are wanted."""
    if not connections:
        return f"no connection matches: there {_are(len(ledger.connections), 'connection')} in the capture"
    if not any(map(speaks_dcp, connections)):
        return f"no DCP: {counted(sum(sum(each.frames) for each in connections), 'frame')} of other KV commands"
    if ledger.streams:
        return f"no stream matches: there {_are(len(ledger.streams), 'stream')} in the capture"
    return "no DCP streams"


def by_server(attempts: Iterable[Unanswered]) -> dict[str, list[Unanswered]]:
    """Return what was not answered, by who did not answer it."""
    found: dict[str, list[Unanswered]] = {}
    for each in attempts:
        found.setdefault(each.dst, []).append(each)
    return found


def not_opened(server: str, attempts: Sequence[Unanswered]) -> str:
    """Say that a server did not answer SYNs."""
    hosts = sorted({each.src.rpartition(":")[0] for each in attempts})
    who = ", ".join(hosts[:_SHOWN]) + (f" and {len(hosts) - _SHOWN:,} more" if len(hosts) > _SHOWN else "")
    lasting = span(max(each.lasting_ns for each in attempts))
    return (
        f"{server}: no answer to the SYN of {counted(len(attempts), 'connection')} of {who}, sent again for {lasting}"
    )


def _are(count: int, noun: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, noun)}"
