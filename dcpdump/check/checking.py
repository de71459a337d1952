"""Run the ledger and the rules over one input, frame by frame in order, on one machine or in tasks of Spark."""

from collections.abc import Callable, Sequence

from dcpdump.batch.block import Block
from dcpdump.batch.part import Part
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import SHOWN, Fold
from dcpdump.redact import Redactor
from dcpdump.streams.dissection import Watching
from dcpdump.streams.eviction import Evictable, evict_streams, judging_early
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import DocumentRun, Step
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hide, hide_requests
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

#: Who learns of streams that are about to be evicted, and can be judged now.
Evicting = Callable[[Sequence[Stream], Judge], None]


class Judging:
    """The ledger and the findings of an input. Feed it all parts of a dissection, then close it.

    Without ``rules`` there are no findings, and documents are only counted. With a ``redactor`` ledger and findings
    have hashes of names, addresses and texts once it is closed.
    """

    def __init__(
        self,
        dissection: Watching,
        *,
        rules: bool = True,
        redactor: Redactor | None = None,
        evicting: Evicting | None = None,
    ) -> None:
        """``evicting`` is called before streams are forgotten; without it none is forgotten."""
        self.ledger = Ledger(with_rules=rules)
        self.fold = Fold()
        self._feed = Feed(dissection, self.ledger, with_rules=rules, hides=redactor is not None)
        self._redactor, self._evicting = redactor, evicting
        self._engine = RuleEngine(self.fold.add, ledger=self.ledger, shown=SHOWN) if rules else None

    def meet(self, block: Block) -> None:
        """Note a block of packets, before its parts."""
        self._feed.meet(block)

    def note(self, file: str, first_ns: int, last_ns: int) -> None:
        """Note, in place of its blocks, that a file has packets of these times."""
        self._feed.succession.note(file, first_ns, last_ns)

    def feed(self, parts: Sequence[Part]) -> None:
        """Judge the parts of a block, before the dissection's gaps are cleared."""
        for step in self._feed.steps(parts):
            self._learn(step)
        lose = None if self._engine is None else self._engine.lose
        evictable = self._feed.evictable(lose, streams=self._evicting is not None)
        if evictable is not None:
            self._evict(evictable)

    def close(self, last_ns: int | None) -> None:
        """End the input, whose last packet is of that time."""
        for step in self._feed.rest():
            self._learn(step)
        self._feed.close(last_ns, self._engine.lose if self._engine is not None else None)
        if self._engine is not None:
            self._engine.close(alone=self.ledger.alone)
        if self._redactor is not None:
            hide(self.ledger, self._redactor)
            self.fold.hide(self._redactor)

    def _evict(self, evictable: Evictable) -> None:
        engine, ledger, streams = self._engine, self.ledger, evictable.streams
        if streams and self._evicting is not None:
            if self._redactor is not None:
                hide_requests(ledger, self._redactor)
            with judging_early(ledger, streams) as judge:
                self._evicting(streams, judge)
            if engine is not None:
                engine.evict_streams(streams)
            evict_streams(ledger, streams)
        for connection in evictable.connections:
            if engine is not None:
                engine.evict(connection)
            ledger.evict(connection)

    def _learn(self, step: Step) -> None:
        if self._engine is not None:
            self._engine.feed_step(step)
        elif isinstance(step, DocumentRun):
            self.ledger.feed_run(step)
        else:
            self.ledger.feed(step)
