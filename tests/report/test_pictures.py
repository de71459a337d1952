"""The pictures of some samples, as text, so that a change of them is seen in review.

``python -m tests.report.test_pictures`` writes them anew: read the difference before you commit it.
"""

import re
from pathlib import Path

import pytest

from tests.support.pages import page_of

TOP = Path(__file__).parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"
NAMES = ("damage", "rollback-loop", "slow-consumer", "stopped")
_SECTION = re.compile(r'<section id="(timeline|vbuckets|flow|dialogues)".*?</section>', re.DOTALL)
_CELLS = re.compile(r'href="data:image/png;base64,[^"]*"')


def drawn(name: str) -> str:
    """Return the sections with pictures of a sample, an element a line, without the cells of maps."""
    page = page_of(TOP / "samples" / f"{name}.pcap", "--title sample")
    text = "\n".join(match[0] for match in _SECTION.finditer(page))
    return _CELLS.sub('href="…"', text).replace("><", ">\n<") + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_pictures_of_a_sample_are_as_they_were(name: str) -> None:
    assert drawn(name) == (GOLDEN / f"{name}.html").read_text("utf-8")


if __name__ == "__main__":
    for each in NAMES:
        (GOLDEN / f"{each}.html").write_text(drawn(each), "utf-8")
