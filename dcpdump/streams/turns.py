"""Turns: in which order a producer served the streams of a connection, those from memory and those from disk apart."""

from typing import TYPE_CHECKING

from dcpdump.quick_dataclass import dataclass, field

if TYPE_CHECKING:
    from dcpdump.streams.stream import Stream

SECOND = 1_000_000_000


@dataclass(slots=True)
class Turns:
    """The turns of the streams of one connection, those from memory and those from disk apart."""

    served: "Stream | None" = None  #: whose message came last
    counts: list[int] = field(default_factory=lambda: [0, 0])  #: turns so far, from memory and from disk
    latest: "list[Stream | None]" = field(default_factory=lambda: [None, None])  #: whose turn came last, of each
    pause_ns: int = SECOND  #: the longest that the producer was silent inside a snapshot, and then went on

    def serve(self, stream: "Stream", *, begins: bool = False) -> None:
        """Take it that the message at hand is of another stream than the one before, or ``begins`` a snapshot."""
        kind = stream.from_disk
        self.served = stream
        if begins or self.latest[kind] is not stream:
            self.latest[kind] = stream
            self.counts[kind] += 1
        stream.turns[kind] = self.counts[kind]
