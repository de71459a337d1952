"""DCP as scapy packets: a class for each layout of each message, made from the protocol table.

    from dcpdump.scapy import DCP, DCP_MUTATION, DCPSession
    DCP(data)                                   # the class of the frame: DCP_MUTATION, DCP_STREAM_REQ_RESPONSE, …
    bytes(DCP_MUTATION(key=b"k", by_seqno=4))   # a whole frame; lengths are filled in
    sniff(offline="x.pcap", session=DCPSession) # frames instead of segments, reassembled by dcpdump

A message has one class for requests and one for responses (``DCP_NOOP_RESPONSE``), of its first layout; each further
layout is a subclass with its version in the name (``DCP_SNAPSHOT_MARKER_2_2``). Bytes that fit no layout are a DCP with
sections only. Values are the bytes on the wire; credentials are not masked here. ``classes`` makes the classes,
``packets`` has their base, ``sniffing`` converts between scapy's packets and records.
"""

from typing import Any

from scapy.layers.inet import TCP
from scapy.packet import bind_layers

from dcpdump.scapy.classes import CLASSES, class_of_layout
from dcpdump.scapy.packets import DCP, DCPResponse, class_of
from dcpdump.scapy.sniffing import DCPSession, packets_of, to_packet, to_scapy

#: The ports that carry DCP in clear: 11210 for clients, 11209 between nodes.
PORTS = (11210, 11209)

__all__ = [
    "DCP",
    "PORTS",
    "DCPResponse",
    "DCPSession",
    "class_of",
    "class_of_layout",
    "packets_of",
    "to_packet",
    "to_scapy",
    *(name for name in CLASSES if name.startswith("DCP_")),
]


def __getattr__(name: str) -> Any:
    """Return the class of a layout by its name."""
    try:
        return CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return [*globals(), *CLASSES]


for _port in PORTS:
    bind_layers(TCP, DCP, sport=_port)
    bind_layers(TCP, DCP, dport=_port)
