"""Browse what was opened: the index, the reading of all frames beside it, the screen, and how all of that ends."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from dcpdump.batch.filter import Masks, masks
from dcpdump.browse.analysing import Analysing
from dcpdump.browse.analysis import Analysis
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.opened import OpenCaptures
from dcpdump.capture import Capture
from dcpdump.cli import exit as code
from dcpdump.cli.filter_text import completions, filter_of, filter_words, text_of, with_clause
from dcpdump.cli.input_options import InputOptions
from dcpdump.cli.progress import progress
from dcpdump.cli.signals import raise_at_signals
from dcpdump.cli.standard_input import STANDARD_INPUT, Copies
from dcpdump.cli.stderr import note
from dcpdump.clock import clock_in_use
from dcpdump.index import CaptureIndex, IndexOptions
from dcpdump.net.batch import NO_TIME
from dcpdump.plural import counted
from dcpdump.render.lines import Line, LineKind
from dcpdump.render.text_columns import bytes_text
from dcpdump.streams.wording import span

if TYPE_CHECKING:
    from dcpdump.browse.app import BrowseApp

#: What is still being written is waited for so many seconds before the screen opens without a frame.
_PATIENCE_S = 1.0
#: Decoded parts that are kept: those around the cursor, and where it was before.
_PARTS = 6


class FilterCommands:
    """What the screen asks about filters and commands.

    ``named``: the captures, as they were given; ``options``: how they are read.
    """

    def __init__(self, named: Sequence[str], paths: Sequence[str], options: Sequence[str], tz: str | None) -> None:
        self._named, self._paths, self._tz = named, paths, tz
        self._options = [*options, *(["--tz", tz] if tz else [])]

    def filter_of(self, text: str) -> Masks:
        """Return what a text chooses. Raises FilterError."""
        chosen = filter_of(text, self._tz)
        return masks(chosen.texts, chosen.filter, window=chosen.window)

    def completions(self, text: str) -> list[str]:
        """Return what a text may be completed to."""
        return completions(text)

    def with_clause(self, text: str, name: str, value: str) -> str:
        """Return a filter with another clause; one of the same name is replaced."""
        return with_clause(text, name, value)

    def words(self, name: str, text: str, frames: str, more: Sequence[str] = ()) -> list[str]:
        """Return a command over the captures, with a filter; ``frames``: of these numbers alone, unless empty.

        With ``more`` it is to be run, else to be shown.
        """
        given = self._paths if more else self._named
        chosen = [*filter_words(text), *(["--frame", frames] if frames else [])]
        return [sys.executable, "-m", "dcpdump", name, *given, *chosen, *self._options, *more]


class Browsing:
    """Captures that are browsed. In a ``with`` it ends what runs beside the screen."""

    def __init__(
        self,
        inputs: Sequence[Capture],
        named: Sequence[str],
        copies: Copies,
        given: InputOptions,
        *,
        tz: str | None = None,
        keylogs: Sequence[str] = (),
    ) -> None:
        self._inputs, self._named, self._given, self._tz = inputs, named, given, tz
        self._options = ["--salvage"] * given.salvage + [word for name in keylogs for word in ("--keylog", name)]
        self._copies, self._paths = copies, copies.again
        self._analysing = Analysing(self._analyse)
        options = IndexOptions(given.limits, given.secrets, parts=_PARTS)
        self._index = CaptureIndex(inputs, options, helped=True)

    def __enter__(self) -> "Browsing":
        return self

    def __exit__(self, *_: object) -> None:
        self._analysing.close()
        self._index.close()

    def run(self, words: Sequence[str], value_bytes: int | None, *, mouse: bool) -> int:
        """Open the screen, and return the exit code. ``words``: the filter of the beginning."""
        import_module("dcpdump.browse.app")  # while the first frames are indexed in the other process
        if not self._find_frames():
            return self._say_nothing_found()
        app = self.app(text_of(words), value_bytes)
        status = app.run(mouse=mouse)
        app.marks.close()
        raise_at_signals()
        if app.error is not None:
            raise app.error
        for damage in self._index.damage:
            note(f"dcpdump: warning: {damage}")
        if status == code.UNUSABLE:
            return self._say_nothing_found()
        if status:
            return status
        return code.DAMAGED if self._index.damage or len(self._index.columns.gap_frame) else code.DONE

    def app(self, text: str, value_bytes: int | None) -> "BrowseApp":
        """Return the screen. ``text``: the filter of the beginning."""
        from dcpdump.browse.app import BrowseApp

        commands = FilterCommands(self._named, self._paths, self._options, self._tz)
        return BrowseApp(
            OpenCaptures(
                self._name(),
                IndexedFrames(self._index),
                commands,
                self._analysing,
                value_bytes,
                self._about,
                text,
                self._given.follow,
            )
        )

    def _find_frames(self) -> bool:
        """Read up to the first frame; return whether there is one, or may be."""
        index, waits = self._index, not all(each.rereadable for each in self._inputs)
        until = time.monotonic() + _PATIENCE_S
        with progress(() if waits else self._paths):
            while not index.frames and index.step(0.1):
                if waits and time.monotonic() > until:
                    break
        return bool(index.frames) or not index.complete

    def _say_nothing_found(self) -> int:
        """Say what there is instead of frames, as ``read`` does."""
        from dcpdump.batch.dissection import Dissection
        from dcpdump.cli.reading import CaptureSource
        from dcpdump.cli.summary import summarise

        dissection = Dissection(self._given.limits, secrets=self._given.secrets)
        captures = self._given.open(self._paths)
        for block in CaptureSource(captures).blocks():
            if block is not None:
                dissection.feed_block(block)
        dissection.close_blocks()
        summarise(dissection, captures, 0, "text")
        return code.UNUSABLE

    def _name(self) -> str:
        names = [
            "standard input" if name == STANDARD_INPUT else os.path.basename(name.rstrip(os.sep)) or name
            for name in self._named
        ]
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"

    def _about(self) -> list[Line]:
        index = self._index
        read, size = index.progress
        lines = [Line(LineKind.TITLE, "captures")]
        for path in self._paths:
            with suppress(OSError):
                lines.append(Line(LineKind.PLAIN, f"  {path}  {bytes_text(os.stat(path).st_size)}"))
        words = [counted(index.frames, "frame"), counted(len({ends.connection for ends in index.ends}), "connection")]
        far = "all of it is read" if index.complete else f"{bytes_text(read)} are read"
        far += f" of {bytes_text(size)}" if size and not index.complete else ""
        lines += [Line(LineKind.PLAIN, ""), Line(LineKind.PLAIN, " · ".join([*words, far]))]
        times = index.columns.ts_ns[index.columns.ts_ns != NO_TIME]
        if len(times):
            first, last = (clock_in_use().full(int(ts)) for ts in (times.min(), times.max()))
            lines.append(Line(LineKind.PLAIN, f"{first} to {last} ({span(int(times.max() - times.min()))})"))
        lost = int(index.columns.gap_bytes.sum())
        if lost:
            lines.append(Line(LineKind.PROBLEM, f"{lost:,} bytes in {counted(index.columns.gaps, 'gap')} were lost"))
        lines += [Line(LineKind.PROBLEM, str(damage)) for damage in index.damage] or [
            Line(LineKind.GOOD, "nothing of the files is damaged")
        ]
        return lines

    def _analyse(self, report: Callable[[float], None]) -> Analysis:
        """Run the ledger and the rules over all frames, in the other process."""
        from dcpdump.cli.browsing_analysis import analyse

        self._copies.check()
        return analyse(self._paths, replace(self._given, follow=False), report)
