"""Mark frames, and write or copy the marked or listed frames: to a file, to the clipboard."""

import asyncio
import os
import shlex
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from pathlib import Path

import dcpdump
from dcpdump.browse.browser import Browser
from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.filter import FilterError
from dcpdump.record import Record
from dcpdump.render import line, table
from dcpdump.text import ranges

#: Ending of a file → the command that writes it, and its options.
_WRITERS: dict[str, tuple[str, tuple[str, ...]]] = {
    ".pcapng": ("carve", ("-w",)),
    ".ndjson": ("read", ("-f", "ndjson", "-o")),
    ".csv": ("read", ("-f", "csv", "-o")),
    ".txt": ("read", ("-f", "table", "-o")),
    ".line": ("read", ("-f", "line", "-o")),
}
#: What can be copied, by key.
COPIES = (
    ("f", "the selected field"),
    ("b", "the bytes of the frame, in hexadecimal"),
    ("t", "the frame as read prints it"),
    ("l", "the frame as one line"),
    ("c", "the command line that shows this frame"),
    ("a", "the command line that shows all that is listed"),
)


class Marks:
    """The marks of the list. ``clipboard`` takes what is copied."""

    def __init__(self, browser: Browser, clipboard: Callable[[str], None]) -> None:
        self._browser, self._list = browser, browser.screen.list
        self._clipboard = clipboard
        self._written: frozenset[int] = frozenset()
        self._writing = ""  # the name of a file that is being written

    # -- marking ------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Mark the frame; a marked one loses its mark."""
        number = self._browser.number
        if number in self._list.marks:
            self.unmark()
        elif number is not None:
            self._list.marks.add(number)
            self._list.marked = number
            self._list.refresh()

    def unmark(self) -> None:
        """Remove the mark."""
        self._list.marks.discard(self._browser.number or 0)
        self._list.refresh()

    def mark_range(self) -> None:
        """Mark the listed frames from the one marked last to this one."""
        number, first = self._browser.number, self._list.marked
        if number is None or first is None:
            self._browser.screen.say("m marks the first frame, M all from there to the cursor")
            return
        self._list.marks.update(self._list.listed.between(*sorted((first, number))))
        self._list.marked = number
        self._list.refresh()

    def next(self) -> None:
        """Go to the next marked frame; after the last one, to the first."""
        number, marks = self._browser.number or 0, sorted(self._list.marks)
        if not marks:
            self._browser.screen.say("no frame is marked: m marks one")
            return
        self._browser.go(next((mark for mark in marks if mark > number), marks[0]))

    @property
    def unwritten(self) -> bool:
        """Return whether there are marks that were not written."""
        return not self._list.marks <= self._written

    # -- writing ------------------------------------------------------------------------------------------

    @property
    def what(self) -> str:
        """Return in words what would be written."""
        marks = len(self._list.marks)
        if marks:
            return f"{marks:,} marked frame{'s' * (marks != 1)}"
        return f"the {self._list.listed.frames:,} listed frames"

    def ask(self) -> None:
        """Ask for a file to write to."""
        names = (f"piece{at or ''}.pcapng" for at in range(1000))
        unused = next((name for name in names if not Path(name).exists()), "")
        self._browser.screen.ask(f"write {self.what} to", self.write, unused)

    def write(self, name: str) -> None:
        """Write the marked frames, or the listed ones, in the format of the name's ending. Raises FilterError."""
        suffix = Path(name).suffix.lower()
        if suffix not in _WRITERS:
            raise FilterError(f"the name ends with none of {', '.join(_WRITERS)}: {name!r}")
        if self._writing:
            raise FilterError(f"{self._writing} is still being written")
        command, options = _WRITERS[suffix]
        words, self._writing = self._words(command, (*options, name)), name
        self._browser.screen.say(f"writing {name} …")
        self._browser.screen.run_worker(self._run(words, name, frozenset(self._list.marks)))

    async def _run(self, words: Sequence[str], name: str, marks: frozenset[int]) -> None:
        """Run a command that writes, and show its result; leaving ends it."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=_environment()
            )
        except OSError as error:
            self._writing = ""
            self._browser.screen.say(f"no process can be started: {error.strerror}", error=True)
            return
        try:
            said = (await process.communicate())[1].decode("utf-8", "replace").splitlines()
        finally:
            self._writing = ""
            if process.returncode is None:
                process.terminate()
                await process.wait()
        if process.returncode in (0, 4):
            self._written |= marks
            self._browser.screen.say(f"{name} is written" + f": {safe(said[0])}" * bool(said))
        else:
            self._browser.screen.say(" ".join(map(safe, said[:2])) or f"{name} was not written", error=True)

    def _words(self, command: str, more: Sequence[str] = ()) -> list[str]:
        text = "" if self._list.marks else self._browser.filter
        frames = ",".join(some for some, _ in ranges(self._list.marks))
        return self._browser.commands.words(command, text, frames, more)

    # -- copying ------------------------------------------------------------------------------------------

    def copy(self, key: str | None) -> None:
        """Copy one of them."""
        text = self._text(key or "")
        if text:
            self._clipboard(text)
            shown = text if len(text) <= 100 and "\n" not in text else f"{len(text):,} characters"
            self._browser.screen.say(f"copied: {shown}")

    def _text(self, key: str) -> str:
        record, field = self._browser.record(), self._browser.screen.fields.selected
        if record is None:
            return ""
        match key:
            case "f":
                return "" if field is None else field.text.strip()
            case "b":
                return record.frame.raw.data.hex()
            case "t":
                lines = table.origin_line(record, _when(record)), *table.lines(record, None)
                return "\n".join(each.text for each in lines)
            case "l":
                return "\n".join(each.text for each in line.lines(record, None, _when(record)))
            case "c":
                return _typed(self._browser.commands.words("read", "", str(record.number), ()))
            case "a":
                return _typed(self._words("read"))
        return ""


def _environment() -> dict[str, str]:
    """Return the environment of a command: it imports this very package, and nothing from the current folder."""
    path = os.pathsep.join(filter(None, (str(Path(dcpdump.__file__).parent.parent), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _typed(words: Sequence[str]) -> str:
    """Return a command as people type it."""
    return shlex.join(words[words.index("dcpdump") :])


def _when(record: Record) -> str:
    ts_ns = record.frame.raw.where.ts_ns
    return "" if ts_ns is None else clock_in_use().full(ts_ns)
