"""dcpdump check and diagnose: what they print, worst first, in which forms, and with which exit codes."""

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.check.finding import Finding, Fold
from dcpdump.check.rule import Severity
from dcpdump.check.rules import RULES
from dcpdump.render.diagnosis import TROUBLES
from dcpdump.render.findings import BY_RULE
from tests.support.check_cases import CASES, PLAIN
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects, written
from tests.support.healthy import HEALTHY
from tests.support.live import on_a_terminal
from tests.support.secret_talk import saved

SAMPLES = Path("samples").resolve()
ORDER = "samples/order.pcap"


def test_sarif_names_every_rule_and_places_results_by_uris(tmp_path: Path) -> None:
    path = tmp_path / "a b#é 100%.pcap"  # whatever the file is called
    path.write_bytes(Path(ORDER).read_bytes())
    log = json.loads(run(f"dcpdump check -q '{path}' -f sarif").out)
    (sarif,), rules = log["runs"], log["runs"][0]["tool"]["driver"]["rules"]
    assert (log["version"], len(rules)) == ("2.1.0", len(RULES))
    (result,) = sarif["results"]
    assert (result["ruleId"], result["level"], result["kind"]) == ("DCP402", "error", "fail")
    assert rules[result["ruleIndex"]]["id"] == "DCP402"
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == f"{tmp_path}/a%20b%23%C3%A9%20100%25.pcap"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        *((f"order {which}", 1) for which in ("--vbucket 5", "--select S", "--select DCP4")),
        *((f"order {which}", 0) for which in ("--fail-on never", "--vbucket 6", "--connection 1")),
        *((f"order {which}", 0) for which in ("--select DCP3,F", "--ignore s12")),
        *((f"rollback-loop --fail-on {least}", least != "violation") for least in ("violation", "suspicious", "info")),
    ],
)
def test_the_exit_code_is_that_of_the_findings_that_are_chosen(asked: str, code: int) -> None:
    name, _, options = asked.partition(" ")
    assert run(f"dcpdump check -q samples/{name}.pcap {options}").code == code


def test_the_rules_are_listed_and_explained() -> None:
    listed = run("dcpdump check --list").out.splitlines()
    assert len(listed) == len(CASES)
    assert listed[0] == "DCP101 F1  violation  Invalid magic byte, or one that this side may not use"
    page = run("dcpdump check --explain DCP301").out
    assert page.startswith("DCP301 (S1) Snapshot that ends before it starts\n")
    assert "Severity: violation\nA conforming peer answers: Einval\n" in page
    assert run("dcpdump check --explain S1").out == page


def repeats(vbucket: int, last: int) -> str:
    """Return a stream that breaks one rule again and again."""
    text = f"STREAM vb={vbucket}, opaque=0x{vbucket}\nRX snapshot-marker{{start=1, end=3, flags=0x5}}\n"
    return text + "".join(f"RX mutation{{seqno={seqno}}}\n" for seqno in range(10, last))


def test_repeats_are_folded(tmp_path: Path) -> None:
    path = written(PLAIN + repeats(5, 60), tmp_path / "fold.pcap")
    _, line, total = run(f"dcpdump check -q {path}").out.splitlines()
    title = "Seqno outside its snapshot, e.g. MUTATION"
    assert line.startswith(f"violation  DCP401     50  0     5   #14..63  12:00:00.014  {title}")
    assert total == f"1 stream checked by {len(RULES)} rules: 50 violations, 0 suspicious, 0 info, 0 unknown"
    assert len(run(f"dcpdump check -q {path} --all").out.splitlines()) == 51
    assert [row.get("more") for row in objects(f"dcpdump check {path}")] == [None] * 19 + [30]


def test_the_lines_of_rules_add_up_to_all_findings(tmp_path: Path) -> None:
    path = written(PLAIN + repeats(5, 60) + repeats(9, 100), tmp_path / "two.pcap")
    for name in (path, ORDER, "samples/damage.pcap", "samples/rollback-loop.pcap"):
        expected: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in objects(f"dcpdump check {name} --all"):
            expected.setdefault((row["severity"], row["code"]), []).append(row)
        for line in run(f"dcpdump check -q {name}").out.splitlines()[1:-1]:
            severity, code, count, *_ = line.split()
            found = expected.pop((severity, code))
            first, last = found[0]["frame"], found[-1]["frame"]
            assert int(count) == len(found)
            assert f"  #{first}  " in line if first == last else f"  #{first}..{last}  " in line
            assert found[0]["message"] in line
        assert not expected


def test_vbuckets_are_shortened() -> None:
    finding = Finding(RULES[0], Severity.VIOLATION, "text", 0, 7, None)
    totals = Fold()
    for at, vbucket in enumerate([*range(64), 100, 102, 104, 106, 108]):
        totals.add(replace(finding, vbucket=vbucket, connection=at % 2, frame=7 + at))
    _, line = BY_RULE.table(totals.totals()).lines()
    title = RULES[0].title
    assert line.text == f"violation  DCP101     69  0,1   0-63,100,102,104,… (69)  #7..75  {title}, e.g. text"


def test_as_many_streams_are_checked_as_streams_lists() -> None:
    for path in SAMPLES.glob("*.pcap"):
        checked, listed = (run(f"dcpdump {name} {path} -q").out.splitlines()[-1] for name in ("check", "streams"))
        assert checked.split(" checked by ")[0] == listed.split(" · ")[0]


def test_that_bytes_were_captured_twice_and_differ_is_said(tmp_path: Path) -> None:
    captured = packets(said(HEALTHY["plain"]))
    at = next(number for number, each in enumerate(captured) if each.data.endswith(b"k4"))
    again = captured[at]._replace(data=captured[at].data[:-1] + b"5")
    path = saved([*captured[: at + 1], again, *captured[at + 1 :]], tmp_path / "twice.pcap")
    note, summary = run(f"dcpdump check {path}").err.splitlines()
    assert note == (
        "dcpdump: note: bytes were captured twice, and were others the second time: what was first is judged; "
        "a violation in there may be one of a damaged copy"
    )
    assert summary.endswith(" · 1 overlap that disagrees")


def test_what_hidden_numbers_would_decide_is_unknown_and_says_so(tmp_path: Path) -> None:
    """The extras of the first document, its seqno too, are a name."""
    head, name = "805700071f0000050000002700001005" + 16 * "0", b"Margarete-XYZ-0123456789-abcdef".hex()
    text = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x1}\n"
    text += f"HEX RX {head}{name}{b'orders'.hex()}6161\nRX mutation{{seqno=12, rev_seqno=1, key=k}}\n"
    path = written(opening() + text, tmp_path / "hidden.pcap")
    rows = objects(f"dcpdump check {path} --redact --all")[-2:]
    assert [tuple(map(row.get, ("code", "severity", "frame", "message", "reason"))) for row in rows] == [
        ("DCP103", "violation", 14, "MUTATION: nmeta says … but the value has 1 bytes", None),
        ("DCP401", "unknown", 15, "MUTATION seqno 12 is outside snapshot 0..9", "the numbers of frame 14 are hidden"),
    ]
    assert objects(f"dcpdump streams {path} --redact")[0]["last_seqno"] == 12


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


def test_options_may_stand_before_a_capture_that_is_read_and_those_of_all_commands_behind_one() -> None:
    assert run("dcpdump -q -f line samples/takeover.pcap") == run("dcpdump read -q -f line samples/takeover.pcap")
    assert run("dcpdump streams samples/takeover.pcap --debug") == run("dcpdump --debug streams samples/takeover.pcap")
