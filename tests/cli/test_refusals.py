"""What is requested wrongly is refused: one error, hints and an exit code, nothing on standard output and no file.

``python -m tests.cli.test_refusals`` writes the transcript anew: read the difference before you commit it.
"""

import os
import tempfile
from pathlib import Path

import pytest

from tests.support.transcripts import exchanges, shown

TRANSCRIPT = Path(__file__).with_name("refusals.txt")
REFUSED = exchanges(TRANSCRIPT.read_text("utf-8"))
TOP = Path(__file__).parents[2]


def furnish(folder: Path) -> None:
    """Have a folder hold what the commands name."""
    for name in ("samples", "README.md"):
        (folder / name).symlink_to(TOP / name)
    (folder / "kept").mkdir()
    (folder / "kept/notes.txt").write_text("mine")


@pytest.mark.parametrize("command", REFUSED)
def test_what_is_asked_for_wrongly_is_refused(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert shown(command) == REFUSED[command]
    assert REFUSED[command].startswith("dcpdump: error: ")
    assert sorted(os.listdir()) == ["README.md", "kept", "samples"]
    assert (os.listdir("kept"), Path("kept/notes.txt").read_text()) == (["notes.txt"], "mine")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        furnish(Path(place))
        os.chdir(place)
        TRANSCRIPT.write_text("".join(f"$ {command}\n{shown(command)}" for command in REFUSED), "utf-8")
