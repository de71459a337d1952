"""Choose frames: a filter is a tuple of clauses on a Record, all of which must accept it.

Values within a clause are alternatives; a leading ``!`` excludes. Begin with ``clauses``, which makes a condition from
the text of each option; ``choices`` parses the values, ``time_window`` the times. ``batch.filter`` applies the same
clauses to columns. Imports ``spec``, ``record`` and ``clock``.
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
