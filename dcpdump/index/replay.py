"""Replay: dissect a stretch of the input once more, from the checkpoint before it, to have its frames again."""

from collections import OrderedDict
from collections.abc import Iterator

from dcpdump.batch.block import Block, PcapPlace
from dcpdump.batch.part import Part
from dcpdump.batch.read_blocks import read_again
from dcpdump.batch.resumable import ResumableDissection
from dcpdump.errors import CaptureError
from dcpdump.index.building import IndexOptions, KeptPlace
from dcpdump.index.checkpoints import Checkpoints
from dcpdump.index.spool import Spool
from dcpdump.tls.secrets import Secrets


class NoLongerKept(LookupError):
    """The packets of a frame were overwritten in the spool by newer ones."""


class Replay:
    """The parts of an indexed input. ``blocks`` and ``checkpoints`` grow while it is indexed."""

    def __init__(self, blocks: list[KeptPlace], checkpoints: Checkpoints, spool: Spool, options: IndexOptions) -> None:
        self._blocks, self._checkpoints, self._spool, self._options = blocks, checkpoints, spool, options
        self._kept: OrderedDict[int, Part] = OrderedDict()  # by first frame, least recently used first
        self._dissection: ResumableDissection | None = None  # that made the last part
        self._coming: Iterator[Part] = iter(())  # the next parts that it makes
        self.complete = False  #: the input has ended, so that what is open at its end is made too

    def part(self, number: int) -> Part:
        """Return the part that holds a frame. Raises LookupError where there is none, OSError, CaptureError."""
        for first, part in self._kept.items():
            if first <= number < first + len(part):
                self._kept.move_to_end(first)
                return part
        for part in self.parts(number):
            return part
        raise LookupError(f"there is no frame {number:,}")

    def parts(self, number: int) -> Iterator[Part]:
        """Yield the part that holds a frame, and those that follow it, while nothing else is asked for."""
        coming = self._enter(number)
        while self._coming is coming:
            part = next(coming, None)
            if part is not None and number < part.first + len(part):
                yield part

    def forget(self) -> None:
        """Drop what is kept, after checkpoints were dropped that it came from."""
        self._dissection, self._coming = None, iter(())

    def _enter(self, number: int) -> Iterator[Part]:
        """Return the next parts of a dissection that is at the frame or before it."""
        checkpoint, dissection = self._checkpoints.before(number), self._dissection
        if dissection is None or not checkpoint.frame <= dissection.next_frame <= number:
            state = checkpoint.unpacked() if checkpoint.state else None
            dissection = self._options.dissection(self._secrets(now=state is not None and bool(state.tls)))
            if state is not None:
                dissection.restore(state)
            self._dissection, self._coming = dissection, self._more(dissection, checkpoint.block)
        return self._coming

    def _secrets(self, *, now: bool) -> Secrets | None:
        """Return the same secrets for another reading, ``now`` or once they are asked for: captures hold some."""
        secrets = self._options.secrets
        if secrets is None or now:
            return None if secrets is None else secrets.renewed()
        later = Secrets()
        later.add_source(lambda: later.take_all(secrets.renewed()))
        return later

    def _more(self, dissection: ResumableDissection, number: int) -> Iterator[Part]:
        """Yield the parts from a block on, to the end of what is indexed."""
        try:
            while number < len(self._blocks):
                block = self._read(self._blocks[number])
                number += 1
                yield from self._keep(dissection, dissection.feed_block(block))
            if self.complete:
                yield from self._keep(dissection, dissection.close_blocks())
        finally:
            if self._dissection is dissection:
                self.forget()  # it cannot make more

    def _keep(self, dissection: ResumableDissection, some: Iterator[list[Part]]) -> Iterator[Part]:
        """Keep the parts that were used last."""
        for parts in some:
            dissection.gaps.clear()
            for part in parts:
                self._kept[part.first] = part
                self._kept.move_to_end(part.first)
            while len(self._kept) > self._options.parts:
                self._kept.popitem(last=False)
            yield from parts

    def _read(self, place: KeptPlace) -> Block:
        if isinstance(place, int):
            block = self._spool.read(place)
            if block is None:
                raise NoLongerKept("the packets of this frame are no longer kept")
            return block
        block = read_again(place)
        if block is None:
            path = place.path if isinstance(place, PcapPlace) else place.begins.path
            raise CaptureError("this file was changed or cut after it was read", path)
        return block
