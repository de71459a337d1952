"""What is browsed with --redact shows, copies and writes no key and no value; the same hashes are everywhere."""

import json
import re
from pathlib import Path

import pytest

from dcpdump.cli.browse import hiding
from tests.browse.test_keys import TALK
from tests.support.browsing import Shown, browse
from tests.support.console import run
from tests.support.diagnoses import written

APPLE, PEAR = 16, 17
SECRET = re.compile(r"apple|pear|\"n\"|6170706c65|61 70 70 6c 65")


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    return written(TALK, tmp_path / "talk.pcap")


def test_nothing_of_a_key_or_a_value_is_seen_copied_or_written(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copied: list[str] = []

    async def see(shown: Shown) -> None:
        monkeypatch.setattr(shown.app.marks, "_clipboard", copied.append)
        seen = []
        for number in (APPLE, PEAR):
            shown.app.main.list.go(number)
            await shown.settled()
            seen.append(shown.screen)
            await shown.press("v", "v")
            seen.append(shown.screen)
            for key in "fbtl":
                await shown.press("y", key)
        for tab in "234":
            await shown.press(tab)
            seen.append(shown.screen)
        await shown.press("1")
        for name in ("piece.ndjson", "piece.line"):
            await shown.press("w")
            await shown.type(name)
            await shown.until(lambda: shown.note.strip().startswith("piece") and "is written" in shown.note)
        await shown.press("w")
        await shown.type("piece.pcapng")
        assert shown.note.strip().startswith("packets hold what is hidden here")
        seen += [*copied, Path("piece.ndjson").read_text(), Path("piece.line").read_text()]
        assert [text for text in seen if SECRET.search(text)] == []
        rows = [json.loads(line) for line in Path("piece.ndjson").read_text().splitlines()]
        key = {row["frame"]: row["key"] for row in rows if "key" in row}[APPLE]
        assert any(key in text for text in copied)

    with hiding({"redact": True, "redact_level": "partial", "salt_file": None}) as hidden:
        browse(talk, see, size=(160, 50), hidden=hidden)
    assert not Path("piece.pcapng").exists()


def test_a_filter_asks_for_what_was_captured_and_the_command_line_hides_the_same(talk: Path, tmp_path: Path) -> None:
    copied: list[str] = []

    async def ask(shown: Shown) -> None:
        shown.app.marks._clipboard = copied.append
        shown.browser.apply("key apple")
        await shown.settled()
        await shown.press("y", "a")
        shown.app.main.focus_pane(shown.app.main.fields)
        fields = shown.app.main.fields
        fields.put(next(at for at in range(fields.count) if fields.rows[at].text.startswith("Key  ")))
        await shown.press("*")
        assert "keys are hidden" in shown.note

    with hiding({"redact": True, "redact_level": "full", "salt_file": str(tmp_path / "salt")}) as hidden:
        browse(talk, ask, hidden=hidden)
    (command,) = copied
    found = [json.loads(line) for line in run(f"{command} -f ndjson -q").out.splitlines()]
    assert [row["frame"] for row in found] == [APPLE, 19]
    assert all("apple" not in row["key"] for row in found)
