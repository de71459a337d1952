"""Every transcript in samples/ is run and compared; every capture there is what its script makes.

``python -m tests.test_samples`` writes the transcripts anew: read the difference before you commit it.
"""

import json
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
    for path in TRANSCRIPTS:
        path.write_text(transcribe(path.read_text("utf-8")), "utf-8")
