"""Read pcapng: blocks become Packets.

This is a reader of our own, since scapy's keeps the interfaces of a section for the next one, ignores time offsets,
trusts any block length, and takes damage for the end of the file. It reads the blocks with packets and those that
describe them, and skips the others. It does not look inside packets.
"""

import re
from collections.abc import Iterator
from struct import pack, unpack_from
from typing import Final

from dcpdump.capture.damage import Health
from dcpdump.capture.pcap import (
    COMMENT,
    MAGICS,
    ORDERS,
    PACKET_LIMIT,
    PCAPNG_MAGIC,
    PcapngSection,
    SectionState,
    begins_inside,
    find,
    one_by_one,
    options,
    read_interface,
    read_section,
)
from dcpdump.capture.plain_pcap import PACKET_USUAL, PlainRun
from dcpdump.capture.source import SourceWindow
from dcpdump.net.packet import Packet
from dcpdump.tls.secrets import KeyLog, Secrets

_SECRETS: Final = 10  #: the type of the block
_TLS: Final = 0x544C534B  #: the type of secrets that is a key log
_LONGEST_SECRETS: Final = 64 * 1024 * 1024  #: a longer block of them is skipped


def _read_secrets(body: bytes, order: str, name: str, secrets: Secrets) -> None:
    """Add the TLS secrets in a block's body; secrets of other protocols are ignored."""
    if len(body) < 8:
        return
    kind, length = unpack_from(order + "II", body)
    if kind == _TLS:
        log = KeyLog(secrets, name)
        log.feed(body[8 : 8 + length])
        log.close()


HEADER_SIZE = 28  #: of the smallest section header
_BLOCK_LIMIT = 128 * 1024 * 1024  #: a longer block is damage
_LAST_NS = (1 << 63) - 1  #: in the year 2262: the latest time that the tables can hold
BLOCK_KEPT = PACKET_LIMIT + 512 * 1024  #: a longer block is skipped piece by piece

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
_NEEDED = frozenset((INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET))
_SILENT = frozenset((4, 9, 0xBAD, 0x40000BAD, 0x80000001))  # names, journal, custom, process information
FIXED = {SECTION: 16, INTERFACE: 8, OLD_PACKET: 20, SIMPLE_PACKET: 4, PACKET: 20, STATISTICS: 12}

_FLAGS, _DROP_COUNT = 2, 4  # options of a packet
_IF_DROP, _OS_DROP = 5, 7  # options of statistics


class Pcapng:
    """The sections of a pcapng, to the end, to damage, or to a pcap appended to it.

    ``state``: to begin inside a section, the state there.
    """

    def __init__(
        self,
        window: SourceWindow,
        health: Health,
        salvage: bool,
        secrets: Secrets | None = None,
        state: SectionState | None = None,
    ) -> None:
        self._secrets = secrets
        self._window = window
        self._health = health
        self._salvage = salvage
        self._section = PcapngSection(ORDERS[window.peek(12)[8:12]] if state is None else state.order)
        if state is not None:
            self._section.interfaces = list(state.interfaces)
        self.appended = False  #: it ended because a pcap begins at the window
        self.comments: tuple[bytes, ...] = ()  #: on the packet yielded last

    @property
    def state(self) -> SectionState:
        """Return the state after the last packet yielded."""
        return self._section.state

    def interface_name(self, number: int) -> str:
        """Return the name of an interface of the section; empty without one."""
        return self._section.names.get(number, "")

    def packets(self) -> Iterator[Packet]:
        """Yield the packets one by one."""
        return one_by_one(self.runs(), self._window, self._health)

    def runs(self) -> Iterator[Packet | PlainRun]:
        """Yield the packets, plain ones in runs; then the window is at the end, at damage, or at another header."""
        window, health = self._window, self._health
        while True:
            run = self._plain_run()
            if run is not None:
                yield run
            data = window.data
            if len(window.data) - window.at < 12 and window.need(12) < 12:
                if left := len(window.data) - window.at:
                    what = f"the block at byte {window.offset:,} is cut short: 12 bytes at least, {left} there"
                    health.hurt(window.offset, health.packets + 1, what, "this block and any after it")
                return
            if self._another_header():
                return
            kind, length, fault = self._block()
            if not fault and length > (_LONGEST_SECRETS if kind == _SECRETS else BLOCK_KEPT):
                if self._skip_block(kind, length):
                    continue
                return
            have = window.need(length) if not fault else 0
            if window.data is not data:
                continue  # with what was read now, plain blocks may follow
            if not fault and have >= length:
                fault = self._trailer_fault(length)
            if not fault and have < length and self._salvage and begins_inside(window, self._find_block):
                fault = "says it is longer than the rest of the file"
            if fault:
                if not self._resume_after(fault):
                    return
                continue
            complete = have >= length
            end = window.at + (length - 4 if complete else have)
            packet = self._read(kind, length, window.data[window.at + 8 : end], complete)
            window.at += min(length, have)
            if packet is not None:
                yield packet

    def _plain_run(self) -> PlainRun | None:
        """Return the plain blocks in memory as a run: complete and without options, as nearly all are."""
        window, section = self._window, self._section
        run = PlainRun(window.data, window.at, self._health.file, self._health.packets + 1)
        run.read_blocks(section.order == ">", section.interfaces)
        if not len(run):
            return None
        window.at = run.stop
        self._health.packets += len(run)
        self.comments = ()
        return run

    def _block(self) -> tuple[int, int, str]:
        """Return the next block's type and length, and why it is no block (or ""). Begin a section at its header."""
        window = self._window
        head = window.data[window.at : window.at + 12]
        if head[:4] == PCAPNG_MAGIC:
            order = ORDERS.get(head[8:12])
            if order is None:
                return SECTION, 0, "is a section header without a byte order"
            self._section = PcapngSection(order)
        kind, length = unpack_from(self._section.order + "II", head)
        if length < 12 + FIXED.get(kind, 0) or length % 4:
            return kind, length, f"has an impossible length, {length:,} bytes"
        if length > _BLOCK_LIMIT:
            return (
                kind,
                length,
                f"says it is {length:,} bytes long, and none over {_BLOCK_LIMIT:,} is believed",
            )
        return kind, length, ""

    def _trailer_fault(self, length: int) -> str:
        """Return how the length at the block's end contradicts the one at its beginning; "" if it does not."""
        window = self._window
        (again,) = unpack_from(self._section.order + "I", window.data, window.at + length - 4)
        return "" if again == length else f"says {length:,} bytes at its beginning and {again:,} at its end"

    def _another_header(self) -> bool:
        """Return whether a pcap begins here, because two files were concatenated."""
        window = self._window
        if window.data[window.at : window.at + 4] in MAGICS:
            self.appended = True
            self._health.warn(f"another capture begins at byte {window.offset:,}: several files were put into one")
        return self.appended

    def _skip_block(self, kind: int, length: int) -> bool:
        """Skip a block that is too long for memory; return whether the file continues."""
        window, health, at = self._window, self._health, self._window.offset
        if kind in _NEEDED:
            what = f"the block at byte {at:,} has {length:,} bytes, more than a packet of {PACKET_LIMIT:,} needs"
            health.hurt(at, health.packets + 1, what, "this block")
        if window.skip(length) == length:
            return True
        what = f"the block at byte {at:,} is cut short: {length:,} bytes promised, {window.offset - at:,} there"
        health.hurt(at, health.packets + 1, what, "any block after it")
        return False

    def _read(self, kind: int, length: int, body: bytes, complete: bool) -> Packet | None:
        """Read a block's body, which may be incomplete at the end of the file."""
        health, where = self._health, self._window.offset
        section = self._section
        if kind in (PACKET, OLD_PACKET, SIMPLE_PACKET) and len(body) >= FIXED[kind]:
            return self._packet(kind, body, complete)
        if not complete:
            there = 8 + len(body)
            what = f"the block at byte {where:,} is cut short: {length:,} bytes promised, {there:,} there"
            health.hurt(where, health.packets + 1, what, "this block and any after it")
        elif kind == INTERFACE:
            section.describe(*read_interface(section.order, body, health, where), health, where)
        elif kind == STATISTICS:
            self._count_statistics(body)
        elif kind == SECTION:
            read_section(section.order, body, health, where)
        elif kind == _SECRETS and self._secrets is not None:
            _read_secrets(body, section.order, f"{health.file}@{where}", self._secrets)
        elif kind == _SECRETS:
            health.note("the capture carries secrets that decrypt (a decryption secrets block)")
        elif kind not in _SILENT:
            health.note(f"blocks of the unknown type 0x{kind:08x} were passed over")
        return None

    def _packet(self, kind: int, body: bytes, complete: bool) -> Packet | None:
        """Return the packet of a packet block; None where it cannot be read."""
        health, section, where = self._health, self._section, self._window.offset
        units: int | None = None
        lost = 0xFFFF
        if kind == PACKET:
            number, high, low, length, wire = unpack_from(section.order + "IIIII", body)
            units, start = high << 32 | low, 20
        elif kind == OLD_PACKET:
            number, lost, high, low, length, wire = unpack_from(section.order + "HHIIII", body)
            units, start = high << 32 | low, 20
        else:
            (wire,) = unpack_from(section.order + "I", body)
            number, start, length = 0, 4, wire
        interface = section.interfaces[number] if number < len(section.interfaces) else None
        if interface is None:
            what = f"the packet at byte {where:,} is of interface {number:,}, which is not described before it"
            health.hurt(where, health.packets + 1, what, "this packet")
            return None
        if kind == SIMPLE_PACKET and interface.snaplen:
            length = min(wire, interface.snaplen)
        space = len(body) - start
        if length > PACKET_LIMIT:
            what = f"the packet at byte {where:,} has {length:,} bytes, over the limit of {PACKET_LIMIT:,}"
            health.hurt(where, health.packets + 1, what, "this packet")
            return None
        health.packets += 1
        self.comments = ()
        damage = self._shortage(length, space, complete)
        if length > PACKET_USUAL:
            health.warn(f"a packet has more than {PACKET_USUAL:,} bytes")
        if kind == OLD_PACKET and lost != 0xFFFF:
            section.count_drops(number, lost, 0, health)
        fcs = interface.fcs
        after = start + length + -length % 4
        if kind != SIMPLE_PACKET and after < len(body):
            fcs = self._packet_options(number, body[after:]) or fcs
        data = body[start : start + length]
        wire = max(wire, length)
        if fcs and wire >= fcs:
            wire -= fcs
            data = data[:wire]
        ns = None if units is None else interface.nanoseconds(units)
        if ns is not None and not -_LAST_NS <= ns <= _LAST_NS:
            health.warn("times beyond the year 2262 are left out")
            ns = None
        return Packet(health.packets, ns, interface.link_type, data, wire, health.file, damage, number)

    def _shortage(self, length: int, space: int, complete: bool) -> str:
        """Report a packet, a part of which is missing, or whose file ends in it; return the damage, or ""."""
        health, where = self._health, self._window.offset
        name = f"packet {health.packets} (byte {where:,})"
        if complete and length > space:
            what = f"{name} says it has {length:,} bytes, and its block has room for {space:,}"
            return health.hurt(where, health.packets, what, f"{length - space:,} bytes")
        if complete:
            return ""
        if length > space:
            what = f"{name} is cut short: {length:,} bytes promised, {space:,} there"
            return health.hurt(where, health.packets, what, f"{length - space:,} bytes, and any packet after it")
        health.hurt(where, health.packets, f"the end of {name} is cut off, after its data", "any packet after it")
        return ""

    def _packet_options(self, interface: int, raw: bytes) -> int:
        """Keep a packet's comments, count the drops in its options, and return the length of its FCS; 0: none."""
        fcs = 0
        order = self._section.order
        for code, value in options(order, raw, self._health, self._window.offset):
            if code == _FLAGS and len(value) == 4:
                fcs = unpack_from(order + "I", value)[0] >> 5 & 0xF
            elif code == COMMENT:
                self.comments += (value,)
            elif code == _DROP_COUNT and len(value) == 8:
                self._section.count_drops(interface, unpack_from(order + "Q", value)[0], 0, self._health)
        return fcs

    def _count_statistics(self, body: bytes) -> None:
        """Count the drops of an interface statistics block."""
        order = self._section.order
        (interface,) = unpack_from(order + "I", body)
        dropped = 0
        for code, value in options(order, body[12:], self._health, self._window.offset):
            if code in (_IF_DROP, _OS_DROP) and len(value) == 8:
                dropped += unpack_from(order + "Q", value)[0]
        self._section.count_drops(interface, 0, dropped, self._health)

    def _resume_after(self, fault: str) -> bool:
        """Report the fault and, with salvage, move to the next block; return whether there is one."""
        window, health, at = self._window, self._health, self._window.offset
        what = f"the block at byte {at:,} {fault}"
        if not self._salvage:
            health.hurt(at, health.packets + 1, what, "everything from here on", "--salvage looks for the next block")
            return False
        with window.skipping():
            window.at += 1
            found = self._find_block()
        health.hurt(at, health.packets + 1, what, f"{window.offset - at:,} bytes were skipped")
        return found

    def _find_block(self) -> bool:
        """Move the window to the next plausible block, or to its end; return whether there is one."""
        window, order = self._window, self._section.order
        kinds = [pack(order + "I", kind) for kind in (SECTION, *_NEEDED, 4, STATISTICS, _SECRETS)]
        pattern = re.compile(b"|".join(re.escape(head) for head in (*kinds, *MAGICS)))
        return find(window, pattern, 12, lambda: window.need(12) >= 12 and self._plausible())

    def _plausible(self) -> bool:
        """Return whether a block begins at the window: its two lengths must agree, which is rare by chance."""
        window = self._window
        head = window.peek(12)
        order = ORDERS.get(head[8:12]) if head[:4] == PCAPNG_MAGIC else self._section.order
        if head[:4] in MAGICS:
            major, minor = unpack_from(MAGICS[head[:4]][0] + "HH", head, 4)
            return major == 2 and minor in (3, 4)
        if order is None:
            return False
        kind, length = unpack_from(order + "II", head)
        if length < 12 + FIXED.get(kind, 0) or length % 4 or length > BLOCK_KEPT:
            return False
        if window.need(length) < length:
            return False
        (again,) = unpack_from(order + "I", window.data, window.at + length - 4)
        return bool(again == length)


def gather(window: SourceWindow, path: str, secrets: Secrets) -> None:
    """Add the secrets of all blocks of a pcapng, up to its end or to damage."""
    for _ in Pcapng(window, Health(path), False, secrets).runs():
        pass
