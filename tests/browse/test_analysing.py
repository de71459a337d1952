"""The process that makes streams and findings while frames are browsed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.check.rules import RULES
from dcpdump.cli.diagnose import analyse
from dcpdump.cli.options import Invocation
from tests.support.browsing import SAMPLES, Shown, browse
from tests.support.console import run
from tests.support.diagnoses import TWO_TROUBLES, written
from tests.support.few_kept import few_kept
from tests.support.hostile import in_pcap, mixed_streams
from tests.support.live import PATIENCE, ROOT

#: Begins an analysis that never ends, kills the process that makes it, and prints what is said then.
_KILLED = """
import os, signal, sys, time
from dcpdump.browse.analysis import Analysing
from tests.support.live import children_of

def analyse(report):
    report(0.5)
    signal.pause()

analysing = Analysing(analyse)
(child,) = children_of(os.getpid())
if sys.argv[1] == "working":
    analysing.begin(final=True)
    while not analysing.progress:
        analysing.poll()
os.kill(child, signal.SIGKILL)
analysing.begin(final=True)
while analysing.working:
    analysing.poll()
print(analysing.result, analysing.failure, children_of(os.getpid()), sep="|")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("when", ["waiting", "working"])
def test_an_analysis_whose_process_is_killed_says_so(when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, when], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE
    )
    assert (done.stdout, done.stderr) == ("None|the process that reads all frames has ended|[]\n", "")


def test_a_paragraph_of_the_page_of_a_rule_is_one_line_which_the_pane_continues() -> None:
    async def doing(shown: Shown) -> None:
        analysis = shown.app.browser.analysis
        assert analysis is not None
        (row, *_) = analysis.tabs["findings"].rows
        rule = next(each for each in RULES if row.cells[1] == f"{each.code} {each.id}")
        paragraphs = [" ".join(paragraph.split()) for paragraph in rule.page.split("\n\n")]
        assert [line.text for line in row.page if line.text in paragraphs] == paragraphs
        assert max(map(len, paragraphs)) > 70

    browse(SAMPLES / "rollback-loop.pcap", doing)


def test_the_worst_streams_come_first_as_streams_has_them(tmp_path: Path) -> None:
    written(TWO_TROUBLES, tmp_path / "two.pcap")

    async def doing(shown: Shown) -> None:
        analysis = shown.app.browser.analysis
        assert analysis is not None
        assert [row.stream for row in analysis.tabs["streams"].rows] == [(0, 6, 0), (0, 5, 0)]

    browse(tmp_path / "two.pcap", doing)


def test_streams_that_were_evicted_are_counted_below_those_that_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    path.write_bytes(in_pcap(mixed_streams(500)))
    with few_kept():
        plenty, little = (
            analyse([str(path)], Invocation({"memory": memory}), lambda _: None).tabs["streams"].rows
            for memory in (1 << 30, 2 << 20)
        )
    missing = len(plenty) - len(little) + 1
    assert missing > 60
    assert little[-1].cells[-1].startswith(f"{missing:,} more streams not kept in memory, which were over: ")
    assert {row.stream for row in little[:-1]} < {row.stream for row in plenty}


def test_a_tab_is_sorted_by_the_values_of_a_column_as_streams_is(tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    path.write_bytes(in_pcap(mixed_streams(12)))

    async def sort(shown: Shown) -> None:
        await shown.press("2")
        table = shown.app.main.tables["streams"]
        assert table.tab is not None
        for head in ("vb", "asked"):  # all were asked within a millisecond
            for backwards in (False, True):
                table.sort(list(table.tab.table.heads).index(head), backwards)
                words = f"dcpdump streams {path} --sort {head} {'--reverse' * backwards} -f ndjson -q"
                printed = [str(json.loads(line)["vbucket"]) for line in run(words).out.splitlines()]
                assert [table.styled(line)[0][0].split()[2] for line in range(table.count)] == printed

    browse(path, sort)
