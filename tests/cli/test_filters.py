"""Filters: each option chooses exactly the frames that it promises, by their numbers; ``--frame`` chooses numbers."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.filter import FilterError, parse_instant
from tests.bench.captures import capture
from tests.support.console import run
from tests.support.diagnoses import objects

CLIENT = "samples/client-rollback.pcap"
REPLICA = "samples/replica.pcap"


def frames(arguments: str) -> list[int]:
    """Return the numbers of the frames that a ``read`` shows."""
    return [row["frame"] for row in objects(f"dcpdump read {arguments}")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (f"{REPLICA} --opcode mutation", [18, 19, 25, 26]),
        (f"{REPLICA} --opcode DCP_MUTATION,deletion", [18, 19, 20, 25, 26]),
        (f"{REPLICA} --opcode 0x57", [18, 19, 25, 26]),
        (f"{REPLICA} --opcode Stream-Req", [15, 16]),
        (f"{REPLICA} --opcode mutation --opcode deletion", [18, 19, 20, 25, 26]),
        (f"{REPLICA} --opcode mutation,deletion --opcode '!deletion'", [18, 19, 25, 26]),
        (f"{REPLICA} --opcode '!mutation,noop,control' -c 3", [1, 2, 3]),
        (f"{REPLICA} --opcode '!mutation,noop,control' --vbucket 528", [15, 16, 17, 20, 24, 27]),
        (f"{REPLICA} --vbucket 500-600 --kind response", [16]),
        (f"{REPLICA} --vbucket 528 --opcode noop", []),
        (f"{REPLICA} --vbucket 1-3,528 --seqno 5-", [15, 24, 25, 26]),
        (f"{REPLICA} --seqno 4", [15, 17, 20]),
        (f"{REPLICA} --opcode mutation,deletion --seqno 4-5", [20, 25]),
        (REPLICA, [*range(1, 28)]),
        (f"{REPLICA} --seqno -1 --opcode mutation", [18]),
        (f"{REPLICA} --seqno 2,6 --opcode mutation", [19, 26]),
        (f"{REPLICA} --kind response --opcode control", [10, 12, 14]),
        (f"{REPLICA} --kind '!request' --opcode control", [10, 12, 14]),
        (f"{CLIENT} --status rollback", [16]),
        (f"{CLIENT} --status 0x23", [16]),
        (f"{CLIENT} --status '!success'", [16]),
        (f"{CLIENT} --key 'cart::*'", [21, 22]),
        (f"{CLIENT} --key '/::1$/'", [21]),
        (f"{CLIENT} --key '!cart::*' --opcode mutation,system_event", [20]),
        (f"{CLIENT} --key 'cart::1' --key '/::0$/'", [21, 22]),
        (f"{CLIENT} --key 'cart::*' --key '!*::0'", [21]),
        (f"{CLIENT} --collection 0x8", [20, 21, 22]),
        (f"{CLIENT} --collection 8,9 --opcode expiration", [22]),
        (f"{CLIENT} --opaque 0x0c --kind response", [16, 18]),
        (f"{CLIENT} --stream-id 3", [15, 17, 19, 20, 21, 22, 23, 24]),
        (f"{CLIENT} --connection 0 -c 2", [1, 2]),
        (f"{CLIENT} --connection 1", []),
        (f"{CLIENT} --host 10.0.0.1 -c 1", [1]),
        (f"{CLIENT} --host 10.0.0.2", []),
        (f"{CLIENT} --host '!10.0.0.1'", []),
        (f"{CLIENT} --host 10.0.0.0/28 -c 1", [1]),
        (f"{CLIENT} --host 10.0.1.0/24", []),
        (f"{CLIENT} --host 10.0.0.2 --host 10.0.0.1 -c 1", [1]),
        (f"{CLIENT} --port 11210 -c 1", [1]),
        (f"{CLIENT} --port 11209", []),
        (f"{CLIENT} --latency '>=500us' --status rollback", [16]),
        (f"{CLIENT} --latency '>0.5ms'", []),
        (f"{CLIENT} --latency '<= 0.000500s' --opcode stream_req", [16, 18]),
        (f"{CLIENT} --latency '>499.9us' --latency '<0.0006s' --status '!success'", [16]),
        (f"{CLIENT} --latency '>499us' --latency '<500us'", []),
        (f"{CLIENT} --latency '<1s' --kind request", []),
        (f"{CLIENT} --since +10ms", [24, 25]),
        (f"{CLIENT} --until +1ms", [1]),
        (f"{CLIENT} --since 2025-11-20T12:02:11.010500Z", [25]),
        (f"{CLIENT} --since 2025-11-20T13:02:11.0105+01:00", [25]),
        (f"{CLIENT} --since 2025-11-20T12:02:11,010500Z", [25]),
        (f"{CLIENT} --problems", []),
        ("samples/damage.pcap --problems", [14, 17]),
    ],
)
def test_a_filter_shows_the_frames_it_promises(arguments: str, expected: list[int]) -> None:
    assert frames(arguments) == expected


@pytest.mark.parametrize(
    ("option", "error"),
    [
        *(("--opcode {}", "unknown opcode "), ("--status {}", "unknown status "), ("--vbucket {}", "--vbucket: ")),
        *(("--latency '>{}s'", "--latency: "), ("--since +{}s", "--since: ")),
        *(("--memory {}", "Invalid value for '--memory': "), (f"--key '/{5_000 * '('}/'", "--key: ")),
    ],
)
def test_what_is_longer_than_python_reads_is_a_wrong_value(option: str, error: str) -> None:
    printed = run(f"dcpdump read {REPLICA} {option.format(5_000 * '9')}")
    assert (printed.code, printed.err.startswith(f"dcpdump: error: {error}")) == (2, True)


def test_any_number_of_differences_may_be_asked_for() -> None:
    two = f"diff {REPLICA} {CLIENT} -q"
    assert run(f"dcpdump {two} --frames {1 << 80}") == run(f"dcpdump {two} --frames 10000")


@pytest.mark.parametrize(
    ("start", "text", "at"),
    [
        ("2026-11-20T12:02:11.0075Z", "12:02:16.996", "2026-11-20T12:02:16.996Z"),
        ("2026-11-20T12:02:11.0075Z", "12:02:11.007", "2026-11-20T12:02:11.007Z"),  # printed, the start is cut
        ("2026-11-20T12:02:11Z", "12:00", "2026-11-20T12:00:00Z"),
        ("2026-11-20T23:50:00Z", "00:10", "2026-11-21T00:10:00Z"),
        ("2026-11-21T00:10:00Z", "23:50:30", "2026-11-20T23:50:30Z"),
    ],
)
def test_a_time_of_day_is_on_the_day_nearest_to_the_start(start: str, text: str, at: str) -> None:
    start_ns = parse_instant("--since", start).ns
    assert parse_instant("--since", text).at(start_ns) == parse_instant("--since", at).ns


@pytest.mark.parametrize("text", ["24:00", "12:60", "12:02:60", "12", "12:2:1"])
def test_what_is_not_a_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse_instant("--since", text)


def test_times_as_tables_print_them_can_be_given_back() -> None:
    command = "dcpdump read samples/stopped.pcap"
    printed = re.findall(r"\d\d:\d\d:\d\d\.\d\d\d", run("dcpdump streams samples/stopped.pcap -q").out)
    assert len(printed) == 4
    for time in printed:
        first, last = objects(f"{command} --since {time}")[0], objects(f"{command} --until {time}")[-1]
        assert (f"T{time}" in first["time"], f"T{time}" in last["time"]) == (True, True)
        assert last["frame"] - first["frame"] < 3


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """Return a capture of several blocks, and its frames as lines of ndjson."""
    path = str(capture(tmp_path_factory.mktemp("numbers"), "wire", 4000, 64))
    return path, run(f"dcpdump read {path} -f ndjson -q").out.splitlines()


def test_the_frames_are_those_of_all(traffic: tuple[str, list[str]]) -> None:
    path, lines = traffic
    found = run(f"dcpdump read {path} -f ndjson -q --frame 2,7-9,3000,3500-3502")
    assert found.out.splitlines() == [lines[number - 1] for number in (2, 7, 8, 9, 3000, 3500, 3501, 3502)]
    assert found.code == 0


@settings(max_examples=10)
@given(numbers=st.lists(st.integers(1, 4000), min_size=1, max_size=6), negated=st.booleans())
def test_any_numbers_are_found(traffic: tuple[str, list[str]], numbers: list[int], negated: bool) -> None:
    path, lines = traffic
    text = ",".join(map(str, numbers))
    found = run(f"dcpdump read {path} -f ndjson -q --frame {'!' if negated else ''}{text}").out.splitlines()
    assert found == [line for number, line in enumerate(lines, 1) if (number in numbers) is not negated]


@pytest.mark.parametrize("form", ["table", "grid", "line", "csv"])
@pytest.mark.parametrize("name", ["client-rollback", "damage", "durable"])
def test_every_format_prints_them_as_among_all(name: str, form: str) -> None:
    """They are asked for one alone, then two, then three…"""
    command = f"dcpdump read samples/{name}.pcap -f {form} -q"
    whole = run(command).out
    header = whole.partition("\n")[0] + "\n" if form == "csv" else ""
    count, first, pieces = len(objects(f"dcpdump read samples/{name}.pcap")), 1, [header]
    for size in itertools.count(1):
        pieces.append(run(f"{command} --frame {first}-{min(first + size - 1, count)}").out.removeprefix(header))
        first += size
        if first > count:
            break
    assert "".join(pieces) == whole == run(f"{command} --frame 1-{count}").out


def test_several_captures_have_one_numbering() -> None:
    every = objects("dcpdump read samples")
    assert objects(f"dcpdump read samples --frame 1,40,{len(every)}") == [every[0], every[39], every[-1]]


@pytest.mark.parametrize(
    ("clause", "wanted"), [("--opcode stream_req", [16, 17]), ("--kind response", [16]), ("--problems", [])]
)
def test_other_filters_hold_as_well(clause: str, wanted: list[int]) -> None:
    assert [row["frame"] for row in objects(f"dcpdump read {CLIENT} {clause} --frame 16-17")] == wanted


def test_nothing_is_read_behind_the_last_one(traffic: tuple[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(Path(traffic[0]).read_bytes() + b"damage" * 10)
    assert [run(f"dcpdump read {path} -f line -q --frame {numbers}").code for numbers in ("5", "5-")] == [0, 4]


def test_a_number_behind_the_last_frame_is_refused() -> None:
    found = run(f"dcpdump read {CLIENT} -f line -q --frame 3,48-60")
    error = "dcpdump: error: --frame: there is no frame 48: the capture has 25 frames\n"
    assert (found.code, found.out[:3], found.err) == (2, "#3 ", error)
    assert run(f"dcpdump read {CLIENT} -f line -q --frame 20-60").code == 0


def test_carve_takes_them_too(tmp_path: Path) -> None:
    piece = tmp_path / "piece.pcapng"
    assert run(f"dcpdump carve {CLIENT} --frame 24 -w {piece} -q").code == 0
    (wanted,) = objects(f"dcpdump read {CLIENT} --frame 24")
    assert wanted["opaque"] in [
        row["opaque"] for row in objects(f"dcpdump read {piece}") if row["name"] == wanted["name"]
    ]
