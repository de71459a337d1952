"""Endpoint, Flow, Connection: who talks to whom."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Endpoint(NamedTuple):
    """An address and a TCP port. ``str()`` returns ``10.0.0.1:11210`` or ``[fe80::1]:11210``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Flow(NamedTuple):
    """One direction between two endpoints."""

    src: Endpoint
    dst: Endpoint

    @property
    def reverse(self) -> "Flow":
        return Flow(self.dst, self.src)


@dataclass(frozen=True, slots=True)
class Connection:
    """A TCP connection: both directions, from one opening of a pair of endpoints to its end.

    ``flow`` is direction 0: the direction of the connection's first seen packet, or, where a SYN says
    better, from the end that opened it. Direction 1 is its reverse. ``number`` counts connections
    0, 1, 2 … in the order first seen; a SYN with a new initial sequence number on known endpoints
    (port reuse) makes a new Connection. ``syn``: it began with a SYN or the answer to one, so that
    direction 0 is that of the end that opened it, and not only of the first packet. ``carved``: IN_ORDER or
    OUT_OF_ORDER where the file holds chosen packets only, else 0.
    """

    number: int
    flow: Flow
    syn: bool = field(default=False, compare=False)
    carved: int = field(default=0, compare=False)

    def toward(self, direction: int) -> Flow:
        """Return the flow of ``direction`` (0 or 1)."""
        return self.flow if direction == 0 else self.flow.reverse


def reverse_key(key: bytes) -> bytes:
    """Return the key of the other direction. A key is the source and destination address, then both ports."""
    half = (len(key) - 4) // 2
    return key[half : 2 * half] + key[:half] + key[-2:] + key[-4:-2]


def flow_of(key: bytes) -> Flow:
    """Return the flow of a key of 12 (IPv4) or 36 bytes (IPv6)."""
    half = (len(key) - 4) // 2
    return Flow(
        Endpoint(_host(key[:half]), int.from_bytes(key[-4:-2], "big")),
        Endpoint(_host(key[half : 2 * half]), int.from_bytes(key[-2:], "big")),
    )


def _host(address: bytes) -> str:
    """Return the text of an address of 4 or 16 bytes."""
    if len(address) == 4:
        return ".".join(map(str, address))
    from socket import AF_INET6, inet_ntop  # here, as it is a large module that IPv4 does not need

    return inet_ntop(AF_INET6, address)
