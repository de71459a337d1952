"""To be removed."""

from collections.abc import Iterator, Sequence

from dcpdump.capture import Capture
from dcpdump.columnar.block import Block
from dcpdump.columnar.input import blocks_of


def blocks_ahead(captures: Sequence[Capture], jobs: int | None = None) -> Iterator[Block]:
    return blocks_of(captures)
