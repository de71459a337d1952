"""Status: what the first lines say: how much is listed, how far reading and searching are, where the cursor is."""

import time

from dcpdump.browse.browser import Browser
from dcpdump.browse.opened import OpenCaptures
from dcpdump.browse.pieces import Piece
from dcpdump.browse.topline import State, density, some
from dcpdump.plural import counted
from dcpdump.render.style import STYLES

#: While it is read, the density is drawn again so many seconds after the last time.
_DENSITY_S = 0.5


class Status:
    """What the screen says of itself."""

    def __init__(self, browser: Browser, opened: OpenCaptures) -> None:
        self._browser, self._opened = browser, opened
        self._due = 0.0
        self._drawn: object = None

    def show(self) -> None:
        """Say what has changed."""
        browser, screen = self._browser, self._browser.screen
        number = browser.number
        at_ns = None if number is None else browser.frames.ts_ns(number)
        screen.top.put(State(self._opened.name, self._listed(), self._notes(), screen.tab, self._progress()), at_ns)
        self._draw_density()
        screen.show_filter(browser.filter, self._searching())
        nothing = "" if self._searching() or not browser.filter else "no frame matches; Esc steps back"
        if screen.list.nothing != nothing:
            screen.list.nothing = nothing
            screen.list.refresh()
        for table in screen.tables.values():
            waiting = self._waiting()
            if table.table is None and table.waiting != waiting:
                table.waiting = waiting
                table.refresh()

    def _listed(self) -> str:
        count, listed = self._browser.frames.count, self._browser.screen.list.listed
        if listed.everything:
            return counted(count, "frame")
        return f"{listed.frames:,} of {counted(count, 'frame')}"

    def _notes(self) -> tuple[str, ...]:
        browser, index = self._browser, self._browser.frames.index
        notes = []
        failure = index.failure
        if not index.complete and not failure:
            read, size = index.progress
            notes.append(f"reading {100 * read // size} %" if size else "waiting" if index.idle else "reading")
        if browser.rows is not None:
            notes.append(f"searching at #{browser.rows.at:,} (Esc stops)")
        marks = len(browser.screen.list.marks)
        if marks:
            notes.append(f"● {marks:,} marked")
        if failure:
            notes.append(failure)
        if index.damage:
            notes.append("damaged (i)")
        if browser.commands.hides:
            notes.append("redacted")
        if browser.screen.list.follows:
            notes.append("following")
        return tuple(notes)

    def _searching(self) -> str:
        search = self._browser.search
        if search is not None and search.ended_at is not None:
            return f"ended at #{search.ended_at:,} (Esc: no filter)"
        if search is None or search.done:
            return ""
        return f"searching {search.progress} %, {search.listed.frames:,} so far (Esc stops)"

    def _progress(self) -> str:
        analysing = self._browser.analysing
        return f"{100 * analysing.progress:.0f} %" if analysing.working else ""

    def _waiting(self) -> str:
        index, analysing = self._browser.frames.index, self._browser.analysing
        if analysing.failure:
            return analysing.failure
        if not index.complete and not analysing.working:
            return "this needs all frames: " + (self._notes() or ("reading",))[0]
        return f"all frames are read once more: {100 * analysing.progress:.0f} %"

    def _draw_density(self) -> None:
        top, listed = self._browser.screen.top, self._browser.screen.list.listed
        state = (self._browser.frames.count, listed.frames, id(listed), top.bars)
        wait = not self._browser.frames.index.complete and time.monotonic() < self._due
        if state == self._drawn or wait:
            return
        self._drawn, self._due = state, time.monotonic() + _DENSITY_S
        times = self._browser.frames.index.columns.ts_ns
        chosen = None if listed.everything else times[some(listed.numbers) - 1]
        top.density = density(times, chosen, top.bars)
        top.refresh()

    def about(self) -> list[list[Piece]]:
        """Return what the captures are, and what of them is damaged."""
        return [[(f" {line.text}", STYLES.get(line.kind, ""))] for line in self._opened.about()]
