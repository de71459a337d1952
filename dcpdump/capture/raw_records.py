"""Read a capture's packets together with the bytes that hold them, to write the capture anew.

The packets come from the usual readers; the bytes that these consume are kept until they are taken.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dcpdump.capture.file import Capture, T
from dcpdump.capture.follow import FollowedFile
from dcpdump.capture.pcap import Pcap
from dcpdump.capture.pcapng import Pcapng
from dcpdump.capture.source import ByteSource, SourceWindow


class KeptWindow(SourceWindow):
    """A window over another, which keeps what was read until it is taken, but for what is skipped as damage."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        self._kept = bytearray()
        self._before = 0  # bytes that were taken or skipped
        self._skipped: int | None = None  # in damage: to where it was skipped

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Forget what is passed over inside."""
        self._skipped = self.offset
        try:
            yield
        finally:
            self._forget()
            self._skipped = None

    def taken(self) -> bytes:
        """Return the bytes that were consumed and not taken yet."""
        count = self.offset - self._before
        taken = bytes(memoryview(self._kept)[:count])
        del self._kept[:count]
        self._before = self.offset
        return taken

    def _more(self) -> bytes:
        self._forget()
        piece = super()._more()
        self._kept += piece
        return piece

    def _forget(self) -> None:
        if self._skipped is not None:
            start, end = self._skipped - self._before, self.offset - self._before
            del self._kept[start:end]
            self._before += end - start
            self._skipped = self.offset


class RawRecords(Capture):
    """One ordinary file. ``entries`` yields each packet with all bytes since the one before it."""

    def __init__(self, path: str, *, salvage: bool = False) -> None:
        self._kept: KeptWindow | None = None
        self.rest = b""  #: what follows the last packet, once all were yielded
        super().__init__(path, salvage=salvage, follow=False)

    def _packets(self, read: Callable[[Pcap | Pcapng], Iterator[T]]) -> Iterator[T]:
        yield from super()._packets(read)
        self.rest = self.taken()

    def taken(self) -> bytes:
        """Return the bytes from what was taken last to the end of the packet that was yielded last."""
        return self._kept.taken() if self._kept is not None else b""

    def _open(self, followed: FollowedFile | None = None) -> None:
        super()._open(followed)
        if self._window is not None:
            self._window = self._kept = KeptWindow(self._window)
