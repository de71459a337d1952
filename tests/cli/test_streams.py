"""dcpdump streams, conns, rollbacks, flow, key: what they print, which of it, and as objects."""

from pathlib import Path

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.diagnoses import objects
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved


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


@pytest.mark.parametrize("command", ["streams", "conns", "rollbacks", "flow", "key 'cart*'"])
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
