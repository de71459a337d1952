"""Make blocks of packets from an interface's ring, without copying each packet's bytes.

A VLAN tag that the kernel removed is not put back: nothing that is decoded depends on it.
"""

from collections.abc import Sequence

import numpy as np

from dcpdump.batch.block import Block, Packets
from dcpdump.batch.gather import Array, distinct, records_at
from dcpdump.capture.live import PACKET, Taken, link_of, packet_offsets
from dcpdump.net.batch import Batch

_HEADER = np.dtype(
    {
        "names": ["seconds", "ns", "here", "wire", "link", "network", "ethertype", "hardware"],
        "formats": ["=u4", "=u4", "=u4", "=u4", "=u2", "=u2", ">u2", "=u2"],
        "offsets": [4, 8, 12, 16, 24, 26, 50, 56],
        "itemsize": PACKET.size,
    }
)


def block_of(taken: Sequence[Taken], name: str) -> Block:
    """Make a block of at least one block of the ring; ``name``: of the interface."""
    data = taken[0].data if len(taken) == 1 else b"".join([each.data for each in taken])
    offsets: list[int] = []
    base = 0
    for each in taken:
        packet_offsets(each.data, base, offsets)
        base += len(each.data)
    at = np.array(offsets, np.int64)
    view = np.frombuffer(data, np.uint8)
    head = records_at(view, _HEADER, at)
    numbers = [each.first + row for each in taken for row in range(each.packets)]
    ts_ns = head["seconds"].astype(np.int64) * 1_000_000_000 + head["ns"]
    starts = at + head["link"]
    ends = starts + head["here"]
    wire = head["wire"].astype(np.int64)
    links, bare = _links(head["hardware"], head["ethertype"])
    skipped = np.where(bare, head["network"].astype(np.int64) - head["link"], 0)
    starts += skipped
    wire -= skipped
    batch = Batch(data, starts.tolist(), ends.tolist(), links.tolist(), numbers, ts_ns.tolist(), [0] * len(at), [name])
    return Block(batch, Packets(batch, wire.tolist().__getitem__))


def _links(hardware: Array, ethertype: Array) -> tuple[Array, Array]:
    """Return the LINKTYPE_ of each packet, and a mask of those that begin at their network header."""
    both = hardware.astype(np.int64) << 16 | ethertype
    kinds, _, which = distinct(both)
    found = [link_of(kind >> 16, (kind & 0xFFFF).to_bytes(2, "big")) for kind in kinds.tolist()]
    return np.array([link for link, _ in found], np.int64)[which], np.array([bare for _, bare in found])[which]
