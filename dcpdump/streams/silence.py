"""Silence: whether a stream that is silent in a snapshot may be waiting while its producer serves other streams.

A producer sends the streams of a connection in turn: those that it reads from disk one after the other, or some of them
at a time; those from memory as they have something. So the silence of a stream says nothing as long as others are
served, unless it is passed over again and again, or none of its kind is served any more.
"""

from bisect import bisect_right
from typing import NamedTuple

from dcpdump.streams.intervals import between
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.tcp_faults import held_until
from dcpdump.streams.turns import SECOND
from dcpdump.streams.wording import clock

#: A stream that others were preferred to for so many rounds, or so many times the usual pause, is passed over.
MANY = 4


class Silence(NamedTuple):
    """How a stream that is in the middle of something fares against the others of its connection."""

    waits: bool  #: it may be waiting for its turn
    text: str  #: why it may, or why it does not


class Silences:
    """The turns of streams of a ledger that is closed. Each question costs a few steps."""

    def __init__(self, now_ns: int | None, idle_ns: int) -> None:
        """``now_ns``: when the capture ended; ``idle_ns``: who is silent for so long is looked at."""
        self._now_ns, self._idle_ns = now_ns, idle_ns
        self._turns: dict[tuple[int, int], list[int]] = {}  # by the number of a connection, and from memory or disk

    def of(self, stream: Stream) -> Silence:
        """Return whether a stream of which more is to come, and that has been silent for long, may wait."""
        connection, kind, now_ns, idle_ns = stream.connection, int(stream.from_disk), self._now_ns, self._idle_ns
        turns, sent_ns = connection.turns, connection.window.last_sent_ns
        if now_ns is not None and now_ns - could_not_send_until(connection, now_ns) < idle_ns:
            return Silence(True, "its producer could not send before")
        patience_ns = max(idle_ns, MANY * turns.pause_ns) if turns.pause_ns > SECOND else idle_ns
        silent_ns = between(sent_ns, now_ns)
        if silent_ns is None or silent_ns >= patience_ns:
            alone = len(connection.current) < 2
            return Silence(False, "" if alone else f"its producer sends no other stream either since {clock(sent_ns)}")
        if silent_ns >= idle_ns:
            return Silence(True, "its producer has paused for as long before")
        passed, served = turns.counts[kind] - stream.turns[kind], self._served_since(stream, kind)
        if served and passed >= MANY * served:
            return Silence(False, f"other streams were served {passed:,} times meanwhile")
        latest = turns.latest[kind]
        latest_ns = None if latest is None else _left(latest, kind)
        if latest_ns is not None and (between(latest_ns, now_ns) or 0) >= patience_ns:
            source = "from disk" if kind else "from memory"
            return Silence(False, f"its producer serves others, and none {source} since {clock(latest_ns)}")
        return Silence(True, "its producer serves other streams in turn")

    def _served_since(self, stream: Stream, kind: int) -> int:
        """Return how many streams of a connection were served since one was."""
        connection = stream.connection
        found = self._turns.get((connection.number, kind))
        if found is None:
            found = sorted(each.turns[kind] for each in connection.streams)
            self._turns[connection.number, kind] = found
        return len(found) - bisect_right(found, stream.turns[kind])


def could_not_send_until(connection: ConnectionState, by_ns: int) -> int:
    """Return up to when flow control, which does no more, or TCP let a producer send nothing; 0 where neither did."""
    window = connection.window
    if window.blocked.further:
        return by_ns  # the last of so many times is not kept
    blocked_ns = window.blocked.kept[-1].end_ns if window.blocked.kept else 0
    held_ns = 0 if connection.feeder is None else held_until(connection, 1 - connection.feeder, by_ns)
    return max(by_ns if blocked_ns is None else blocked_ns, held_ns)


def _left(stream: Stream, kind: int) -> int | None:
    """Return when a stream was served last from memory, or from disk."""
    if stream.from_disk == bool(kind):
        return stream.last_item_ns if stream.last_item_ns is not None else stream.last_ns
    return stream.last_ns if stream.marker is None else stream.marker.ts_ns
