"""Read what a pcapng section says about its packets, and the options that say it.

Knows link type, snap length, time resolution, time offset, FCS, and whether it was carved. Keeps no names and no
other comments: they are bytes from the file that reading packets does not need.
"""

from collections.abc import Iterator
from struct import unpack_from
from typing import NamedTuple

from dcpdump.capture.damage import Health

#: By the magic of a section: its byte order.
ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
OPTION_LIMIT = 4_096  #: options of one block
INTERFACES_DESCRIBED = 4_096
INTERFACES_COUNTED = 1_000_000

_END, _COMMENT, _TSRESOL, _FCSLEN, _TSOFFSET = 0, 1, 9, 13, 14
#: How the comment of a section begins of which only chosen packets are in the file, and how it ends.
CARVED = "carved by dcpdump"
ORDER, DISORDER = "only chosen packets are in it", "only chosen packets are in it, some out of order"
_SAID = 1_024  #: bytes of it that are shown


class InterfaceDescription(NamedTuple):
    """How the packets of one interface are to be read."""

    link_type: int
    snaplen: int
    multiplier: int  #: time units × multiplier // divisor = nanoseconds
    divisor: int
    offset_ns: int
    fcs: int

    def nanoseconds(self, units: int) -> int:
        """Return a time stamp as nanoseconds since 1970, rounded down."""
        return units * self.multiplier // self.divisor + self.offset_ns


class SectionState(NamedTuple):
    """A section's byte order and its interfaces so far."""

    order: str
    interfaces: tuple[InterfaceDescription | None, ...]


class PcapngSection:
    """A section's byte order and interfaces. The next section begins without interfaces."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.interfaces: list[InterfaceDescription | None] = []  #: None: more were described than are kept
        self._described: dict[InterfaceDescription, InterfaceDescription] = {}
        self._state = SectionState(order, ())
        self._drops: dict[int, tuple[int, int]] = {}  #: interface → counted by its packets, by its statistics

    @property
    def state(self) -> SectionState:
        """What was said so far; the same object as long as nothing is added."""
        if len(self._state.interfaces) != len(self.interfaces):
            self._state = SectionState(self.order, tuple(self.interfaces))
        return self._state

    def describe(self, interface: InterfaceDescription, health: Health, where: int) -> None:
        """Add an interface. Equal ones share one description, so a hundred thousand of them are cheap."""
        if len(self.interfaces) == INTERFACES_DESCRIBED:
            what = f"there are more than {INTERFACES_DESCRIBED:,} interfaces (byte {where:,})"
            health.hurt(where, 0, what, "packets of interfaces unlike the earlier ones")
        if len(self._described) < INTERFACES_DESCRIBED:
            self._described.setdefault(interface, interface)
        described = self._described.get(interface)
        if len(self.interfaces) < INTERFACES_COUNTED:
            self.interfaces.append(described)

    def count_drops(self, interface: int, lost: int, counted: int, health: Health) -> None:
        """Add ``lost`` packets, or take the ``counted`` total; both count the same packets, so the greater is used."""
        by_packet, by_statistics = self._drops.get(interface, (0, 0))
        after = (by_packet + lost, max(by_statistics, counted))
        health.drops += max(after) - max(by_packet, by_statistics)
        self._drops[interface] = after


def read_interface(order: str, body: bytes, health: Health, where: int) -> InterfaceDescription:
    """Read the body of an interface description, of at least 8 bytes."""
    link_type, snaplen = unpack_from(order + "HxxI", body)
    multiplier, divisor, offset, fcs = 1_000, 1, 0, 0
    for code, value in options(order, body[8:], health, where):
        if code == _TSRESOL and len(value) == 1:
            multiplier, divisor = _resolution(value[0], health)
        elif code == _TSOFFSET and len(value) == 8:
            (offset,) = unpack_from(order + "q", value)
        elif code == _FCSLEN and len(value) == 1:
            # The specification says bits and shows a 4; both are met.
            fcs = value[0] if value[0] < 8 else value[0] // 8
    return InterfaceDescription(link_type, snaplen, multiplier, divisor, offset * 1_000_000_000, fcs)


def read_section(order: str, body: bytes, health: Health, where: int) -> None:
    """Read the body of a section's header, of at least 16 bytes: its version, and whether it was carved."""
    major, minor = unpack_from(order + "HH", body, 4)
    if major != 1:
        health.warn(f"version {major}.{minor} of pcapng is unknown; read like 1.0")
    for code, value in options(order, body[16:], health, where):
        if code == _COMMENT and value.startswith(CARVED.encode()):
            said = value[:_SAID].decode(errors="replace")
            health.carved = health.carved or said  # behind it stands what was said before that was carved again
            health.note(said)


def _resolution(value: int, health: Health) -> tuple[int, int]:
    """Return (multiplier, divisor) from time units to nanoseconds."""
    exponent = value & 0x7F
    if value & 0x80:
        if exponent > 30:
            health.warn("times finer than a nanosecond are rounded down")
        return 1_000_000_000, 2**exponent
    if exponent > 9:
        health.warn("times finer than a nanosecond are rounded down")
        return 1, 10 ** (exponent - 9)
    return 10 ** (9 - exponent), 1


def options(order: str, raw: bytes, health: Health, where: int) -> Iterator[tuple[int, bytes]]:
    """Yield (code, value); an option that overruns its block is left out, and so is what is behind it."""
    at = 0
    for _ in range(OPTION_LIMIT):
        if len(raw) - at < 4:
            return
        code, length = unpack_from(order + "HH", raw, at)
        if code == _END:
            return
        if at + 4 + length > len(raw):
            health.warn(f"an option of the block at byte {where:,} is longer than its block; it is ignored")
            return
        yield code, raw[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    health.hurt(where, 0, f"the block at byte {where:,} has more than {OPTION_LIMIT:,} options", "the rest of them")
