"""Order: sights in the order of time, across the two directions of connections.

A direction with a hole waits until the hole is filled or given up, and the other goes on: an answer may be known
before its request. Here frames wait with it, so that what was said first is learnt first. Within a direction
nothing changes places: a frame that had to wait for bytes counts from when they came.
"""

from operator import itemgetter

from dcpdump.streams.sight import Sight

#: How long a hole is waited for that the receiver has filled long since, and some more.
_PATIENCE_NS = 2_500_000_000
#: More sights than this are not kept waiting.
_MOST = 262_144
_TIME = itemgetter(0)


class Order:
    """Feed it sights as they come; it gives them when nothing earlier is to be expected."""

    def __init__(self) -> None:
        self._held: list[tuple[int, Sight]] = []
        self._latest: dict[tuple[int, int], int] = {}  # by direction of a connection

    @property
    def holds(self) -> bool:
        """Whether sights wait."""
        return bool(self._held)

    def feed(self, seen: list[Sight], *, waiting: bool, in_order: bool) -> list[Sight]:
        """It takes the next sights. ``waiting``: bytes wait behind a hole; ``in_order``: times never go back."""
        if not self._held and not waiting and in_order:
            return seen
        held, latest = self._held, self._latest
        for sight in seen:
            whose = sight.connection, sight.direction
            time = max(latest.get(whose, 0), sight.ts_ns or 0)
            latest[whose] = time
            held.append((time, sight))
        held.sort(key=_TIME)
        if not waiting:
            return self.close()
        until = held[-1][0] - _PATIENCE_NS if held else 0
        count = max(len(held) - _MOST, sum(time <= until for time, _ in held))
        self._held = held[count:]
        return [sight for _, sight in held[:count]]

    def close(self) -> list[Sight]:
        """It gives all that waits."""
        held, self._held = self._held, []
        self._latest.clear()
        return [sight for _, sight in held]
