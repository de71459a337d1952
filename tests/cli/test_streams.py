"""dcpdump streams, conns, rollbacks, flow, key: what they print, which of it, in which order, and the lag."""

import re
from pathlib import Path
from typing import Any

import pytest

from dcpdump.streams.causes import Cause, Reason, Situation, Verdict, VerdictKind
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

STOPPED = "samples/stopped.pcap"


def test_a_stream_that_ended_has_its_status() -> None:
    (stream,) = objects("dcpdump streams samples/replica.pcap")
    assert (stream["end_status"], stream["end_status_name"]) == (2, "StateChanged")


@pytest.mark.parametrize(
    ("options", "vbuckets"),
    [
        ("", [417, 12, 13]),
        ("--stuck", [417]),
        ("--ended", [417]),
        ("--rolled-back", []),
        ("--cause abandoned", [417]),
        ("--cause idle,flowing", [12, 13]),
        ("--cause idle --stuck", []),
        ("--vbucket 0-20", [12, 13]),
        ("--vbucket '!12'", [417, 13]),
        ("--connection 0", [417, 12, 13]),
        ("--connection 1", []),
        ("--host 10.0.5.9", [417, 12, 13]),
        ("--host 10.0.0.8", []),
        ("--port 11210", [417, 12, 13]),
        ("--stream-id 1", []),
        ("--since +70s", [13]),
        ("--until +30s", [417, 12, 13]),
    ],
)
def test_filters_choose_streams(options: str, vbuckets: list[int]) -> None:
    assert [row["vbucket"] for row in objects(f"dcpdump streams samples/stopped.pcap {options}")] == vbuckets


@pytest.mark.parametrize(
    "options", ["--until +30s --idle 40", "--vbucket 12,13 --idle 3600", "--vbucket 12 --idle inf"]
)
def test_until_and_idle_say_how_long_silence_lasts_and_has_to_last(options: str) -> None:
    found = objects(f"dcpdump streams samples/stopped.pcap {options}")
    assert {row["state"] for row in found} == {"open and flowing"}


def test_several_captures_are_one_timeline() -> None:
    found = objects("dcpdump streams samples/takeover.pcap samples/durable.pcap")
    assert sorted((row["vbucket"], row["state"]) for row in found) == [(5, "ended"), (77, "taken over")]


@pytest.mark.parametrize("command", ["streams", "conns", "rollbacks", "flow", "key 'cart*'", "top"])
def test_redaction_hides_names_in_every_command(command: str) -> None:
    for form in ("text", "ndjson"):
        printed = run(f"dcpdump {command} samples/client-rollback.pcap -q -f {form} --redact-level full").out
        assert printed
        for secret in ("kafka", "shop", "cart", "10.0.0.9"):
            assert secret not in printed.replace("'cart*'", ""), form


@pytest.mark.parametrize("command", ["conns", "streams", "flow", "read", "stats", "check", "top --once"])
def test_the_name_of_a_bucket_is_hidden_wherever_it_stands(command: str) -> None:
    """A replica's connection is named after it."""
    for form in ("table" if command == "read" else "text", "ndjson"):
        words = f"dcpdump {command} samples/replica.pcap -q -f {form}"
        assert "travel" not in run(f"{words} --redact").out
        assert "travel" in run(words).out or command in ("check", "stats"), "the test would not see it"


@pytest.mark.parametrize("depth", [98, 900, 990, 30_000])
def test_json_that_nests_deep_ends_no_command(tmp_path: Path, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    sent = TcpTalk().send(0, encode("HELLO", {"features": [0x0A]}, key=b'{"a":' + nested + b"}"))
    sent.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    sent.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, value=b'{"x":' + nested + b"}")).fin()
    file = saved(sent, tmp_path / "deep.pcap")
    for command in ("conns", "streams", "rollbacks", "flow", "check", "read", "key '*'", "stats"):
        for form in ("", "-f ndjson"):
            assert run(f"dcpdump {command} {file} -q {form}").code in (0, 1), command


def test_a_window_is_one_object_with_its_intervals() -> None:
    (found,) = objects("dcpdump flow samples/slow-consumer.pcap")
    assert (found["buffer"], found["outstanding"], found["blocked"], len(found["intervals"])) == (1900, 1920, True, 5)
    text = "DCP_SEQNO_ADVANCED x 60 not acknowledged"
    why = {"bytes": 1920, "kind": "DCP_SEQNO_ADVANCED", "frames": 60, "text": text, "explained": True, "fills_ms": 0}
    assert (found["mismatch"], found["over_time"][-1]["outstanding"]) == (why, 1920)


def test_a_history_over_lost_bytes_is_not_complete() -> None:
    assert objects("dcpdump key '*' samples/damage.pcap")[-1]["complete"] is False


def test_keys_are_patterns_as_in_read() -> None:
    counts = [len(objects(f"dcpdump key {key} samples/durable.pcap")) for key in ("'/account::[12]$/'", "account::1")]
    assert counts == [6, 4]


def test_a_history_without_streams_says_so() -> None:
    command = "dcpdump key 'user*' samples/history.pcap --connection 7 -q"
    assert run(command) == (0, "no connection matches: there is 1 connection in the capture\n", "")
    assert run(f"{command} -f ndjson") == (0, "", "")


@pytest.mark.parametrize(
    "command", ["streams", "conns", "rollbacks", "flow", "key '*'", "check", "top --once", "stats"]
)
def test_a_command_that_analyses_says_how_many_frames_it_read(command: str) -> None:
    closing = run(f"dcpdump {command} samples/stopped.pcap").err.splitlines()[-1]
    assert closing == "44 frames read · 71 packets · 1 connection · payload 1,925 B = 1,925 in frames"


@pytest.mark.parametrize(
    ("command", "frames"),
    [
        ("streams samples/stopped.pcap --until +5s", "27 frames read"),
        ("stats samples/stopped.pcap --vbucket 999", "0 of 44 frames counted"),
        ("stats samples/stopped.pcap --kind request", "31 of 44 frames counted"),
        ("read samples/stopped.pcap", "44 of 44 frames shown"),
    ],
)
def test_where_frames_are_chosen_the_closing_line_says_how_many(command: str, frames: str) -> None:
    assert run(f"dcpdump {command}").err.splitlines()[-1].partition(" · ")[0] == frames


def vbuckets(options: str) -> list[int]:
    """Return the vbuckets of streams in the order of the table, which objects have too."""
    printed = run(f"dcpdump streams {STOPPED} -q {options}").out.splitlines()[1:-1]
    found = [int(line.split()[2]) for line in printed]
    if "--sort" in options:
        assert [row["vbucket"] for row in objects(f"dcpdump streams {STOPPED} {options}")] == found
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--sort vb", [12, 13, 417]),
        ("--sort vbucket", [12, 13, 417]),
        ("--sort VB --reverse", [417, 13, 12]),
        ("--sort bytes", [12, 417, 13]),
        ("--sort last-seqno", [417, 12, 13]),
        ("--sort last_seqno --reverse", [13, 417, 12]),
        ("--sort asked", [417, 12, 13]),
        ("--sort sid", [417, 12, 13]),
        ("--sort verdict", [417, 13, 12]),
        ("", [417, 12, 13]),
        ("--reverse", [13, 12, 417]),
    ],
)
def test_streams_are_sorted_by_a_column(options: str, expected: list[int]) -> None:
    assert vbuckets(options) == expected


def test_streams_in_trouble_come_first_in_text_and_as_ever_for_programs() -> None:
    printed = run("dcpdump streams samples/refused.pcap -q").out.splitlines()[1:-1]
    rows = objects("dcpdump streams samples/refused.pcap")
    troubled = sorted((row["trouble"] for row in rows), reverse=True)
    assert [bool(re.search(r"refused \(Erange", line)) for line in printed] == troubled
    asked = [row["requests"][0]["frame"] for row in rows]
    assert asked == sorted(asked)


def test_the_worst_verdict_comes_first() -> None:
    loop = Verdict(VerdictKind.ROLLED_BACK, Cause.LOOP, "", Situation.LOOP, certain=True)
    ended = Verdict(VerdictKind.ENDED, Cause.ABANDONED, "", Situation.ENDED, certain=True)
    refused = Verdict(VerdictKind.REFUSED, Cause.NO_ACCESS, "", Situation.REFUSED, certain=True)
    blocked = Verdict(VerdictKind.BLOCKED, Cause.WINDOW_FULL, "", Situation.BLOCKED, certain=True)
    reset = Verdict(VerdictKind.ENDED, Cause.RESET_BY_CLIENT, "", Situation.CLOSED)
    fine = Verdict(VerdictKind.ENDED, Cause.FINISHED)
    unknown = Verdict(VerdictKind.UNKNOWN, Reason.STARTS_LATE)
    troubled = [loop, ended, refused, blocked, reset]
    found = sorted([unknown, *troubled[::-1], fine], key=lambda each: each.rank)
    assert found == [*troubled, unknown, fine]


@pytest.mark.parametrize(
    ("command", "columns", "keys"),
    [
        ("conns", "conn frames bytes streams", ["connection"]),
        ("flow", "conn client sent blocked", ["connection"]),
        ("rollbacks", "vb time start to count", ["frame"]),
        ("stats", "name frames bytes", ["name", "connection", "type"]),
    ],
)
def test_every_table_is_sorted_by_its_columns(command: str, columns: str, keys: list[str]) -> None:
    def values(options: str) -> list[str]:
        rows = objects(f"dcpdump {command} samples/rollback-loop.pcap samples/stopped.pcap {options}")
        return sorted(str([row.get(key) for key in keys]) for row in rows)

    for column in columns.split():
        for more in ("", " --reverse"):
            assert values(f"--sort {column}{more}") == values("")


def test_statistics_are_sorted_within_their_tables() -> None:
    found = objects(f"dcpdump stats {STOPPED} --sort bytes")
    for kind in ("message", "connection", "vbucket"):
        sizes = [row["bytes"] for row in found if row["type"] == kind]
        assert sizes == sorted(sizes)
        assert sizes
    names = [
        row["name"] for row in objects(f"dcpdump stats {STOPPED} --sort name --reverse") if row["type"] == "message"
    ]
    assert names == sorted(names, reverse=True)


_SEQNOS = [{"vbucket": 1, "seqno": 9}, {"vbucket": 2, "seqno": 1600}]
_ANSWER = encode("GET_ALL_VB_SEQNOS", {"seqnos": _SEQNOS}, response=True, opaque=77).hex()
#: Of vbucket 1 the client has all, of 2 some, of 3 the server says nothing, and of 4 not either, but a marker does.
TEXT = (
    opening(collections=True)
    + "".join(
        f"STREAM vb={vbucket}\nRX snapshot-marker{{start=0, end={end}, flags=1}}\nRX mutation{{seqno:9}}\n"
        for vbucket, end in ((1, 9), (2, 9), (3, 9), (4, 30))
    )
    + f"CONNECT\n{opening(collections=True)}TX get-all-vb-seqnos{{opaque=77}}\nHEX RX {_ANSWER}\n"
    + "ON 0\nWAIT 2\nRX noop\n"
)
AT = "2025-11-20T12:00:00."


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return written(TEXT, tmp_path / "lag.pcap")


def lag(row: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("vbucket", "lag", "lag_exact", "high_seqno", "high_seqno_from")
    return *(row.get(key) for key in keys), (row.get("high_seqno_at") or "")[:20]


BEHIND = [(2, 1591, True, 1600, "GET_ALL_VB_SEQNOS", AT), (4, 21, False, 30, "DCP_SNAPSHOT_MARKER", AT)]
LAGS = [*BEHIND, (1, 0, True, 9, "GET_ALL_VB_SEQNOS", AT), (3, None, None, None, None, "")]


def test_objects_have_the_lag_and_what_it_rests_on(path: Path) -> None:
    assert [lag(row) for row in objects(f"dcpdump streams {path} --sort lag")] == LAGS
    assert sorted(map(lag, objects(f"dcpdump top {path}")[0]["streams"])) == sorted(LAGS)
    assert [lag(row) for row in objects(f"dcpdump diagnose {path}") if row["type"] == "lag"] == BEHIND
    table = objects(f"dcpdump sql 'select vbucket, lag, lag_exact, high_seqno from streams order by lag desc' {path}")
    assert sorted(str(tuple(row.values())) for row in table) == sorted(str(each[:4]) for each in LAGS)


def test_people_see_what_is_not_exact_and_what_is_unknown(path: Path) -> None:
    shown = run(f"dcpdump streams {path} -q --vbucket 1-4").out.splitlines()
    column = shown[0].index("lag") + 3
    assert [row[:column].split("  ")[-1].strip() for row in shown[1:5]] == ["0", "1,591", "?", "≥ 21"]


def test_a_diagnosis_names_the_worst_and_finds_nothing_wrong_with_a_lag(path: Path) -> None:
    found = run(f"dcpdump diagnose {path} -q")
    assert found.code == 0
    said_of = "is behind by ≥ 1,612 seqnos in 2 streams: vb 2: 1,591, vb 4: ≥ 21"
    assert f"lag          app (c0) {said_of}" in found.out.splitlines()
