"""Every example of the specification: its grid → bytes → our table == its table, unless errata.py says why not.

What is compared is what a reader compares: the title, and of each row the label, the offsets, the value and the
annotation. Labels and hexadecimal digits are compared without regard to case, texts without their quotes. An annotation
counts only where the page prints one, and only where it says more than the number in decimal or that a field is not
used; those of magic and opcode are what our title says.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from dcpdump.annotate import Annotated, annotate
from dcpdump.check.alone import judge
from dcpdump.paste import read_paste
from dcpdump.record import Record
from dcpdump.render import table
from tests.support.errata import ERRATA, MENDED

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


def page_rows(page: Path) -> dict[int, Row]:
    """Return the rows of the page's own table."""
    return read_rows(page.read_text().split("\n\n", 1)[1].splitlines())


def our_rows(record: Record) -> dict[int, Row]:
    """Return the rows of our table."""
    return read_rows([line.text for line in table.lines(record, None)])


def explained(page: Path) -> Annotated:
    pasted = read_paste(page.read_text())
    assert pasted.dialect == "spec byte grid"
    (only,) = annotate(pasted.parts)
    return only


def differences(theirs: dict[int, Row], ours: dict[int, Row]) -> set[tuple[str, str]]:
    """Return the rows that differ, as texts: (the page's, ours), empty where one of them has no such row."""
    found: set[tuple[str, str]] = set()
    for start in theirs.keys() | (ours.keys() - {-1}):
        page, we = theirs.get(start), ours.get(start)
        if page and we and not page.note:
            we = we._replace(note="")
        if page != we:
            found.add((str(page or ""), str(we or "")))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_our_table_is_the_pages_unless_the_ledger_says_why_not(page: Path) -> None:
    ledger = {row for erratum in ERRATA.get(page.stem, ()) for row in erratum.rows}
    assert differences(page_rows(page), our_rows(explained(page).record)) == ledger


def test_every_erratum_is_of_an_example_and_gives_a_reason() -> None:
    assert ERRATA.keys() | MENDED.keys() <= {page.stem for page in PAGES}
    assert all(erratum.why for errata in ERRATA.values() for erratum in errata)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_contradiction_is_named_and_the_smallest_edit_offered(page: Path) -> None:
    found = explained(page)
    mended = MENDED.get(page.stem)
    problems = [problem.text for problem in found.record.problems]
    assert problems == (list(mended.problems) if mended else [])
    edits = [str(edit) for edit in found.suggestion.edits] if found.suggestion else []
    assert edits == (list(mended.edits) if mended else [])


@pytest.mark.parametrize("name", [name for name, mended in MENDED.items() if mended.edits])
def test_the_mended_frame_reads_as_the_page_says(name: str) -> None:
    page = next(page for page in PAGES if page.stem == name)
    suggestion = explained(page).suggestion
    assert suggestion is not None
    assert suggestion.record.problems == ()
    left = {row for erratum in MENDED[name].left for row in erratum.rows}
    assert differences(page_rows(page), our_rows(suggestion.record)) == left


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
