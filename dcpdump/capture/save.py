"""Save packets to pcapng files as they arrive, one file after the other, each valid as far as it was written.

Knows when a file is full or old enough for the next one, and how many are kept. Does not look into packets but to put a
VLAN tag back where it was on the wire.
"""

import os
from collections import deque
from datetime import datetime, timezone
from pathlib import Path
from socket import if_indextoname

from dcpdump import __version__
from dcpdump.capture import blocks
from dcpdump.capture.live import link_of
from dcpdump.capture.ring import Raw, packets_of
from dcpdump.errors import OutputError, unwritable
from dcpdump.quick_dataclass import dataclass

#: What a packet may add besides its bytes: its own block, padding, its interface's, and the end of the file.
_AROUND = blocks.PACKET_BYTES + 3 + 56 + blocks.STATISTICS_BYTES
_TAG_AT = 12  #: behind the Ethernet addresses


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the next file begins: after so many bytes, so many seconds; and how many files are kept. 0: never, all."""

    size: int = 0
    seconds: float = 0
    files: int = 0

    @property
    def rotates(self) -> bool:
        """Return whether there is more than one file."""
        return bool(self.size or self.seconds)


class Save:
    """A writer of ring blocks to a file, or to a series of them. Raises OutputError."""

    def __init__(self, path: str, rotation: Rotation | None = None, *, force: bool = False) -> None:
        self.path = Path(path)
        self._rotation = rotation or Rotation()
        self._force = force
        self._kept: deque[Path] = deque()
        self._fd = -1
        self.files = 0  #: begun
        self.size = 0  #: bytes of the file that is open
        self._begun_ns = 0
        self._packets = 0
        self._drops = 0  #: the kernel's count when the file began
        self._interfaces: dict[tuple[int, int], int] = {}
        if self._rotation.rotates:
            if not self.path.parent.is_dir():
                raise OutputError("there is no such folder", str(self.path.parent))
        else:
            self._begin(0)

    def write(self, block: bytes, drops: int) -> None:
        """Write the packets of a block; ``drops``: how many the kernel has dropped so far."""
        pieces: list[bytes] = []
        for packet in packets_of(block):
            length = packet.end - packet.start + len(packet.tag)
            if self._is_full(packet, _AROUND + length):
                self._put(pieces)
                pieces = []
                self.close(drops)
                self._begin(packet.ts_ns)
            link, bare = link_of(packet.hardware, packet.ethertype)
            number = self._interfaces.get((packet.interface, link))
            if number is None:
                number = self._describe(packet.interface, link, pieces)
            start = packet.network if bare else packet.start
            data = block[start : packet.end]
            if packet.tag and link == 1:
                data = data[:_TAG_AT] + packet.tag + data[_TAG_AT:]
            wire = packet.wire_length - (start - packet.start) + len(packet.tag)
            around = blocks.packet(number, packet.ts_ns, data, wire)
            pieces += around
            self.size += sum(map(len, around))
            self._packets += 1
        self._put(pieces)

    def close(self, drops: int) -> None:
        """Close the open file, with the number of packets dropped meanwhile."""
        if self._fd < 0:
            return
        if self._interfaces:
            lost = drops - self._drops
            self._put([blocks.statistics(self._packets + lost, lost)])
        os.close(self._fd)
        self._fd, self._drops = -1, drops

    def _is_full(self, packet: Raw, more: int) -> bool:
        if self._fd < 0:
            return True
        size, seconds = self._rotation.size, self._rotation.seconds
        if size and self._packets and self.size + more > size:
            return True
        return bool(seconds) and packet.ts_ns >= self._begun_ns + seconds * 1e9

    def _begin(self, ts_ns: int) -> None:
        """Begin the next file, and remove the oldest if there are too many."""
        self.files += 1
        path = self.path
        if self._rotation.rotates:
            when = datetime.fromtimestamp(ts_ns // 1_000_000_000, timezone.utc)
            path = path.with_name(f"{path.stem}_{self.files:05}_{when:%Y%m%d%H%M%S}{path.suffix}")
            self._kept.append(path)
            if self._rotation.files and len(self._kept) > self._rotation.files:
                self._kept.popleft().unlink(missing_ok=True)
        self._fd = new_file(str(path), force=self._force)
        self._packets, self._begun_ns = 0, ts_ns
        self._interfaces = {}
        section = blocks.section(f"dcpdump {__version__}")
        self.size = len(section)
        self._put([section])

    def _describe(self, interface: int, link: int, pieces: list[bytes]) -> int:
        """Describe an interface before its first packet, and return its number in the file."""
        number = self._interfaces[interface, link] = len(self._interfaces)
        pieces.append(blocks.interface(link, _name_of(interface)))
        self.size += len(pieces[-1])
        return number

    def _put(self, pieces: list[bytes]) -> None:
        left = memoryview(b"".join(pieces))
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            raise unwritable(error, str(self.path)) from error


def new_file(path: str, *, force: bool) -> int:
    """Open a file to be written, for its owner alone; with ``force`` one that exists. Raises OutputError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if force else os.O_EXCL)
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError as error:
        if os.path.isdir(path):
            raise OutputError("the output is a folder", path) from error
        raise OutputError("the output exists already", path, "--force replaces it") from error
    except OSError as error:
        raise unwritable(error, path) from error


def _name_of(interface: int) -> str:
    try:
        return if_indextoname(interface)
    except OSError:  # it has gone
        return f"interface {interface}"
