"""The README, the pages of help and the transcripts of samples are executed: commands print what they say, Python runs.

``python -m tests.test_docs`` writes what is printed anew: read the difference before you commit it.
"""

import json
import re
import runpy
from pathlib import Path

import pytest

from dcpdump.check.rules import snapshots
from dcpdump.cli.main import COMMANDS
from dcpdump.spec.opcodes import DCP_DELETION, DCP_MUTATION
from dcpdump.streams import opcode_kinds
from tests.support.console import run
from tests.support.transcripts import transcribe

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
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("page", "block"), blocks("console"))
def test_a_console_block_shows_what_the_command_prints(page: str, block: str) -> None:
    assert transcribe(block) == block, page


@pytest.mark.parametrize(("page", "example"), blocks("python"))
def test_the_examples_of_the_library_run(page: str, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, page, "exec"), {})
    assert ("print(" in example) == bool(capsys.readouterr().out)


def test_the_examples_of_the_guide_are_as_the_code_has_them() -> None:
    found = BLOCK.findall((TOP / "CONTRIBUTING.md").read_text("utf-8"))
    opcode, command = (text for language, text in found if language == "python")
    assert opcode in (TOP / "dcpdump/spec/stream.py").read_text("utf-8")
    assert command in (TOP / "dcpdump/cli/flow.py").read_text("utf-8")
    guide = dict(found)
    names = {**vars(snapshots), **vars(opcode_kinds)}
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
    """Return the words that stand in an SVG; its styles have a number that depends on more than what is seen."""
    return " ".join(re.findall(r">([^<>]+)<", re.sub(r"<style>.*?</style>", "", picture, flags=re.S))).split()


def test_the_pictures_of_the_readme_show_what_is_printed() -> None:
    script = runpy.run_path("samples/pictures.py")
    for name in script["COMMANDS"]:
        assert words_in(Path(f"samples/{name}.svg").read_text("utf-8")) == words_in(script["printed"](name)), name
    assert words_in(Path("samples/browse.svg").read_text("utf-8")) == words_in(script["browsed"]())


def test_the_readme_stays_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 200


def test_pages_of_help_fit_a_screen_or_two() -> None:
    assert {page.name: n for page in PAGES if (n := len(page.read_text("utf-8").splitlines())) > 70} == {}


SAMPLES = TOP / "samples"
OF_SAMPLES = sorted(SAMPLES.glob("*.txt"))
TRANSCRIPTS = [*OF_SAMPLES, *sorted((TOP / "tests" / "cli" / "transcripts").glob("*.txt"))]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_says_what_the_commands_print(transcript: Path) -> None:
    text = transcript.read_text("utf-8")
    assert transcribe(text) == text


def test_every_capture_has_a_transcript_and_every_transcript_a_capture() -> None:
    assert {path.stem for path in OF_SAMPLES} == {path.stem for path in SAMPLES.glob("*.pcap")}


def test_the_captures_are_those_that_the_script_makes() -> None:
    made = dict(runpy.run_path(str(SAMPLES / "make.py"))["made"]())
    assert made == {path.name: path.read_bytes() for path in SAMPLES.glob("*.pcap")}


def ends_and_causes(command: str) -> list[tuple[str, str, int, str]]:
    rows = [json.loads(line) for line in run(f"{command} -f ndjson -q").out.splitlines()]
    return sorted((row["src"], row["dst"], row["vbucket"], row["state"]) for row in rows)


def test_the_folder_is_one_archive_that_mixes_no_connections() -> None:
    alone = [row for path in SAMPLES.glob("*.pcap") for row in ends_and_causes(f"dcpdump streams samples/{path.name}")]
    together = ends_and_causes("dcpdump streams samples/")
    assert [row[:3] for row in together] == sorted(row[:3] for row in alone)
    assert {row for row in together if row not in alone} == {
        (src, dst, vbucket, "quiet")  # the others of the archive go on after it
        for src, dst, vbucket, state in alone
        if state == "open and flowing"
    }
    assert "not of one network" not in run("dcpdump diagnose samples/").err


if __name__ == "__main__":
    for page in (README, *PAGES):
        text = page.read_text("utf-8")
        for shown in [text for language, text in BLOCK.findall(text) if language == "console"]:
            text = text.replace(shown, transcribe(shown))
        page.write_text(text, "utf-8")
    for path in TRANSCRIPTS:
        path.write_text(transcribe(path.read_text("utf-8")), "utf-8")
