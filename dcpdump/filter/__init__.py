"""Choose which frames to show: a tuple of clauses over one Record each; all must accept.

Values within a clause are alternatives; a leading ``!`` excludes. Every clause reads one frame, whatever the TCP
segments were. ``choices`` parses the values of options, ``clauses`` makes conditions of them, ``time_window`` those on
time.
"""

from dcpdump.errors import FilterError
from dcpdump.filter.choices import Opcode, find_opcodes
from dcpdump.filter.clauses import Clause
from dcpdump.filter.time_window import Instant, TimeWindow, parse_instant, parse_window
from dcpdump.record import Record
from dcpdump.startup import dataclass

__all__ = [
    "Clause",
    "FilterError",
    "FrameFilter",
    "Instant",
    "Opcode",
    "TimeWindow",
    "find_opcodes",
    "parse_instant",
    "parse_window",
]


@dataclass(frozen=True, slots=True)
class FrameFilter:
    """Clauses that a frame must satisfy, all of them. Without any, every frame passes."""

    clauses: tuple[Clause, ...] = ()

    def accepts(self, record: Record) -> bool:
        """Return whether the record passes."""
        return all(clause(record) for clause in self.clauses)
