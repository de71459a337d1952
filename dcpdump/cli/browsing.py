"""Browse what was opened: the index, the reading of all frames beside it, the screen, and how all of that ends."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.browse.analysing import Analysing
from dcpdump.browse.reader import Reader
from dcpdump.cli import exit as code
from dcpdump.cli.filter_text import completions, filter_of, filter_words, text_of, with_clause
from dcpdump.cli.input_options import InputOptions
from dcpdump.cli.salt import Hiding
from dcpdump.cli.signals import Stop, raise_at_signals
from dcpdump.cli.standard_input import STANDARD_INPUT, Copies
from dcpdump.cli.stderr import clear_status, note, status
from dcpdump.filter import FilterError
from dcpdump.index.columns import SPOOL_BYTES, Columns

if TYPE_CHECKING:
    from dcpdump.browse.analysis import Analysis
    from dcpdump.browse.app import BrowseApp
    from dcpdump.browse.frame_service import FrameService
    from dcpdump.browse.opened import Commands
    from dcpdump.render.style import Line

#: What is still being written is waited for so many seconds before the screen opens without a frame.
_PATIENCE_S = 1.0
#: Whoever waits longer than so many seconds for the first frame sees how far reading is.
_SILENCE_S = 1.0
#: Decoded parts that are kept: those around the cursor, and where it was before.
_PARTS = 6


_NOTHING_HIDDEN = Hiding()


class BrowseOptions(NamedTuple):
    """How captures are browsed."""

    tz: str | None = None
    keylogs: Sequence[str] = ()
    hidden: Hiding = _NOTHING_HIDDEN
    spool_bytes: int = SPOOL_BYTES  #: of what cannot be read a second time, at most


_ORDINARY = BrowseOptions()


def commands_of(
    named: Sequence[str],
    paths: Sequence[str],
    options: Sequence[str],
    tz: str | None,
    hidden: Hiding = _NOTHING_HIDDEN,
) -> "Commands":
    """Return what the screen asks about filters and commands.

    ``named``: the captures, as they were given; ``options``: how they are read.
    """
    from dcpdump.browse.opened import Commands

    hides, zone = hidden.redactor is not None, ["--tz", tz] if tz else []

    def words(name: str, text: str, frames: str, more: Sequence[str]) -> list[str]:
        """Return a command: with ``more`` it is to be run, else to be shown."""
        if hides and name == "carve":
            raise FilterError("packets hold what is hidden here: write .ndjson, or use dcpdump carve and redact")
        given, how = (paths, hidden.run) if more else (named, hidden.shown)
        chosen = [*filter_words(text), *(["--frame", frames] if frames else [])]
        return [sys.executable, "-m", "dcpdump", name, *given, *chosen, *options, *zone, *how, *more]

    return Commands(hides, lambda text: filter_of(text, tz), completions, with_clause, words)


class Browsing:
    """Captures that are browsed. In a ``with`` it ends what runs beside the screen."""

    def __init__(
        self,
        named: Sequence[str],
        copies: Copies,
        given: InputOptions,
        options: BrowseOptions = _ORDINARY,
    ) -> None:
        self._named, self._given, self._options = named, given, options
        self._copies, self._paths = copies, copies.again
        self._analysing = Analysing(self._analyse)
        self._reader = Reader(self._service)

    def __enter__(self) -> "Browsing":
        return self

    def __exit__(self, *_: object) -> None:
        self._analysing.close()
        self._reader.close()

    def _service(self, columns: Columns) -> "FrameService":
        """Open the captures, and return what answers for them, in the process that reads."""
        from dcpdump.browse.frame_service import FrameService
        from dcpdump.index.building import IndexOptions
        from dcpdump.index.capture_index import CaptureIndex

        given = self._given
        options = IndexOptions(
            given.limits,
            given.secrets,
            parts=_PARTS,
            spool_bytes=self._options.spool_bytes,
        )
        index = CaptureIndex(given.open(self._copies.paths), options, helped=True, columns=columns)
        return FrameService(index, lambda text: filter_of(text, self._options.tz).masks, self._options.hidden.redactor)

    def run(self, words: Sequence[str], value_bytes: int | None, *, mouse: bool) -> int:
        """Open the screen, and return the exit code. ``words``: the filter of the beginning."""
        import_module("dcpdump.browse.app")  # while the first frames are indexed in the other process
        if not self._find_frames():
            return self._say_nothing_found()
        app = self.app(text_of(words), value_bytes)
        with Stop() as stop:  # an exception in the middle of what asyncio makes leaves it half made
            app.stopped = lambda: stop.status
            ended = app.run(mouse=mouse)
        app.marks.close()
        raise_at_signals()
        if app.error is not None:
            raise app.error
        for damage in self._reader.damage:
            note(f"dcpdump: warning: {damage}")
        if ended == code.UNUSABLE:
            return self._say_nothing_found()
        if ended:
            return ended
        return (
            code.DAMAGED if self._reader.damage or self._reader.lost.gaps or self._reader.skipped_bytes else code.DONE
        )

    def app(self, text: str, value_bytes: int | None) -> "BrowseApp":
        """Return the screen. ``text``: the filter of the beginning."""
        from dcpdump.browse.app import BrowseApp
        from dcpdump.browse.indexed_frames import IndexedFrames
        from dcpdump.browse.opened import OpenCaptures

        options = self._options
        again = ["--salvage"] * self._given.salvage + [word for name in options.keylogs for word in ("--keylog", name)]
        commands = commands_of(self._named, self._paths, again, options.tz, options.hidden)
        return BrowseApp(
            OpenCaptures(
                self._name(),
                IndexedFrames(self._reader),
                commands,
                self._analysing,
                value_bytes,
                self._about,
                text,
                self._given.follow,
            )
        )

    def _find_frames(self) -> bool:
        """Read up to the first frame; return whether there is one, or may be. Raises what ends reading before it."""
        reader, begun = self._reader, time.monotonic()
        try:
            while not (reader.frames or reader.complete or reader.failure):
                reader.step(0.1)
                passed, (read, size) = time.monotonic() - begun, reader.progress
                if size is None and passed > _PATIENCE_S:
                    break
                if size and passed > _SILENCE_S and sys.stderr.isatty():
                    status(f"{100 * read // size} % read, no DCP so far")
        finally:
            clear_status()
        if reader.error is not None and not reader.frames:
            raise reader.error
        return bool(reader.frames) or not reader.complete

    def _say_nothing_found(self) -> int:
        """Say what there is instead of frames, as ``read`` does."""
        from dcpdump.batch.dissector import Dissection
        from dcpdump.cli.reading import CaptureSource
        from dcpdump.cli.summary import summarise

        dissection = Dissection(self._given.limits, secrets=self._given.secrets)
        captures = self._given.open(self._paths)
        for block in CaptureSource(captures).blocks():
            for _ in () if block is None else dissection.feed_block(block):
                dissection.gaps.clear()
        for _ in dissection.close_blocks():
            dissection.gaps.clear()
        summarise(dissection, captures, 0, "text")
        return code.UNUSABLE

    def _name(self) -> str:
        names = [
            "standard input" if name == STANDARD_INPUT else os.path.basename(name.rstrip(os.sep)) or name
            for name in self._named
        ]
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"

    def _about(self) -> "list[Line]":
        from dcpdump.browse.about import about

        return about(self._paths, self._reader)

    def _analyse(self, report: Callable[[float], None]) -> "Analysis":
        """Run the ledger and the rules over all frames, in the other process."""
        from dcpdump.cli.browsing_analysis import analyse

        self._copies.check()
        return analyse(self._paths, replace(self._given, follow=False), self._options.hidden.redactor, report)
