"""Spans: stretches of a stream, and whether any of them meets another."""

from bisect import bisect_right


class Spans:
    """Add spans in any order; where they meet they are one."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._sorted = True

    def __bool__(self) -> bool:
        return bool(self._spans)

    @property
    def end(self) -> int:
        """The end of the last one."""
        return max((end for _, end in self._spans), default=0)

    def add(self, start: int, end: int) -> None:
        """It takes a span."""
        if end <= start:
            return
        if self._spans and self._spans[-1][0] <= start <= self._spans[-1][1]:
            self._spans[-1] = self._spans[-1][0], max(end, self._spans[-1][1])
            return
        self._sorted = self._sorted and (not self._spans or self._spans[-1][1] < start)
        self._spans.append((start, end))

    def meets(self, start: int, end: int) -> bool:
        """It says whether any byte from ``start`` to ``end`` is in one of them."""
        if not self._sorted:
            self._sort()
        at = bisect_right(self._spans, start, key=_start) - 1
        if at >= 0 and self._spans[at][1] > start:
            return end > start
        return at + 1 < len(self._spans) and self._spans[at + 1][0] < end

    def _sort(self) -> None:
        spans, self._spans, self._sorted = sorted(self._spans), [], True
        for start, end in spans:
            self.add(start, end)


def _start(span: tuple[int, int]) -> int:
    return span[0]
