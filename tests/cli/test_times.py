"""Times: asked for as printed; in a zone; with dates beyond midnight; and ``--until``: as if the capture ended then."""

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dcpdump.clock import UTC, Clock, TimeKind, Zone, zone_of
from dcpdump.filter import parse_instant
from dcpdump.net.packet import Packet
from tests.support.check_cases import items
from tests.support.console import run
from tests.support.conversation import opening, said
from tests.support.conversation import packets as packed
from tests.support.diagnoses import objects, written
from tests.support.packets import NOON, SECOND, TcpTalk, flow
from tests.support.secret_talk import saved

STOPPED = "samples/stopped.pcap"


def numbers(options: str) -> list[int]:
    """Return the numbers of the frames of a sample that are chosen."""
    return [
        int(number) for number in re.findall(r"(?m)^#(\d+) ", run(f"dcpdump read {STOPPED} -f line -q {options}").out)
    ]


@pytest.mark.parametrize(
    "window",
    [
        "--since 12:07:11.008 --until 12:07:11.008",
        "--since 12:07:11.008Z --until 12:07:11.008Z",
        "--since 14:07:11.008+02:00 --until 07:07:11.008-0500",
        "--since 2025-11-20T12:07:11.008 --until 2025-11-20T12:07:11.008",
        "--since 2025-11-20T14:07:11.008+02:00 --until 2025-11-20T12:07:11.008Z",
        "--tz Europe/Berlin --since 13:07:11.008 --until 13:07:11.008",
        "--tz Europe/Berlin --since 2025-11-20T13:07:11.008 --until 12:07:11.008Z",
        "--tz +05:30 --since 17:37:11.008 --until 17:37:11.008",
    ],
)
def test_a_time_as_it_is_printed_chooses_what_was_printed_with_it(window: str) -> None:
    assert numbers(window) == [18, 19, 20]


@pytest.mark.parametrize("kind", ["a", "r"])
@pytest.mark.parametrize("zone", ["utc", "local", "America/St_Johns"])
def test_each_time_that_read_prints_chooses_its_frame(kind: str, zone: str) -> None:
    for line in run(f"dcpdump read {STOPPED} -f line -q -t {kind} --tz {zone}").out.splitlines()[::3]:
        number, when = line.split()[:2]
        assert int(number[1:]) in numbers(f"--since {when} --until {when}")


def test_times_of_frames_in_a_zone_from_the_start_and_from_the_frame_above() -> None:
    def times(options: str, form: str = "line") -> list[str]:
        printed = run(f"dcpdump read {STOPPED} -f {form} -q --opcode stream_req {options}").out
        return [line.split()[1] for line in printed.splitlines() if line.startswith("#")]

    assert times("-c 2") == ["2025-11-20T12:07:11.006750Z", "2025-11-20T12:07:11.007250Z"]
    assert times("-c 2 --tz Europe/Berlin") == ["2025-11-20T13:07:11.006750+01:00", "2025-11-20T13:07:11.007250+01:00"]
    assert times("-c 3 -t r") == ["+0.006750", "+0.007250", "+0.008250"]
    assert times("-c 3 -t d") == ["0.000000", "0.000500", "0.001000"]
    assert times("-c 3 -t d", "table") == times("-c 3 -t d", "grid") == times("-c 3 -t d")


def test_many_frames_have_the_same_times_however_they_are_chosen() -> None:
    def times(options: str) -> list[str]:
        printed = run(f"dcpdump read samples/replica.pcap -f line -q -t d {options}").out
        return [line.split()[1] for line in printed.splitlines()]

    assert times("") == times("--vbucket 0-65535") == times("-j 2")


#: A command, and a capture in which it prints times.
TIMED = [
    ("streams", STOPPED),
    ("conns", "samples/silent.pcap"),
    ("rollbacks", "samples/client-rollback.pcap"),
    ("flow", "samples/slow-consumer.pcap"),
    ("check", "samples/silent.pcap"),
    ("diagnose", STOPPED),
    ("key '*'", STOPPED),
    ("stats", STOPPED),
    ("top --once", STOPPED),
]


@pytest.mark.parametrize(("command", "capture"), TIMED)
def test_every_command_counts_times_from_the_start(command: str, capture: str) -> None:
    printed = run(f"dcpdump {command} {capture} -q -t r")
    extent = "2025-11-20 12:07:11.000 to 12:10:11.017 UTC" if command == "diagnose" else ""
    assert printed.err == run(f"dcpdump {command} {capture} -q").err
    assert not re.search(r"\d\d:\d\d:\d\d", printed.out.replace(extent, ""))
    assert re.search(r"\+\d+\.\d{6}", printed.out)
    if command != "key '*'":  # times that are in no order are never counted from another
        assert run(f"dcpdump {command} {capture} -q -t d").out.replace("--time d", "--time r") == printed.out


def test_times_of_rows_in_order_are_counted_from_the_row_above(tmp_path: Path) -> None:
    def times(command: str, row: str) -> list[str]:
        return re.findall(rf"(?m)^{row}", run(f"dcpdump {command} -q -t d").out)

    of_frames = times(f"read {STOPPED} -f line --opcode mutation", r"#\d+ (\S+)")
    assert of_frames[:4] == ["0.000000", "0.000000", "0.001500", "0.000000"]
    assert times(f"key '*' {STOPPED}", r".* 0x\w{16}  (\S+)") == of_frames
    assert times("check --all samples/damage.pcap", r".* #\d+ (\S+)") == ["0.000000", "0.001500"]
    run(f"dcpdump carve {STOPPED} --frame 1-37,39-40 -w {tmp_path}/part.pcapng")
    of_frames = times(f"read {STOPPED} -f line --frame 38,41-44", r"#\d+ (\S+)")
    assert times(f"diff {STOPPED} {tmp_path}/part.pcapng", r"A +\d+  (\S+)") == of_frames


def test_diagnose_carries_the_kind_of_times_into_the_commands_that_show_more() -> None:
    printed = run(f"dcpdump diagnose {STOPPED} -q -t r").out
    (command,) = (line.strip() for line in printed.splitlines() if "dcpdump streams" in line)
    assert command == f"dcpdump streams {STOPPED} --connection 0 --stuck --cause abandoned --time r"
    assert "Slow (4) at +60.011250" in run(command).out


@pytest.mark.parametrize(
    "command",
    [*("streams", "conns", "rollbacks", "flow", "check", "diagnose", "key a", "stats", "top"), "read", "read -f csv"],
)
def test_what_programs_get_is_the_same_in_every_zone(command: str) -> None:
    command = f"dcpdump {command} {STOPPED} -q" + " -f ndjson" * ("csv" not in command)
    plain, other = run(command), run(f"{command} --tz Asia/Tokyo")
    assert (other.code, other.out.replace(" --tz Asia/Tokyo", "")) == (plain.code, plain.out)


@pytest.mark.parametrize(
    "command", ["streams", "stats", "top", "diagnose", "conns", "rollbacks", "key '*'", "check --all"]
)
def test_every_command_writes_times_in_the_zone(command: str) -> None:
    name = {"rollbacks": "client-rollback", "streams": "stopped"}.get(command, "silent")
    plain, shown = (run(f"dcpdump {command} samples/{name}.pcap -q {zone}").out for zone in ("", "--tz Asia/Tokyo"))
    assert re.search(r"12:\d\d:\d\d", plain)
    assert re.search(r"21:\d\d:\d\d", shown)
    assert not re.search(r"12:\d\d:\d\d", shown)


@pytest.mark.parametrize(("hours", "dates"), [(11, set()), (13, {"2025-11-20", "2025-11-21"})])
def test_dates_are_printed_where_a_capture_lasts_beyond_midnight(tmp_path: Path, hours: int, dates: set[str]) -> None:
    text = "".join(f"STREAM vb={vb}\nRX stream-end{{status=2}}\nWAIT {hours * 3600}\n" for vb in (0, 1))
    name = written(opening() + text, tmp_path / "long.pcap")
    printed = run(f"dcpdump streams {name} -q").out
    assert set(re.findall(r"(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d\.\d{3}", printed)) == dates
    for when in re.findall(r"\S*\d\d:\d\d:\d\d\.\d{3}", printed):
        assert run(f"dcpdump streams {name} -q --since {when}").code == 0
    # Programs read UTC in every zone. In one where no midnight passes, there is no date.
    verdicts = " ".join(row["verdict"] for row in objects(f"dcpdump streams {name} --tz -03:00"))
    assert set(re.findall(r"(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d\.\d{3}", verdicts)) == dates
    assert "2025" not in run(f"dcpdump streams {name} -q --tz -03:00").out


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("new york", "did you mean America/New_York?"),
        ("+25:00", "--tz local, --tz utc, --tz +02:00, or --tz Europe/Berlin"),
        ("?", "--tz local, --tz utc, --tz +02:00, or --tz Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_an_error_with_the_nearest_ones(name: str, hint: str) -> None:
    error = f"dcpdump: error: --tz: {name!r} is not a time zone that this machine knows\nhint: {hint}"
    refused = run(f"dcpdump streams {STOPPED} --tz {shlex.quote(name)}")
    assert (refused.code, refused.err.startswith(error)) == (2, True)


def test_the_zone_of_this_machine_changes_its_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        local, named = zone_of("local"), zone_of("europe/berlin")
        for text in ("2025-01-20T12:00:00Z", "2025-07-20T12:00:00Z", "2025-10-26T00:30:00Z", "2025-10-26T02:30:00Z"):
            ns = parse_instant("--since", text).ns
            assert local.shown(ns) == named.shown(ns)
            assert named.suffix(ns) == ("+01:00" if local.offset_ns(ns) == 3_600_000_000_000 else "+02:00")
            assert abs(named.instant(named.shown(ns)) - ns) in (0, 3_600_000_000_000)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", [UTC, zone_of("-03:30"), zone_of("local")])
def test_a_time_that_no_calendar_has_is_a_number(zone: Zone) -> None:
    assert Clock(TimeKind.ABSOLUTE, zone).row(1 << 80).endswith(" ns after 1970")


def test_times_go_back_with_the_clock_and_count_from_the_first_start_that_is_known() -> None:
    since, from_start = Clock(TimeKind.DELTA), Clock(TimeKind.RELATIVE)
    assert [since.row(ns) for ns in (5_000_000, 3_500_000, 3_500_001)] == ["0.000000", "-0.001500", "0.000000001"]
    for start in (None, 5_000_000, 9_000_000):
        from_start.begin(start)
    assert [from_start.row(ns) for ns in (5_000_000, 3_500_000)] == ["+0.000000", "-0.001500"]


DOCUMENTS = "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
NOOP = "WAIT 19\nRX noop{opaque=0x81969801}\nTX noop-response{success}\n"
COMMANDS = ("diagnose", "streams", "check --all", "conns", "rollbacks", "flow", "key 'k*'")


def losing() -> list[Packet]:
    """Return a conversation with an answer that was acknowledged and not captured, a silence, and NOOPs."""
    talk = TcpTalk(flow(), start_ns=NOON)
    for each in said(opening() + DOCUMENTS):
        talk.send(each.direction, each.data)
    asked = said(opening() + "TX stream-request{vb=7}\nRX stream-request-response{success}\n")[-2:]
    talk.send(0, asked[0].data)
    talk.skip(1, len(asked[1].data))
    talk.write(0)
    for pause in (40, 20):
        talk.wait(pause * SECOND)
        for each in said(NOOP):
            talk.send(each.direction, each.data)
    return talk.packets


def joined() -> list[Packet]:
    """Return a connection, and 30 s later another one."""
    first = opening(name="first") + DOCUMENTS
    return packed(said(first + "WAIT 30\nCONNECT\n" + opening(name="second") + NOOP))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("made", [losing, joined])
def test_until_prints_what_a_capture_that_ended_then_prints(
    command: str, made: Callable[[], list[Packet]], tmp_path: Path
) -> None:
    path, packets = tmp_path / "a.pcap", made()
    for count in (3, len(packets) // 2, len(packets) - 8, len(packets) - 4, len(packets) - 1):
        end_ns = packets[count].ts_ns or 0
        until = f" --until +{(end_ns - (packets[0].ts_ns or 0)) / 1e9:.9f}s"
        whole = run(f"dcpdump {command} {saved(packets, path)} -f ndjson{until}")
        saved([each for each in packets if (each.ts_ns or 0) <= end_ns], path)
        cut = run(f"dcpdump {command} {path} -f ndjson")
        assert whole._replace(out=whole.out.replace(until, "")) == cut


def test_an_answer_that_was_lost_before_until_is_not_called_missing(tmp_path: Path) -> None:
    found = run(f"dcpdump streams {saved(losing(), tmp_path / 'a.pcap')} --until +20s --vbucket 7")
    assert "no answer to its request was captured" in found.out


def test_packets_are_left_out_by_their_own_time_where_the_clock_goes_back(tmp_path: Path) -> None:
    packets = joined()
    late = [each._replace(ts_ns=(each.ts_ns or 0) - 60 * SECOND) for each in packets[-4:]]
    packets = [*packets[:-4], *late]
    saved(packets, tmp_path / "a.pcap")
    saved([each for each in packets if (each.ts_ns or 0) < NOON + 10 * SECOND], tmp_path / "b.pcap")
    until, cut = (run(f"dcpdump conns {tmp_path}/{name}") for name in ("a.pcap --until +10s", "b.pcap"))
    assert (until.code, until.out, until.err.splitlines()[-1]) == (cut.code, cut.out, cut.err.splitlines()[-1])
    assert [printed.err.count("the clock goes back") for printed in (until, cut)] == [1, 1]


def test_it_is_said_where_all_packets_are_later(tmp_path: Path) -> None:
    found = run(f"dcpdump streams {saved(joined(), tmp_path / 'a.pcap')} --until 2020-01-01")
    assert (found.code, found.out) == (3, "")
    assert found.err.splitlines()[0] == "dcpdump: note: all packets are later than --until"
