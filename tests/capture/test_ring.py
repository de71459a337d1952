"""Blocks of an interface's ring: what is read from them, and how they are saved to files."""

import socket
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.batch.ring_blocks import block_of
from dcpdump.capture.file import Capture
from dcpdump.capture.live import Ring, Rotation, Save, Taken, packets_of
from dcpdump.errors import OutputError
from dcpdump.net.packet import Packet
from tests.support.packets import FLOW, FLOW6, NOON, ethernet, ipv4_tcp, ipv6_tcp

ETHERNET, LOOPBACK, TUNNEL, UNKNOWN = 1, 772, 65534, 9999
IPV4, IPV6, OTHER = b"\x08\x00", b"\x86\xdd", b"\x88\xcc"


class Sent(NamedTuple):
    """A packet, as the kernel hands it over: its link header, and what follows."""

    ts_ns: int
    link: bytes
    rest: bytes
    ethertype: bytes = IPV4
    hardware: int = ETHERNET
    interface: int = 1
    tag: int | None = None
    more: int = 0  #: bytes on the wire that are not here


def ring_block(sent: list[Sent]) -> bytes:
    """Return a block as the kernel writes it: TPACKET_V3."""
    body = b""
    for number, each in enumerate(sent):
        data = each.link + each.rest
        network = -(-(48 + 20 + max(len(each.link), 16)) // 16) * 16
        start = network - len(each.link)
        size = -(-(start + len(data)) // 8) * 8
        seconds, ns = divmod(each.ts_ns, 1_000_000_000)
        status = 1 | (0x50 if each.tag is not None else 0)
        after = size if number < len(sent) - 1 else 0
        head = pack("=6I2H", after, seconds, ns, len(data), len(data) + each.more, status, start, network)
        head += pack("=IIHH8x", 0, each.tag or 0, 0x88A8 if each.tag is not None else 0, 0)
        head += pack("=H2siHBB8x", 17, each.ethertype, each.interface, each.hardware, 0, 6)
        body += (head.ljust(start, b"\0") + data).ljust(size, b"\0")
    return pack("=2I4I", 1, 48, 1, len(sent), 48, 48 + len(body)).ljust(48, b"\0") + body


def taken(*blocks: list[Sent]) -> list[Taken]:
    out, first = [], 1
    for sent in blocks:
        out.append(Taken(first, len(sent), ring_block(sent)))
        first += len(sent)
    return out


IP = ipv4_tcp(FLOW, 1, b"hello")
LINK = ethernet(IP)[:12]
SAMPLES = [
    Sent(NOON, LINK + IPV4, IP),
    Sent(NOON + 1, LINK + IPV6, ipv6_tcp(FLOW6, 1, b"hello"), IPV6, LOOPBACK, 2),
    Sent(NOON + 2, b"", IP, IPV4, TUNNEL, 3),
    Sent(NOON + 3, b"?" * 7, IP, IPV4, UNKNOWN, 4),
    Sent(NOON + 4, b"?" * 7, b"what", OTHER, UNKNOWN, 4),
    Sent(NOON + 5, LINK + IPV4, IP[:40], tag=0x6005, more=5),
]
#: What they are when they are decoded; a tag is not there.
DECODED = [
    Packet(1, NOON, 1, LINK + IPV4 + IP, 14 + len(IP), "lo"),
    Packet(2, NOON + 1, 1, LINK + IPV6 + ipv6_tcp(FLOW6, 1, b"hello"), 79, "lo"),
    Packet(3, NOON + 2, 101, IP, len(IP), "lo"),
    Packet(4, NOON + 3, 101, IP, len(IP), "lo"),
    Packet(5, NOON + 4, 147, b"what", 4, "lo"),
    Packet(6, NOON + 5, 1, LINK + IPV4 + IP[:40], 59, "lo"),
]


def test_packets_of_every_kind_of_link_are_read() -> None:
    block = block_of(taken(SAMPLES[:2], SAMPLES[2:]), "lo")
    assert list(block.packets) == DECODED
    assert block.facts.flow.tolist() == [0, 1, 0, 0, -1, -1]  # not plain: no IP, and cut short
    assert block.where(3).file == "lo"


def test_a_file_has_them_with_their_tag(tmp_path: Path) -> None:
    file = tmp_path / "all.pcapng"
    save = Save(str(file))
    for each in taken(SAMPLES[:2], SAMPLES[2:]):
        save.write(each.data, drops=3)
    save.close(drops=7)
    capture = Capture(str(file))
    read = list(capture)
    tagged = LINK + b"\x88\xa8\x60\x05" + IPV4 + IP[:40]
    assert [(packet.ts_ns, packet.link_type, packet.data) for packet in read] == [
        *((packet.ts_ns, packet.link_type, packet.data) for packet in DECODED[:5]),
        (NOON + 5, 1, tagged),
    ]
    assert read[5].wire_length == len(tagged) + 5
    assert [packet.interface for packet in read] == [0, 1, 2, 3, 4, 0]
    assert (capture.drops, capture.damage, capture.health.warnings) == (7, [], [])


@settings(max_examples=25)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=40), st.integers(200, 4000), st.integers(1, 7))
def test_files_are_never_longer_than_asked_but_for_one_packet_and_hold_everything(
    lengths: list[int], size: int, per_block: int
) -> None:
    sent = [Sent(NOON + number, LINK + IPV4, bytes(length)) for number, length in enumerate(lengths)]
    with TemporaryDirectory() as folder:
        save = Save(f"{folder}/x.pcapng", Rotation(size=size))
        for at in range(0, len(sent), per_block):
            save.write(ring_block(sent[at : at + per_block]), 0)
        save.close(0)
        files = sorted(Path(folder).iterdir())
        held = [[packet.ts_ns for packet in Capture(str(file))] for file in files]
        assert [ts for each in held for ts in each] == [each.ts_ns for each in sent]
        assert all(file.stat().st_size <= size or len(each) == 1 for file, each in zip(files, held, strict=True))


def test_a_file_begins_when_its_time_has_come_and_the_oldest_goes(tmp_path: Path) -> None:
    save = Save(str(tmp_path / "x.pcapng"), Rotation(seconds=10, files=2))
    second = 1_000_000_000
    for after in (0, 9, 10, 19, 45):
        save.write(ring_block([SAMPLES[0]._replace(ts_ns=NOON + after * second)]), 0)
    save.close(0)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["x_00002_20251120120010.pcapng", "x_00003_20251120120045.pcapng"]
    assert [len(list(Capture(str(file)))) for file in files] == [2, 1]


def test_each_file_reports_its_own_drops(tmp_path: Path) -> None:
    save = Save(str(tmp_path / "x.pcapng"), Rotation(seconds=1))
    save.write(ring_block([SAMPLES[0]]), 2)
    save.write(ring_block([SAMPLES[0]._replace(ts_ns=NOON + 2_000_000_000)]), 5)
    save.close(6)
    captures = [Capture(str(file)) for file in sorted(tmp_path.iterdir())]
    assert [len(list(capture)) for capture in captures] == [1, 1]
    assert [capture.drops for capture in captures] == [5, 1]


def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "x.pcapng"
    file.write_text("mine")
    with pytest.raises(OutputError) as refused:
        Save(str(file))
    assert str(refused.value) == f"the output exists already ({file})"
    Save(str(file), force=True).close(0)
    assert list(Capture(str(file))) == []


def test_the_packets_of_a_block_are_gone_through_in_order() -> None:
    assert [packet.ts_ns for packet in packets_of(ring_block(SAMPLES))] == [NOON + each for each in range(6)]


def test_packets_that_came_before_the_ring_was_there_are_no_loss() -> None:
    try:
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except (AttributeError, PermissionError):
        pytest.skip("no way or no right to capture here (Linux, CAP_NET_RAW)")
    with capture, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        capture.bind(("lo", 3))
        for _ in range(100):  # most have no place where they could wait
            sender.sendto(b"early", ("127.0.0.1", 9))
        ring = Ring(capture)
        ring.ready_blocks(0)
        assert ring.dropped == 0
        ring.close()
