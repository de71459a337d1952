"""dcpdump check: what it prints, in which forms, and with which exit codes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.check.finding import Finding, RuleTotals
from dcpdump.check.rule import Severity
from dcpdump.check.rules import RULES
from dcpdump.render.findings import rule_table
from tests.support.check_cases import CASES, PLAIN
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.diagnoses import objects, written
from tests.support.healthy import HEALTHY
from tests.support.secret_talk import saved

SAMPLES = Path("samples").resolve()
ORDER = "samples/order.pcap"


def test_all_violations_are_reported_with_their_places_and_the_right_answers() -> None:
    assert run(f"dcpdump check -q {ORDER} --all").out.splitlines() == [
        "violation  DCP402 S12 c0 vb 5 #16 2025-11-20T12:15:11.007250Z  MUTATION seqno 17 after 17 "
        "(a conforming peer answers Erange)",
        f"1 stream checked by {len(RULES)} rules: 1 violation, 0 suspicious, 0 info, 0 unknown",
    ]


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
    ("options", "code"),
    [
        *(("--fail-on never", 0), ("--vbucket 5", 1), ("--vbucket 6", 0), ("--connection 1", 0)),
        # rules by family, code and id
        *(("--select S", 1), ("--select DCP4", 1), ("--select DCP3,F", 0), ("--ignore s12", 0)),
    ],
)
def test_the_exit_code_is_that_of_the_findings_that_are_chosen(options: str, code: int) -> None:
    assert run(f"dcpdump check -q {ORDER} {options}").code == code


def test_the_exit_code_follows_fail_on() -> None:
    asked = "dcpdump check -q samples/rollback-loop.pcap --fail-on"
    assert [run(f"{asked} {least}").code for least in ("violation", "suspicious", "info")] == [0, 1, 1]


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


def test_what_is_unknown_is_a_line_a_rule_with_the_reason() -> None:
    line = next(line for line in run("dcpdump check -q samples/damage.pcap").out.splitlines() if "unknown" in line)
    assert line.startswith("unknown    DCP402      1  0     7   #18     12:06:11.007  Seqno does not rise: ")
    assert line.endswith("[no verdict: 100 bytes were lost and 96 skipped before frame 18]")


def test_vbuckets_are_shortened() -> None:
    finding = Finding(RULES[0], Severity.VIOLATION, "text", 0, 7, None)
    totals = RuleTotals()
    for at, vbucket in enumerate([*range(64), 100, 102, 104, 106, 108]):
        totals.add(replace(finding, vbucket=vbucket, connection=at % 2, frame=7 + at))
    _, line = rule_table(totals.all()).lines()
    title = RULES[0].title
    assert line.text == f"violation  DCP101     69  0,1   0-63,100,102,104,… (69)  #7..75  {title}, e.g. text"


def test_what_an_example_quotes_is_hashed(tmp_path: Path) -> None:
    path = written(PLAIN + "TX control{key=enable_nop, value=true}\n", tmp_path / "odd.pcap")
    clear, hidden = (run(f"dcpdump check -q {path} {how}").out for how in ("", "--redact"))
    assert ("enable_nop:" in clear, "enable_nop:" in hidden) == (True, False)
    assert len(hidden.splitlines()) == len(clear.splitlines())


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
