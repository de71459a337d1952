"""Choice: which frames become rows, and how they are shown: all that a task is told beside where to read."""

from dataclasses import dataclass, field, replace

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch.filter import Masks
from dcpdump.filter import FrameFilter
from dcpdump.net.batch import NO_TIME
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import DEFAULT_VALUE_BYTES
from dcpdump.redact import Redactor


@dataclass(frozen=True, slots=True)
class Options:
    """The same for all tasks of a run. Times relative to the start of the input are told to ``masks`` before."""

    masks: Masks = field(default_factory=lambda: Masks(FrameFilter(())))
    value_bytes: int | None = DEFAULT_VALUE_BYTES
    show_secrets: bool = False
    redactor: Redactor | None = None
    salvage: bool = False
    memory: int = DEFAULT.memory  #: bytes of segments that wait for others, at most

    @property
    def limits(self) -> Limits:
        """The limits of a dissection."""
        return replace(DEFAULT, memory=self.memory)

    def begin(self, start_ns: int) -> None:
        """It hears the time of the first packet, from which relative times count."""
        window = self.masks.window
        if window is not None and window.start_ns is None and start_ns != NO_TIME:
            window.start_ns = start_ns

    def table(self) -> FrameTable:
        """It gives what makes the rows of ``frames``."""
        return FrameTable(self.masks, self.value_bytes, show_secrets=self.show_secrets, redactor=self.redactor)
