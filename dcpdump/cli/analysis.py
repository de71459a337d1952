"""Analysis: a reading whose result is told when the input has ended, or when a signal has ended it."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from dcpdump.cli import exit as code
from dcpdump.cli.bulk import BulkReading
from dcpdump.cli.notes import end_line
from dcpdump.cli.stop import Stop
from dcpdump.cli.summary import READ
from dcpdump.columnar.ahead import blocks_ahead
from dcpdump.columnar.block import Block
from dcpdump.columnar.input import blocks_as_they_come


class Analysis(BulkReading):
    """``read`` first; then it is told what was found; then ``conclude``."""

    _verb = READ

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.stop = Stop()

    def read(self) -> None:
        """It reads everything, or what comes before a signal. A second signal ends the run at once."""
        with self.stop:
            self._read()
        self._interrupted = self.stop.status is not None
        if self.stop.status == code.INTERRUPTED:
            end_line()

    def conclude(self, summary: str) -> int:
        """It tells on standard error what the run came to, behind all of its output, and gives the exit code."""
        self._conclude(summary)
        return self._status()

    def _blocks(self) -> Iterator[Block | None]:
        whole = all(capture.rereadable for capture in self._captures)
        blocks = blocks_ahead(self._captures, self._jobs) if whole else blocks_as_they_come(self._captures)
        yield from takewhile(lambda _: self.stop.status is None, blocks)

    def _status(self) -> int:
        return super()._status() if self.stop.status is None else self.stop.status
