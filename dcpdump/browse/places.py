"""Places: where one was, to step back to and forward again."""

from typing import NamedTuple


class Place(NamedTuple):
    """A frame, under a filter, in a tab."""

    tab: str
    filter: str
    number: int | None


class PlaceHistory:
    """The places before this one, and those that were left by stepping back."""

    def __init__(self) -> None:
        self._before: list[Place] = []
        self._after: list[Place] = []

    def leave(self, place: Place) -> None:
        """Note a place before it is left by a jump, a filter, another tab."""
        if not self._before or self._before[-1] != place:
            self._before.append(place)
        self._after.clear()

    def back(self, now: Place) -> Place | None:
        """Return the place before; None where there is none."""
        return self._step(self._before, self._after, now)

    def forward(self, now: Place) -> Place | None:
        """Return the place that stepping back has left; None where there is none."""
        return self._step(self._after, self._before, now)

    @staticmethod
    def _step(source: list[Place], other: list[Place], now: Place) -> Place | None:
        while source:
            place = source.pop()
            if place != now:
                other.append(now)
                return place
        return None
