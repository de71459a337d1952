"""Files that follow one another are one capture, as far as it can be known."""

from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from tests.support.check_cases import PLAIN, items
from tests.support.console import Printed, run
from tests.support.conversation import opening, packets, said
from tests.support.secret_talk import saved

NOOP = "WAIT 19\nRX noop{opaque=0x819698%02x}\nTX noop-response{success}\n"
ASKING = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
ASKING += "RX noop{opaque=0x81969800}\n"


def rotated() -> list[Packet]:
    """Return a connection that is silent after a NOOP, and another one that continues for minutes."""
    return packets(said(ASKING + "CONNECT\n" + opening(name="other") + "".join(NOOP % at for at in range(1, 13))))


def judged(folder: Path, *files: list[Packet]) -> Printed:
    """Check a folder with those files."""
    for number, each in enumerate(files):
        saved(each, folder / f"n_{number}.pcap")
    return run(f"dcpdump check {folder} --all -f ndjson")


def of_one(found: Printed) -> tuple[int, bool]:
    """Return the exit code, and whether the NOOP without an answer was found."""
    return found.code, '"DCP511"' in found.out


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_a_rotated_capture_is_judged_as_the_whole(parts: int, tmp_path: Path) -> None:
    whole = rotated()
    bounds = [30 + (len(whole) - 30) * part // parts for part in range(1, parts)]
    cuts = list(zip([0, *bounds], [*bounds, len(whole)], strict=True))
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one = judged(tmp_path / "one", whole)
    many = judged(tmp_path / "many", *(whole[begin:end] for begin, end in cuts))
    assert (of_one(one), many) == ((1, True), one)


def test_a_file_that_is_missing_in_between_is_no_silence(tmp_path: Path) -> None:
    whole = rotated()
    assert of_one(judged(tmp_path, whole[:34], whole[50:])) == (4, False)


def test_captures_of_other_connections_are_not_the_end_of_the_first(tmp_path: Path) -> None:
    other = packets(said("CONNECT 10.0.7.1:50000 10.0.7.2:11210\n" + PLAIN + "WAIT 3600\n" + NOOP % 1))
    later = [each._replace(ts_ns=(each.ts_ns or 0) + 60_000_000_000) for each in other]
    assert of_one(judged(tmp_path, packets(said(ASKING)), later)) == (0, False)


def test_captures_of_the_same_time_are_not_the_end_of_one_another(tmp_path: Path) -> None:
    whole = rotated()
    assert of_one(judged(tmp_path, whole[::2], whole[1::2]))[1] is False


SILENT = opening(controls="set_noop_interval=20") + "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x6}\n"
SILENT += items(1, 3) + "CONNECT 10.9.0.1:50000 10.9.0.2:11210\n" + PLAIN + "".join(NOOP % at for at in range(1, 13))
SAID = {
    "check": "DCP513",
    "sql 'from findings'": "DCP513",
    "streams": "noops-missing",
    "sql 'from streams'": "noops-missing",
    "diagnose": "noops-missing",
}


def save_silent(folder: Path) -> None:
    """Write a rotated capture of a producer that sends no NOOP, and of another that sends them until the end."""
    whole = packets(said(SILENT))
    for number, some in enumerate((whole[:34], whole[34:50], whole[50:])):
        saved(some, folder / f"n_{number}.pcap")


@pytest.mark.parametrize(("command", "code"), SAID.items())
def test_every_command_says_the_same_of_a_rotated_capture(command: str, code: str, tmp_path: Path) -> None:
    save_silent(tmp_path)
    assert f'"{code}"' in run(f"dcpdump {command} {tmp_path} -q -f ndjson").out
