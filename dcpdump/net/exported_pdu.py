"""Read exported PDUs: what Wireshark writes of streams that it put together, or decrypted (link type 252).

A record is tags that say between whom, then the payload. What one end says continues from record to record, so the
segments made of them follow one another; that the first is the beginning of the connection, nothing says.
"""

from struct import error, unpack_from
from typing import Final

from dcpdump.net.tcp import Segment

LINK_TYPE: Final = 252
_END, _IPV4_SRC, _IPV4_DST, _IPV6_SRC, _IPV6_DST, _PORT_TYPE, _SRC_PORT, _DST_PORT = 0, 20, 21, 22, 23, 24, 25, 26
_TCP: Final = 2  #: the type of port
#: Directions whose places are remembered.
_MOST: Final = 131_072


class ExportedPdus:
    """Makes segments of the records of one capture."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[bytes, int] = {}  # the sequence number of what comes next, by key

    def state(self) -> dict[bytes, int]:
        """Return the sequence numbers of what comes next, for ``restore``."""
        return dict(self._next)

    def restore(self, state: dict[bytes, int]) -> None:
        """Continue from a state."""
        self._next = dict(state)

    def feed(self, data: bytes, cut: int) -> Segment | str:
        """Return the segment of a record, of which ``cut`` bytes were not captured, or the reason why there is none."""
        try:
            tags, at = _tags(data)
        except error:
            return "exported PDU cut short"
        src, dst = tags.get(_IPV4_SRC) or tags.get(_IPV6_SRC), tags.get(_IPV4_DST) or tags.get(_IPV6_DST)
        if int.from_bytes(tags.get(_PORT_TYPE, b""), "big") != _TCP:
            return "exported PDU without TCP"
        if src is None or dst is None or {len(src), len(dst)} not in ({4}, {16}):
            return "exported PDU without addresses"
        ports = tags.get(_SRC_PORT, b"")[-2:].rjust(2, b"\0") + tags.get(_DST_PORT, b"")[-2:].rjust(2, b"\0")
        key, payload = src + dst + ports, data[at:]
        if key not in self._next and len(self._next) >= _MOST:
            self._next.clear()
        seq = self._next.get(key, 1)
        self._next[key] = (seq + len(payload) + cut) & 0xFFFFFFFF
        return Segment(key, seq, 0, 0, 0, payload, cut)


def _tags(data: bytes) -> tuple[dict[int, bytes], int]:
    """Return the tags of a record, and where its payload begins. Raises struct.error."""
    tags: dict[int, bytes] = {}
    at = 0
    while True:
        tag, length = unpack_from(">HH", data, at)
        at += 4
        if tag == _END:
            return tags, at + length
        tags.setdefault(tag, data[at : at + length])
        at += length
