"""Every example of the specification: its grid → bytes → our table == its table, unless errata.py says why not.

What is compared is what a reader compares: the title, and of each row the label, the offsets, the value and the
annotation. Labels and hexadecimal digits are compared without regard to case, texts without their quotes. An annotation
counts only where the page prints one, and only where it says more than the number in decimal or that a field is not
used; those of magic and opcode are what our title says.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from dcpdump.annotate import Annotated, annotate
from dcpdump.check.engine import judge
from dcpdump.paste import read_paste
from dcpdump.record import Record
from dcpdump.render import table
from tests.spec.errata import ERRATA, MENDED, Differences

PAGES = sorted((Path(__file__).parent / "pages").glob("*.txt"))
_ROW = re.compile(r"\s*(?P<label>[A-Za-z][\w #]*)?:?\s*\((?P<offset>\d+([,-]\d+)?)\)\s*:(?P<value>.*)")
_NOTE = re.compile(r"(?P<value>.*?)\s*(\((?P<note>[^()]*)\)|# .*)")
_TITLE = re.compile(r"\s*(?P<title>DCP_\w+ (command|response))")
_IDLE = re.compile(r"\d+|(field|filed) not used", re.IGNORECASE)


class Row(NamedTuple):
    """One line of a table."""

    label: str
    offset: str
    value: str
    note: str

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.label} ({self.offset}): {self.value}{note}".strip() if self.offset else self.label


def read_rows(lines: list[str]) -> dict[int, Row]:
    """Return the rows of a table by the offset at which they start; the title is at -1."""
    rows: dict[int, Row] = {}
    for line in lines:
        if title := _TITLE.fullmatch(line):
            rows[-1] = Row(title["title"], "", "", "")
        elif row := _ROW.fullmatch(line):
            value, note = row["value"].strip(), ""
            if noted := _NOTE.fullmatch(value):
                value, note = noted["value"], noted["note"] or ""
            label = (row["label"] or "").strip().lower()
            if _IDLE.fullmatch(note) or label in ("magic", "opcode"):
                note = ""
            value = value.lower() if value.startswith("0x") else value.strip('"')
            start = int(re.split("[,-]", row["offset"])[0])
            rows[start] = Row(label, row["offset"], value, note.lower())
    return rows


@cache
def explained(page: Path) -> Annotated:
    pasted = read_paste(page.read_text())
    assert pasted.dialect == "spec byte grid"
    (only,) = annotate(pasted.parts)
    return only


def differences(page: Path, record: Record) -> set[tuple[str, str]]:
    """Return the rows that differ, as texts: (the page's, ours), empty where one of them has no such row."""
    theirs = read_rows(page.read_text().split("\n\n", 1)[1].splitlines())
    ours = read_rows([line.text for line in table.lines(record, None)])
    found: set[tuple[str, str]] = set()
    for start in theirs.keys() | (ours.keys() - {-1}):
        they, we = theirs.get(start), ours.get(start)
        if they and we and not they.note:
            we = we._replace(note="")
        if they != we:
            found.add((str(they or ""), str(we or "")))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_our_table_is_the_pages_unless_the_ledger_says_why_not(page: Path) -> None:
    found, wanted = explained(page), ERRATA[page.stem].rows if page.stem in ERRATA else set()
    if found.suggestion is None or wanted:  # what is mended is compared below
        assert differences(page, found.record) == wanted


def test_every_erratum_is_of_an_example() -> None:
    assert ERRATA.keys() | MENDED.keys() <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_contradiction_is_named_and_the_smallest_edit_offered_after_which_the_frame_reads_as_the_page_says(
    page: Path,
) -> None:
    found, wanted = explained(page), MENDED.get(page.stem, Differences(set(), [], []))
    assert [problem.text for problem in found.record.problems] == wanted.problems
    assert [str(edit) for edit in (found.suggestion.edits if found.suggestion else ())] == wanted.edits
    if found.suggestion:
        assert found.suggestion.record.problems == ()
        assert differences(page, found.suggestion.record) == wanted.rows


#: What rules say of examples by themselves, and why that is deserved.
RULES_OF = {
    "buffer-ack": ["DCP103"],  # its header counts the extras as value
    "buffer-ack-response": ["DCP506"],  # no release sends it
    "failover-log-response": ["DCP224"],  # seqnos in an order that no log has
    "flush": ["DCP116"],  # no server supports it
    "stream-request-response": ["DCP224"],  # the same
    "set-vbucket-state": ["DCP523"],  # a hand-over sets pending and active, and not dead
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_example_breaks_no_rule_by_itself_but_those_of_the_ledger(page: Path) -> None:
    assert [found.rule.code for found in judge(explained(page).record)] == RULES_OF.get(page.stem, [])
