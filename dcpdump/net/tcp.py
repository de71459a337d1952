"""Read TCP segments. Knows the header; knows no stream, and ignores checksums (offloading makes them wrong)."""

import struct
from typing import Final, NamedTuple

from dcpdump.net.endpoints import Flow, flow_of

MODULUS: Final = 1 << 32
MASK: Final = MODULUS - 1
HALF: Final = 1 << 31


def advance(seq: int, count: int) -> int:
    """Return the sequence number ``count`` bytes after ``seq`` (before it, if negative)."""
    return (seq + count) & MASK


def distance(origin: int, seq: int) -> int:
    """Return how many bytes ``seq`` lies after ``origin``; negative before it. Exact within half of all numbers."""
    steps = (seq - origin) & MASK
    return steps - MODULUS if steps >= HALF else steps


FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
PSH: Final = 0x08
ACK: Final = 0x10
CONTROL: Final = FIN | SYN | RST  #: the flags of segments that do more than carry bytes

PROTOCOL: Final = 6

_HEADER: Final = struct.Struct(">4sIIBBH").unpack_from


class Segment(NamedTuple):
    """A segment as captured.

    ``key`` is both addresses and both ports, as in the headers: cheap to make, and unique for a flow.
    """

    key: bytes
    seq: int
    ack: int
    flags: int
    window: int
    payload: bytes
    payload_missing: int = 0  #: bytes of the payload that the snap length cut off
    disagreement: tuple[bytes, bytes] | None = None  #: kept and refused bytes, where its IP fragments overlapped

    @property
    def flow(self) -> Flow:
        return flow_of(self.key)


def parse(addresses: bytes, data: bytes, start: int, end: int, missing: int) -> Segment | str:
    """Read the segment at ``data[start:end]``; ``missing`` further bytes of it were not captured.

    Return the reason instead where the header is cut short or contradicts itself.
    """
    if end - start < 20:
        return "TCP header cut short"
    ports, seq, ack, header, flags, window = _HEADER(data, start)
    length = (header >> 4) * 4
    if length < 20:
        return "TCP header length below 20"
    cut = start + length - end
    if cut > missing:
        return "TCP header longer than its packet"
    if cut > 0:  # the cut goes through the options
        return Segment(addresses + ports, seq, ack, flags, window, b"", missing - cut)
    return Segment(addresses + ports, seq, ack, flags, window, data[start + length : end], missing)
