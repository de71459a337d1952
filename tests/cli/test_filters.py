"""Filters: each option chooses exactly the frames that it promises, by their numbers; ``--context`` what is around."""

import itertools
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.capture.file import Capture
from dcpdump.cli import frame_output
from dcpdump.filter import FilterError, parse_instant
from dcpdump.wire.encode import encode
from tests.bench.captures import capture
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import NOON, TcpTalk, flow, renumbered
from tests.support.secret_talk import saved
from tests.tls.twins import seal

CLIENT = "samples/client-rollback.pcap"
REPLICA = "samples/replica.pcap"


AND_DELETIONS, BUT_DELETIONS = "mutation --opcode deletion", "mutation,deletion --opcode '!deletion'"


def frames(arguments: str) -> list[int]:
    """Return the numbers of the frames that a ``read`` shows."""
    return [row["frame"] for row in objects(f"dcpdump read {arguments}")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        *((f"{REPLICA} --opcode {one}", [18, 19, 25, 26]) for one in ("mutation", "0x57", BUT_DELETIONS)),
        *((f"{REPLICA} --opcode {one}", [18, 19, 20, 25, 26]) for one in ("DCP_MUTATION,deletion", AND_DELETIONS)),
        (f"{REPLICA} --opcode Stream-Req", [15, 16]),
        (f"{REPLICA} --opcode '!mutation,noop,control' -c 3", [1, 2, 3]),
        (f"{REPLICA} --opcode '!mutation,noop,control' --vbucket 528", [15, 16, 17, 20, 24, 27]),
        (f"{REPLICA} --vbucket 500-600 --kind response", [16]),
        (f"{REPLICA} --vbucket 1-3,528 --seqno 5-", [15, 24, 25, 26]),
        *((f"{REPLICA} --seqno 4", [15, 17, 20]), (f"{REPLICA} --vbucket 528 --opcode noop", [])),
        (f"{REPLICA} --opcode mutation,deletion --seqno 4-5", [20, 25]),
        (REPLICA, [*range(1, 28)]),
        *((f"{REPLICA} --opcode mutation --seqno {few}", found) for few, found in (("-1", [18]), ("2,6", [19, 26]))),
        *((f"{REPLICA} --opcode control --kind {kind}", [10, 12, 14]) for kind in ("response", "'!request'")),
        *((f"{CLIENT} --status {one}", [16]) for one in ("rollback", "0x23", "'!success'")),
        *((f"{CLIENT} --key {keys}", [21, 22]) for keys in ("'cart::*'", "'cart::1' --key '/::0$/'")),
        *((f"{CLIENT} --key {keys}", [21]) for keys in ("'/::1$/'", "'cart::*' --key '!*::0'")),
        (f"{CLIENT} --key '!cart::*' --opcode mutation,system_event", [20]),
        (f"{CLIENT} --collection 0x8", [20, 21, 22]),
        (f"{CLIENT} --collection 8,9 --opcode expiration", [22]),
        (f"{CLIENT} --opaque 0x0c --kind response", [16, 18]),
        (f"{CLIENT} --stream-id 3", [15, 17, 19, 20, 21, 22, 23, 24]),
        (f"{CLIENT} --connection 0 -c 2", [1, 2]),
        *((f"{CLIENT} --host {host} -c 1", [1]) for host in ("10.0.0.1", "10.0.0.0/28", "10.0.0.2 --host 10.0.0.1")),
        (f"{CLIENT} --port 11210 -c 1", [1]),
        *(
            (f"{CLIENT} --latency {bound} --status '!success'", [16])
            for bound in ("'>=500us'", "'>499us' --latency '<0.0006s'")
        ),
        (f"{CLIENT} --latency '<= 0.000500s' --opcode stream_req", [16, 18]),
        (f"{CLIENT} --since +10ms", [24, 25]),
        (f"{CLIENT} --until +1ms", [1]),
        *(
            (f"{CLIENT} --since 2025-11-20T{at}", [25])
            for at in ("12:02:11.010500Z", "13:02:11.0105+01:00", "12:02:11,010500Z")
        ),
        *((f"{CLIENT} {none}", []) for none in ("--connection 1", "--port 11209", "--problems", "--latency '>0.5ms'")),
        *((f"{CLIENT} --host {none}", []) for none in ("10.0.0.2", "'!10.0.0.1'", "10.0.1.0/24")),
        *((f"{CLIENT} --latency {none}", []) for none in ("'>499us' --latency '<500us'", "'<1s' --kind request")),
        ("samples/damage.pcap --problems", [14, 17]),
        (f"{CLIENT} --opcode stream_req --frame 16-17", [16, 17]),
        *((f"{CLIENT} {one} --frame 16-17", found) for one, found in (("--kind response", [16]), ("--problems", []))),
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
    """They are requested one alone, then two, then three…"""
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


def test_nothing_is_read_behind_the_last_one(traffic: tuple[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(Path(traffic[0]).read_bytes() + b"damage" * 10)
    assert [run(f"dcpdump read {path} -f line -q --frame {numbers}").code for numbers in ("5", "5-")] == [0, 4]


def test_a_number_behind_the_last_frame_is_refused() -> None:
    found = run(f"dcpdump read {CLIENT} -f line -q --frame 3,48-60")
    error = "dcpdump: error: --frame: there is no frame 48: the capture has 25 frames\n"
    assert (found.code, found.out[:3], found.err) == (2, "#3 ", error)
    assert run(f"dcpdump read {CLIENT} -f line -q --frame 20-60").code == 0


STOPPED = "samples/stopped.pcap"


def crowd(path: Path, seed: int, connections: int = 5, frames: int = 80) -> Path:
    """Save a capture of connections whose frames alternate at random, some of them in one packet."""
    dice = random.Random(seed)
    talks = [TcpTalk(flow(f"10.0.0.1:{50_000 + at}"), number=at, start_ns=NOON + at) for at in range(connections)]
    packets = []
    for talk in talks:
        talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    for _ in range(frames):
        talk = dice.choice(talks)
        opcode = dice.choices(("DCP_NOOP", "DCP_STREAM_REQ"), (9, 1), k=dice.randint(1, 3))
        talk.send(0, b"".join(encode(name, {"end_seqno": 9} if "REQ" in name else {}) for name in opcode))
        packets += talk.packets
        talk.packets.clear()
    return saved(renumbered(packets), path)


def expected(rows: list[dict[str, object]], around: int) -> list[tuple[object, bool]]:
    """Return the numbers of the frames to be shown, and whether each is context; the simple way."""
    out: list[tuple[object, bool]] = []
    shown: set[object] = set()
    until: dict[object, int] = {}
    for at, row in enumerate(rows):
        connection = row["connection"]
        if row["name"] == "DCP_STREAM_REQ":
            before = [each for each in rows[:at] if each["connection"] == connection][-around:]
            out += [(each["frame"], True) for each in before if each["frame"] not in shown]
            out.append((row["frame"], False))
            until[connection] = around
        elif until.get(connection, 0):
            until[connection] -= 1
            out.append((row["frame"], True))
        shown = {number for number, _ in out}
    return out


@pytest.mark.parametrize("around", [1, 2, 5, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_the_frames_of_the_connection_around_each_chosen_one_are_shown_once(
    tmp_path: Path, seed: int, around: int
) -> None:
    name = crowd(tmp_path / "crowd.pcap", seed)
    rows = objects(f"dcpdump read {name}")
    printed = objects(f"dcpdump read {name} --opcode stream_req --context {around}")
    assert [(row["frame"], row.pop("context", False)) for row in printed] == expected(rows, around)
    plain = {row["frame"]: row for row in rows}
    assert printed == [plain[row["frame"]] for row in printed]


def lines(options: str) -> list[str]:
    """Return what one line a frame begins with: the mark and the number."""
    return [
        re.sub(r" \S+Z c0.*", "", line) for line in run(f"dcpdump read {STOPPED} -f line {options}").out.splitlines()
    ]


def test_chosen_frames_are_marked_and_groups_stand_apart() -> None:
    found = lines("--opcode stream_req --kind request --context 1")
    assert found == ["  #12", "> #13", "  #14", "--", "  #17", "> #18", "  #19", "--", "  #22", "> #23", "  #24"]
    assert lines("--opcode stream_end,noop --until +70s --context 1") == ["  #27", "> #28", "  #29"]
    assert lines("--opcode stream_end --vbucket 9 --context 1") == []


@pytest.mark.parametrize("form", ["table", "grid"])
def test_the_line_above_a_table_is_marked(form: str) -> None:
    printed = run(f"dcpdump read {STOPPED} --opcode stream_end --context 1 -q -f {form}").out.splitlines()
    assert [line[:5] for line in printed if "connection 0" in line] == ["  #27", "> #28", "  #29"]


def test_the_count_is_of_chosen_frames_and_their_context_is_whole() -> None:
    options = "--opcode stream_req --kind request -c 2 --context 1"
    assert lines(options) == ["  #12", "> #13", "  #14", "--", "  #17", "> #18", "  #19"]
    assert run(f"dcpdump read {STOPPED} {options}").err.startswith("6 of ")


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = crowd(tmp_path / "crowd.pcap", 1, connections=40)

    def chosen() -> list[str]:
        printed = run(f"dcpdump read {name} -q -f line --opcode stream_req --context 50").out
        return [line for line in printed.splitlines() if line[0] == ">"]

    whole = chosen()
    monkeypatch.setattr(frame_output, "_CONNECTIONS", 3)
    monkeypatch.setattr(frame_output, "_BYTES", 10_000)
    assert chosen() == whole


def test_names_of_collections_that_are_not_known_are_noted_as_without_context() -> None:
    plain, around = (run(f"dcpdump read {STOPPED} --collection shop.nope {more}").err for more in ("", "--context 1"))
    assert around == plain
    assert "the name 'shop.nope' is not known in this capture" in plain


def test_redaction_reaches_the_summary(tmp_path: Path) -> None:
    capture, salt = tmp_path / "tls.pcap", tmp_path / "salt"
    capture.write_bytes(seal(Capture("samples/replica.pcap")).pcap)
    salt.write_bytes(bytes(32))
    command = (
        f"dcpdump read {STOPPED} {capture} --redact --redact-level full --salt-file {salt} --summary json --frame 1"
    )
    summaries = (json.loads(run(f"{command} {more}").err.splitlines()[-1]) for more in ("", "--context 1"))
    plain, around = (summary["tls"][0]["server_name"] for summary in summaries)
    assert around == plain != "cb.example"
