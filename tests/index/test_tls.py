"""Frames inside TLS are found again, under the secrets of a key log or of the capture."""

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dcpdump.capture.blocks import interface, packet, secrets, section
from dcpdump.capture.file import Capture
from dcpdump.dissect import Dissector
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.record import Record
from dcpdump.tls.secrets import Secrets
from tests.index.test_frames import SAMPLES, SIZES, all_of, check_against, options
from tests.support.captures import pcap
from tests.support.live import running
from tests.tls.feeding import secrets_of
from tests.tls.twins import Twin, seal

REAL = sorted(Path("tests/tls/captures").glob("*.pcap"))
WAYS = [(0x0304, 0x1301, 16_384), (0x0303, 0xC02F, 700), (0x0302, 0xC014, 200)]


def opened(path: Path, given: Secrets | None) -> list[Record]:
    """Return the frames of a capture, decoded one by one."""
    dissector = Dissector(secrets=given)
    records = [each for packet in Capture(str(path), secrets=given) for each in dissector.feed(packet)]
    return records + dissector.close()


def check(path: Path, keylog: bytes, *sizes: int) -> int:
    ways = [replace(options(size), secrets=secrets_of(keylog)) for size in sizes]
    return check_against(opened(path, secrets_of(keylog)), [str(path)], ways)


@pytest.fixture(scope="module")
def twins() -> list[Twin]:
    captures = [Capture(str(path)) for path in SAMPLES[:2]]
    return [
        seal(capture, version=version, suite=suite, size=size) for capture in captures for version, suite, size in WAYS
    ]


@pytest.mark.parametrize("way", range(2 * len(WAYS)))
def test_each_frame_of_a_sealed_sample_is_that_of_read(twins: list[Twin], tmp_path: Path, way: int) -> None:
    path = tmp_path / "sealed.pcap"
    path.write_bytes(pcap(twins[way].packets))
    assert check(path, twins[way].keylog, SIZES[way % 3]) > 10


@pytest.mark.parametrize("seed", range(6))
def test_losses_and_late_joins_inside_tls(twins: list[Twin], tmp_path: Path, seed: int) -> None:
    chance, twin = random.Random(seed), twins[seed]
    packets = [each for each in twin.packets[chance.choice([0, 9]) :] if chance.random() > 0.03]
    path = tmp_path / "sealed.pcap"
    path.write_bytes(pcap(packets))
    check(path, twin.keylog, 1)
    check(path, b"", 1)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_what_others_sealed_is_found_again(path: Path) -> None:
    check(path, path.with_suffix(".keys").read_bytes(), 1)


def test_secrets_that_come_through_a_pipe_open_it_again(twins: list[Twin], tmp_path: Path) -> None:
    twin = twins[0]
    packets = [b"".join(packet(0, each.ts_ns, each.data, len(each.data))) for each in twin.packets]
    path = tmp_path / "sealed.pcapng"
    path.write_bytes(section("test") + interface(1) + secrets(twin.keylog) + b"".join(packets))
    expected, given = opened(path, Secrets()), Secrets()
    with running(["cat", str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        capture = Capture(f"/dev/fd/{writer.stdout.fileno()}", secrets=given)
        with CaptureIndex([capture], replace(options(1), secrets=given)) as index:
            index.finish()
            found = [index.record(number).frame.raw.data for number in range(index.frames, 0, -1)]
    assert found[::-1] == [each.frame.raw.data for each in expected]
    assert len(found) > 10


def test_secrets_that_a_capture_carries_open_it_again(twins: list[Twin], tmp_path: Path) -> None:
    path = tmp_path / "sealed.pcapng"
    packets = [b"".join(packet(0, each.ts_ns, each.data, len(each.data))) for each in twins[0].packets]
    path.write_bytes(section("test") + interface(1) + b"".join(packets) + secrets(twins[0].keylog))
    expected = opened(path, Secrets())
    assert len(expected) > 10
    given = Secrets()
    with CaptureIndex([Capture(str(path), secrets=given)], replace(options(1), secrets=given)) as index:
        index.finish()
        found = [all_of(index.record(number)) for number in range(index.frames, 0, -1)]
    assert found[::-1] == [all_of(each) for each in expected]
