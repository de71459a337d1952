"""Read a capture's packets together with the bytes that hold them, to write the capture anew.

The packets come from the usual readers; the bytes that these consume are kept until they are taken.
"""

from collections.abc import Iterator

from dcpdump.capture.file import Capture
from dcpdump.capture.source import SourceWindow
from dcpdump.net.packet import Packet


class Tee:
    """A source that keeps what was read from it until it is taken."""

    def __init__(self, source: SourceWindow) -> None:
        self._source = source
        self._kept = bytearray()
        self._base = 0

    @property
    def failure(self) -> str:
        """Return why the bytes ended before their end; "" if they did not."""
        return self._source.failure

    def read(self, size: int, /) -> bytes:
        piece = self._source.read(size)
        self._kept += piece
        return piece

    def take(self, until: int) -> bytes:
        """Return the bytes before an offset that were not taken yet."""
        count = until - self._base
        taken = bytes(memoryview(self._kept)[:count])
        del self._kept[:count]
        self._base = until
        return taken

    def close(self) -> None:
        self._source.close()


class RawRecords(Capture):
    """One ordinary file. ``entries`` yields each packet with all bytes since the one before it."""

    def __init__(self, path: str, *, salvage: bool = False) -> None:
        self._tee: Tee | None = None
        self.rest = b""  #: what follows the last packet, once all were yielded
        super().__init__(path, salvage=salvage, follow=False)

    def _packets(self) -> Iterator[Packet]:
        yield from super()._packets()
        self.rest = self.taken()

    def taken(self) -> bytes:
        """Return the bytes from what was taken last to the end of the packet that was yielded last."""
        return self._tee.take(self._window.offset) if self._tee is not None and self._window is not None else b""

    def _open(self, path: str = "") -> None:
        super()._open(path)
        if self._window is not None:
            self._tee = Tee(self._window)
            self._window = SourceWindow(self._tee)
