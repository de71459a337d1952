"""dcpdump streams, conns, rollbacks, flow, key: what they print, which of it, and as objects."""

from pathlib import Path
from typing import Any

import pytest

from dcpdump.streams.history import vbucket_of
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved


def rows(command: str) -> list[str]:
    """Return the lines that a command prints for people."""
    return run(f"{command} -q").out.splitlines()


def test_a_stream_is_one_object_with_the_promised_keys() -> None:
    (stream,) = objects("dcpdump streams samples/client-rollback.pcap")
    requests = stream.pop("requests")
    assert stream == {
        "connection": 0,
        "src": "10.0.0.9:50312",
        "dst": "10.0.0.1:11210",
        "vbucket": 12,
        "stream_id": 3,
        "name": "kafka:7f",
        "roles": "seen",
        "opaque": 12,
        "verdict": "ended (closed by its consumer at 12:02:11.010; rolled back to 90 before)",
        "state": "ended",
        "cause": "closed-by-consumer",
        "why": "closed by its consumer at 12:02:11.010; rolled back to 90 before",
        "trouble": False,
        "opened_at": "2025-11-20T12:02:11.009250Z",
        "start_seqno": 90,
        "end_seqno": (1 << 64) - 1,
        "snapshots": 1,
        "mutations": 1,
        "deletions": 0,
        "expirations": 1,
        "prepares": 0,
        "commits": 0,
        "aborts": 0,
        "system_events": 1,
        "seqno_advanced": 1,
        "cache_transfers": 0,
        "first_seqno": 91,
        "last_seqno": 95,
        "snapshot": {"start_seqno": 90, "end_seqno": 95},
        "rollback_seqno": 90,
        "rollbacks": 1,
        "failover_log": [
            {"vbucket_uuid": "0x0000a1f35c2d9e47", "seqno": 90},
            {"vbucket_uuid": "0x000077aa00112233", "seqno": 0},
        ],
        "ended_at": "2025-11-20T12:02:11.010750Z",
        "last_at": "2025-11-20T12:02:11.010750Z",
        "bytes": 275,
        "lost_bytes": 0,
    }
    assert [(each["status_name"], each.get("rollback_seqno"), each["latency_us"]) for each in requests] == [
        ("Rollback", 90, 500),
        ("Success", None, 500),
    ]


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


def test_until_judges_as_if_the_capture_ended_there() -> None:
    found = objects("dcpdump streams samples/stopped.pcap --until +30s --idle 40")
    assert [row["state"] for row in found] == ["open and flowing"] * 3


def test_idle_says_how_long_silence_has_to_last() -> None:
    quiet = objects("dcpdump streams samples/stopped.pcap --vbucket 12 --idle 3600")
    assert [row["state"] for row in quiet] == ["open and flowing"]
    assert objects("dcpdump streams samples/stopped.pcap --vbucket 12 --idle inf") == quiet


def test_the_last_line_counts() -> None:
    assert rows("dcpdump streams samples/stopped.pcap --stuck")[-1] == (
        "3 streams · 1 ended, 1 quiet, 1 open and flowing · 1 connection"
    )


def test_a_row_is_not_cut_in_a_pipe() -> None:
    assert rows("dcpdump streams samples/stopped.pcap")[1].endswith("abandoned: not asked for again in 120 s)")


def test_several_captures_are_one_timeline() -> None:
    found = objects("dcpdump streams samples/takeover.pcap samples/durable.pcap")
    assert sorted((row["vbucket"], row["state"]) for row in found) == [(5, "ended"), (77, "taken over")]


def test_lost_bytes_are_reported_and_are_damage() -> None:
    printed = run("dcpdump streams samples/damage.pcap -q")
    words = ["1 stream", "1 ended", "1 connection", "100 B lost", "96 B skipped"]
    assert (printed.code, printed.out.splitlines()[-1].split(" · ")) == (4, words)


def test_redaction_hides_names_in_every_command(tmp_path: Any) -> None:
    salt = tmp_path / "salt"
    salt.write_text("pepper")
    for command in ("streams", "conns", "rollbacks", "flow", "key 'cart*'"):
        for form in ("text", "ndjson"):
            words = (
                f"dcpdump {command} samples/client-rollback.pcap -q -f {form} --redact-level full --salt-file {salt}"
            )
            printed = run(words).out
            assert printed
            for secret in ("kafka", "shop", "cart", "10.0.0.9"):
                assert secret not in printed.replace("'cart*'", ""), (command, form)


@pytest.mark.parametrize("command", ["conns", "streams", "flow", "read", "stats", "check", "top --once"])
@pytest.mark.parametrize("form", ["text", "ndjson"])
def test_the_name_of_a_bucket_is_hidden_wherever_it_stands(command: str, form: str) -> None:
    """A replica's connection is named after it."""
    form = "table" if (command, form) == ("read", "text") else form
    words = f"dcpdump {command} samples/replica.pcap -q -f {form}"
    assert "travel" not in run(f"{words} --redact").out
    assert "travel" in run(words).out or command in ("check", "stats"), "the test would not see it"


@pytest.mark.parametrize("depth", [98, 900, 990, 30_000])
@pytest.mark.parametrize("command", ["conns", "streams", "rollbacks", "flow", "check", "read", "key '*'", "stats"])
def test_json_that_nests_deep_ends_no_command(tmp_path: Path, command: str, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    sent = TcpTalk().send(0, encode("HELLO", {"features": [0x0A]}, key=b'{"a":' + nested + b"}"))
    sent.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    sent.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, value=b'{"x":' + nested + b"}")).fin()
    file = saved(sent, tmp_path / "deep.pcap")
    for form in ("text", "ndjson"):
        words = "" if form == "text" else "-f ndjson"
        assert run(f"dcpdump {command} {file} -q {words}").code in (0, 1)


def test_a_connection_is_one_object() -> None:
    (found,) = objects("dcpdump conns samples/client-rollback.pcap")
    assert {name: found[name] for name in ("name", "role", "bucket", "mechanism", "authenticated", "features")} == {
        "name": "kafka:7f",
        "role": "producer",
        "bucket": "shop",
        "mechanism": "PLAIN",
        "authenticated": True,
        "features": ["XATTR", "XERROR", "SNAPPY", "JSON", "Collections"],
    }
    assert found["open_flags_names"] == ["producer", "include-xattrs", "include-delete-times"]
    assert [(each["key"], each["value"], each["status_name"]) for each in found["controls"]] == [
        ("enable_noop", "true", "Success"),
        ("enable_stream_id", "true", "Success"),
        ("enable_expiry_opcode", "true", "Success"),
    ]
    assert found["collection_names"] == {"8": "carts"}


def test_an_unanswered_noop_is_reported() -> None:
    assert "2 of 3 answered in 0.5 ms, one waits since 12:19:11.009" in rows("dcpdump conns samples/silent.pcap")[1]


def test_a_rollback_is_one_object_with_its_clause() -> None:
    (found,) = objects("dcpdump rollbacks samples/rollback-loop.pcap")
    assert {
        name: found[name] for name in ("vbucket", "rollback_seqno", "count", "loop", "clause", "expected_seqno")
    } == {"vbucket": 762, "rollback_seqno": 0, "count": 12, "loop": True, "clause": "uuid", "expected_seqno": 0}


def test_a_window_is_one_object_with_its_intervals() -> None:
    (found,) = objects("dcpdump flow samples/slow-consumer.pcap")
    assert (found["buffer"], found["outstanding"], found["blocked"], len(found["intervals"])) == (1900, 1920, True, 5)
    assert found["mismatch"] == {
        "bytes": 1920,
        "kind": "DCP_SEQNO_ADVANCED",
        "frames": 60,
        "text": "DCP_SEQNO_ADVANCED x 60 not acknowledged",
        "explained": True,
        "fills_ms": 0,
    }
    assert found["over_time"][-1]["outstanding"] == 1920


def test_a_history_is_its_changes_and_how_complete_they_are() -> None:
    *changes, coverage = objects("dcpdump key user::1001 samples/history.pcap")
    assert [(each["type"], each["seqno"], each["rev_seqno"], each["name"], each["cas"]) for each in changes] == [
        ("change", 5512, 1, "DCP_MUTATION", "0x1763000000001588"),
        ("change", 5530, 3, "DCP_DELETION", "0x176300000000159a"),
    ]
    assert coverage == {
        "type": "coverage",
        "connection": 0,
        "name": "kafka-7f",
        "vbucket": 300,
        "first_seqno": 5511,
        "last_seqno": 5530,
        "complete": True,
        "why": "0 bytes lost",
    }


def test_a_history_over_lost_bytes_is_not_complete() -> None:
    assert objects("dcpdump key '*' samples/damage.pcap")[-1]["complete"] is False


def test_keys_are_patterns_as_in_read() -> None:
    assert len(objects("dcpdump key '/account::[12]$/' samples/durable.pcap")) == 6
    assert len(objects("dcpdump key 'account::1' samples/durable.pcap")) == 4


def test_a_history_without_streams_says_so() -> None:
    assert rows("dcpdump key 'user*' samples/history.pcap --connection 7") == [
        "no connection matches: there is 1 connection in the capture"
    ]
    assert rows("dcpdump key 'user*' samples/history.pcap --connection 7 -f ndjson") == []


def test_a_key_that_is_not_there_is_placed() -> None:
    assert rows("dcpdump key user::2220 samples/history.pcap") == [
        "no message about such a key: it belongs to vb 300 (of 1,024)",
        "capture complete for vb 300 conn 0 kafka-7f, 5511..5530: yes (0 bytes lost)",
    ]
    assert vbucket_of(b"foo") == 115


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


def test_a_capture_without_rollbacks_says_so_to_people_and_nothing_to_programs() -> None:
    assert run("dcpdump rollbacks samples/stopped.pcap -q").out == "no rollbacks in 3 stream requests\n"
    assert run("dcpdump rollbacks samples/stopped.pcap -q -f ndjson").out == ""
    none = run("dcpdump rollbacks samples/rollback-loop.pcap -q --vbucket 3").out
    assert none == "no stream matches: there is 1 stream in the capture\n"
