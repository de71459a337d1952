"""Packet: one captured record, before anything is understood of it."""

from typing import Final, NamedTuple

#: The time of a packet that has none.
NO_TIME: Final = -(1 << 63)


class Packet(NamedTuple):
    """One record of a capture file, or one packet read from an interface.

    ``data`` starts at the link layer and holds what was captured; ``wire_length`` is how long the packet
    was on the wire, so ``wire_length > len(data)`` means that the capture's snap length cut it (or that
    the file is damaged there: then ``damage`` says so). ``ts_ns`` is nanoseconds since 1970-01-01 UTC,
    or None where the file has no time (pcapng's simple packet block).
    """

    number: int  #: 1, 2, 3 … in its own file
    ts_ns: int | None
    link_type: int  #: LINKTYPE_ value, FCS and flag bits removed
    data: bytes
    wire_length: int
    file: str = ""  #: the capture's name as the user gave it
    damage: str = ""  #: why this record may be incomplete, in words; "" for none
    interface: int = 0  #: pcapng interface id within its section, 0 in a pcap
