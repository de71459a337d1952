"""Consumers that are behind, as far as is known: of each connection the vbuckets with the most lag.

Lag is neither wrong nor a note: it is the first question of those who run a consumer.
"""

from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple

from dcpdump.diagnosis.evidence import Evidence, Judged
from dcpdump.diagnosis.trouble import Command
from dcpdump.plural import counted
from dcpdump.streams.lag import Lag
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.wording import client, lag_text, place

#: Vbuckets of a connection.
_WORST = 10
#: What shows all of them.
COMMAND = Command("streams", ("--sort", "lag"))


class Behind(NamedTuple):
    """A connection whose consumer is behind."""

    connection: ConnectionState
    streams: Sequence[Judged]  #: that are known to be behind
    now_ns: int | None

    @property
    def worst(self) -> list[Judged]:
        """Return those with the most lag, the worst first."""
        return nsmallest(_WORST, self.streams, key=lambda each: _lag(each).rank or 0)

    @property
    def text(self) -> str:
        """Return who is behind, and by how much, as a sentence."""
        total = Lag(
            sum(_lag(each).seqnos or 0 for each in self.streams), all(_lag(each).exact for each in self.streams)
        )
        worst = ", ".join(f"{place(stream)}: {lag_text(verdict.lag, self.now_ns)}" for stream, verdict in self.worst)
        more = f" and {len(self.streams) - _WORST:,} more" if len(self.streams) > _WORST else ""
        several = f"by {lag_text(total, None)} seqnos in {counted(len(self.streams), 'stream')}"
        return f"{client(self.connection)} (c{self.connection.number}) is behind {several}: {worst}{more}"


def behind(evidence: Evidence) -> list[Behind]:
    """Return the connections whose consumers are behind, by number."""
    found: dict[ConnectionState, list[Judged]] = {}
    for each in evidence.judged:
        if each[1].lag is not None and each[1].lag.seqnos:
            found.setdefault(each[0].connection, []).append(each)
    known = [Behind(connection, streams, evidence.now_ns) for connection, streams in found.items()]
    return sorted(known, key=lambda each: each.connection.number)


def _lag(judged: Judged) -> Lag:
    return judged[1].lag or Lag()
