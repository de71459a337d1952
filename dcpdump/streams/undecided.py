"""Undecided prepares: durable writes of which a COMMIT or ABORT should have come."""

from typing import NamedTuple

from dcpdump.plural import counted
from dcpdump.streams.causes import Cause, Due
from dcpdump.streams.prepares import OpenPrepare
from dcpdump.streams.silence import could_not_send_until
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock

#: The longest timeout that a client can ask for: then the active copy aborts. Only a write that it took over from
#: another, or found on its disk, may have none.
_LONGEST_TIMEOUT_NS = 65_534 * 1_000_000


class Undecided(NamedTuple):
    """Prepares that are neither committed nor aborted for longer than a client can wait."""

    first: OpenPrepare
    since_ns: int  #: when that came
    text: str


def undecided(stream: Stream, by_ns: int | None) -> Undecided | None:
    """Return prepares of a stream of which the outcome should have come by a time.

    None where there is none, or that is not known: bytes are missing, another node decides, or the producer was held
    up, behind which it may still come.
    """
    connection, prepares = stream.connection, stream.prepares
    if not prepares.open or by_ns is None or stream.doubtful or stream.filtered or stream.takeover:
        return None
    if stream.closing or stream.next is not None:
        return None
    before_ns = by_ns - _LONGEST_TIMEOUT_NS
    if could_not_send_until(connection, by_ns) > before_ns:
        return None
    late = prepares.due(before_ns)
    if not late:
        return None
    first = min(late)
    since_ns = first.due_ns or 0
    more = f" and of {counted(len(late) - 1, 'later one')}" if len(late) > 1 else ""
    text = f"no COMMIT or ABORT of PREPARE seqno {first.seqno}{more}{_acknowledged(stream, first)}"
    return Undecided(first, since_ns, f"{text} since {clock(since_ns)}")


def outcome_due(stream: Stream, by_ns: int | None) -> Due | None:
    """Return that the outcome of a durable write is due, if it should have come by a time."""
    found = undecided(stream, by_ns)
    return None if found is None else Due(Cause.PREPARE_UNDECIDED, found.text, since_ns=found.since_ns)


def _acknowledged(stream: Stream, prepare: OpenPrepare) -> str:
    """Return whether the consumer has acknowledged a prepare, in words; empty where it need not."""
    if not stream.connection.sync_replication:
        return ""
    acked = stream.acked_seqno is not None and stream.acked_seqno >= prepare.seqno
    return f", which its consumer {'acknowledged' if acked else 'did not acknowledge'},"
