"""Have fewer connections and streams always be kept than usually, so that small captures hold more than those."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dcpdump.batch import read_blocks
from dcpdump.batch.dissector import BlockDissector
from dcpdump.net import limits
from dcpdump.net.limits import Limits
from dcpdump.streams import exchanges, feed
from dcpdump.streams.dissection import RunDissection

#: Of everything that counts an eighth: of captures too, in which as much then happens before and behind each look.
SHARE = 8
LEAST = limits.LEAST // SHARE
#: As few streams as are always kept, and room for about 380 where there is one connection.
FEW = "--memory 2M"


@contextmanager
def few_kept() -> Iterator[None]:
    """Keep an eighth of what is always kept, for as long as this lasts, in this process."""
    within = Limits.within
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((limits, "LEAST"), (feed, "LEAST"), (exchanges, "MOST"), (exchanges, "MOST_STREAMS")):
            patch.setattr(module, name, getattr(module, name) // SHARE)
        # After so many frames and so many bytes it is looked whether some are to be evicted.
        patch.setattr(BlockDissector, "most", BlockDissector.most // SHARE)
        for owner, name in ((read_blocks, "BLOCK_BYTES"), (RunDissection, "block_bytes")):
            patch.setattr(owner, name, getattr(owner, name) // SHARE)
        patch.setattr(Limits, "within", lambda memory: replace(within(memory), over=LEAST))
        yield
