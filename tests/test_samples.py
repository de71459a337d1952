"""Every transcript in samples/ is run and compared; every capture there is what its script makes.

``python -m tests.test_samples`` writes the transcripts anew: read the difference before you commit it.
"""

import runpy
from pathlib import Path

import pytest

from tests.support.console import run

SAMPLES = Path(__file__).parent.parent / "samples"
TRANSCRIPTS = sorted(SAMPLES.glob("*.txt"))


def commands(transcript: str) -> list[str]:
    """Return the commands of a transcript, in order."""
    return [line.removeprefix("$ ") for line in transcript.splitlines() if line.startswith("$ dcpdump ")]


def transcribe(transcript: str) -> str:
    """Run the commands of a transcript, and return what a terminal shows."""
    pieces = []
    for command in commands(transcript):
        printed = run(command)
        pieces.append(f"$ {command}\n{printed.out}{printed.err}")
        if printed.code:
            pieces.append(f"(exit code {printed.code})\n")
    return "".join(pieces)


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_says_what_the_commands_print(transcript: Path) -> None:
    text = transcript.read_text("utf-8")
    assert transcribe(text) == text


def test_every_capture_has_a_transcript_and_every_transcript_a_capture() -> None:
    assert {path.stem for path in TRANSCRIPTS} == {path.stem for path in SAMPLES.glob("*.pcap")}


def test_the_captures_are_those_that_the_script_makes() -> None:
    made = dict(runpy.run_path(str(SAMPLES / "make.py"))["made"]())
    assert made == {path.name: path.read_bytes() for path in SAMPLES.glob("*.pcap")}


@pytest.mark.parametrize("name", ["client-rollback", "durable", "history", "replica", "takeover"])
def test_a_sample_of_a_healthy_conversation_raises_no_finding(name: str) -> None:
    assert run(f"dcpdump check samples/{name}.pcap -f ndjson -q") == (0, "", "")


if __name__ == "__main__":
    for path in TRANSCRIPTS:
        path.write_text(transcribe(path.read_text("utf-8")), "utf-8")
