"""The README is executed: its console blocks print what they say, its Python runs, every command is in it.

``python -m tests.test_docs`` writes the console blocks anew: read the difference before you commit it.
"""

import re
from pathlib import Path

import pytest

from dcpdump.cli.main import COMMANDS
from tests.test_samples import transcribe

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of one language."""
    return [text for found, text in BLOCK.findall(README.read_text("utf-8")) if found == language]


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(README.parent)


@pytest.mark.parametrize("block", blocks("console"))
def test_a_console_block_shows_what_the_command_prints(block: str) -> None:
    assert transcribe(block) == block


def test_the_library_example_runs() -> None:
    (example,) = [block for block in blocks("python") if block.startswith("from dcpdump")]
    exec(compile(example, "README.md", "exec"), {})


def test_every_command_is_in_the_table() -> None:
    _, _, rest = README.read_text("utf-8").partition("\n## Commands\n")
    table, _, _ = rest.partition("\n### ")
    assert re.findall(r"^\| `(\w+)", table, re.MULTILINE) == list(COMMANDS)


def test_the_readme_stays_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 320


if __name__ == "__main__":
    text = README.read_text("utf-8")
    for shown in blocks("console"):
        text = text.replace(shown, transcribe(shown))
    README.write_text(text, "utf-8")
