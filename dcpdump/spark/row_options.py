"""Hold which frames become rows, and how values are shown: all that a task needs besides where to read."""

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch.filter import Masks
from dcpdump.filter import FrameFilter
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.redact import Redactor
from dcpdump.startup import dataclass, field


@dataclass(frozen=True, slots=True)
class Options:
    """What is the same for all tasks of a run. ``begin`` fixes times that are relative to the start of the input."""

    masks: Masks = field(default_factory=lambda: Masks(FrameFilter(())))
    value_bytes: int | None = None  #: what is shown of each value; None: all
    show_secrets: bool = False
    redactor: Redactor | None = None
    salvage: bool = False
    memory: int = DEFAULT.memory  #: bytes of segments that wait for others, at most

    @property
    def limits(self) -> Limits:
        """Return the limits of a dissection."""
        return Limits.within(self.memory)

    def begin(self, start_ns: int | None) -> None:
        """Take the time of the first packet that has one, from which relative times count."""
        window = self.masks.window
        if window is not None and window.start_ns is None:
            window.start_ns = start_ns

    def table(self) -> FrameTable:
        """Return a builder of the rows of ``frames``."""
        return FrameTable(self.masks, self.value_bytes, redactor=self.redactor)
