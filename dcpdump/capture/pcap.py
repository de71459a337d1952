"""Read classic pcap: records become Packets. Also here: the interfaces of a pcapng section, and checks of damage.

This is a reader of our own, since scapy's loses bytes of packets beyond 262,140, and takes damage for the end of the
file. It knows the six magics, which records are impossible, and how to find the next record after damage. It looks
inside packets only after damage, to judge whether bytes may begin one.
"""

import re
from collections.abc import Callable, Iterator
from struct import Struct, unpack_from
from typing import Final, NamedTuple

from dcpdump.capture.damage import Health
from dcpdump.capture.plain_pcap import DAY, PACKET_USUAL, SIZE, YEAR, PlainRun
from dcpdump.capture.source import SourceWindow
from dcpdump.net.packet import Packet
from dcpdump.startup import dataclass

# -- what a pcapng section says about its packets, and the options that say it ------------------------
# Kept are link type, snap length, time resolution, time offset, FCS, name, and whether the file was carved.

#: By the magic of a section: its byte order.
ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
OPTION_LIMIT = 4_096  #: options of one block
INTERFACES_DESCRIBED = 4_096
_INTERFACES_COUNTED = 1_000_000

_END, COMMENT, _NAME, _TSRESOL, _FCSLEN, _TSOFFSET = 0, 1, 2, 9, 13, 14
#: How the section comment of a carved file begins and ends: one that holds chosen packets only.
CARVED = "carved by dcpdump"
ORDER, DISORDER = "only chosen packets are in it", "only chosen packets are in it, some out of order"
_SAID = 1_024  #: how many bytes of it are shown, and of the name of an interface


class InterfaceDescription(NamedTuple):
    """How to read the packets of one interface."""

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
        self.interfaces: list[InterfaceDescription | None] = []  #: None: more interfaces were described than are kept
        self.names: dict[int, str] = {}  #: of these, by number
        self._described: dict[InterfaceDescription, InterfaceDescription] = {}
        self._state = SectionState(order, ())
        self._drops: dict[int, tuple[int, int]] = {}  #: by interface: drops by packets, by statistics

    @property
    def state(self) -> SectionState:
        """Return the interfaces so far as a state; the same object as long as none is added."""
        if len(self._state.interfaces) != len(self.interfaces):
            self._state = SectionState(self.order, tuple(self.interfaces))
        return self._state

    def describe(self, interface: InterfaceDescription, name: str, health: Health, where: int) -> None:
        """Add an interface. Equal ones share one description, so a hundred thousand of them are cheap."""
        if len(self.interfaces) == INTERFACES_DESCRIBED:
            what = f"there are more than {INTERFACES_DESCRIBED:,} interfaces (byte {where:,})"
            health.hurt(where, 0, what, "packets of interfaces unlike the earlier ones")
        if len(self._described) < INTERFACES_DESCRIBED:
            self._described.setdefault(interface, interface)
        described = self._described.get(interface)
        if name and len(self.interfaces) < INTERFACES_DESCRIBED:
            self.names[len(self.interfaces)] = name
        if len(self.interfaces) < _INTERFACES_COUNTED:
            self.interfaces.append(described)

    def count_drops(self, interface: int, lost: int, counted: int, health: Health) -> None:
        """Add ``lost`` packets, or note the ``counted`` total; both count the same packets, so the greater is used."""
        by_packet, by_statistics = self._drops.get(interface, (0, 0))
        after = (by_packet + lost, max(by_statistics, counted))
        health.drops += max(after) - max(by_packet, by_statistics)
        self._drops[interface] = after


def read_interface(order: str, body: bytes, health: Health, where: int) -> tuple[InterfaceDescription, str]:
    """Read the body of an interface description, of at least 8 bytes, and the interface's name in it."""
    link_type, snaplen = unpack_from(order + "HxxI", body)
    multiplier, divisor, offset, fcs, name = 1_000, 1, 0, 0, b""
    for code, value in options(order, body[8:], health, where):
        if code == _TSRESOL and len(value) == 1:
            multiplier, divisor = _resolution(value[0], health)
        elif code == _TSOFFSET and len(value) == 8:
            (offset,) = unpack_from(order + "q", value)
        elif code == _FCSLEN and len(value) == 1:
            # The specification speaks of bits, and its example is 4: both are found in files.
            fcs = value[0] if value[0] < 8 else value[0] // 8
        elif code == _NAME:
            name = name or value[:_SAID]
    described = InterfaceDescription(link_type, snaplen, multiplier, divisor, offset * 1_000_000_000, fcs)
    return described, name.decode(errors="replace")


def read_section(order: str, body: bytes, health: Health, where: int) -> None:
    """Read the body of a section's header, of at least 16 bytes: its version, and whether it was carved."""
    major, minor = unpack_from(order + "HH", body, 4)
    if major != 1:
        health.warn(f"version {major}.{minor} of pcapng is unknown; read like 1.0")
    for code, value in options(order, body[16:], health, where):
        if code == COMMENT and value.startswith(CARVED.encode()):
            said = value[:_SAID].decode(errors="replace")
            health.carved = health.carved or said  # a file carved twice has the earlier comment after it
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
    """Yield (code, value). An option that overruns its block is left out, with all after it."""
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


# -- whether bytes begin like a packet of their link type: asked only behind damage -------------------
# Looks only at the network protocol in a few link headers and at IP's length; decodes nothing.

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
#: How many bytes of a packet the checks below read.
LOOKED_AT = 64
_SHORTEST_ETHERNET = 60  # shorter packets are padded to this


def begins_like(link_type: int, data: bytes) -> bool:
    """Return whether ``data`` may begin a packet; True for link types not listed here."""
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

    ``size``: the least size of a record. ``is_plausible`` judges the bytes at the window.
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
    """Return whether a record begins inside the file's last one, whose length is wrong then."""
    here = window.at  # the offset stays valid: the source has ended, so the window no longer moves its bytes
    window.at += 1
    found = find_next()
    window.at = here
    return found


HEADER_SIZE: Final = 24
PACKET_LIMIT: Final = 16 * 1024 * 1024  #: a longer record is damage

#: first four bytes → (byte order, fractions in a second, bytes of a record header)
MAGICS: dict[bytes, tuple[str, int, int]] = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000, 16),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000, 16),
    b"\xa1\xb2\xcd\x34": (">", 1_000_000, 24),  # "modified": eight more bytes a record
    b"\x34\xcd\xb2\xa1": ("<", 1_000_000, 24),
}
PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"

_FCS_PRESENT: Final = 0x04000000
_LINK_MASK: Final = 0x03FFFFFF


# -- the records of a pcap ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PcapHeader:
    """A pcap's global header, decoded."""

    order: str
    fractions: int
    record_size: int
    version: tuple[int, int]
    link_type: int
    fcs: int  #: bytes of frame check sequence at the end of each packet

    @classmethod
    def of(cls, head: bytes) -> "PcapHeader | None":
        """Read the header at the beginning of a file; None where it is not a pcap's, or incomplete."""
        return cls.read(head) if head[:4] in MAGICS and len(head) >= HEADER_SIZE else None

    @property
    def plain(self) -> bool:
        """Return whether the file's records can be read many at once."""
        return self.record_size == SIZE and not self.fcs and self.version == (2, 4)

    @classmethod
    def read(cls, raw: bytes) -> "PcapHeader":
        """Read a header of 24 bytes that begins with a magic."""
        order, fractions, record_size = MAGICS[raw[:4]]
        major, minor = unpack_from(order + "HH", raw, 4)
        (network,) = unpack_from(order + "I", raw, 20)
        fcs = (network >> 28) * 2 if network & _FCS_PRESENT else 0
        return cls(order, fractions, record_size, (major, minor), network & _LINK_MASK, fcs)


def one_by_one(runs: Iterator[Packet | PlainRun], window: SourceWindow, health: Health) -> Iterator[Packet]:
    """Yield the packets of runs; when a packet is yielded, the window is after its record."""
    for each in runs:
        if isinstance(each, Packet):
            yield each
            continue
        for index in range(len(each)):
            window.at, health.packets = each.after(index), each.first + index
            yield each.packet(index)


class PcapState(NamedTuple):
    """The state of a reader between two records."""

    header: bytes
    seconds: int | None
    stray: int | None


class Pcap:
    """One pcap, from its global header to the end, to damage, or to the header of one appended to it.

    ``state``: to begin after the header, the state there.
    """

    def __init__(self, window: SourceWindow, health: Health, salvage: bool, state: PcapState | None = None) -> None:
        if state is None:
            self._raw = window.peek(HEADER_SIZE)
            window.at += HEADER_SIZE
        else:
            self._raw = state.header
        self.header = PcapHeader.read(self._raw)
        self._window = window
        self._health = health
        self._salvage = salvage
        self._record = Struct(self.header.order + "IIII")
        self._seconds: int | None = None  #: of the record before
        self._stray: int | None = None  #: seconds of a single odd record: other times are not compared with it
        self.appended = False  #: it ended because another capture begins at the window
        if self.header.version[0] != 2:
            health.warn("version {}.{} of pcap is unknown; read like 2.4".format(*self.header.version))
        if state is not None:
            self._seconds, self._stray = state.seconds, state.stray

    @property
    def state(self) -> PcapState:
        """Return the state after the last packet yielded."""
        return PcapState(self._raw, self._seconds, self._stray)

    def packets(self) -> Iterator[Packet]:
        """Yield the packets one by one."""
        return one_by_one(self.runs(), self._window, self._health)

    def runs(self) -> Iterator[Packet | PlainRun]:
        """Yield the packets, plain ones in runs; then the window is at the end, at damage, or at another header."""
        window, health, header = self._window, self._health, self.header
        size, fcs, fractions = header.record_size, header.fcs, header.fractions
        while True:
            run = self.plain_run()
            if run is not None and len(run):
                yield run
            data = window.data
            if window.need(size) < size:
                self._end()
                return
            seconds, fraction, length, wire = self._header_at(0)
            near = self._seconds is not None and self._seconds - DAY <= seconds <= self._seconds + YEAR
            if not (near and length <= wire <= PACKET_USUAL and fraction < fractions):
                if self._another_header():
                    self.appended = True
                    return
                fault = self._fault(seconds, fraction, length, wire)
                if fault:
                    if not self._resume_after(fault):
                        return
                    continue
            have = window.need(size + length) - size
            if window.data is not data:
                continue  # with what was read now, plain records may follow
            cut = ""
            if have < length:
                if self._salvage and begins_inside(window, self._find_record):
                    self._resume_after("says it is longer than the rest of the file")
                    continue
                cut = self._cut(length, have)
            elif seconds not in (self._seconds, self._stray):
                self._seconds = seconds
            data = window.data[window.at + size : window.at + size + length]
            window.at += size + len(data)
            health.packets += 1
            wire = max(wire, length)
            if fcs and wire >= fcs and not cut:
                wire -= fcs
                data = data[:wire]
            ns = seconds * 1_000_000_000 + fraction * (1_000_000_000 // fractions)
            yield Packet(health.packets, ns, header.link_type, data, wire, health.file, cut)
            if cut:
                return

    def plain_run(self) -> PlainRun | None:
        """Return the plain records in memory as a run; None where no record may be read so."""
        window, health = self._window, self._health
        begins = window.data[window.at : window.at + 4]
        if self._stray is not None or not self.header.plain:
            return None
        if self._seconds is None and (begins in MAGICS or begins == PCAPNG_MAGIC):
            return None
        run = PlainRun(window.data, window.at, health.file, health.packets + 1)
        run.read_records(self.header, self._seconds)
        run.sound = run.sound and not window.ended
        if len(run):
            window.at, self._seconds = run.stop, run.times[-1] // 1_000_000_000
            health.packets += len(run)
        return run

    def _another_header(self) -> bool:
        """Return whether a capture begins here, because two files were concatenated."""
        window = self._window
        head = window.peek(12)
        if head[:4] in MAGICS:
            head = window.peek(HEADER_SIZE)
            order = MAGICS[head[:4]][0]
            found = len(head) == HEADER_SIZE and unpack_from(order + "HHI", head, 4)[:2] in ((2, 4), (2, 3))
        else:
            found = head[:4] == PCAPNG_MAGIC and head[8:12] in ORDERS
        if found:
            self._health.warn(f"another capture begins at byte {window.offset:,}: several files were put into one")
        return found

    def _fault(self, seconds: int, fraction: int, length: int, wire: int) -> str:
        """Return why this is no record header, or ""; an odd one is accepted if a possible record follows."""
        if length > PACKET_LIMIT:
            return f"says it is {length:,} bytes long, and none over {PACKET_LIMIT:,} is believed"
        odd = length > wire or wire > PACKET_LIMIT or fraction >= self.header.fractions
        if self._seconds is not None:
            odd = odd or not self._seconds - DAY <= seconds <= self._seconds + YEAR
        nothing = not length and not wire
        if odd and (nothing or not self._is_followed_by_record(seconds, length, wire)):
            return "is not a record: its header makes no sense, and neither does what would follow it"
        if length > PACKET_USUAL:
            self._health.warn(f"a packet has more than {PACKET_USUAL:,} bytes")
        if fraction >= self.header.fractions:
            self._health.warn("a time has more than a second of fractions; they are carried over")
        return ""

    def _is_followed_by_record(self, seconds: int, length: int, wire: int) -> bool:
        """Return whether a record may follow this one: the only evidence for an odd record."""
        window, size = self._window, self.header.record_size
        have = window.need(2 * size + length)
        if have < size + length:
            return self._seconds is None  # an odd record that is cut short as well
        if have < 2 * size + length:
            return wire > 0  # it is the last record
        if window.data[window.at + size + length : window.at + size + length + 4] in MAGICS:
            return True
        following = self._header_at(size + length)
        if self._near(following.seconds) and not self._near(seconds):
            self._stray = seconds
            self._health.warn(f"the time of record {self._health.packets + 1} is far from its neighbours'")
        if self._header_at(0).is_ordinary(self.header.fractions) and following.is_ordinary(self.header.fractions):
            return True  # merged from captures of other years: only its time is odd
        return (
            following.wire > 0
            and following.length <= PACKET_LIMIT
            and (abs(following.seconds - seconds) <= DAY or self._near(following.seconds))
            and (following.length <= following.wire or length > wire)
        )

    def _near(self, seconds: int) -> bool:
        return self._seconds is not None and abs(seconds - self._seconds) <= DAY

    def _end(self) -> None:
        """End the file; bytes that are left are damage."""
        window, size = self._window, self.header.record_size
        left = window.need(size)
        if left:
            self._health.hurt(
                window.offset,
                self._health.packets + 1,
                f"record {self._health.packets + 1} (byte {window.offset:,}) is cut short: "
                f"a header has {size} bytes, {left} are there",
                "this packet and any after it",
            )

    def _cut(self, length: int, have: int) -> str:
        number, at = self._health.packets + 1, self._window.offset
        what = f"record {number} (byte {at:,}) is cut short: {length:,} bytes promised, {have:,} there"
        return self._health.hurt(at, number, what, f"{length - have:,} bytes, and any packet after it")

    def _resume_after(self, fault: str) -> bool:
        """Report the fault and, with salvage, move to the next record; return whether there is one."""
        window, number, at = self._window, self._health.packets + 1, self._window.offset
        what = f"record {number} (byte {at:,}) {fault}"
        if not self._salvage:
            self._health.hurt(at, number, what, "everything from here on", "--salvage looks for the next record")
            return False
        with window.skipping():
            window.at += 1
            found = self._find_record()
        self._health.hurt(at, number, what, f"{window.offset - at:,} bytes were skipped")
        return found

    def _find_record(self) -> bool:
        """Move the window to the next plausible record, or to its end; return whether there is one."""
        pattern = self._time_pattern()
        return find(self._window, pattern, self.header.record_size, lambda: self._plausible() or self._another_header())

    def _time_pattern(self) -> "re.Pattern[bytes]":
        """Return a pattern for seconds within a day of the record before, by their upper two bytes, or for a magic."""
        magics = [re.escape(magic) for magic in MAGICS]
        if self._seconds is None:
            times = [b"...."]
        else:
            tops = range(max(0, self._seconds - DAY) >> 16, ((self._seconds + DAY) >> 16) + 1)
            big = self.header.order == ">"
            halves = [re.escape(top.to_bytes(2, "big" if big else "little")) for top in tops if top < 65536]
            times = [half + b".." if big else b".." + half for half in halves]
        return re.compile(b"(?s)" + b"|".join(times + magics))

    def _plausible(self) -> bool:
        """Return whether the window stands at a plausible record: strict, since damage came before."""
        window, size, header = self._window, self.header.record_size, self.header
        if window.need(size) < size:
            return False
        here = self._header_at(0)
        if not here.is_ordinary(header.fractions) or (self._seconds is not None and not self._near(here.seconds)):
            return False
        beyond = size + here.length
        have = window.need(beyond + size)
        data = window.data[window.at + size : window.at + min(beyond, size + LOOKED_AT)]
        if not begins_like(header.link_type, data):
            return False
        if fits(header.link_type, data, here.wire - header.fcs):
            return True
        if have < beyond + size:
            return have == beyond
        following = self._header_at(beyond)
        return following.is_ordinary(header.fractions) and abs(following.seconds - here.seconds) <= DAY

    def _header_at(self, ahead: int) -> "_RecordHeader":
        """Read the record header ``ahead`` bytes from the window."""
        return _RecordHeader(*self._record.unpack_from(self._window.data, self._window.at + ahead))


class _RecordHeader(NamedTuple):
    """The four numbers of a record header."""

    seconds: int
    fraction: int
    length: int
    wire: int

    def is_ordinary(self, fractions: int) -> bool:
        """Return whether the numbers are those of a normal record."""
        return 0 < self.length <= self.wire <= PACKET_USUAL and self.fraction < fractions
