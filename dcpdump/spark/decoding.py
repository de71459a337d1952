"""Decode a span of a chain, from its checkpoint to the next, to rows of ``frames``."""

import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch.block import BLOCK_BYTES, gathered
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.filter import Masks
from dcpdump.batch.frame_batch import FrameBatch, even_groups, joined
from dcpdump.batch.read_blocks import Begun, TimelineBlocks
from dcpdump.capture.file import Capture
from dcpdump.errors import CaptureError
from dcpdump.filter import FrameFilter
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.redact import Redactor
from dcpdump.spark.chain import ChainCheckpoint, ChainSpan, begun_in_time, opened
from dcpdump.startup import dataclass, field
from dcpdump.tls.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Options:
    """Filter, value size and limits of a run, the same for all its tasks."""

    masks: Masks = field(default_factory=lambda: Masks(FrameFilter(())))
    value_bytes: int | None = None  #: how many bytes of each value are shown; None: all
    show_secrets: bool = False
    redactor: Redactor | None = None
    salvage: bool = False
    memory: int = DEFAULT.memory  #: the most bytes of waiting segments
    block_bytes: int = BLOCK_BYTES  #: bytes of packets in a block

    @property
    def limits(self) -> Limits:
        """Return the limits of a dissection."""
        return Limits.within(self.memory)


def all_of(paths: Sequence[str], options: Options, begin: ChainCheckpoint, *, ends: bool) -> ChainSpan:
    """Return captures as one span, to decode a chain without an index. ``ends``: the chain does not continue."""
    first = 1 if begin.dissection is None else begin.dissection.first
    found = begun_in_time([opened(each, salvage=options.salvage, secrets=None) for each in paths])
    begun = tuple((each.first_ns, each.name) for each in found)
    return ChainSpan("", 0, first, -1, -1, -1, begin.begins_ns, None, None, (), begun, ends)


class Decoding:
    """The decoding of a span from its checkpoint: iterate over it once for batches of ``frames``."""

    def __init__(
        self, span: ChainSpan, begin: ChainCheckpoint, options: Options, secrets: Secrets | None = None
    ) -> None:
        self._span, self._begin, self._options, self._secrets = span, begin, options, secrets
        if options.masks.window is not None:
            options.masks.window.start_ns = span.begins_ns  # from which relative times count
        self.table = FrameTable(options.masks, options.value_bytes, redactor=options.redactor)
        self._dissection = Dissection(options.limits, show_secrets=options.show_secrets, secrets=secrets)

    def left(self) -> ChainCheckpoint:
        """Return the checkpoint at the end, from which the next captures continue; after the iteration."""
        return ChainCheckpoint(self._dissection.state(), (), self._begin.spans + 1, self._begin.begins_ns)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        span, dissection = self._span, self._dissection
        lanes = [(self._opened(each.name), each) for each in self._begin.lanes]
        waiting = [Begun(first_ns, name, self._opened(name)) for first_ns, name in span.begun]
        if self._begin.dissection is not None:
            dissection.restore(self._begin.dissection)
        left = span.packets if span.packets >= 0 else sys.maxsize
        for block in TimelineBlocks(waiting, lanes, self._options.block_bytes) if left else ():
            if len(block) > left:
                block = gathered(block.packets[:left])
            left -= len(block)
            yield from self._rows(dissection.feed_block(block))
            if not left:
                break
        if span.ends:
            yield from self._rows(dissection.close_blocks())
        dissection.absorb()
        if span.packets >= 0 and (left or dissection.next_frame - span.first != span.frames):
            names = ", ".join([*span.lanes, *(name for _, name in span.begun)])
            raise CaptureError("this was changed or cut after it was indexed", names)

    def _opened(self, name: str) -> Capture:
        return opened(name, salvage=self._options.salvage, secrets=self._secrets)

    def _rows(self, some: Iterable[list[FrameBatch]]) -> Iterator[pa.RecordBatch]:
        for batches in some:
            for group in even_groups(batches):
                batch = self.table.feed(joined(group))
                if batch is not None:
                    yield batch
            self._dissection.gaps.clear()
