"""Captures in, whatever their state: what is read, what is reported, what is refused."""

import bz2
import gzip
import io
import lzma
import os
import random
import shutil
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.capture.damage import DAMAGE_KEPT, Damage, Health
from dcpdump.capture.file import Capture, natural_key, same_series, timeline
from dcpdump.capture.paths import expand, in_short
from dcpdump.capture.pcap import INTERFACES_DESCRIBED, OPTION_LIMIT
from dcpdump.errors import CaptureError
from dcpdump.net.packet import Packet
from tests.support.captures import Pcapng, Record, ethernet, pcap, pcap_header, pcap_record, pcapng
from tests.support.powerless import open_folder, powerless

T0 = 1_760_000_000_000_000_000
SECOND = 1_000_000_000
FIVE = [Record(T0 + i * SECOND, ethernet(b"payload %d" % i, i)) for i in range(5)]
NG = Pcapng()
#: The fixture that writes a file: (bytes, name) -> its path.
Saving = Callable[..., str]


@pytest.fixture
def save(tmp_path: Path) -> Saving:
    def save(raw: bytes, name: str = "a.pcap") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return str(path)

    return save


def read(path: str, salvage: bool = False) -> tuple[list[Packet], Capture]:
    with Capture(path, salvage=salvage) as capture:
        return list(capture), capture


def refusal(path: str) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        Capture(path)
    return caught.value


def whats(capture: Capture) -> list[str]:
    return [damage.what for damage in capture.damage]


def through_pipe(raw: bytes, size: int = 65_536) -> str:
    """Return the path of a pipe into which a thread writes ``raw`` in pieces."""
    out, into = os.pipe()

    def write() -> None:
        with os.fdopen(into, "wb", buffering=0) as pipe:
            for start in range(0, len(raw), size):
                pipe.write(raw[start : start + size])

    threading.Thread(target=write, daemon=True).start()
    return f"/dev/fd/{out}"


def expected(records: list[Record], file: str, link_type: int = 1) -> list[Packet]:
    return [
        Packet(number, record.ts_ns, link_type, record.data, record.wire or len(record.data), file)
        for number, record in enumerate(records, 1)
    ]


# ── what is read ───────────────────────────────────────────────────────────────────────────────────────


class Read(NamedTuple):
    """A capture, its packets, and what is said of it."""

    raw: bytes
    packets: list[Packet]
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    drops: int = 0
    damage: Sequence[str] = ()


def got(*data: bytes) -> list[Packet]:
    """Return packets of T0."""
    return expected([Record(T0, each) for each in data], "")


def units(data: bytes, *arguments: Any, **options: Any) -> bytes:
    """Return a packet of T0 behind an interface that counts microseconds."""
    return NG.packet(T0 // 1000, data, *arguments, **options)


BEGIN = NG.section() + NG.interface()
X, ONE = units(b"x"), got(b"x")
LATEST = [Record(T0 + (999_999_999 if nano else 999_999_000), FIVE[0].data) for nano in (False, True)]
SNAPPED = [Record(T0, FIVE[0].data, wire=1514)]
LONG = [[Record(T0, bytes(size)), FIVE[1]] for size in (65_549, 120_000, 262_144)]
TOO_LONG = [Record(T0, bytes(300_000)), FIVE[1]]
LATE = pack("<IIII", 1_760_000_000, 4_000_000_000, 3, 3) + b"abc"
OTHER = [Record(T0 + 1, b"raw ip"), Record(T0 + 2, b"more")]
WEEKS = [Record(ts, FIVE[0].data) for ts in (T0, T0 + 3_456_000 * SECOND, T0 - 259_200 * SECOND, T0 - 259_199 * SECOND)]
YEARS = [Record(year * 366 * 86_400 * SECOND, FIVE[0].data) for year in (30, 40, 42, 50, 51)]
ODD = [FIVE[0], FIVE[1]._replace(ts_ns=1_000 * SECOND), FIVE[2]]
CLIPPED = "packet 1 (byte 48) says it has 100 bytes, and its block has room for 8"
TORN = "packet 1 (byte 48) is cut short: 12 bytes promised, 8 there"
EMPTY = ["the capture holds no packets"]
FINER = ["times finer than a nanosecond are rounded down"]
COMMENTED = [(1, b"a \x1b[31mcomment"), (2, pack("<I", 1)), (4, pack("<Q", 7))]
BIG = Pcapng(big_endian=True)
CHECKED = [Record(T0, FIVE[0].data + b"\xde\xad\xbe\xef"), Record(T0, b"snapped", wire=60)]


def modified(big_endian: bool) -> bytes:
    """Return a modified pcap, which has eight more bytes in a record."""
    raw = pcap_header(big_endian=big_endian, magic=0xA1B2CD34)
    for record in FIVE:
        head = pcap_record(Record(record.ts_ns, b"", captured=len(record.data)), big_endian=big_endian)
        raw += head + bytes(8) + record.data
    return raw


def timed(options: list[tuple[int, bytes]], ticks: int) -> bytes:
    """Return a pcapng with a packet at a time of an interface with options."""
    return NG.section() + NG.interface(options=options) + NG.packet(ticks, b"x")


def of_time(ts_ns: int | None) -> list[Packet]:
    return [ONE[0]._replace(ts_ns=ts_ns)]


def dropped(count: int) -> bytes:
    return NG.statistics(options=[(5, pack("<Q", count)), (7, pack("<Q", 1))])


CAPTURES = {
    **{
        f"{'nano' if nano else 'micro'}seconds, {'big' if big else 'little'}-endian": Read(
            pcap([LATEST[nano]], nano=nano, big_endian=big), expected([LATEST[nano]], "")
        )
        for nano in (False, True)
        for big in (False, True)
    },
    "a pcapng": Read(pcapng(FIVE), expected(FIVE, "")),
    "a big-endian pcapng": Read(pcapng(FIVE, big_endian=True), expected(FIVE, "")),
    "a modified pcap": Read(modified(False), expected(FIVE, "")),
    "a big-endian modified pcap": Read(modified(True), expected(FIVE, "")),
    "a header alone": Read(pcap([]), [], notes=EMPTY),
    "a section alone": Read(NG.section(), [], notes=EMPTY),
    "a snapped packet": Read(pcap(SNAPPED, snaplen=0), expected(SNAPPED, "")),
    "a snapped packet of a pcapng": Read(pcapng(SNAPPED), expected(SNAPPED, "")),
    **{
        f"{write.__name__} with {len(records[0].data):,} bytes in a packet": Read(
            write(records), expected(records, ""), ["a packet has more than 262,144 bytes"] * (records is TOO_LONG)
        )
        for write in (pcap, pcapng)
        for records in (*LONG, TOO_LONG)
    },
    "an unknown version": Read(
        pcap_header(version=(3, 0)) + pcap_record(FIVE[0]),
        expected(FIVE[:1], ""),
        ["version 3.0 of pcap is unknown; read like 2.4"],
    ),
    "too many microseconds, which are carried over with one warning": Read(
        pcap([]) + LATE + LATE,
        [Packet(number, T0 + 4_000 * SECOND, 1, b"abc", 3) for number in (1, 2)],
        ["a time has more than a second of fractions; they are carried over"],
    ),
    "a link type that announces check sequences": Read(
        pcap(CHECKED, link_type=0x24000001),
        [Packet(1, T0, 1, FIVE[0].data, len(FIVE[0].data)), Packet(2, T0, 1, b"snapped", 56)],
    ),
    "an unknown link type, left to the link layer": Read(pcap(FIVE, link_type=147), expected(FIVE, "", 147)),
    "two pcaps in one": Read(
        pcap(FIVE) + pcap(OTHER, link_type=101, nano=True, big_endian=True),
        [*expected(FIVE, ""), *(each._replace(number=each.number + 5) for each in expected(OTHER, "", 101))],
        [f"another capture begins at byte {len(pcap(FIVE))}: several files were put into one"],
    ),
    "idle for weeks, and its clock was set": Read(pcap(WEEKS), expected(WEEKS, "")),
    "packets of several years": Read(pcap(YEARS), expected(YEARS, "")),
    "a time far from its neighbours":
        Read(pcap(ODD), expected(ODD, ""), ["the time of record 2 is far from its neighbours'"]),
    "two sections of other byte orders": Read(
        BEGIN + X + BIG.section() + BIG.interface(101, options=[(9, b"\x09")]) + BIG.packet(T0, b"second"),
        [*ONE, Packet(2, T0, 101, b"second", 6)],
    ),
    "interfaces with a link type and a resolution each": Read(
        BEGIN + NG.interface(101, options=[(9, b"\x09")]) + NG.interface(113, options=[(9, b"\x83")])
        + X + NG.packet(T0, b"ns", 1) + NG.packet(8 * 1_760_000_000 + 3, b"eighths", 2),
        [*ONE, Packet(2, T0, 101, b"ns", 2, interface=1), Packet(3, T0 + 375_000_000, 113, b"eighths", 7, interface=2)],
    ),
    "an offset of times": Read(timed([(14, pack("<q", 1_600_000_000))], 7_000_000), of_time(1_600_000_007 * SECOND)),
    "a negative offset of times": Read(timed([(14, pack("<q", -5))], 7_000_000), of_time(2 * SECOND)),
    "a simple packet, which has no time": Read(BEGIN + NG.simple_packet(b"x"), of_time(None)),
    "a simple packet that was snapped": Read(
        NG.section() + NG.interface(1, snaplen=4) + NG.simple_packet(b"simp", wire=1_000),
        [Packet(1, None, 1, b"simp", 1_000)],
    ),
    "obsolete packet blocks, with their drops": Read(
        BEGIN + NG.old_packet(T0 // 1000, b"x", drops=3) + NG.old_packet(T0 // 1000, b"y"), got(b"x", b"y"), drops=3
    ),
    "comments and flags, which are passed over, and drops": Read(
        NG.section([(4, b"writer")]) + NG.interface(options=[(2, b"eth\x1b0")])
        + units(b"x", options=COMMENTED) + units(b"y", options=COMMENTED)
        + NG.block(4, b"name resolution") + NG.block(0xBAD, b"custom"),
        got(b"x", b"y"),
        drops=14,
    ),
    "statistics that report the same drops as the packets":
        Read(BEGIN + units(b"x", options=[(4, pack("<Q", 7))]) + dropped(4) + dropped(9), ONE, drops=10),
    **{
        f"check sequences that an interface announces in {4 if announced == 4 else 'its high nibble: 4'} bytes": Read(
            NG.section() + NG.interface(options=[(13, bytes([announced]))]) + units(b"dataFCS!"), got(b"data")
        )
        for announced in (4, 0x20)
    },
    "a check sequence that a packet announces":
        Read(BEGIN + units(b"dataFCS!", options=[(2, pack("<I", 4 << 5))]), got(b"data")),
    "secrets and unknown blocks": Read(
        NG.section() + NG.block(10, pack("<II", 0x544C534B, 0)) + NG.block(0x1234, b"?") + NG.block(0x1234, b"?"),
        [],
        notes=[
            "the capture carries secrets that decrypt (a decryption secrets block)",
            "blocks of the unknown type 0x00001234 were passed over",
            *EMPTY,
        ],
    ),
    **{
        f"a resolution of {code.hex()}": Read(timed([(9, code)], T0), of_time(ts), FINER)
        for code, ts in ((b"\x7f", 0), (b"\xff", 0), (b"\x0c", T0 // 1000))
    },
    "whole seconds": Read(timed([(9, b"\0")], T0 // SECOND), of_time(T0)),
    "whole seconds beyond what nanoseconds hold":
        Read(timed([(9, b"\0")], T0), of_time(None), ["times beyond the year 2262 are left out"]),
    "an option that overruns its block": Read(
        NG.section() + NG.block(1, pack("<HHI", 1, 0, 0) + pack("<HH", 2, 500) + b"eth0") + X,
        ONE,
        ["an option of the block at byte 28 is longer than its block; it is ignored"],
    ),
    "too many options": Read(
        NG.section() + NG.interface(options=[(1, b"")] * (OPTION_LIMIT + 1)) + X,
        ONE,
        damage=["the block at byte 28 has more than 4,096 options"],
    ),
    "a packet before its interface": Read(
        NG.section() + NG.packet(1, b"w") + NG.interface() + X,
        ONE,
        damage=["the packet at byte 28 is of interface 0, which is not described before it"],
    ),
    "a record's header that is cut short": Read(
        pcap(FIVE) + bytes(7),
        expected(FIVE, ""),
        damage=[f"record 6 (byte {len(pcap(FIVE))}) is cut short: a header has 16 bytes, 7 are there"],
    ),
    "a hundred thousand interfaces": Read(
        NG.section() + NG.interface(1) * 100_000 + units(b"x", interface=99_999),
        [ONE[0]._replace(interface=99_999)],
        damage=[f"there are more than 4,096 interfaces (byte {28 + 20 * INTERFACES_DESCRIBED:,})"],
    ),
    "a packet that says it is longer than its block": Read(
        BEGIN + units(b"12345678", captured=100) + units(b"next"),
        [Packet(1, T0, 1, b"12345678", 100, "", CLIPPED), Packet(2, T0, 1, b"next", 4)],
        damage=[CLIPPED],
    ),
    "a packet of a pcapng that is cut short":
        Read((BEGIN + units(b"0123456789ab"))[:-8], [Packet(1, T0, 1, b"01234567", 12, "", TORN)], damage=[TORN]),
    **{
        f"{first.__name__} and {second.__name__} in one": Read(
            first(FIVE[:2]) + second(FIVE[2:]),
            expected(FIVE, ""),
            [f"another capture begins at byte {len(first(FIVE[:2]))}: several files were put into one"]
            * ((first, second) != (pcapng, pcapng)),
        )
        for first, second in ((pcap, pcapng), (pcapng, pcap), (pcapng, pcapng))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CAPTURES.values(), ids=CAPTURES)
def test_what_is_read_of(case: Read, save: Saving) -> None:
    path = save(case.raw)
    packets, capture = read(path)
    health = capture.health
    assert packets == [each._replace(file=path) for each in case.packets]
    assert whats(capture) == list(case.damage)
    said = health.packets, health.warnings, health.notes, health.drops
    assert said == (len(packets), list(case.warnings), list(case.notes), case.drops)


def test_a_file_can_be_read_twice_and_its_damage_is_not_doubled(save: Saving) -> None:
    capture = Capture(save(pcap(FIVE)[:-1]))
    first, second = list(capture), list(capture)
    assert first == second
    assert len(capture.damage) == 1


# ── unusable input ─────────────────────────────────────────────────────────────────────────────────────


LOOKS = "this is not a capture; it looks like "


@pytest.mark.parametrize(
    ("raw", "what", "hint"),
    [
        (b"", "this file is empty", ""),
        (b"\xd4\xc3\xb2\xa1\x02\0", "the capture's header is cut short: it has 24 bytes, 6 are there", ""),
        (NG.section()[:20], "the capture's header is cut short: it has 28 bytes, 20 are there", ""),
        (b"\x0a\x0d\x0d\x0a" + bytes(30), "the capture's header says pcapng, but not in which byte order", ""),
        (b"\x7fELF\x02\x01", "this is not a capture; it looks like an ELF program", ""),
        (b"80 53 00 03 18 00 00 00 00 00 00 18", LOOKS + "text with hexadecimal bytes",
            "did you mean `dcpdump explain -i PATH`?"),
        (b"hello, world\n", "this is not a capture; it looks like text", ""),
        (b'{"a": 1}', "this is not a capture; it looks like JSON text", ""),
        (bytes(100), "this is not a capture; it looks like zero bytes", ""),
        (gzip.compress(b"\x7fELF", mtime=0), "this is not a capture; it looks like gzip of an ELF program", ""),
        (gzip.compress(b"", mtime=0), "gzip data with nothing inside", ""),
        (b"\xff\xfe\xfd", "this is not a capture; it looks like unknown bytes, ff fe fd", ""),
        (gzip.compress(pcap(FIVE), mtime=0)[:10],
            "nothing of this gzip data can be decompressed; the gzip data is cut short", ""),
        (b"\xd4\xc3", "the capture's header is cut short: 2 bytes are there", ""),
        (b"PK\x03\x04", LOOKS + "a ZIP archive", "unzip it, and name the captures inside"),
        (b"iptrace 2.0" + bytes(40), LOOKS + "an iptrace capture", "editcap -F pcapng PATH converted.pcapng"),
        (b"\1\x22\0\0Netscaler V20 Performance Data" + bytes(40), LOOKS + "an nstrace capture",
            "editcap -F pcapng PATH converted.pcapng"),
    ],
)  # fmt: skip
def test_what_is_not_a_capture_is_named_for_what_it_is(save: Saving, raw: bytes, what: str, hint: str) -> None:
    path = save(raw)
    error = refusal(path)
    assert (error.what, error.where, error.hint) == (what, path, hint.replace("PATH", path))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert str(refusal(str(tmp_path / "no.pcap"))) == f"there is no such file ({tmp_path / 'no.pcap'})"
    assert str(refusal(str(tmp_path))) == f"this is a folder ({tmp_path})"


# ── damage ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_packet_that_is_cut_short_is_shown_and_marked(save: Saving) -> None:
    path = save(pcap(FIVE)[:-10])
    packets, capture = read(path)
    start, size = len(pcap(FIVE[:4])), len(FIVE[4].data)
    what = f"record 5 (byte {start:,}) is cut short: {size} bytes promised, {size - 10} there"
    cut = Packet(5, FIVE[4].ts_ns, 1, FIVE[4].data[:-10], size, path, what)
    assert packets == [*expected(FIVE[:4], path), cut]
    assert capture.damage == [Damage(path, start, 5, what, "10 bytes, and any packet after it")]


@pytest.mark.parametrize(
    "garbage",
    [
        *(pack("<IIII", 1_760_000_002, 0, 0xFFFFFFFF, 0xFFFFFFFF), b"garbage, and more garbage between two records"),
        *(bytes(333), bytes(16), random.Random(3).randbytes(1_001)),
    ],
    ids=["a length of 4 GiB", "text", "zeros", "as many zeros as a header has", "noise"],
)
def test_garbage_between_records_ends_the_file_or_is_skipped(save: Saving, garbage: bytes) -> None:
    before = pcap(FIVE[:2])
    path = save(before + garbage + b"".join(map(pcap_record, FIVE[2:])))
    packets, capture = read(path)
    assert packets == expected(FIVE[:2], path)
    (damage,) = capture.damage
    assert (damage.where, damage.record, damage.lost) == (len(before), 3, "everything from here on")
    assert str(damage).endswith("; lost: everything from here on; --salvage looks for the next record")
    packets, capture = read(path, salvage=True)
    assert packets == expected(FIVE, path)
    skipped = f"{len(garbage):,} bytes were skipped"
    assert [(damage.where, damage.lost) for damage in capture.damage] == [(len(before), skipped)]


def test_a_wrong_length_that_runs_past_the_end_does_not_hide_what_follows(save: Saving) -> None:
    wrong = pcap_record(Record(T0 + SECOND, FIVE[1].data, captured=200_000))
    path = save(pcap(FIVE[:1]) + wrong + b"".join(map(pcap_record, FIVE[2:])))
    sizes = [len(FIVE[0].data), 16 * 3 + sum(len(record.data) for record in FIVE[1:])]
    assert [len(packet.data) for packet in read(path)[0]] == sizes
    packets, capture = read(path, salvage=True)
    assert [packet.data for packet in packets] == [FIVE[i].data for i in (0, 2, 3, 4)]
    assert len(capture.damage) == 1


def test_a_capture_put_behind_another_may_itself_be_cut_short(save: Saving) -> None:
    for first, second in ((pcap, pcapng), (pcapng, pcap)):
        path = save(first(FIVE) + second([])[:20])
        packets, capture = read(path)
        assert packets == expected(FIVE, path)
        assert len(capture.damage) == 1


def test_a_million_faults_are_counted_and_a_thousand_kept() -> None:
    health = Health("a.pcap")
    for number in range(DAMAGE_KEPT + 5):
        health.hurt(number, number, "broken")
    assert (len(health.damage), health.damage_count) == (DAMAGE_KEPT, DAMAGE_KEPT + 5)


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("seed", range(6))
def test_salvage_loses_little_and_invents_nothing(
    save: Saving, write: Callable[[list[Record]], bytes], seed: int
) -> None:
    rng = random.Random(seed)
    records = [Record(T0 + i * SECOND, ethernet(rng.randbytes(rng.randrange(40, 1_400)), i)) for i in range(300)]
    raw = bytearray(write(records))
    faults = 12
    for _ in range(faults):
        at = rng.randrange(120, len(raw) - 64)
        raw[at : at + 64] = rng.randbytes(64)
    packets, _ = read(save(bytes(raw)), salvage=True)
    true = {record.data for record in records}
    intact = [packet for packet in packets if packet.data in true]
    assert len(records) - len(intact) <= 2 * faults
    lengths = {(record.ts_ns, len(record.data)) for record in records}
    framed = [packet for packet in packets if (packet.ts_ns, len(packet.data)) in lengths]
    assert len(packets) - len(framed) <= faults, "a packet is one of the file, or has an overwritten header"
    assert len(records) - len(packets) <= faults + 1


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (NG.block(4, b"", length=0), "has an impossible length, 0 bytes"),
        (NG.block(6, bytes(28), length=42, trailer=42), "has an impossible length, 42 bytes"),
        (NG.block(6, bytes(20), trailer=44), "says 32 bytes at its beginning and 44 at its end"),
        (
            NG.block(6, bytes(28), length=0xFFFFFFF0),
            "says it is 4,294,967,280 bytes long, and none over 134,217,728 is believed",
        ),
        (b"\x0a\x0d\x0d\x0a" + bytes(24), "is a section header without a byte order"),
        (b"garbage. " * 9, "has an impossible length, 541,991,521 bytes"),
    ],
    ids=["0", "not a multiple of 4", "trailer", "4 GB", "byte order", "garbage"],
)
def test_a_bad_block_ends_the_file_or_is_skipped(save: Saving, bad: bytes, fault: str) -> None:
    before = pcapng(FIVE[:2])
    after = b"".join(NG.packet(record.ts_ns, record.data) for record in FIVE[2:])
    path = save(before + bad + after)
    packets, capture = read(path)
    assert packets == expected(FIVE[:2], path)
    assert len(capture.damage) == 1
    if "garbage" not in str(bad):
        assert whats(capture) == [f"the block at byte {len(before)} {fault}"]
    packets, capture = read(path, salvage=True)
    assert packets == expected(FIVE, path)
    assert [damage.lost for damage in capture.damage] == [f"{len(bad):,} bytes were skipped"]


def peak_of(work: Callable[[], object]) -> int:
    """Return the most memory that some work holds at a time."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("raw", "damage"),
    [
        (pcap([]) + pack("<IIII", 1_760_000_000, 0, 16_000_000, 16_000_000) + b"x", 1),
        (BEGIN + pack("<IIIIIII", 6, 16_000_032, 0, 0, 0, 16_000_000, 16_000_000) + b"x", 1),
        (BEGIN + NG.block(0x4242, bytes(20_000_000)) + X, 0),
    ],
    ids=["a promise of a pcap", "a promise of a pcapng", "a huge block, which is passed over"],
)
def test_no_length_alone_makes_an_allocation(save: Saving, raw: bytes, damage: int) -> None:
    path = save(raw)
    packets, capture = read(path)
    assert ([packet.data for packet in packets], len(capture.damage)) == ([b"x"], damage)
    assert peak_of(lambda: read(path)) < 1_000_000 + 3_000_000 * (not damage)


# ── every prefix, every way in ─────────────────────────────────────────────────────────────────────────


MIXED = (
    NG.section([(4, b"me")]) + NG.interface(options=[(9, b"\x09"), (2, b"lo")])
    + NG.packet(T0, b"first packet")
    + NG.statistics() + NG.old_packet(T0, b"old packet") + NG.simple_packet(b"simple")
    + NG.packet(T0 + 1, b"last", options=[(1, b"comment")])
)  # fmt: skip


@pytest.mark.parametrize(
    "raw",
    [
        pcap(FIVE[:3]),
        pcap(FIVE[:3], nano=True, big_endian=True),
        pcap(FIVE[:1]) + pcap(FIVE[:2]),
        pcapng(FIVE[:2]),
        MIXED,
        gzip.compress(pcap(FIVE[:3]), mtime=0),
    ],
    ids=["pcap", "big-endian", "concatenated", "pcapng", "mixed", "gzip"],
)
@pytest.mark.parametrize("salvage", [False, True])
def test_every_prefix_gives_a_prefix_of_the_packets_or_a_reason(save: Saving, raw: bytes, salvage: bool) -> None:
    whole, _ = read(save(raw), salvage)
    for end in range(len(raw)):
        path = save(raw[:end])
        try:
            packets, capture = read(path, salvage)
        except CaptureError:
            continue
        clean = [packet for packet in packets if not packet.damage]
        assert clean == whole[: len(clean)]
        assert len(packets) - len(clean) <= 1
        for cut, true in zip(packets[len(clean) :], whole[len(clean) :], strict=False):
            assert true.data.startswith(cut.data)
            assert cut.ts_ns == true.ts_ns
        assert len(clean) == len(whole) or capture.damage or end in boundaries(raw)


def boundaries(raw: bytes) -> set[int]:
    """Return the lengths of prefixes that happen to be whole captures."""
    ends = {24}
    for write in (pcap, pcapng):
        for count in range(4):
            ends.add(len(write(FIVE[:count])))
    ends |= {len(pcap(FIVE[:1])) + len(pcap(FIVE[:count])) for count in range(3)}
    at = 0
    while raw[:4] == b"\x0a\x0d\x0d\x0a" and at < len(raw):
        at += int.from_bytes(raw[at + 4 : at + 8], "little")
        ends.add(at)
    return ends


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "xz": lambda raw: lzma.compress(raw, preset=0),
    "bz2": bz2.compress,
    "zst": lambda raw: bytes(cramjam.zstd.compress(raw)),
    "lz4": lambda raw: bytes(cramjam.lz4.compress(raw)),
}


@pytest.mark.parametrize("compress", COMPRESSED.values(), ids=COMPRESSED.keys())
@pytest.mark.parametrize("write", [pcap, pcapng])
def test_the_way_in_makes_no_difference(
    save: Saving,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[list[Record]], bytes],
    compress: Callable[[bytes], bytes],
) -> None:
    raw = compress(write(FIVE))
    truth = expected(FIVE, "")

    def anonymous(packets: list[Packet]) -> list[Packet]:
        return [packet._replace(file="") for packet in packets]

    assert anonymous(read(save(raw))[0]) == truth
    assert anonymous(read(through_pipe(raw))[0]) == truth
    assert anonymous(read(through_pipe(raw, size=1))[0]) == truth
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Thread(target=fifo.write_bytes, args=(raw,), daemon=True).start()
    assert anonymous(read(str(fifo))[0]) == truth
    with open(through_pipe(raw)) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert anonymous(read("-")[0]) == truth
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert anonymous(read("-")[0]) == truth


@pytest.mark.parametrize("compress", [*COMPRESSED.values()][1:], ids=[*COMPRESSED][1:])
def test_compressed_files_put_into_one_are_one(save: Saving, compress: Callable[[bytes], bytes]) -> None:
    raw = pcap(FIVE)
    path = save(compress(raw[:100]) + compress(raw[100:]))
    packets, capture = read(path)
    assert packets == expected(FIVE, path)
    assert capture.damage == []


@pytest.mark.parametrize("compress", [*COMPRESSED.values()][1:], ids=[*COMPRESSED][1:])
def test_a_truncated_compressed_file_gives_what_can_be_decompressed(
    save: Saving, compress: Callable[[bytes], bytes]
) -> None:
    rng = random.Random(1)
    records = [Record(T0 + i * SECOND, ethernet(rng.randbytes(1_000), i)) for i in range(2_000)]
    raw = compress(pcap(records))
    path = save(raw[: len(raw) // 2])
    packets, capture = read(path)
    clean = [packet for packet in packets if not packet.damage]
    assert clean == expected(records, path)[: len(clean)]
    # bzip2 decompresses 900,000 bytes at once, or none of them
    assert len(clean) > 800
    assert "cut short" in capture.damage[-1].what


def test_a_gzip_whose_checksum_is_wrong_gives_all_packets_and_damage(save: Saving) -> None:
    raw = bytearray(gzip.compress(pcap(FIVE)))
    raw[-6] ^= 1
    path = save(bytes(raw))
    packets, capture = read(path)
    assert packets == expected(FIVE, path)
    assert whats(capture) == ["the gzip data is damaged (Error -3 while decompressing data: incorrect data check)"]


def test_bytes_behind_a_gzip_are_damage_and_zeros_are_padding(save: Saving) -> None:
    raw = gzip.compress(pcap(FIVE))
    path = save(raw + bytes(512))
    assert read(path)[1].health == Health(path, packets=5)
    packets, capture = read(save(raw + b"\0\0trailing"))
    assert packets == expected(FIVE, path)
    assert whats(capture) == ["bytes that are not gzip data follow its end"]


@pytest.mark.parametrize("compress", [*COMPRESSED.values()][1:], ids=[*COMPRESSED][1:])
def test_a_decompression_bomb_is_met_in_pieces(save: Saving, compress: Callable[[bytes], bytes]) -> None:
    record = pcap_record(Record(T0, bytes(60_000)))
    path = save(compress(pcap([]) + record * 300))
    assert sum(1 for _ in Capture(path)) == 300
    peak = peak_of(lambda: [None for _ in Capture(path)])
    assert peak < 12_000_000, "18 MB inside; xz and bzip2 have dictionaries of their own"


def _xz(raw: bytes, window: int) -> bytes:
    """Return xz data whose header asks for 2 ** ``window`` bytes."""
    packed = lzma.compress(raw, preset=0)
    header = packed[12:16] + bytes([2 * (window - 12)]) + packed[17 : 12 + 4 * packed[12]]
    return packed[:12] + header + zlib.crc32(header).to_bytes(4, "little") + packed[16 + 4 * packed[12] :]


def _zstd(raw: bytes, window: int) -> bytes:
    """Return zstd data whose header asks for 2 ** ``window`` bytes."""
    block = (len(raw) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\0" + bytes([(window - 10) << 3]) + block + raw


LARGEST = {"xz": (_xz, 26, "xz -dc"), "zstd": (_zstd, 27, "zstd -dc --long=31")}


@pytest.mark.parametrize(("pack", "largest", "way"), LARGEST.values(), ids=LARGEST)
def test_data_that_ask_for_too_much_memory_are_refused_with_the_way_out(
    save: Saving, pack: Callable[[bytes, int], bytes], largest: int, way: str
) -> None:
    fault = f"the {pack.__name__[1:]} data asks for more than 128 MiB of memory; try: {way} FILE | dcpdump read -"
    path = save(pack(pcap(FIVE), 29))
    assert refusal(path).what == f"nothing of this {pack.__name__[1:]} data can be decompressed; {fault}"
    path = save(pack(pcap(FIVE), largest) + pack(pcap(FIVE), 29))
    packets, capture = read(path)
    assert packets == expected(FIVE, path)
    assert whats(capture) == [fault]


@pytest.mark.parametrize("suffix", [*COMPRESSED][1:])
def test_a_compressed_file_that_is_cut_while_it_is_read_is_cut_short(save: Saving, suffix: str) -> None:
    rng = random.Random(1)
    path = save(COMPRESSED[suffix](pcap([Record(T0, rng.randbytes(60_000)) for _ in range(24)])))
    with Capture(path) as capture:
        packets = iter(capture)
        assert next(packets).number == 1
        os.truncate(path, 1_000)
        assert len(list(packets)) < 23
    assert "data is cut short" in whats(capture)[-1]


@pytest.mark.parametrize(("suffix", "before"), [("zst", b""), ("lz4", COMPRESSED["lz4"](b""))])
def test_frames_that_are_to_be_skipped_are(save: Saving, suffix: str, before: bytes) -> None:
    skipped = bytes.fromhex("5f2a4d18 03000000 000000")
    path = save(before + skipped + COMPRESSED[suffix](pcap(FIVE)) + skipped)
    packets, capture = read(path)
    assert (packets, capture.damage) == (expected(FIVE, path), [])


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("compress", [bytes, "gz"], ids=["plain", "gzip"])
def test_a_packet_is_yielded_before_the_next_is_written(
    write: Callable[[list[Record]], bytes], compress: object
) -> None:
    out, into = os.pipe()
    deflate = zlib.compressobj(wbits=31)

    def send(raw: bytes) -> None:
        if compress == "gz":
            raw = deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH)
        os.write(into, raw)

    ends = [len(write(FIVE[:count])) for count in range(6)]
    raw = write(FIVE)
    send(raw[: ends[0]])
    path = f"/dev/fd/{out}"
    packets: Iterator[Packet] = iter(())
    with Capture(path) as capture:
        for count, truth in enumerate(expected(FIVE, path)):
            send(raw[ends[count] : ends[count + 1]])
            if not count:
                packets = iter(capture)
            assert next(packets) == truth
        os.close(into)
        assert list(packets) == []
    os.close(out)


# ── several files ──────────────────────────────────────────────────────────────────────────────────────


def test_overlapping_files_are_merged_by_time_file_and_number(save: Saving) -> None:
    b = save(pcap([Record(T0, b"b1"), Record(T0 + 2000, b"b2"), Record(T0 + 2000, b"b3")]), "b.pcap")
    a = save(pcapng([Record(T0 + 1000, b"a1"), Record(T0 + 2000, b"a2"), Record(T0 + 9000, b"a3")]), "a.pcapng")
    merged = [b"b1", b"a1", b"a2", b"b2", b"b3", b"a3"]
    assert [packet.data for packet in timeline([Capture(a), Capture(b)])] == merged
    assert [packet.data for packet in timeline([Capture(b), Capture(a)])] == merged


def test_the_order_within_a_file_is_kept(save: Saving) -> None:
    a = save(pcap([Record(T0 + 5000, b"a1"), Record(T0 + 1000, b"a2"), Record(T0 + 8000, b"a3")]), "a.pcap")
    b = save(NG.section() + NG.interface() + NG.simple_packet(b"b1") + NG.simple_packet(b"b2"), "b.pcapng")
    packets = [packet.data for packet in timeline([Capture(b), Capture(a)])]
    assert packets == [b"b1", b"b2", b"a1", b"a2", b"a3"]


def test_a_pipe_joins_the_timeline(save: Saving) -> None:
    a = save(pcap([Record(T0 + 1000, b"a1"), Record(T0 + 3000, b"a2")]))
    pipe = through_pipe(pcap([Record(T0, b"p1"), Record(T0 + 2000, b"p2")]))
    captures = [Capture(a), Capture(pipe)]
    assert [packet.data for packet in timeline(captures)] == [b"p1", b"a1", b"p2", b"a2"]


def test_more_files_than_may_be_open_are_read_when_they_follow_one_another(save: Saving) -> None:
    resource = pytest.importorskip("resource")
    paths = [save(pcap([Record(T0 + i * SECOND, b"%d" % i)]), f"f{i}.pcap") for i in range(300)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = max(map(int, os.listdir("/dev/fd")))  # other tests may have left some open in this process
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 100, hard))
    try:
        packets = list(timeline([Capture(path) for path in reversed(paths)]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [packet.data for packet in packets] == [b"%d" % i for i in range(300)]


def test_too_many_concurrent_files_are_refused_with_a_way_out(save: Saving) -> None:
    paths = [save(pcap([Record(T0, b"x"), Record(T0 + SECOND, b"y")]), f"f{i}.pcap") for i in range(4)]
    with pytest.raises(CaptureError, match="more than 3 captures overlap in time"):
        list(timeline([Capture(path) for path in paths], open_limit=3))


def test_files_globs_and_folders_are_expanded_once_each(save: Saving, tmp_path: Path) -> None:
    a = save(pcap(FIVE), "in/a.pcap")
    b = save(pcap(FIVE), "in/deep/b")
    c = save(b"torn", "in/deep/c.pcap.gz")
    save(b"", "in/deep/empty.pcap")
    d = save(gzip.compress(pcap(FIVE)), "in/data.bin")
    save(b"hello", "in/notes.txt")
    folder = str(tmp_path / "in")
    assert expand([folder]) == sorted([a, b, c, d])
    assert expand([a, folder, a, "-"]) == [a, *sorted([b, c, d]), "-"]
    assert expand([f"{folder}/*.pcap"]) == [a]
    assert expand([f"{tmp_path}/i*"]) == sorted([a, b, c, d])


def test_all_captures_of_a_folder_are_named_by_it(save: Saving, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = save(pcap(FIVE), "in/a.pcap"), save(pcap(FIVE), "in/b")
    save(b"hello", "in/notes.txt")
    folder = str(Path(a).parent)
    assert in_short([b, a]) == [folder]
    assert in_short([a]) == [a]
    assert in_short([a, b, "-"]) == [a, b, "-"]
    monkeypatch.chdir(folder)
    assert in_short(["a.pcap", "b"]) == in_short(["./a.pcap", "./b"]) == ["."]
    deep = save(pcap(FIVE), "in/deep/c.pcap")
    assert in_short([a, b]) == [a, b]  # the folder has one more
    assert in_short([a, b, deep]) == [a, b, deep]


def test_a_folder_with_much_else_is_not_looked_through(save: Saving) -> None:
    paths = [save(pcap(FIVE), f"in/{name}.pcap") for name in "ab"]
    for number in range(256):
        save(b"", f"in/{number}.txt")
    assert in_short(paths) == paths


def test_a_path_that_names_nothing_is_refused_with_the_nearest(save: Saving, tmp_path: Path) -> None:
    path = save(pcap(FIVE), "capture.pcap")
    (tmp_path / "empty").mkdir()
    for name, what, hint in (
        ("captrue.pcap", "there is no such file", f"did you mean {path}?"),
        ("*.erf", "no file matches", ""),
        ("empty", "there is no capture in this folder", ""),
    ):
        with pytest.raises(CaptureError) as caught:
            expand([str(tmp_path / name)])
        assert (caught.value.what, caught.value.hint) == (what, hint)


def test_a_folder_of_which_a_part_may_not_be_listed_is_refused_and_so_is_a_file_in_there() -> None:
    with open_folder() as folder:
        (folder / "hour1.pcap").write_bytes(pcap(FIVE))
        closed = folder / "hour2"
        closed.mkdir()
        (closed / "a.pcap").write_bytes(pcap(FIVE))
        closed.chmod(0)
        for path, what, where in (
            (folder, "this folder cannot be listed: permission denied", closed),
            (closed, "this folder cannot be listed: permission denied", closed),
            (closed / "a.pcap", "this cannot be read: permission denied", closed / "a.pcap"),
        ):
            with powerless(), pytest.raises(CaptureError) as caught:
                expand([str(path)])
            assert (caught.value.what, caught.value.where) == (what, str(where))


# ── following ──────────────────────────────────────────────────────────────────────────────────────────


class Writer(threading.Thread):
    """Writes pieces into files, a moment apart, as a capturing program does."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.steps = steps
        self.start()

    def run(self) -> None:
        for step in self.steps:
            time.sleep(0.03)
            step()


def append(path: str, raw: bytes) -> None:
    with open(path, "ab") as file:
        file.write(raw)


def take(capture: Capture, count: int) -> list[bytes]:
    packets = iter(capture)
    return [next(packets).data for _ in range(count)]


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_following_waits_for_whole_records(save: Saving, write: Callable[[list[Record]], bytes]) -> None:
    raw = write(FIVE)
    path = save(b"")
    pieces = [raw[start : start + 97] for start in range(0, len(raw), 97)]
    Writer(*[lambda piece=piece: append(path, piece) for piece in pieces])
    with Capture(path, follow=True) as capture:
        assert take(capture, 5) == [record.data for record in FIVE]
        assert capture.damage == []


@pytest.mark.parametrize(
    ("before", "steps"),
    [
        (pcap(FIVE[:1]), [("replace", "x.pcap", pcap(FIVE[1:2])), ("append", "x.pcap", pcap_record(FIVE[2]))]),
        (pcap(FIVE[:2]), [("write", "x.pcap", pcap(FIVE[2:3]))]),
        (pcap(FIVE[:1]), [("write", "x.pcap1", pcap(FIVE[1:2])), ("write", "x.pcap2", pcap(FIVE[2:3]))]),
    ],
    ids=["the file that is replaced", "the file that is written anew", "the next files of a series"],
)
def test_following_continues_with(before: bytes, steps: list[tuple[str, str, bytes]], save: Saving) -> None:
    path = save(before, "x.pcap")
    save(pcap(FIVE[4:]), "other.pcap")

    def do(how: str, name: str, raw: bytes) -> None:
        if how == "append":
            append(path, raw)
        elif how == "replace":
            os.replace(save(raw, "new"), path)
        else:
            save(raw, name)

    Writer(*[lambda step=step: do(*step) for step in steps])
    with Capture(path, follow=True) as capture:
        assert take(capture, 3) == [record.data for record in FIVE[:3]]


def test_following_goes_on_where_a_ring_deletes_the_file_that_is_read_and_its_folder(
    save: Saving, tmp_path: Path
) -> None:
    first, second, fourth = (str(tmp_path / f"ring/r_0000{n}_2025010112000{n}.pcap") for n in (1, 2, 4))
    save(pcap(FIVE[:1]), first)
    Writer(lambda: shutil.rmtree(tmp_path / "ring"), lambda: save(pcap(FIVE[1:2]), second))
    with Capture(first, follow=True) as capture:
        packets = iter(capture)
        assert [next(packets).data, next(packets).data] == [FIVE[0].data, FIVE[1].data]
        save(pcap(FIVE[2:3]), fourth)
        assert next(packets).data == FIVE[2].data
    deleted = f"{first} was deleted while it was read, and was read to its end"
    assert capture.health.notes == [deleted, f"went on with {second}", f"went on with {fourth}"]
    assert whats(capture) == [f"deleted before being read: 1 file between {second} and {fourth}"]


def test_following_passes_over_files_that_are_deleted_while_they_are_looked_for(
    save: Saving, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, *others = (save(pcap([FIVE[at]]), f"x.pcap{at}") for at in range(4))
    scan = os.scandir

    def scan_as_they_are_deleted(folder: str) -> Any:
        entries = {entry.path: entry for entry in scan(folder)}
        entries[others[1]].stat()  # known, and deleted before it is opened
        for each in others[:2]:
            Path(each).unlink(missing_ok=True)
        return nullcontext(iter(entries.values()))

    monkeypatch.setattr(os, "scandir", scan_as_they_are_deleted)
    with Capture(path, follow=True) as capture:
        assert take(capture, 2) == [FIVE[0].data, FIVE[3].data]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("f_00001_20250101120000.pcap", "f_00002_20250101120500.pcap", True),
        ("f_00001_20250101120000.pcap", "g_00002_20250101120500.pcap", False),
        ("x.pcap", "x.pcap1", True),
        ("x.pcap9", "x.pcap10", True),
        ("x-2025-01-01_10.pcap", "x-2025-01-01_11.pcap", True),
        ("eth0.pcap", "eth1.pcap", False),
        ("a.pcap", "b.pcap", False),
    ],
)
def test_a_series_is_reported_by_its_names(one: str, other: str, same: bool) -> None:
    assert same_series(one, other) is same


def test_the_tenth_file_comes_after_the_ninth() -> None:
    assert natural_key("x.pcap9") < natural_key("x.pcap10")
    assert natural_key("x.pcap") < natural_key("x.pcap1")


# ── any bytes at all ───────────────────────────────────────────────────────────────────────────────────


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_a_capture_is_read_or_refused(save: Saving, data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from([pcap(FIVE), pcapng(FIVE), MIXED, gzip.compress(MIXED)])))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    path = save(bytes(raw))
    for salvage in (False, True):
        try:
            packets, capture = read(path, salvage)
        except CaptureError:
            continue
        assert [packet.number for packet in packets] == list(range(1, len(packets) + 1))
        assert capture.health.packets == len(packets)
        assert sum(len(packet.data) for packet in packets) <= 5 * len(raw) + 1_000
