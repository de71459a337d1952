"""Outcome: what a run over captures came to: the same for both engines."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dcpdump.spark.output import Written
from dcpdump.spark.work import InputState

OK, DAMAGED, LATE, UNUSABLE = "ok", "damaged", "late", "unusable"


@dataclass(slots=True)
class Outcome:
    """Frames that were there (``written`` has the rows of those that were wanted), and what is amiss."""

    written: list[Written] = field(default_factory=list)
    frames: int = 0
    lost_bytes: int = 0  #: never captured
    skipped_bytes: int = 0  #: captured, and no frames
    conflicts: int = 0  #: overlaps that disagree
    files: list[dict[str, Any]] = field(default_factory=list)  #: the rows of the table
    foreign: Counter[tuple[str, int]] = field(default_factory=Counter)  #: other protocols, by port

    moved: int = 0  #: bytes that went between tasks, beside rows
    after: InputState | None = None  #: where the input stands, if it goes on

    @property
    def whole(self) -> bool:
        """Whether nothing is missing and nothing damaged."""
        hurt = self.lost_bytes or self.skipped_bytes or self.conflicts
        return not hurt and all(row["status"] == OK for row in self.files)

    def rows(self, table: str) -> int:
        """It counts the rows of a table."""
        return sum(each.rows for each in self.written if each.table == table)
