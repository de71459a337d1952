"""Make programs for the kernel's packet filter (classic BPF), so that nothing need be installed.

A program finds a packet's ports on any link type, and drops the second copy of a loopback packet. Packets that it
cannot parse pass (later fragments, VLAN tags, extension headers), and are filtered when they are decoded. It does not
look into tunnels over UDP.
"""

import ctypes
import socket
from collections.abc import Iterable, Sequence
from struct import pack, unpack
from typing import NamedTuple

from dcpdump.errors import FilterError, LiveError
from dcpdump.filter.choices import Ranges


class Instruction(NamedTuple):
    """One instruction: the operation, how many instructions to skip if it holds or not, and a number."""

    code: int
    yes: int
    no: int
    number: int


LOAD_WORD, LOAD_HALF, LOAD_BYTE = 0x20, 0x28, 0x30  #: from a fixed offset
LOAD_HALF_BEHIND = 0x48  #: from an offset behind the index
INDEX, INDEX_IP_HEADER = 0x01, 0xB1
EQUAL, ABOVE, AT_LEAST, ANY_BIT = 0x15, 0x25, 0x35, 0x45
SKIP, RETURN = 0x05, 0x06

#: Offsets at which the kernel offers facts that are not in the packet's bytes (SKF_AD_OFF), and the IP header.
_ANCILLARY, _NETWORK = 0xFFFFF000, 0xFFF00000
_ETHERTYPE, _DIRECTION, _HARDWARE = _ANCILLARY, _ANCILLARY + 4, _ANCILLARY + 28
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP = 6
_EXTENSIONS = (0, 43, 44, 60)
LOOPBACK, OUTGOING = 772, 4
_ALL, _NOTHING = 0xFFFFFFFF, 0
#: The most instructions that the kernel accepts.
LONGEST = 4096
_SO_ATTACH_FILTER = 26

NOTHING: tuple[Instruction, ...] = (Instruction(RETURN, 0, 0, _NOTHING),)


def once() -> list[Instruction]:
    """Begin a program: a loopback packet is seen twice, outgoing and incoming, and passes once."""
    return [
        Instruction(LOAD_WORD, 0, 0, _HARDWARE),
        Instruction(EQUAL, 0, 3, LOOPBACK),
        Instruction(LOAD_WORD, 0, 0, _DIRECTION),
        *_return_if(OUTGOING, _NOTHING),
    ]


def by_port(ports: Ranges | None) -> list[Instruction]:
    """End a program: pass only TCP from or to these ports, over IPv4 or IPv6; without ports pass everything."""
    everything = [Instruction(RETURN, 0, 0, _ALL)]
    if ports is None:
        return everything
    four = [
        Instruction(LOAD_BYTE, 0, 0, _NETWORK + 9),
        Instruction(EQUAL, 1, 0, _TCP),
        *NOTHING,
        Instruction(LOAD_HALF, 0, 0, _NETWORK + 6),
        Instruction(ANY_BIT, 0, 1, 0x1FFF),  # a fragment without the ports
        *everything,
        Instruction(INDEX_IP_HEADER, 0, 0, _NETWORK),
        *_either_port(ports),
    ]
    six = [
        Instruction(LOAD_BYTE, 0, 0, _NETWORK + 6),
        *(step for header in _EXTENSIONS for step in _return_if(header, _ALL)),
        Instruction(EQUAL, 1, 0, _TCP),
        *NOTHING,
        Instruction(INDEX, 0, 0, 40),
        *_either_port(ports),
    ]
    program = [
        Instruction(LOAD_WORD, 0, 0, _ETHERTYPE),
        Instruction(EQUAL, 1, 0, _IPV4),
        Instruction(SKIP, 0, 0, len(four)),
        *four,
        Instruction(EQUAL, 1, 0, _IPV6),
        *everything,
        *six,
    ]
    # For too many ranges, pass everything: packets are filtered by port once more when they are decoded.
    return program if len(program) < LONGEST - 8 else everything


def _either_port(ports: Ranges) -> list[Instruction]:
    loads = [Instruction(LOAD_HALF_BEHIND, 0, 0, _NETWORK + at) for at in (0, 2)]
    steps: list[Instruction] = []
    for load in loads:
        steps += [load, *_return_in(ports.excluded, _NOTHING)] if ports.excluded else []
    for load in loads:
        steps += [load, *_return_in(ports.spans, _ALL)] if ports.spans else []
    return [*steps, Instruction(RETURN, 0, 0, _NOTHING if ports.spans else _ALL)]


def _return_if(number: int, result: int) -> list[Instruction]:
    return [Instruction(EQUAL, 0, 1, number), Instruction(RETURN, 0, 0, result)]


def _return_in(spans: Iterable[tuple[int, int]], result: int) -> list[Instruction]:
    steps: list[Instruction] = []
    for low, high in spans:
        steps.append(Instruction(AT_LEAST, 0, 2, low))
        steps += [Instruction(ABOVE, 1, 0, high), Instruction(RETURN, 0, 0, result)]
    return steps


def attach(sock: socket.socket, program: Sequence[Instruction]) -> None:
    """Let a program in the kernel decide which packets the socket receives."""
    code = b"".join(pack("=HBBI", *step) for step in program)
    steps = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pack("HP", len(program), ctypes.addressof(steps)))


def compiled(expression: str, interface: str) -> list[Instruction]:
    """Compile an expression in tcpdump's syntax, with libpcap through scapy. Raises LiveError, FilterError."""
    from scapy.arch.common import compile_filter  # here: scapy is large, and few runs give an expression
    from scapy.error import Scapy_Exception

    try:
        program = compile_filter(expression, iface=interface)
    except ImportError as error:
        hint = "install it (apt install libpcap0.8), or narrow with --port, which needs nothing"
        raise LiveError("--bpf needs libpcap, which is not there", "", hint) from error
    except Scapy_Exception as error:
        reason = str(error).rpartition("(")[2].removesuffix(")")
        raise FilterError(f"--bpf: {expression!r} is not a filter: {reason}", hint="man pcap-filter") from error
    steps = ctypes.string_at(program.bf_insns, 8 * program.bf_len)
    return [Instruction(*unpack("=HBBI", steps[at : at + 8])) for at in range(0, len(steps), 8)]
