"""The README and the pages of help are executed: console blocks print what they say, and their Python runs.

``python -m tests.test_docs`` writes the console blocks anew: read the difference before you commit it.
"""

import re
import runpy
from pathlib import Path

import pytest

from dcpdump.check.rules import seqno
from dcpdump.cli.main import COMMANDS
from dcpdump.spec.opcodes import DCP_DELETION, DCP_MUTATION
from dcpdump.streams import opcode_kinds
from tests.test_samples import transcribe

TOP = Path(__file__).parent.parent
README = TOP / "README.md"
PAGES = sorted((TOP / "dcpdump" / "help").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the code blocks of one language, each with the name of its page."""
    return [
        (page.name, text)
        for page in (README, *PAGES)
        for found, text in BLOCK.findall(page.read_text("utf-8"))
        if found == language
    ]


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)


@pytest.mark.parametrize(("page", "block"), blocks("console"))
def test_a_console_block_shows_what_the_command_prints(page: str, block: str) -> None:
    assert transcribe(block) == block, page


@pytest.mark.parametrize(("page", "example"), blocks("python"))
def test_the_examples_of_the_library_run(page: str, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, page, "exec"), {})
    assert ("print(" in example) == bool(capsys.readouterr().out)


def test_the_opcode_and_the_rule_of_the_guide_are_as_the_code_has_them() -> None:
    guide = dict(BLOCK.findall((TOP / "CONTRIBUTING.md").read_text("utf-8")))
    assert guide["python"] in (TOP / "dcpdump/spec/snapshot.py").read_text("utf-8")
    names = {**vars(seqno), **vars(opcode_kinds)}
    exec(compile(guide["py"], "CONTRIBUTING.md", "exec"), names)
    made = names["seqno_is_zero"]
    assert (made.code, made.on) == ("DCP499", (DCP_MUTATION, DCP_DELETION))


def test_every_command_is_in_the_table() -> None:
    _, _, rest = README.read_text("utf-8").partition("\n## Commands\n")
    table, _, _ = rest.partition("\n### ")
    assert re.findall(r"^\| `(\w+)", table, re.MULTILINE) == list(COMMANDS)


def test_every_page_of_help_is_in_the_readme() -> None:
    rows = re.findall(r"\| \[`([\w-]+)`\]\(dcpdump/help/([\w-]+)\.md\) \| ([^|]*?) (?=\|)", README.read_text("utf-8"))
    assert rows == [(page.stem, page.stem, page.read_text("utf-8").partition("\n")[0][2:]) for page in PAGES]


def words_in(picture: str) -> list[str]:
    """Return the words that stand in an SVG."""
    return " ".join(re.findall(r">([^<>]+)<", picture)).split()


def test_the_pictures_of_the_readme_show_what_is_printed() -> None:
    script = runpy.run_path("samples/pictures.py")
    for name in script["COMMANDS"]:
        assert words_in(Path(f"samples/{name}.svg").read_text("utf-8")) == words_in(script["printed"](name)), name
    assert words_in(Path("samples/browse.svg").read_text("utf-8")) == words_in(script["browsed"]())


def test_the_readme_stays_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 200


def test_pages_of_help_fit_a_screen_or_two() -> None:
    assert {page.name: n for page in PAGES if (n := len(page.read_text("utf-8").splitlines())) > 70} == {}


if __name__ == "__main__":
    for page in (README, *PAGES):
        text = page.read_text("utf-8")
        for shown in [text for language, text in BLOCK.findall(text) if language == "console"]:
            text = text.replace(shown, transcribe(shown))
        page.write_text(text, "utf-8")
