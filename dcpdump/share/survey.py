"""Survey: a dissection that remembers what every packet carries, and which of them open connections."""

from itertools import accumulate

from dcpdump.columnar.block import Block
from dcpdump.columnar.dissection import Dissection
from dcpdump.columnar.flows import FlowRun, RunConnections
from dcpdump.columnar.plan import Array
from dcpdump.net.anatomy import anatomy
from dcpdump.net.connections import Delivery
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.record import Record
from dcpdump.share.handshakes import Handshakes
from dcpdump.share.places import NOWHERE, Carried, Places

_FLAGS = 13  #: where a TCP header has them


class Survey(Dissection):
    """Feed it blocks, as a Dissection; ask ``places`` and ``handshakes`` afterwards."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False) -> None:
        self._watched = _Watched(limits, limits)
        super().__init__(limits, show_secrets=show_secrets)
        self.places = self._watched.places
        self.handshakes = Handshakes()

    def _connect(self, limits: Limits) -> RunConnections:
        self._watched = _Watched(limits, self._watched.limits)
        return self._watched

    def feed(self, packet: Packet) -> list[Record]:
        """It takes one packet."""
        records = super().feed(packet)
        self.handshakes.note(packet, self._watched.carried, self._watched.flags)
        return records

    def _take_stretch(self, block: Block, chain: Array, at: int, stop: int) -> int:
        stop = super()._take_stretch(block, chain, at, stop)
        if stop > at:
            rows, offsets = self._watched.taken()
            self.handshakes.note_stretch(block, at, self.places.note_stretch(block, at, stop, rows, offsets))
        return stop


class _Watched(RunConnections):
    """Connections that remember which bytes of their streams packets bring. ``limits``: of the whole survey."""

    def __init__(self, mine: Limits, limits: Limits) -> None:
        super().__init__(mine)
        self.limits = limits
        self.places = Places(self, limits)
        self.carried = Carried(NOWHERE, 0)  #: by the packet that was fed last
        self.flags = 0  #: of that packet
        self._rows: list[int] = []
        self._offsets: list[int] = []

    def feed(self, packet: Packet) -> list[Delivery]:
        """It takes one packet."""
        deliveries = super().feed(packet)
        body = anatomy(packet, self.limits)
        self.carried = self.places.note(packet, body)
        self.flags = packet.data[body.segment[0] + _FLAGS] if body.segment is not None else 0
        return deliveries

    def advance(self, run: FlowRun) -> None:
        """It takes what a flow brought that simply went on."""
        if run.pieces:
            self._rows += run.rows
            self._offsets += accumulate(map(len, run.pieces[:-1]), initial=self.next_offset(run.key))
        super().advance(run)
        self.places.settle(run.key)

    def taken(self) -> tuple[list[int], list[int]]:
        """It gives which packets of a block were taken so since it was asked last, and the offsets of their bytes."""
        taken = self._rows, self._offsets
        self._rows, self._offsets = [], []
        return taken
