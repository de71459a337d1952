"""Read all frames for the tabs of the browser: the ledger of streams and the rules, as ``streams`` and ``check`` do."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from dcpdump.batch.block import Block
from dcpdump.browse.analysed import analysis_of
from dcpdump.browse.analysis import Analysis
from dcpdump.capture.source import bytes_read
from dcpdump.check.rules import RULES
from dcpdump.cli.analysis import StreamChoice
from dcpdump.cli.check import Checking
from dcpdump.cli.diagnose import evidence_of
from dcpdump.cli.input_options import InputOptions
from dcpdump.cli.options import Display
from dcpdump.cli.reading import CaptureSource, Reading
from dcpdump.redact import Redactor

_ALL = StreamChoice((), None, None, None, None)
_TEXT = Display("text", "never", None, None, False, False)


def analyse(
    paths: Sequence[str], given: InputOptions, redactor: Redactor | None, report: Callable[[float], None]
) -> Analysis:
    """Return what the tabs show; ``report`` receives from time to time how much was read, up to 1."""
    size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    watched = Watched(given, replace(_TEXT, redactor=redactor), report, size)
    watched.captures = given.open(paths)
    Reading(CaptureSource(watched.captures), watched.dissection, watched).read()
    return analysis_of(evidence_of(watched))


class Watched(Checking):
    """The rules over all frames, and how far they are. ``size``: of all captures."""

    def __init__(self, given: InputOptions, shown: Display, report: Callable[[float], None], size: int) -> None:
        super().__init__(_ALL, shown, given, RULES, everything=False)
        self._report, self._size, self._due = report, size, 0.0

    def meet(self, block: Block) -> None:
        """Report how much was read, a few times a second."""
        super().meet(block)
        if time.monotonic() > self._due:
            self._due = time.monotonic() + 0.2
            self._report(min(1.0, bytes_read() / max(1, self._size)))
