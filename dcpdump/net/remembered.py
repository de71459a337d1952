"""Remembered: the open connections in the order of their last use, and which of them is evicted next."""

from collections import OrderedDict

from dcpdump.net.half import Half
from dcpdump.net.limits import Limits


class Remembered:
    """One direction of each open connection, by its number. Those that are over are kept for packets that come late."""

    __slots__ = ("_most_over", "_over", "_recent", "most")

    def __init__(self, limits: Limits) -> None:
        self.most = limits.connections
        self._most_over = limits.over
        self._recent: OrderedDict[int, Half] = OrderedDict()  # least recently used first
        self._over: OrderedDict[int, Half] = OrderedDict()  # of these, those that ended or were reset; some continue

    def __len__(self) -> int:
        return len(self._recent)

    def __contains__(self, number: int) -> bool:
        return number in self._recent

    @property
    def halves(self) -> list[Half]:
        """One direction of each, the least recently used first."""
        return list(self._recent.values())

    def add(self, half: Half) -> None:
        """Add a connection, as the last one used."""
        self._recent[half.connection.number] = half

    def use(self, number: int) -> None:
        """Note that a connection was used last."""
        self._recent.move_to_end(number)
        if number in self._over:
            self._over.move_to_end(number)

    def note_end(self, half: Half) -> None:
        """Note that a direction ended, or was reset."""
        if half.over:
            self._over[half.connection.number] = half

    def remove(self, number: int) -> None:
        """Forget a connection."""
        del self._recent[number]
        self._over.pop(number, None)

    def next_to_evict(self) -> Half | None:
        """Return the connection to evict where another one begins: the least recently used, first of those over."""
        full = len(self._recent) >= self.most
        while self._over and (full or len(self._over) > self._most_over):
            number, half = next(iter(self._over.items()))
            if half.over:
                return half
            del self._over[number]
        return next(iter(self._recent.values())) if full else None
