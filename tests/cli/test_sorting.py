"""--sort and --reverse: the rows of a table in another order, the same in text and for programs."""

import re

import pytest

from dcpdump.streams.causes import Cause, Reason, Verdict, VerdictKind
from dcpdump.streams.situations import Situation
from tests.support.console import run
from tests.support.diagnoses import objects

STOPPED = "samples/stopped.pcap"


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
