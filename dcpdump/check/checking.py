"""Judging: what the ledger and the rules make of one input, frame by frame in order, on whatever machine."""

from collections.abc import Sequence

from dcpdump.batch.block import Block
from dcpdump.batch.part import Part
from dcpdump.check.engine import RuleEngine
from dcpdump.check.fold import SHOWN, Fold
from dcpdump.redact import Redactor
from dcpdump.streams.document_run import DocumentRun, Step
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hide
from dcpdump.streams.watching import Watching


class Judging:
    """Keep the ledger and the findings of what a dissection returns. Feed it all parts, then close it.

    Without ``rules`` there are no findings, and documents are only counted. With a ``redactor`` ledger and findings
    have hashes of names, addresses and texts once it is closed.
    """

    def __init__(self, dissection: Watching, *, rules: bool = True, redactor: Redactor | None = None) -> None:
        self.ledger = Ledger(closely=rules)
        self.fold = Fold()
        self._feed = Feed(dissection, self.ledger, closely=rules, hides=redactor is not None)
        self._redactor = redactor
        self._engine = RuleEngine(ledger=self.ledger, shown=SHOWN) if rules else None

    def meet(self, block: Block) -> None:
        """Take a block of packets, before its parts."""
        self._feed.meet(block)

    def note(self, file: str, first_ns: int, last_ns: int) -> None:
        """Note, in place of its blocks, that a file has packets of these times."""
        self._feed.succession.note(file, first_ns, last_ns)

    def feed(self, parts: Sequence[Part]) -> None:
        """Take the parts of a block, before the dissection's gaps are cleared."""
        for step in self._feed.steps(parts):
            self._learn(step)
        engine = self._engine
        for connection in self._feed.evictable(None if engine is None else engine.lose):
            for finding in () if engine is None else engine.evict(connection):
                self.fold.add(finding)
            self.ledger.evict(connection)

    def close(self, last_ns: int | None) -> None:
        """End the input, whose last packet is of that time."""
        for step in self._feed.rest():
            self._learn(step)
        self._feed.close(last_ns, self._engine.lose if self._engine is not None else None)
        if self._engine is not None:
            for finding in self._engine.close(alone=self.ledger.alone):
                self.fold.add(finding)
        if self._redactor is not None:
            hide(self.ledger, self._redactor)
            self.fold.hide(self._redactor)

    def _learn(self, step: Step) -> None:
        if self._engine is not None:
            for finding in self._engine.feed_step(step):
                self.fold.add(finding)
        elif isinstance(step, DocumentRun):
            self.ledger.feed_burst(step)
        else:
            self.ledger.feed(step)
