"""Status: what the first lines say: how much is listed, how far reading and searching are, where the cursor is."""

import time

from dcpdump.browse.browser import Browser
from dcpdump.browse.opened import OpenCaptures
from dcpdump.browse.pieces import Piece
from dcpdump.browse.topline import State
from dcpdump.render.style import STYLES
from dcpdump.text import counted

#: The density is drawn so many seconds after the first frame: it takes NumPy, whose import would delay that. While the
#: capture is read, it is drawn again so many seconds after the last time.
_AFTER_S, _AGAIN_S = 0.2, 0.5


class Status:
    """What the screen says of itself."""

    def __init__(self, browser: Browser, opened: OpenCaptures) -> None:
        self._browser, self._opened = browser, opened
        self._due: float | None = None  # when the density is drawn
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

    @property
    def waiting(self) -> bool:
        """Return whether the density is still to be drawn."""
        return self._drawn is None and self._browser.frames.count > 0

    def _draw_density(self) -> None:
        browser, now = self._browser, time.monotonic()
        top, listed = browser.screen.top, browser.screen.list.listed
        if self._due is None:
            if self.waiting and browser.detail.shows(browser.number):
                self._due = now + _AFTER_S
            return
        state = (browser.frames.count, listed.frames, id(listed), top.bars)
        if state == self._drawn or (now < self._due and (self.waiting or not browser.frames.index.complete)):
            return
        self._drawn, self._due = state, now + _AGAIN_S
        from dcpdump.browse.density import density

        top.density = density(browser.frames.index.columns.ts_ns, listed, top.bars)
        top.refresh()

    def about(self) -> list[list[Piece]]:
        """Return what the captures are, and what of them is damaged."""
        return [[(f" {line.text}", STYLES.get(line.kind, ""))] for line in self._opened.about()]
