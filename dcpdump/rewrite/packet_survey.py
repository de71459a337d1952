"""Dissect, and remember what every packet carries, and which packets open connections."""

from dcpdump.batch.block import Block
from dcpdump.batch.dissection import Dissection
from dcpdump.net.batch import Segments
from dcpdump.net.header_offsets import anatomy
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.rewrite.handshakes import Handshakes
from dcpdump.rewrite.payload_map import PayloadMap
from dcpdump.rewrite.text_places import TextPlaces
from dcpdump.tls.secrets import Secrets

_FLAGS = 13  #: offset in a TCP header


class PacketSurvey(Dissection):
    """A dissection of blocks; ask ``places`` and ``handshakes`` afterwards."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._unsealing.places = {}
        self.places = PayloadMap(self._connections, limits)
        self.handshakes = Handshakes()

    def texts(self, stream: int) -> "TextPlaces | None":
        """Return where a direction has its text, where that is inside TLS."""
        places = (self._unsealing.places or {}).get(stream)
        return None if places is None else TextPlaces(places)

    def _fed(self, packet: Packet) -> None:
        body = anatomy(packet, self._limits)
        flags = packet.data[body.segment[0] + _FLAGS] if body.segment is not None else 0
        self.handshakes.note(packet, self.places.note(packet, body), flags)

    def _took(self, block: Block, at: int, stop: int, segments: Segments) -> None:
        for row in segments.singles:
            self.places.note(block.packets[row], anatomy(block.packets[row], self._limits))
        streams = self.places.note_run(block, at, stop, segments.rows, segments.offsets)
        for place in dict.fromkeys(segments.places):
            self.places.settle(place)
        self.handshakes.note_run(block, at, streams)
