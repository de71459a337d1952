"""The sentences of a diagnosis: one set for every command that prints it."""

from collections.abc import Iterable, Sequence

from dcpdump.diagnosis.trouble import grouped, speaks_dcp
from dcpdump.spec.statuses import STATUS
from dcpdump.streams.causes import Cause, Reason
from dcpdump.streams.dissection import Unanswered
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, name_stream, span
from dcpdump.text import counted, ranges

#: Of a list of vbuckets, people are shown so many entries.
_SHOWN = 8

#: Of connections with one trouble, so many are named; of these, or of ranges of them, so many are in a command.
NAMED, LISTED = 3, 40
#: Of frames that prove a trouble, so many are named.
FRAMES = 8

#: By cause: how connections were ended, and by whom, as far as that is known.
ENDS: dict[Cause | Reason, str] = {
    Cause.CLOSED_BY_SERVER: "closed by the server",
    Cause.RESET_BY_SERVER: "reset by the server",
    Cause.RESET_BY_CLIENT: "reset by the client",
    Cause.CLOSED_BY_CLIENT: "closed by the client",
    Cause.CONNECTION_ENDED: "ended",
}


def who(connection: ConnectionState, several: bool) -> str:
    """Name a connection; ``several``: there are others to tell it from."""
    return f"{client(connection)} (c{connection.number})" if several else client(connection)


def named(connections: Sequence[ConnectionState], several: bool) -> str:
    """Name connections, the first few."""
    more = f" and {len(connections) - NAMED:,} more" if len(connections) > NAMED else ""
    return ", ".join(who(each, several) for each in connections[:NAMED]) + more


def status_name(status: int) -> str:
    """Return the name of a status; its number where it has none."""
    return STATUS.names.get(status, f"0x{status:02x}")


def subject(streams: Sequence[Stream], several: bool) -> str:
    """Name streams: one by its vbucket, many by their number."""
    connections = {stream.connection for stream in streams}
    of = who(streams[0].connection, several) if len(connections) == 1 else counted(len(connections), "connection")
    return f"{name_stream(streams[0]) if len(streams) == 1 else counted(len(streams), 'stream')} of {of}"


def listed(streams: Sequence[Stream]) -> str:
    """List the vbuckets of streams behind a sentence, which names that of a single one."""
    return "" if len(streams) == 1 else f": {listed_vbuckets(stream.vbucket for stream in streams)}"


def listed_vbuckets(numbers: Iterable[int]) -> str:
    """List vbuckets as ranges, the first few."""
    found = ranges(numbers)
    shown = ", ".join(text for text, _ in found[:_SHOWN])
    more = sum(count for _, count in found[_SHOWN:])
    return f"vb {shown}" + (f" and {more:,} more" if more else "")


def nothing_to_show(ledger: Ledger, connections: Sequence[ConnectionState], evicted: int = 0) -> str:
    """Say why there is no stream, or no connection, to show.

    ``connections``: the chosen ones; ``evicted``: how many chosen streams were forgotten.
    """
    if evicted:
        one = evicted == 1
        kept = f"{'was' if one else 'were'} over and {'is' if one else 'are'} not kept in memory"
        return f"{counted(evicted, 'stream')} match{'es' * one}, which {kept}"
    if not connections:
        return f"no connection matches: there {_are(len(ledger.connections), 'connection')} in the capture"
    if not any(map(speaks_dcp, connections)):
        return f"no DCP: {counted(sum(each.frames for each in connections), 'frame')} of other KV commands"
    if ledger.stream_count:
        return f"no stream matches: there {_are(ledger.stream_count, 'stream')} in the capture"
    return "no DCP streams"


def by_server(attempts: Iterable[Unanswered]) -> dict[str, list[Unanswered]]:
    """Return what was not answered, by who did not answer it."""
    return grouped(attempts, lambda each: each.dst)


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
