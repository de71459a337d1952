"""Read exported PDUs: what Wireshark writes of streams that it put together, or decrypted (link type 252).

A record is tags that say between whom, then the payload. What one end says continues from record to record, so the
segments made of them follow one another; that the first is the beginning of the connection, nothing says.
"""

from collections import OrderedDict
from struct import error, unpack_from
from typing import Final

from dcpdump.net.tcp import Segment

LINK_TYPE: Final = 252
_END, _IPV4_SRC, _IPV4_DST, _IPV6_SRC, _IPV6_DST, _PORT_TYPE, _SRC_PORT, _DST_PORT = 0, 20, 21, 22, 23, 24, 25, 26
_TCP: Final = 2  #: the type of port


class ExportedPdus:
    """Makes segments of the records of one capture.

    ``connections``: how many of them are remembered, the latest used. While reassembly remembers no more than these, no
    direction of a known connection begins anew.
    """

    __slots__ = ("_most", "_next")

    def __init__(self, connections: int) -> None:
        self._most = 2 * connections
        self._next: OrderedDict[bytes, int] = OrderedDict()  # the sequence number of what comes next, by key

    def state(self) -> dict[bytes, int]:
        """Return the sequence numbers of what comes next, for ``restore``."""
        return dict(self._next)

    def restore(self, state: dict[bytes, int]) -> None:
        """Continue from a state."""
        self._next = OrderedDict(state)

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
        key, back, payload = src + dst + ports, dst + src + ports[2:] + ports[:2], data[at:]
        seq = self._next.pop(key, 1)
        if back in self._next:
            self._next.move_to_end(back)
        self._next[key] = (seq + len(payload) + cut) & 0xFFFFFFFF
        if len(self._next) > self._most:
            self._next.popitem(last=False)
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
