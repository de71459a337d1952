"""Hold the result of a run over captures, the same for both engines."""

from collections import Counter
from typing import Any

from dcpdump.conversation import Missing
from dcpdump.spark.parts import Written
from dcpdump.spark.work import InputState
from dcpdump.startup import dataclass, field

OK, DAMAGED, LATE, UNUSABLE = "ok", "damaged", "late", "unusable"


@dataclass(slots=True)
class Outcome:
    """The frames that were captured (``written`` has the rows of those wanted), and what is missing or damaged."""

    written: list[Written] = field(default_factory=list)
    frames: int = 0
    lost: Missing = field(default_factory=Missing)  #: never captured
    skipped_bytes: int = 0  #: captured, but not frames
    conflicts: int = 0  #: overlaps that disagree
    files: list[dict[str, Any]] = field(default_factory=list)  #: the rows of the table
    foreign: Counter[tuple[str, int]] = field(default_factory=Counter)  #: other protocols, by port
    cut: int = 0  #: rows in which a value was cut

    moved: int = 0  #: bytes that went between tasks, beside rows
    after: InputState | None = None  #: the state to continue from, if the input continues

    @property
    def whole(self) -> bool:
        """Return whether nothing is missing and nothing is damaged."""
        hurt = self.lost.gaps or self.skipped_bytes or self.conflicts
        return not hurt and all(row["status"] == OK for row in self.files)
