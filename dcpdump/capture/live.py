"""Open an interface for capture: scapy opens the socket; a ring and a filter are attached here.

Knows what can prevent that (no privilege, no such interface, not Linux), and the alternatives. Once the interface is
open no privilege is needed any more.
"""

import ctypes
import errno
import logging
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from os.path import basename
from pathlib import Path
from socket import if_indextoname
from struct import pack
from typing import Any, NamedTuple

from dcpdump import __version__
from dcpdump.capture import blocks, bpf
from dcpdump.capture.ring import BLOCK_TIMEOUT_MS, Raw, Ring, Taken, packets_of
from dcpdump.errors import FilterError, LiveError, OutputError, system_words, unwritable
from dcpdump.filter.choices import Ranges
from dcpdump.forked_worker import started
from dcpdump.nearest import nearest
from dcpdump.net.packet import Packet
from dcpdump.quick_dataclass import dataclass

# -- pcapng files of packets as they arrive, each valid as far as it was written ----------------------
# Knows when a file is full or old enough for the next one, and how many are kept. Does not look into packets but to put
# a VLAN tag back where it was on the wire.

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


# -- packets of any captures as one pcapng section, with times in nanoseconds -------------------------
# Knows interfaces and their numbers; does not know files: it returns bytes.


class PcapngWriter:
    """A writer: ``header`` first, then each packet. Interfaces are described before their first packet."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._interfaces: dict[tuple[str, int, int, str], int] = {}
        self._last_ns = 0

    def header(self, comments: Sequence[str] = ()) -> bytes:
        """Return the section's header."""
        return blocks.section(self._application, comments)

    def packet(self, packet: Packet, name: str = "", comments: Sequence[bytes] = ()) -> bytes:
        """Return a packet, and before it the description of its interface if that is new.

        A packet without a time is written with that of the one before it, since the format requires a time.
        """
        out = b""
        key = (packet.file, packet.interface, packet.link_type, name)
        number = self._interfaces.get(key)
        if number is None:
            number = self._interfaces[key] = len(self._interfaces)
            out = blocks.interface(packet.link_type, name, basename(packet.file))
        if packet.ts_ns is not None:
            self._last_ns = max(packet.ts_ns, 0)
        return out + b"".join(blocks.packet(number, self._last_ns, packet.data, packet.wire_length, comments))


#: The name that stands for all interfaces.
ANY = "any"
_ALL_PROTOCOLS = 3
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"

#: ARPHRD_ type of hardware → LINKTYPE_ of its packets
LINKTYPES = {
    1: 1,  # Ethernet
    bpf.LOOPBACK: 1,
    519: 101,  # raw IP, of modems
    65534: 101,  # of tunnels
    801: 105,
    802: 119,
    803: 127,
}


class Live:
    """An interface that packets are captured from."""

    def __init__(self, name: str, *, ports: Ranges | None = None, expression: str = "") -> None:
        self.name = name
        program = _program(name, ports, expression)
        self._scapy = _opened(name)
        self._socket: socket.socket = self._scapy.ins
        try:
            # No packet may arrive before all is set, or the kernel's count differs from ours.
            bpf.attach(self._socket, bpf.NOTHING)
            self.ring = Ring(self._socket)
            if name == ANY:
                _widen(self._socket)
            bpf.attach(self._socket, program)
        except OSError as error:
            self._scapy.close()
            raise _refused(f"cannot capture: {system_words(error)}", name) from error

    def take(self, timeout_ms: int) -> list[Taken]:
        """Return the blocks of packets that were captured; wait up to ``timeout_ms`` for the first."""
        return self.ring.take(timeout_ms)

    def last(self) -> Iterator[Taken]:
        """Stop capturing, and yield the blocks that were captured before."""
        bpf.attach(self._socket, bpf.NOTHING)
        time.sleep(4 * BLOCK_TIMEOUT_MS / 1000)
        while taken := self.ring.take(2 * BLOCK_TIMEOUT_MS):
            yield from taken

    def close(self) -> None:
        """Close the interface."""
        self.ring.close()
        self._scapy.close()


class Interface(NamedTuple):
    """An interface that can be captured on."""

    name: str
    addresses: tuple[str, ...]
    up: bool


def interfaces() -> list[Interface]:
    """Return the interfaces that can be captured on: first the one for all, then each."""
    _needs_linux(ANY)
    import scapy.arch  # noqa: F401 - it fills what it is asked for
    from scapy.config import conf

    found = [
        Interface(each.name, tuple(ip for ips in each.ips.values() for ip in ips), bool(each.flags & 1))
        for each in sorted(conf.ifaces.values(), key=lambda each: each.index)
    ]
    return [Interface(ANY, (), True), *found]


def _program(name: str, ports: Ranges | None, expression: str) -> list[bpf.Instruction]:
    """Return the program that filters packets as far as the kernel can."""
    if not expression:
        return [*bpf.once(), *bpf.by_port(ports)]
    if name == ANY:
        what = "--bpf needs to know the kind of link, and 'any' has several"
        raise FilterError(what, hint="-i with one interface (dcpdump sniff -D lists them), or --port")
    _known(name)
    return [*bpf.once(), *bpf.compiled(expression, name)]


def _known(name: str) -> None:
    _needs_linux(name)
    names = [ANY, *(each for _, each in socket.if_nameindex())]
    if name not in names:
        near = nearest(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}"
        raise LiveError("there is no such interface", name, hint)


def _needs_linux(name: str) -> None:
    if not hasattr(socket, "AF_PACKET"):
        what = f"cannot capture on {sys.platform}: only Linux has the sockets that this needs"
        raise LiveError(what, name, f"sudo tcpdump -i {name} -U --immediate-mode -B 65536 -w - | dcpdump read -")


def _opened(name: str) -> Any:
    """Open the socket with scapy. It cannot open all interfaces at once: for that, the socket is bound again later."""
    _known(name)
    # It warns of links that it has no class for. Those would come with its layers, which read all routes first:
    # of a router that takes minutes.
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    import scapy.arch  # here: it takes a fifth of a second
    import scapy.packet  # noqa: F401 - what it takes the packets of such links for
    from scapy.config import conf
    from scapy.error import Scapy_Exception

    try:
        every = name == ANY
        return conf.L2listen(iface="lo" if every else name, promisc=False if every else None)
    except PermissionError as error:
        raise _refused("no right to capture here (CAP_NET_RAW)", name) from error
    except (OSError, Scapy_Exception) as error:
        if getattr(error, "errno", 0) in (errno.ENODEV, errno.ENXIO):
            raise LiveError("there is no such interface", name, "dcpdump sniff -D lists them") from error
        what = getattr(error, "strerror", "") or str(error)
        raise _refused(f"cannot capture: {what.lower()}", name) from error


def _widen(sock: socket.socket) -> None:
    """Bind a socket to all interfaces; Python's own bind requires the name of one."""
    address = pack("=H2s16x", socket.AF_PACKET, _ALL_PROTOCOLS.to_bytes(2, "big"))
    if ctypes.CDLL(None, use_errno=True).bind(sock.fileno(), address, len(address)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _refused(what: str, name: str) -> LiveError:
    """Return the error for a user who may not capture, with the alternatives."""
    return LiveError(
        what,
        name,
        f"sudo dcpdump sniff -i {name}  (rights are dropped once the interface is open)",
        (
            f"dumpcap -i {name} -w - | dcpdump read -  (for members of the group wireshark)",
            f"ssh root@NODE tcpdump -i {name} -U --immediate-mode -B 65536 -w - port 11210 | dcpdump read -",
        ),
    )


def link_of(hardware: int, ethertype: bytes) -> tuple[int, bool]:
    """Return the LINKTYPE_ of a packet, and whether it begins at its network header instead of its link header."""
    known = LINKTYPES.get(hardware)
    return (known, False) if known is not None else (101 if ethertype in (_IPV4, _IPV6) else 147, True)


# -- the queue: packets are captured in a thread of its own, and wait to be decoded -------------------
# Every packet is counted once: it was handed on, still waits, or was dropped here because too much waited. Does not
# know what is in packets.

#: Bytes of packets that may wait.
BUFFER_BYTES = 128 * 1024 * 1024
#: Milliseconds of each wait on an interface without traffic.
IDLE_MS = 100
#: Bytes that are handed on at a time, at most.
_MOST = 4 * 1024 * 1024
#: Where so many bytes arrived at once, wait for more: large batches are decoded faster than small ones.
_MUCH = 32 * 1024
_MORE_S = 0.05


class LiveQueue:
    """A queue that captures while it is open, until it is stopped or its time is over. ``save`` gets all packets."""

    def __init__(
        self, live: Live, *, limit: int = BUFFER_BYTES, save: Save | None = None, seconds: float | None = None
    ) -> None:
        self._live = live
        self._limit = limit
        self._save = save
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._waiting: deque[Taken] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._over = False
        self.error: Exception | None = None
        self.dropped = 0  #: packets captured, but not handed on because too much waited
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    @property
    def received(self) -> int:
        """Return the number of packets that the kernel delivered."""
        return self._live.ring.received

    @property
    def dropped_by_kernel(self) -> int:
        """Return the number of packets that the kernel dropped because the ring was full."""
        return self._live.ring.dropped

    def stop(self) -> None:
        """Stop capturing. What was captured is still handed on."""
        self._stopped.set()

    def batches(self) -> Iterator[list[Taken]]:
        """Yield what was captured, some at a time, until it has stopped; an empty list whenever nothing arrives."""
        while True:
            with self._changed:
                if not self._waiting and not self._over:
                    self._changed.wait(IDLE_MS / 1000)
                if _MUCH < self._size < _MOST and not self._over:
                    self._changed.wait_for(lambda: self._over or self._size >= _MOST, _MORE_S)
                batch: list[Taken] = []
                size = 0
                while self._waiting and size < _MOST:
                    batch.append(self._waiting.popleft())
                    size += len(batch[-1].data)
                self._size -= size
                over = self._over
            yield batch
            if over and not batch:
                return

    def __enter__(self) -> "LiveQueue":
        if not started(self._thread):
            self._live.close()
            raise LiveError(
                "cannot capture: no thread may be started here",
                self._live.name,
                "ulimit -u, or the limit of the container, says how many there may be",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Stop, and wait until all is written and counted."""
        self.stop()
        self._thread.join()
        self._live.close()

    def _run(self) -> None:
        try:
            self._take()
            if self._save is not None:
                self._save.close(self.dropped_by_kernel)
        except Exception as error:  # whatever it is, the reader reports it
            self.error = self.error or error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _take(self) -> None:
        try:
            while not self._stopped.is_set() and (self._ends is None or time.monotonic() < self._ends):
                self._keep(self._live.take(self._timeout_ms()))
            self._keep(self._live.last())
        except OSError as error:
            self.error = LiveError(error.strerror or str(error), self._live.name)

    def _timeout_ms(self) -> int:
        if self._ends is None:
            return IDLE_MS
        return max(0, min(IDLE_MS, round(1000 * (self._ends - time.monotonic()))))

    def _keep(self, blocks: list[Taken] | Iterator[Taken]) -> None:
        for taken in blocks:
            if self._save is not None:
                self._save.write(taken.data, self.dropped_by_kernel)
            with self._changed:
                if self._size + len(taken.data) > self._limit:
                    self.dropped += taken.packets
                    continue
                self._waiting.append(taken)
                self._size += len(taken.data)
                self._changed.notify_all()
