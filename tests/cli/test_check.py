"""dcpdump check: what it prints, in which forms, and with which exit codes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.check.finding import Finding
from dcpdump.check.fold import RuleTotals
from dcpdump.check.rule import Severity
from dcpdump.check.rules import RULES
from dcpdump.render.findings import rule_table
from tests.support.captures import Record, pcap
from tests.support.check_cases import CASES, PLAIN, STREAM
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.healthy import HEALTHY

SAMPLES = Path("samples").resolve()
ORDER = "samples/order.pcap"


def test_a_violation_is_reported_with_its_place_and_the_right_answer() -> None:
    printed = run(f"dcpdump check -q {ORDER}")
    assert printed.code == 1
    total = f"1 stream checked by {len(RULES)} rules: 1 violation, 0 suspicious, 0 info, 0 unknown"
    assert printed.out.splitlines() == [
        "severity   rule    count  conn  vb  frames  first at      finding",
        "violation  DCP402      1  0     5   #16     12:15:11.007  Seqno does not rise: MUTATION seqno 17 after 17 "
        "(a conforming peer answers Erange)",
        total,
    ]
    assert run(f"dcpdump check -q {ORDER} --all").out.splitlines() == [
        "violation  DCP402 S12 c0 vb 5 #16 2025-11-20T12:15:11.007250Z  MUTATION seqno 17 after 17 "
        "(a conforming peer answers Erange)",
        total,
    ]


def test_sarif_names_every_rule_and_places_results() -> None:
    log = json.loads(run(f"dcpdump check -q {ORDER} -f sarif").out)
    (sarif,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert len(sarif["tool"]["driver"]["rules"]) == len(RULES)
    (result,) = sarif["results"]
    assert (result["ruleId"], result["level"], result["kind"]) == ("DCP402", "error", "fail")
    assert sarif["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "DCP402"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == ORDER


def test_the_place_of_a_result_is_a_uri_whatever_the_file_is_called(tmp_path: Path) -> None:
    path = tmp_path / "a b#é 100%.pcap"
    path.write_bytes(Path(ORDER).read_bytes())
    (sarif,) = json.loads(run(f"dcpdump check -q '{path}' -f sarif").out)["runs"]
    place = sarif["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == f"{tmp_path}/a%20b%23%C3%A9%20100%25.pcap"


def test_the_exit_code_follows_fail_on() -> None:
    loop = "samples/rollback-loop.pcap"
    codes = [run(f"dcpdump check -q {loop} --fail-on {least}").code for least in ("violation", "suspicious", "info")]
    assert codes == [0, 1, 1]
    assert run(f"dcpdump check -q {ORDER} --fail-on never").code == 0


def test_rules_are_selected_and_ignored_by_code_id_and_family() -> None:
    assert run(f"dcpdump check -q {ORDER} --select S").code == 1
    assert run(f"dcpdump check -q {ORDER} --select DCP4").code == 1
    assert run(f"dcpdump check -q {ORDER} --select DCP3,F").code == 0
    assert run(f"dcpdump check -q {ORDER} --ignore s12").code == 0


def test_findings_are_chosen_by_stream() -> None:
    assert run(f"dcpdump check -q {ORDER} --vbucket 5").code == 1
    assert run(f"dcpdump check -q {ORDER} --vbucket 6").code == 0
    assert run(f"dcpdump check -q {ORDER} --connection 1").code == 0


def test_the_rules_are_listed_and_explained() -> None:
    listed = run("dcpdump check --list").out.splitlines()
    assert len(listed) == len(CASES)
    assert listed[0] == "DCP101 F1  violation  Invalid magic byte, or one that this side may not use"
    page = run("dcpdump check --explain DCP301").out
    assert page.startswith("DCP301 (S1) Snapshot that ends before it starts\n")
    assert "Severity: violation\nA conforming peer answers: Einval\n" in page
    assert run("dcpdump check --explain S1").out == page


def test_repeats_are_folded(tmp_path: Path) -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=1, end=3, flags=0x5}\n"
    text += "".join(f"RX mutation{{seqno={seqno}}}\n" for seqno in range(10, 60))
    path = tmp_path / "fold.pcap"
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in packets(said(text))]))
    _, line, total = run(f"dcpdump check -q {path}").out.splitlines()
    title = "Seqno outside its snapshot, e.g. MUTATION"
    assert line.startswith(f"violation  DCP401     50  0     5   #14..63  12:00:00.014  {title}")
    assert total == f"1 stream checked by {len(RULES)} rules: 50 violations, 0 suspicious, 0 info, 0 unknown"
    assert len(run(f"dcpdump check -q {path} --all").out.splitlines()) == 51
    rows = [json.loads(line) for line in run(f"dcpdump check -q {path} -f ndjson").out.splitlines()]
    assert [row.get("more") for row in rows] == [None] * 19 + [30]


def test_the_lines_of_rules_add_up_to_all_findings(tmp_path: Path) -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=1, end=3, flags=0x5}\n"
    text += "".join(f"RX mutation{{seqno={seqno}}}\n" for seqno in range(10, 60)) + "STREAM vb=9, opaque=0x77\n"
    text += "RX snapshot-marker{vb=9, opaque=0x77, start=1, end=3, flags=0x5}\n"
    text += "".join(f"RX mutation{{vb=9, opaque=0x77, seqno={seqno}}}\n" for seqno in range(10, 100))
    path = tmp_path / "two.pcap"
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in packets(said(text))]))
    for name in (path, ORDER, "samples/damage.pcap", "samples/rollback-loop.pcap"):
        rows = [json.loads(line) for line in run(f"dcpdump check -q {name} --all -f ndjson").out.splitlines()]
        expected: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows:
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
    path = tmp_path / "odd.pcap"
    text = PLAIN + "TX control{key=enable_nop, value=true}\n"
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in packets(said(text))]))
    assert "enable_nop:" in run(f"dcpdump check -q {path}").out
    hidden = run(f"dcpdump check -q {path} --redact").out
    assert len(hidden.splitlines()) == len(run(f"dcpdump check -q {path}").out.splitlines())
    assert "enable_nop:" not in hidden


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.pcap")))
def test_as_many_streams_are_checked_as_streams_lists(name: str) -> None:
    checked = run(f"dcpdump check {SAMPLES}/{name} -q").out.splitlines()[-1]
    listed = run(f"dcpdump streams {SAMPLES}/{name} -q").out.splitlines()[-1]
    assert checked.split(" checked by ")[0] == listed.split(" · ")[0]


def test_that_bytes_were_captured_twice_and_differ_is_said(tmp_path: Path) -> None:
    captured = packets(said(HEALTHY["plain"]))
    at = next(number for number, each in enumerate(captured) if each.data.endswith(b"k4"))
    again = captured[at]._replace(data=captured[at].data[:-1] + b"5")
    path = tmp_path / "twice.pcap"
    records = [Record(each.ts_ns or 0, each.data) for each in (*captured[: at + 1], again, *captured[at + 1 :])]
    path.write_bytes(pcap(records))
    note, summary = run(f"dcpdump check {path}").err.splitlines()
    assert note == (
        "dcpdump: note: bytes were captured twice, and were others the second time: what was first is judged; "
        "a violation in there may be one of a damaged copy"
    )
    assert summary.endswith(" · 1 overlap that disagrees")
