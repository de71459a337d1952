"""Map memory that the kernel fills with packets, block by block (TPACKET_V3).

Knows how blocks change owners and where packets lie in them; does not look into packets. A block that is taken is
copied, so that the kernel has it back at once.
"""

import mmap
import select
import socket
from collections.abc import Iterator
from struct import Struct, pack
from typing import NamedTuple

BLOCK_SIZE = 512 * 1024  #: holds seven packets of 64 KiB, or a few hundred of the usual size
RING_SIZE = 64 * 1024 * 1024
#: Milliseconds after which the kernel hands over a block that is not full.
BLOCK_TIMEOUT_MS = 10

_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _TPACKET_V3 = 263, 5, 6, 10, 2
_REQUEST = Struct("=7I")
_COUNTS = Struct("=3I")
_KERNELS, _OURS = 0, 1
_FRAME = 2048  #: only has to divide a block
#: Of a block: whose it is, packets, where the first begins, bytes used.
_WORD = Struct("=I")
_BLOCK = Struct("=8x4I")
#: Of a packet: where the next begins, seconds, nanoseconds, bytes here, on the wire, status, where the link and
#: the network header begin; tag and kind of tag; then, in the address: ethertype, interface, hardware.
PACKET = Struct("=6I2H4xIH12x2siH")
_TAGGED, _KIND_VALID = 1 << 4, 1 << 6


class Raw(NamedTuple):
    """A packet as it lies in the ring; ``start``, ``network`` and ``end`` are offsets in its block."""

    ts_ns: int
    start: int
    network: int
    end: int
    wire_length: int
    tag: bytes  #: the VLAN tag that the kernel took out, b"" for none
    ethertype: bytes
    interface: int
    hardware: int


class Taken(NamedTuple):
    """A block that was taken: ``first`` is the number of its first packet, 1, 2, 3 … of all received."""

    first: int
    packets: int
    data: bytes


class Ring:
    """A ring on a packet socket. Needs no privilege: the socket has it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, size = sock, RING_SIZE
        sock.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        while True:
            self.blocks = max(2, size // BLOCK_SIZE)
            frames = self.blocks * (BLOCK_SIZE // _FRAME)
            request = _REQUEST.pack(BLOCK_SIZE, self.blocks, _FRAME, frames, BLOCK_TIMEOUT_MS, 0, 0)
            try:
                sock.setsockopt(_SOL_PACKET, _RX_RING, request)
                break
            except OSError:  # not that much memory is available
                if size <= 2 * BLOCK_SIZE:
                    raise
                size //= 2
        sock.getsockopt(_SOL_PACKET, _STATISTICS, _COUNTS.size)  # from 0 on: none is lost that came before the ring
        self._memory = mmap.mmap(sock.fileno(), self.blocks * BLOCK_SIZE)
        if hasattr(mmap, "MADV_DONTFORK"):
            self._memory.madvise(mmap.MADV_DONTFORK)  # children have no use for it, and are made faster without
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN | select.POLLERR)
        self._at = 0
        self.received = 0  #: packets taken
        self.dropped = 0  #: packets that the kernel dropped because the ring was full

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        return self.blocks * BLOCK_SIZE

    def take(self, timeout_ms: int) -> list[Taken]:
        """Take the blocks that are ready, up to all of the ring; wait up to ``timeout_ms`` for one if there is none.

        Raises OSError when the interface disappears.
        """
        taken: list[Taken] = []
        waited = False
        while len(taken) < self.blocks:
            base = self._at * BLOCK_SIZE
            status, packets, _, length = _BLOCK.unpack_from(self._memory, base)
            if not status & _OURS:
                if taken or waited or not self._wait(timeout_ms):
                    break
                waited = True
                continue
            taken.append(Taken(self.received + 1, packets, self._memory[base : base + length]))
            self.received += packets
            _WORD.pack_into(self._memory, base + 8, _KERNELS)
            self._at = (self._at + 1) % self.blocks
        self._count()
        return taken

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()

    def _wait(self, timeout_ms: int) -> bool:
        for _, event in self._poll.poll(timeout_ms):
            if event & select.POLLERR:
                number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if number:
                    raise OSError(number, "the interface went down")
            return True
        return False

    def _count(self) -> None:
        """Add the packets that the kernel dropped since the last call."""
        _, dropped, _ = _COUNTS.unpack(self._socket.getsockopt(_SOL_PACKET, _STATISTICS, _COUNTS.size))
        self.dropped += dropped


def places_of(block: bytes, base: int, places: list[int]) -> None:
    """Append the offsets at which the packets of a block begin, counted from ``base``."""
    _, count, at, _ = _BLOCK.unpack_from(block)
    note, after = places.append, _WORD.unpack_from
    for _ in range(count):
        note(base + at)
        at += after(block, at)[0]


def packets_of(block: bytes) -> Iterator[Raw]:
    """Yield the packets of a block."""
    places: list[int] = []
    places_of(block, 0, places)
    for at in places:
        _, seconds, ns, here, wire, status, link, network, tag, kind, ethertype, interface, hardware = (
            PACKET.unpack_from(block, at)
        )
        start = at + link
        inserted = b""
        if status & _TAGGED:
            inserted = pack(">HH", kind if status & _KIND_VALID else 0x8100, tag)
        yield Raw(
            seconds * 1_000_000_000 + ns,
            start,
            at + network,
            start + here,
            wire,
            inserted,
            ethertype,
            interface,
            hardware,
        )
