"""Judge whether captured bytes begin like a packet of their link type. Used only to resynchronise after damage.

Knows where a few link headers keep the network protocol and where IP keeps its length; decodes nothing.
"""

import re
from collections.abc import Callable
from struct import unpack_from

from dcpdump.capture.source import SourceWindow

#: link type → (offset of the EtherType, or None where IP follows at once; bytes before the network layer)
_LAYOUTS: dict[int, tuple[int | None, int]] = {
    1: (12, 14),  # Ethernet
    113: (14, 16),  # Linux cooked
    276: (0, 20),  # Linux cooked, second version
    0: (None, 4),  # BSD loopback
    108: (None, 4),
    12: (None, 0),  # raw IP
    14: (None, 0),
    101: (None, 0),
    228: (None, 0),
    229: (None, 0),
}

_ETHERTYPES = frozenset((0x0800, 0x0806, 0x86DD, 0x8100, 0x88A8, 0x9100, 0x8847, 0x8848, 0x8864, 0x88CC))
_IP = frozenset((0x0800, 0x86DD))
#: Bytes of a packet that the checks below read; more is waste.
LOOKED_AT = 64
_SHORTEST_ETHERNET = 60  # shorter packets are padded to this


def begins_like(link_type: int, data: bytes) -> bool:
    """Return whether ``data`` may begin a packet; for link types not known here, always."""
    layout = _LAYOUTS.get(link_type)
    if layout is None:
        return True
    protocol_at, network_at = layout
    if len(data) <= network_at:
        return False
    if protocol_at is None:
        return data[network_at] >> 4 in (4, 6)
    (protocol,) = unpack_from(">H", data, protocol_at)
    if protocol in _IP:
        return data[network_at] >> 4 == (4 if protocol == 0x0800 else 6)
    return protocol in _ETHERTYPES or protocol <= 1500


def fits(link_type: int, data: bytes, wire_length: int) -> bool:
    """Return whether ``data`` begins an IP packet whose own length is that of the record: strong evidence."""
    layout = _LAYOUTS.get(link_type)
    if layout is None or len(data) < layout[1] + 20 or not begins_like(link_type, data):
        return False
    protocol_at, network_at = layout
    if protocol_at is not None and unpack_from(">H", data, protocol_at)[0] not in _IP:
        return False
    if data[network_at] >> 4 == 4:
        length: int = unpack_from(">H", data, network_at + 2)[0]
    else:
        length = 40 + unpack_from(">H", data, network_at + 4)[0]
    length += network_at
    return length == wire_length or length < wire_length <= _SHORTEST_ETHERNET


def find(window: SourceWindow, pattern: "re.Pattern[bytes]", size: int, is_plausible: Callable[[], bool]) -> bool:
    """Move the window to the next match that is plausible, or to its end; return whether there is one.

    ``size``: the least that a record takes. ``is_plausible`` judges what the window stands at.
    """
    while window.need(size) >= size:
        match = pattern.search(window.data, window.at)
        if match is None:
            window.at = max(window.at + 1, len(window.data) - size + 1)
            continue
        window.at = match.start()
        if is_plausible():
            return True
        window.at += 1
    window.at = len(window.data)
    return False


def begins_inside(window: SourceWindow, find_next: Callable[[], bool]) -> bool:
    """Return whether a record begins inside the file's last one: then the length of that is wrong."""
    here = window.at  # stays valid: the source has ended, so the window no longer moves its bytes
    window.at += 1
    found = find_next()
    window.at = here
    return found
