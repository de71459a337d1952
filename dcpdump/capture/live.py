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
import time
from collections.abc import Iterator
from struct import pack
from typing import Any, NamedTuple

from dcpdump.capture import bpf
from dcpdump.capture.ring import BLOCK_TIMEOUT_MS, Ring, Taken
from dcpdump.errors import FilterError, LiveError, system_words
from dcpdump.filter.ranges import Ranges
from dcpdump.nearest import nearest

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
