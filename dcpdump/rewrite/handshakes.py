"""Find the packets that open a connection: all with SYN, and the first without payload that follows a SYN-ACK."""

from array import array

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.gather import Array
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, SYN
from dcpdump.rewrite.payload_map import NOWHERE, Carried


class Handshakes:
    """The packets that open connections, by file, in ``packets``. ``note`` every TCP segment."""

    def __init__(self) -> None:
        self.packets: dict[str, array[int]] = {}
        self._answered: set[int] = set()  # connections that sent SYN and SYN-ACK, but not the ACK yet

    def note(self, packet: Packet, carried: Carried, flags: int) -> None:
        """Note the next packet."""
        if carried.stream == NOWHERE:
            return
        connection = carried.stream // 2
        if flags & SYN and flags & ACK:
            self._answered.add(connection)
        elif not carried.size and connection in self._answered:
            self._answered.discard(connection)
        elif not flags & SYN:
            return
        self._add(packet.file, packet.number)

    def note_run(self, block: Block, start: int, streams: Array) -> None:
        """Note packets of a block, from ``start`` on, that belong to these streams. None of them has SYN."""
        if not self._answered:
            return
        mine = np.isin(streams // 2, list(self._answered)) & (block.facts.size[start : start + len(streams)] == 0)
        for row in np.flatnonzero(mine).tolist():
            connection = int(streams[row]) // 2
            if connection in self._answered:
                self._answered.discard(connection)
                where = block.where(start + row)
                self._add(where.file, where.packet)

    def _add(self, file: str, number: int) -> None:
        self.packets.setdefault(file, array("q")).append(number)
