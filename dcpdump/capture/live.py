"""Capture from an interface: scapy opens the socket; a ring and a filter are attached here; packets may be saved.

Errors name the obstacle (no privilege, no such interface, not Linux) and the alternatives. Once the interface is open
no privilege is needed, and all are dropped.
"""

import ctypes
import errno
import logging
import mmap
import os
import pwd
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from socket import if_indextoname
from struct import Struct, pack
from typing import Any, NamedTuple

from dcpdump import __version__
from dcpdump.capture import blocks, bpf
from dcpdump.errors import FilterError, LiveError, OutputError, system_words, unwritable
from dcpdump.filter.choices import Ranges
from dcpdump.processes import started
from dcpdump.startup import dataclass
from dcpdump.text import nearest

# -- memory that the kernel fills with packets, block by block (TPACKET_V3) ---------------------------
# Blocks change owners; packets are not looked into. A block that is taken is copied, so that the kernel has it back at
# once.

_BLOCK_SIZE = 512 * 1024  #: seven packets of 64 KiB, or a few hundred of usual size
_RING_SIZE = 64 * 1024 * 1024
#: Milliseconds after which the kernel hands over a block that is not full.
_BLOCK_TIMEOUT_MS = 10

_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _TPACKET_V3 = 263, 5, 6, 10, 2
_REQUEST = Struct("=7I")
_COUNTS = Struct("=3I")
_KERNELS, _OURS = 0, 1
_FRAME = 2048  #: must divide a block
#: The header of a block: its owner, its packets, the offset of the first, bytes used.
_WORD = Struct("=I")
_BLOCK = Struct("=8x4I")
#: The header of a packet: the next one's offset, seconds, nanoseconds, captured bytes, bytes on the wire, status, the
#: offsets of the link and network headers; tag and kind of tag; in the address: ethertype, interface, hardware.
PACKET = Struct("=6I2H4xIH12x2siH")
_TAGGED, _KIND_VALID = 1 << 4, 1 << 6


class _Raw(NamedTuple):
    """A packet in the ring; ``start``, ``network`` and ``end`` are offsets in its block."""

    ts_ns: int
    start: int
    network: int
    end: int
    wire_length: int
    tag: bytes  #: the VLAN tag that the kernel removed, b"" for none
    ethertype: bytes
    interface: int
    hardware: int


class Taken(NamedTuple):
    """A block taken from the ring; ``first``: the number of its first packet, counted 1, 2, 3 … over all received."""

    first: int
    packets: int
    data: bytes


class Ring:
    """A ring on a packet socket. Needs no privilege: the socket has it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, size = sock, _RING_SIZE
        sock.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        while True:
            self.blocks = max(2, size // _BLOCK_SIZE)
            frames = self.blocks * (_BLOCK_SIZE // _FRAME)
            request = _REQUEST.pack(_BLOCK_SIZE, self.blocks, _FRAME, frames, _BLOCK_TIMEOUT_MS, 0, 0)
            try:
                sock.setsockopt(_SOL_PACKET, _RX_RING, request)
                break
            except OSError:  # not that much memory is available
                if size <= 2 * _BLOCK_SIZE:
                    raise
                size //= 2
        sock.getsockopt(_SOL_PACKET, _STATISTICS, _COUNTS.size)  # counts from here: losses before the ring are none
        self._memory = mmap.mmap(sock.fileno(), self.blocks * _BLOCK_SIZE)
        if hasattr(mmap, "MADV_DONTFORK"):
            self._memory.madvise(mmap.MADV_DONTFORK)  # child processes do not use it, and fork faster without it
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN | select.POLLERR)
        self._at = 0
        self.received = 0  #: packets taken
        self.dropped = 0  #: packets that the kernel dropped because the ring was full

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        return self.blocks * _BLOCK_SIZE

    def ready_blocks(self, timeout_ms: int) -> list[Taken]:
        """Return the blocks that are ready, up to the complete ring; wait up to ``timeout_ms`` for the first.

        Raises OSError when the interface disappears.
        """
        taken: list[Taken] = []
        waited = False
        while len(taken) < self.blocks:
            base = self._at * _BLOCK_SIZE
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


def packet_offsets(block: bytes, base: int, offsets: list[int]) -> None:
    """Append the offsets at which the packets of a block begin, counted from ``base``."""
    _, count, at, _ = _BLOCK.unpack_from(block)
    note, after = offsets.append, _WORD.unpack_from
    for _ in range(count):
        note(base + at)
        at += after(block, at)[0]


def packets_of(block: bytes) -> Iterator[_Raw]:
    """Yield the packets of a block."""
    offsets: list[int] = []
    packet_offsets(block, 0, offsets)
    for at in offsets:
        _, seconds, ns, here, wire, status, link, network, tag, kind, ethertype, interface, hardware = (
            PACKET.unpack_from(block, at)
        )
        start = at + link
        inserted = b""
        if status & _TAGGED:
            inserted = pack(">HH", kind if status & _KIND_VALID else 0x8100, tag)
        yield _Raw(
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


# -- pcapng files of packets as they arrive, each valid as far as it was written ----------------------
# Begins the next file when one is full or old enough, and removes the oldest. Changes packets in one way: a VLAN tag is
# put back to where it was on the wire.

#: The most bytes that a packet adds beside its own: its block, padding, its interface's block, and the end of the file.
_AROUND = blocks.PACKET_BYTES + 3 + 56 + blocks.STATISTICS_BYTES
_TAG_AT = 12  #: behind the Ethernet addresses


@dataclass(frozen=True, slots=True)
class Rotation:
    """The size (bytes) and age (seconds) at which the next file begins (0: never), and how many are kept (0: all)."""

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
        self._drops = 0  #: the kernel's count of drops when the file began
        self._interfaces: dict[tuple[int, int], int] = {}
        if self._rotation.rotates:
            if not self.path.parent.is_dir():
                raise OutputError("there is no such folder", str(self.path.parent))
        else:
            self._begin(0)

    def write(self, block: bytes, drops: int) -> None:
        """Write the packets of a block; ``drops``: packets that the kernel has dropped so far."""
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

    def _is_full(self, packet: _Raw, more: int) -> bool:
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
    except OSError:  # it was removed meanwhile
        return f"interface {interface}"


#: The name for all interfaces.
ANY = "any"
_ALL_PROTOCOLS = 3
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"

#: ARPHRD_ type of hardware → LINKTYPE_ of its packets
_LINKTYPES = {
    1: 1,  # Ethernet
    bpf.LOOPBACK: 1,
    519: 101,  # raw IP, of modems
    65534: 101,  # of tunnels
    801: 105,
    802: 119,
    803: 127,
}


# -- interfaces ---------------------------------------------------------------------------------------


class Live:
    """An interface that packets are captured from."""

    def __init__(self, name: str, *, ports: Ranges | None = None, expression: str = "", command: str = "sniff") -> None:
        """``command``: named in errors as a way to run with more rights."""
        self.name = name
        program = _program(name, ports, expression)
        self._scapy = _opened(name, command)
        self._socket: socket.socket = self._scapy.ins
        try:
            # No packet may arrive before all is set; otherwise the kernel's count differs from ours.
            bpf.attach(self._socket, bpf.NOTHING)
            self.ring = Ring(self._socket)
            if name == ANY:
                _widen(self._socket)
            bpf.attach(self._socket, program)
        except OSError as error:
            self._scapy.close()
            raise _refused(f"cannot capture: {system_words(error)}", name, command) from error

    def last(self) -> Iterator[Taken]:
        """Stop capturing, and yield the blocks captured so far."""
        bpf.attach(self._socket, bpf.NOTHING)
        time.sleep(4 * _BLOCK_TIMEOUT_MS / 1000)
        while taken := self.ring.ready_blocks(2 * _BLOCK_TIMEOUT_MS):
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
    """Return the interfaces: first the one that stands for all, then each."""
    _needs_linux(ANY)
    import scapy.arch  # noqa: F401 - it fills what it is asked for
    from scapy.config import conf

    found = [
        Interface(each.name, tuple(ip for ips in each.ips.values() for ip in ips), bool(each.flags & 1))
        for each in sorted(conf.ifaces.values(), key=lambda each: each.index)
    ]
    return [Interface(ANY, (), True), *found]


def _program(name: str, ports: Ranges | None, expression: str) -> list[bpf.Instruction]:
    """Return the program by which the kernel filters packets, as far as it can."""
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


def _opened(name: str, command: str) -> Any:
    """Open the socket with scapy. It cannot open all interfaces at once: for that, the socket is bound again later."""
    _known(name)
    # Scapy warns of link types without a class. Importing its layers would bring the classes, but reads all routes
    # first: on a router that takes minutes.
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    import scapy.arch  # here: importing it takes a fifth of a second
    import scapy.packet  # noqa: F401 - what it takes the packets of such links for
    from scapy.config import conf
    from scapy.error import Scapy_Exception

    try:
        every = name == ANY
        return conf.L2listen(iface="lo" if every else name, promisc=False if every else None)
    except PermissionError as error:
        raise _refused("no right to capture here (CAP_NET_RAW)", name, command) from error
    except (OSError, Scapy_Exception) as error:
        if getattr(error, "errno", 0) in (errno.ENODEV, errno.ENXIO):
            raise LiveError("there is no such interface", name, "dcpdump sniff -D lists them") from error
        what = getattr(error, "strerror", "") or str(error)
        raise _refused(f"cannot capture: {what.lower()}", name, command) from error


def _widen(sock: socket.socket) -> None:
    """Bind a socket to all interfaces; Python's own bind requires the name of one."""
    address = pack("=H2s16x", socket.AF_PACKET, _ALL_PROTOCOLS.to_bytes(2, "big"))
    if ctypes.CDLL(None, use_errno=True).bind(sock.fileno(), address, len(address)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _refused(what: str, name: str, command: str) -> LiveError:
    """Return the error for a user who may not capture, with the alternatives."""
    reader = "read" if command == "sniff" else command
    return LiveError(
        what,
        name,
        f"sudo dcpdump {command} -i {name}  (rights are dropped once the interface is open)",
        (
            f"dumpcap -i {name} -w - | dcpdump {reader} -  (for members of the group wireshark)",
            f"ssh root@NODE tcpdump -i {name} -U --immediate-mode -B 65536 -w - port 11210 | dcpdump {reader} -",
        ),
    )


def link_of(hardware: int, ethertype: bytes) -> tuple[int, bool]:
    """Return the LINKTYPE_ of a packet, and whether it begins at its network header instead of its link header."""
    known = _LINKTYPES.get(hardware)
    return (known, False) if known is not None else (101 if ethertype in (_IPV4, _IPV6) else 147, True)


# -- the queue: packets are captured in a thread of its own, and wait to be decoded -------------------
# Every packet is counted once: handed on, waiting, or dropped here because too many bytes waited. Does not look into
# packets.

#: Bytes of packets that may wait.
BUFFER_BYTES = 128 * 1024 * 1024
#: Milliseconds of each wait on an interface without traffic.
_IDLE_MS = 100
#: The most bytes that are handed on at a time.
_MOST = 4 * 1024 * 1024
#: When so many bytes arrive at once, more are waited for: large batches are decoded faster than small ones.
_MUCH = 32 * 1024
_MORE_S = 0.05


class LiveQueue:
    """A queue that captures until it is stopped or its time is over. ``save`` writes all packets."""

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
        self.ended_ns: int | None = None  #: when capturing ended
        self.dropped = 0  #: packets captured but dropped here, because too many bytes waited
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
        """Stop capturing. Packets captured before are still handed on."""
        self._stopped.set()

    def batches(self) -> Iterator[list[Taken]]:
        """Yield captured blocks, some at a time, until capturing has stopped; an empty list while nothing arrives."""
        while True:
            with self._changed:
                if not self._waiting and not self._over:
                    self._changed.wait(_IDLE_MS / 1000)
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
            self._capture()
            if self._save is not None:
                self._save.close(self.dropped_by_kernel)
        except Exception as error:  # any error is reported by the reader
            self.error = self.error or error
        finally:
            self.ended_ns = time.time_ns()
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _capture(self) -> None:
        try:
            while not self._stopped.is_set() and (self._ends is None or time.monotonic() < self._ends):
                self._keep(self._live.ring.ready_blocks(self._timeout_ms()))
            self._keep(self._live.last())
        except OSError as error:
            self.error = LiveError(error.strerror or str(error), self._live.name)

    def _timeout_ms(self) -> int:
        if self._ends is None:
            return _IDLE_MS
        return max(0, min(_IDLE_MS, round(1000 * (self._ends - time.monotonic()))))

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


# -- privileges: what parses other people's bytes should have none ------------------------------------
# The process continues as the user who called sudo, and can never regain a privilege. Files written afterwards belong
# to that user; where root called without sudo, they belong to root. On Linux a thread drops only its own privileges:
# this must run while there is a single thread, and the kernel is asked whether any thread kept one.

_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_3 = 0x20080522
#: The kernel's status of a thread that has no privilege, and no way to regain one.
_WITHOUT = {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0, "NoNewPrivs": 1}


def drop_privileges(*, writes: bool) -> str:
    """Drop all privileges, for good, and return the name of the user that the process continues as.

    Root becomes the user who called sudo, or an unprivileged user without sudo. If root has files to write, it stays
    root by name, since other users may not write there, but without capabilities. Raises LiveError where a thread kept
    a privilege.
    """
    if not hasattr(os, "geteuid"):
        return ""
    user = _caller() or (None if writes else _nobody()) if os.geteuid() == 0 else None
    try:
        if user is not None:
            if user.pw_name:
                os.initgroups(user.pw_name, user.pw_gid)
            else:
                os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        _renounce()
        _verify()
    except OSError as error:
        what = f"the rights to capture could not be given up: {system_words(error)}"
        raise LiveError(what, "", "dumpcap -w - | dcpdump read -") from error
    if user is None:
        return "root without capabilities" if os.geteuid() == 0 else ""
    return user.pw_name or f"uid {user.pw_uid}"


def _caller() -> pwd.struct_passwd | None:
    """Return who called sudo; None without sudo, or where root called it."""
    try:
        uid, gid = int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0"))
    except ValueError:
        return None
    if uid <= 0:
        return None
    return _of_uid(uid, gid)


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        return _of_uid(65534, 65534)


def _of_uid(uid: int, gid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:  # the user has no name here, as in a container
        return pwd.struct_passwd(("", "", uid, gid, "", "", ""))


def _renounce() -> None:
    """Drop every capability, and any way to regain one, also by running a program that has some."""
    libc = ctypes.CDLL(None, use_errno=True)
    for done in (
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        libc.capset(pack("=Ii", _CAPABILITIES_3, 0), bytes(24)),
    ):
        if done:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _verify() -> None:
    """Raise OSError if any thread of this process kept a privilege, or may regain one."""
    for task in Path("/proc/self/task").iterdir():
        try:
            lines = (task / "status").read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
        status = {
            name: int(value, 16) for name, _, value in (line.partition(":") for line in lines) if name in _WITHOUT
        }
        if status != _WITHOUT:
            raise OSError(errno.EPERM, f"thread {task.name} has some still")
