"""Define a captured packet, before anything in it is decoded."""

from typing import Final, NamedTuple

#: The time of a packet that has none.
NO_TIME: Final = -(1 << 63)


class Packet(NamedTuple):
    """One record of a capture file, or one packet read from an interface.

    ``data`` is the captured bytes, from the link layer on; ``wire_length`` is the packet's length on the wire.
    ``wire_length > len(data)`` means that the snap length cut the packet, or that the file is damaged there: then
    ``damage`` says so. ``ts_ns`` is nanoseconds since 1970-01-01 UTC, or None for a packet without a time (pcapng's
    simple packet block).
    """

    number: int  #: 1, 2, 3 … in its own file
    ts_ns: int | None
    link_type: int  #: LINKTYPE_ value, FCS and flag bits removed
    data: bytes
    wire_length: int
    file: str = ""  #: the capture's name as the user gave it
    damage: str = ""  #: why this record may be incomplete, in words; "" if it is not
    interface: int = 0  #: pcapng interface id within its section, 0 in a pcap
