"""``diagnose``: one screen, worst first, with commands that show exactly what a trouble is about."""

import shlex
import subprocess
from pathlib import Path

import pytest

from dcpdump.render.diagnosis import TROUBLES
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written
from tests.support.live import on_a_terminal

SAMPLES = Path("samples").resolve()


def troubles(name: str) -> list[str]:
    """Return code and sentence of each trouble of a sample."""
    rows = objects(f"dcpdump diagnose samples/{name}.pcap")
    return [f"{row['code']}: {row['text']}" for row in rows if row["type"] == "trouble"]


@pytest.mark.parametrize("name", ["durable", "history", "takeover"])
def test_a_healthy_capture_has_one_line_that_says_what_was_looked_at(name: str) -> None:
    printed = run(f"dcpdump diagnose samples/{name}.pcap -q")
    said = printed.out.splitlines()
    at = next(at for at, line in enumerate(said) if line.startswith("nothing is wrong: 1 stream (1 "))
    assert (printed.code, said[at + 1 :], troubles(name)) == (0, [], [])


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("stopped", 1, ["ended: vb 417 of kafka-7f ended (Slow) and was not asked for again"]),
        ("rollback-loop", 1, ["rollback-loop: vb 762 of kafka-7f was rolled back to 0, 12 times in 55 s: a loop"]),
        ("refused", 1, ["refused: vb 723 of kafka-7f was refused with Erange and not granted since"]),
        (
            "no-end",
            1,
            ["stuck: vb 5 of cbbackupmgr is stuck at the end: the end seqno is reached and no STREAM_END came"],
        ),
        (
            "slow-consumer",
            1,
            ["blocked: the producer of kafka-7f is blocked by flow control since 12:12:16.997, 40.1 s up to the end"],
        ),
        (
            "silent",
            1,
            [
                "violation: NOOP without an answer (DCP511)",
                "connection-closed: the connection of kafka-7f was closed by the server at 12:21:11.210 with vb 2 open",
            ],
        ),
        ("order", 1, ["violation: Seqno does not rise (DCP402)"]),
        ("replica", 0, []),
        (
            "client-rollback",
            0,
            [
                "rollbacks: vb 12 sid 3 of kafka:7f was rolled back to 90: the server's history is another "
                "since a failover"
            ],
        ),
        (
            "damage",
            1,
            [
                "violation: Lengths that contradict each other (DCP102)",
                "bytes-lost: 100 bytes of indexer:3f2 are not in the capture (1 gap, of what the server sent)",
            ],
        ),
    ],
)
def test_the_troubles_of_each_sample(name: str, code: int, found: list[str]) -> None:
    assert troubles(name) == found
    assert run(f"dcpdump diagnose samples/{name}.pcap -q").code == code


def test_every_command_that_is_named_shows_exactly_its_streams_and_findings() -> None:
    shown = []
    for path in sorted(SAMPLES.glob("*.pcap")):
        for trouble in objects(f"dcpdump diagnose samples/{path.name}"):
            if trouble["type"] != "trouble":
                continue
            rows = objects(trouble["command"])
            shown.append(command := shlex.split(trouble["command"])[1])
            if command == "streams":
                found = [{"connection": row["connection"], "vbucket": row["vbucket"]} for row in rows]
                assert found == trouble["streams"]
            elif command == "check":
                assert sum(1 + row.get("more", 0) for row in rows) == trouble["count"]
                assert {row["code"] for row in rows} == {trouble["cause"]}
            elif command == "rollbacks":
                assert {row["vbucket"] for row in rows} == {each["vbucket"] for each in trouble["streams"]}
            else:
                assert [row["connection"] for row in rows] == trouble["connections"]
    assert len(shown) > 10


def test_a_command_names_the_folder_of_all_captures(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("stopped.pcap", "takeover.pcap")]
    for path in paths:
        path.write_bytes((SAMPLES / path.name).read_bytes())
    commands = [row["command"] for row in objects(f"dcpdump diagnose {paths[0]} {paths[1]}") if "command" in row]
    assert f"dcpdump streams {tmp_path} --connection 1 --stuck --cause abandoned" in commands
    assert not any(path.name in command for path in paths for command in commands)


def test_what_was_chosen_is_chosen_again_by_the_commands() -> None:
    chosen = "--vbucket 400-500 --until 2025-11-20T12:09:11Z --salvage"
    commands = [row.get("command") for row in objects(f"dcpdump diagnose samples/stopped.pcap {chosen}")]
    wanted = f"dcpdump streams samples/stopped.pcap --connection 0 --stuck --cause abandoned {chosen}"
    assert [each for each in commands if each] == [wanted]


def test_a_file_name_is_quoted_for_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = (SAMPLES / "stopped.pcap").read_bytes()
    for name in ("a b.pcap", "it's.pcap", "esc\x1b[31m.pcap", "-f.pcap"):
        Path(name).write_bytes(data)
        rows = objects(f"dcpdump diagnose {shlex.quote('./' + name)}")
        command = next(row["command"] for row in rows if row["type"] == "trouble")
        assert command.isprintable()
        echoed = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
        assert echoed.decode().split("\0")[2] == f"./{name}"


def test_fail_on_says_what_ends_with_1_and_lost_bytes_end_with_4() -> None:
    for name, codes in (("stopped", [1, 1, 0]), ("client-rollback", [0, 1, 0]), ("takeover", [0, 0, 0])):
        asked = f"dcpdump diagnose samples/{name}.pcap -q --fail-on"
        assert [run(f"{asked} {what}").code for what in ("wrong", "note", "never")] == codes, name
    assert run("dcpdump diagnose samples/damage.pcap -q --fail-on never").code == 4


def test_redaction_reaches_the_sentences_and_the_commands() -> None:
    printed = run("dcpdump diagnose samples/stopped.pcap -q --redact --redact-level full").out
    assert ("kafka" in printed, "10.0.5.9" in printed) == (False, False)
    assert printed.splitlines()[-1].endswith(" --redact-level full --redact")


def test_without_dcp_it_says_what_was_found_instead(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((SAMPLES / "stopped.pcap").read_bytes()[:24])
    printed = run(f"dcpdump diagnose {empty}")
    assert (printed.code, printed.out) == (3, "")
    assert "no DCP in the input" in printed.err


def test_more_than_fits_a_screen_is_counted_and_shown_with_all(tmp_path: Path) -> None:
    statuses = "keyeexists einval erange eaccess enomem notsupported unknowncollection unknownscope einternal".split()
    asked = "".join(
        f"TX stream-request{{vb={at}}}\nRX stream-request-response{{{status}}}\n" for at, status in enumerate(statuses)
    )
    path = written(opening() + asked + "WAIT 60\nRX noop{}\nTX noop-response{success}\n", tmp_path / "many.pcap")
    count = sum(row["type"] == "trouble" for row in objects(f"dcpdump diagnose {path}"))
    assert count >= len(statuses) > TROUBLES
    assert f"… {count - TROUBLES} more (" in run(f"dcpdump diagnose {path} -q").out
    everything = run(f"dcpdump diagnose {path} -q --all").out
    assert " more (" not in everything
    assert sum("  dcpdump " in line for line in everything.splitlines()) >= count


HINT = "hint: what is wrong in it, worst first: dcpdump diagnose "


def test_a_capture_without_a_command_is_read_and_diagnose_is_named() -> None:
    _, shown = on_a_terminal(["samples/takeover.pcap"])
    assert shown[-1] == f"{HINT}samples/takeover.pcap"
    assert [line for line in on_a_terminal(["read", "samples/takeover.pcap"])[1] if HINT in line] == []
    assert HINT not in run("dcpdump samples/takeover.pcap").err


@pytest.mark.parametrize("columns", [60, 100])
def test_on_a_terminal_no_line_but_a_command_is_wider_than_that(columns: int) -> None:
    words = ["diagnose", "-q", "samples/damage.pcap", "samples/refused.pcap"]
    _, shown = on_a_terminal(words, columns)
    assert max(len(line) for line in shown if not line.strip().startswith("dcpdump ")) <= columns
    assert " ".join(shown).split() == run(f"dcpdump {' '.join(words)}").out.split()
