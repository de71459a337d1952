"""Keep the text of fields for frames in which their bytes are the same, as those of flags and times often are."""

from abc import ABC, abstractmethod
from typing import Final

from dcpdump.render.plain_rows import PlainField, PlainRows

_WIDEST: Final = 8  #: bytes of a number that is seldom the same twice: a seqno, an identity
_MOST: Final = 4_096


class FieldTexts(ABC):
    """The text of fields that stand side by side, in one format."""

    def __init__(self, slots: list[PlainField]) -> None:
        self._at = slots[0].at
        self._end = slots[-1].end
        self._keeps = slots[0].width != _WIDEST
        self._known: dict[bytes, bytes] = {}

    def text(self, frames: PlainRows) -> bytes:
        """Return the text of the fields of the frame that is loaded, as UTF-8."""
        if not self._keeps:
            return self.made(frames)
        wire = frames.wire(self._at, self._end)
        known = self._known.get(wire)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[wire] = self.made(frames)
        return known

    @abstractmethod
    def made(self, frames: PlainRows) -> bytes:
        """Make the text."""


def side_by_side(slots: list[PlainField]) -> list[list[PlainField]]:
    """Return fields in groups whose text is best kept together; one that is seldom the same twice is by itself."""
    groups: list[list[PlainField]] = []
    for slot in slots:
        if groups and slot.width != _WIDEST and groups[-1][0].width != _WIDEST:
            groups[-1].append(slot)
        else:
            groups.append([slot])
    return groups
