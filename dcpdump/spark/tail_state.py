"""Keep the last bytes of directions in which no frames were found, as a search for frames would hold them."""

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.frame import Where

#: Bytes that are kept of a search that found nothing: too few for a header.
LEFT = HEADER_LENGTH - 1


class DirectionTail(NamedTuple):
    """The last bytes of a direction, and which packets brought them: how many bytes each, the last packet last."""

    data: bytes = b""
    marks: tuple[tuple[int, Where], ...] = ()

    def after(self, data: bytes, where: Where) -> "DirectionTail":
        """Return the tail after a packet's bytes."""
        marks = [*self.marks, (len(data), where)]
        kept = (self.data + data)[-LEFT:]
        while len(marks) > 1 and sum(size for size, _ in marks[1:]) >= len(kept):
            del marks[0]
        return DirectionTail(kept, tuple(marks))


class Tails:
    """The tails of the directions that are asked for. Feed it blocks."""

    def __init__(self) -> None:
        self.of: dict[bytes, DirectionTail] = {}

    def feed(self, block: Block, keys: Set[bytes]) -> None:
        """Take the next packets. Only plain ones count: where others bring bytes, the tail is wrong."""
        facts = block.facts
        wanted = [number for number, key in enumerate(facts.keys) if key in keys]
        if not wanted:
            return
        mine = np.zeros(len(facts.keys) + 1, bool)
        mine[wanted] = True
        rows = np.flatnonzero(mine[facts.flow] & (facts.flow >= 0) & (facts.size > 0))
        flows = facts.flow[rows]
        for number in wanted:
            key = facts.keys[number]
            for row in rows[flows == number][-LEFT:].tolist():
                start = int(facts.start[row])
                data = bytes(block.data[start : start + int(facts.size[row])])
                self.of[key] = self.of.get(key, DirectionTail()).after(data, block.where(row))
