"""ChoosingConsumer: what all consumers of chosen frames do, whichever way they take them."""

from collections.abc import Iterable
from typing import TypeVar

from dcpdump.batch.block import Block
from dcpdump.cli import collection_notes
from dcpdump.cli.options import Selection
from dcpdump.cli.reading import Consumer
from dcpdump.clock import PLAIN_TIMES, FrameTimes
from dcpdump.dissect import Dissector
from dcpdump.redact import Redactor

P = TypeVar("P")


class ChoosingConsumer(Consumer[P]):
    """A consumer of the frames that a selection wants. ``times``: with which it shows them."""

    def __init__(self, chosen: Selection, redactor: Redactor | None, times: FrameTimes = PLAIN_TIMES) -> None:
        self._chosen, self._times, self.redactor = chosen, times, redactor

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return which names of collections are not known."""
        return collection_notes.lines(self._chosen.texts, dissection)

    def meet(self, block: Block) -> None:
        """Set the beginning of the capture."""
        self._chosen.begin(block.begins_ns)
        self._times.begin(block.begins_ns)
