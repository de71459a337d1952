"""Write the frames of a part one after another, plain or not."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from dcpdump.render.plain_rows import PlainRows

#: Pieces that are joined at once: no more than the processor's cache still has.
_MOST_PIECES: Final = 1_024


class PlainWriter(ABC):
    """Writes plain frames in one format."""

    def text(self, frames: PlainRows, other: Callable[[int], bytes]) -> bytes:
        """Return the text of frames as UTF-8. ``other`` returns that of a row that is no plain frame."""
        self.begin(frames)
        texts: list[bytes] = []
        out: list[bytes] = []
        for at in range(frames.count):
            if frames.load(at):
                self.write(frames, out)
            else:
                out.append(other(frames.row))
            if len(out) >= _MOST_PIECES:
                texts.append(b"".join(out))
                out = []
        texts.append(b"".join(out))
        return b"".join(texts)

    def begin(self, frames: PlainRows) -> None:  # noqa: B027 - some have nothing to prepare
        """Prepare for the frames of a part."""

    @abstractmethod
    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the text of the frame that is loaded, as UTF-8, in as many pieces as is fast."""
