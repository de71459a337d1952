"""Run the ledger and the rules over one input, frame by frame in order, on one machine or in tasks of Spark."""

from collections.abc import Callable, Sequence

from dcpdump.batch.block import Block
from dcpdump.batch.part import Part
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import SHOWN, Fold
from dcpdump.check.rules import RULES
from dcpdump.redact import Redactor
from dcpdump.streams.dissection import Watching
from dcpdump.streams.eviction import evict_streams, judging_early
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hide, hide_requests
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

#: Who learns of streams that are about to be evicted, and can be judged now.
Evicting = Callable[[Sequence[Stream], Judge], object]


class Judging:
    """The ledger and the findings of an input. Feed it all parts of a dissection, then close it.

    Without ``rules`` there are no findings, and documents are only counted. With a ``redactor`` ledger and findings
    have hashes of names, addresses and texts once it is closed. ``evicting``: called before streams are forgotten.
    """

    def __init__(
        self,
        dissection: Watching,
        *,
        rules: bool = True,
        redactor: Redactor | None = None,
        evicting: Evicting = lambda streams, judge: None,
    ) -> None:
        self.ledger = Ledger(with_rules=rules)
        self.fold = Fold()
        self._feed = Feed(dissection, self.ledger, with_rules=rules, hides=redactor is not None)
        self._engine = RuleEngine(self.fold.add, RULES if rules else (), self.ledger, shown=SHOWN)
        self._redactor, self._evicting = redactor, evicting

    def meet(self, block: Block) -> None:
        """Note a block of packets, before its parts."""
        self._feed.meet(block)

    def feed(self, parts: Sequence[Part]) -> None:
        """Judge the parts of a block, before the dissection's gaps are cleared."""
        engine, ledger = self._engine, self.ledger
        for step in self._feed.steps(parts):
            engine.feed_step(step)
        evictable = self._feed.evictable(engine.lose)
        if evictable is None:
            return
        if streams := evictable.streams:
            if self._redactor is not None:
                hide_requests(ledger, self._redactor)
            with judging_early(ledger, streams) as judge:
                self._evicting(streams, judge)
            engine.evict_streams(streams)
            evict_streams(ledger, streams)
        for connection in evictable.connections:
            engine.evict(connection)
            ledger.evict(connection)

    def close(self, last_ns: int | None) -> None:
        """End the input, whose last packet is of that time."""
        for step in self._feed.rest():
            self._engine.feed_step(step)
        self._feed.close(last_ns, self._engine.lose)
        self._engine.close(alone=self.ledger.alone)
        if self._redactor is not None:
            hide(self.ledger, self._redactor)
            self.fold.hide(self._redactor)
