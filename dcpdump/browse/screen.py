"""Arrange the parts of the screen, and show or hide them. Knows no keys and no frames."""

import os
from collections.abc import Callable
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Horizontal
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from dcpdump.browse.frame_panes import FieldsPane, HexPane
from dcpdump.browse.framelist import FrameList
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.keys import HINTS
from dcpdump.browse.pane import Pane, Styled, TextPane
from dcpdump.browse.rows import TimeColumn
from dcpdump.browse.tabs import LadderPane, TabTable
from dcpdump.browse.topline import TABS, TopLine

# -- a line to be typed in, with history and completion; errors stand under it ------------------------


Take = Callable[[str], None]  #: handles the input, or raises FilterError
Complete = Callable[[str], list[str]]


class FilterBar(Input):
    """An input line for a filter, a place, a text or a file name, as its prompt says. ``offer`` shows completions."""

    BINDINGS = [  # noqa: RUF012
        Binding("tab", "complete", show=False),
        Binding("up", "recall(-1)", show=False),
        Binding("down", "recall(1)", show=False),
        Binding("escape", "screen.leave_bar", show=False),
        Binding("ctrl+c", "screen.leave_bar", show=False, priority=True),
    ]

    def __init__(self, offer: Take) -> None:
        super().__init__(id="bar", compact=True, select_on_focus=False)
        self._offer = offer
        self._histories: dict[Take, list[str]] = {}
        self._history: list[str] = []
        self._at = 0
        self._complete: Complete | None = None
        self.take: Take = offer  #: handles the input

    def ask(self, take: Take, text: str, complete: Complete | None) -> None:
        """Ask for input; each kind of question has its own history."""
        self.take, self._complete = take, complete
        self._history = self._histories.setdefault(take, [])
        self._at = len(self._history)
        self._put(text)

    def _put(self, text: str) -> None:
        self.value, self.cursor_position = text, len(text)

    def remember(self, text: str) -> None:
        """Add an answer to the history."""
        if text and (not self._history or self._history[-1] != text):
            self._history.append(text)

    def action_recall(self, by: int) -> None:
        """Show an earlier answer."""
        self._at = max(0, min(self._at + by, len(self._history)))
        self._put(self._history[self._at] if self._at < len(self._history) else "")

    def action_complete(self) -> None:
        """Complete the input as far as it is unique; then offer the completions."""
        names = self._complete(self.value) if self._complete else []
        start = os.path.commonprefix(names)  # noqa: RUF071 - its characters are meant
        if len(start) > len(self.value) or len(names) == 1:
            self._put(start)
        if len(names) > 1:
            self._offer("  ".join(name.strip().replace(",", " ").split(" ")[-1] for name in names))


# -- the parts of the screen --------------------------------------------------------------------------

#: From this width on fields and bytes are side by side, from this height on one below the other.
_WIDE, _TALL = 130, 40
_LEAST_WIDTH, _LEAST_HEIGHT = 60, 15
_LEAST_LINES, _LEAST_COLUMNS = 5, 20


class TextLine(TextPane, can_focus=False):
    """One line of text."""

    def say(self, pieces: list[Styled]) -> None:
        """Show a text; without one, hide the line."""
        self.set_class(bool(pieces), "shown")
        self.write((), [pieces])


class BrowseScreen(Screen[int]):
    """The list, and below it the selected frame; or a tab; or a dialogue."""

    HORIZONTAL_BREAKPOINTS = [(0, "tiny"), (_LEAST_WIDTH, "narrow"), (_WIDE, "wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "flat"), (_LEAST_HEIGHT, "short"), (_TALL, "tall")]  # noqa: RUF012

    def __init__(self, frames: IndexedFrames, value_bytes: int | None) -> None:
        super().__init__()
        self.top = TopLine()
        self.filter_line = TextLine(id="filter")
        self.prompt = Static("", id="prompt", markup=False)
        self.bar = FilterBar(self.say)
        self.note = TextLine(id="note")
        self.list = FrameList(frames)
        self.tables = {name: TabTable(id=name) for name in TABS[1:]}
        self.fields = FieldsPane(value_bytes)
        self.hexes = HexPane()
        self.ladder = LadderPane()
        self.page = TextPane(id="page")
        self.hints = TextLine(id="hints")
        self.tab = TABS[0]
        self._lines: int | None = None  # height of the panes below, after their border was dragged

    def compose(self) -> ComposeResult:
        """Make the parts, in the layout for the terminal, which breakpoints would only choose after the first one."""
        width, height = self.app.size
        self.set_class(True, "wide" if width >= _WIDE else "narrow", update=False)
        self.set_class(True, "tall" if height >= _TALL else "short", update=False)
        yield self.top
        yield self.filter_line
        yield Horizontal(self.prompt, self.bar, id="asking")
        yield self.note
        yield self.list
        yield from self.tables.values()
        yield Container(self.fields, self.hexes, self.ladder, self.page, id="panes")
        yield self.hints
        yield Static(f"at least {_LEAST_WIDTH} × {_LEAST_HEIGHT} are needed", id="small")

    def on_mount(self) -> None:
        """Begin with the list."""
        self.hints.say([piece for key, text in HINTS for piece in ((f" {key} ", "bold cyan"), (f"{text} ", ""))])
        self.focus_at_once(self.list)

    def on_resize(self, event: events.Resize) -> None:
        """Forget sizes that were dragged in the other layout."""
        if self.has_class("wide") != (event.size.width >= _WIDE):
            for each in (self.fields, self.hexes):
                each.styles.clear_rule("width")
                each.styles.clear_rule("height")

    @on(Pane.Dragged)
    def _dragged(self, message: Pane.Dragged) -> None:
        """Resize panes to the dragged border."""
        panes = self.query_one("#panes")
        if message.aside:
            if not self.has_class("narrow") and self.fields in self.panes:
                self.fields.styles.width = max(_LEAST_COLUMNS, min(message.column, self.size.width - _LEAST_COLUMNS))
                self.hexes.styles.width = "1fr"
            return
        if message.pane in (self.hexes, self.page) and self.fields.region.bottom == message.pane.region.y:
            lines = message.line - self.fields.region.y
            self.fields.styles.height = max(_LEAST_LINES, min(lines, panes.size.height - _LEAST_LINES))
            return
        self._lines = max(_LEAST_LINES, min(self.size.height - message.line - 1, self.size.height - 6))
        self._measure()

    def _measure(self) -> None:
        """Set the height of the panes below, unless one pane fills the screen."""
        styles = self.query_one("#panes").styles
        if self._lines is None or self.zoomed:
            styles.clear_rule("height")
            styles.clear_rule("max_height")
        else:
            styles.height, styles.max_height = self._lines, "100%"

    # -- which parts are seen -----------------------------------------------------------------------------

    @property
    def table(self) -> TabTable | None:
        """Return the table of the tab; None where the list is shown."""
        return self.tables.get(self.tab)

    @property
    def main(self) -> Pane[Any]:
        """Return the upper pane: the list, or the table of the tab."""
        return self.tables.get(self.tab, self.list)

    @property
    def panes(self) -> list[Pane[Any]]:
        """Return the panes in the order of Tab."""
        if self.table is not None:
            return [self.table, self.page]
        if self.shows_dialogue:
            return [self.ladder, self.list]
        return [self.list, self.fields, self.page if self.shows_page else self.hexes]

    @property
    def shows_dialogue(self) -> bool:
        """Return whether a dialogue is shown."""
        return self.has_class("talking")

    @property
    def shows_page(self) -> bool:
        """Return whether a page is shown beside the fields."""
        return self.has_class("explaining")

    @property
    def pane(self) -> Pane[Any]:
        """Return the pane with the focus."""
        return self.focused if isinstance(self.focused, Pane) else self.main

    def focus_at_once(self, pane: Widget) -> None:
        """Focus a part at once, since the next key may be pending."""
        self.set_focus(pane, scroll_visible=False)

    def show_tab(self, name: str) -> None:
        """Show frames, or one of the tables."""
        self.tab = name
        self.set_class(self.table is not None, "tabbed")
        if self.table is not None:
            self.remove_class("talking", "explaining")
        for each, table in self.tables.items():
            table.display = each == name
        self.unzoom()
        self.focus_at_once(self.main)

    def show_frames(self) -> None:
        """Show frames instead of a table."""
        if self.table is not None:
            self.show_tab(TABS[0])

    def show_dialogue(self, shown: bool) -> None:
        """Show the dialogue instead of fields and bytes, or these again."""
        self.set_class(shown, "talking")
        self.focus_at_once(self.ladder if shown else self.list)
        if shown:
            self.call_after_refresh(self.ladder.centre, always=True)

    def show_beside(self, shown: bool) -> None:
        """Show a page instead of the bytes, or these again; in front, where it shares a place with the fields."""
        self.set_class(shown, "explaining")
        self.set_class(shown, "bytes")
        self.focus_at_once(self.list)

    def turn(self, by: int) -> None:
        """Go to the next pane."""
        panes = self.panes
        at = panes.index(self.pane) if self.pane in panes else 0
        self.focus_pane(panes[(at + by) % len(panes)])

    def focus_pane(self, pane: Pane[Any]) -> None:
        """Focus a pane; where bytes and fields share a place, it comes to the front."""
        if pane in (self.fields, self.hexes, self.page):
            self.set_class(pane is not self.fields, "bytes")
        if self.zoomed:
            self.unzoom()
            self._zoom(pane)
        self.focus_at_once(pane)

    @property
    def zoomed(self) -> bool:
        """Return whether one pane fills the screen."""
        return self.has_class("zoom-list") or self.has_class("zoom-panes")

    def zoom(self) -> None:
        """Let the pane fill the screen, or no longer."""
        if self.zoomed:
            self.unzoom()
        else:
            self._zoom(self.pane)

    def unzoom(self) -> None:
        """Show all panes."""
        self.remove_class("zoom-list", "zoom-panes")
        self._measure()

    def _zoom(self, pane: Pane[Any]) -> None:
        self.add_class("zoom-list" if pane is self.main else "zoom-panes")
        self._measure()

    def next_times(self) -> None:
        """Show times with the next reference."""
        times = list(TimeColumn)
        self.list.times = times[(times.index(self.list.times) + 1) % len(times)]
        self.list.refresh()
        self.say(f"times: {self.list.times.value}")

    def next_view(self) -> None:
        """Show the next view of the bytes."""
        self.hexes.next_view()
        if self.table is None and not self.shows_dialogue and self.has_class("narrow") and self.has_class("short"):
            self.focus_pane(self.hexes)

    # -- questions and notes ------------------------------------------------------------------------------

    def say(self, text: str, *, error: bool = False) -> None:
        """Show a note, until the next key."""
        self.note.set_class(error, "error")
        self.note.say([(f" {text}", "bold red" if error else "yellow")] if text else [])

    def ask(self, prompt: str, take: Take, text: str = "", complete: Complete | None = None) -> None:
        """Show the input line, with a text in it."""
        self.prompt.update(prompt)
        self.bar.ask(take, text, complete)
        self.query_one("#asking").add_class("shown")
        self.focus_at_once(self.bar)

    def close_bar(self) -> None:
        """Hide the input line."""
        self.query_one("#asking").remove_class("shown")
        self.focus_at_once(self.ladder if self.shows_dialogue else self.main)

    def action_leave_bar(self) -> None:
        """Leave the input line without an answer."""
        self.say("")
        self.close_bar()

    @property
    def bar_is_open(self) -> bool:
        """Return whether the input line is shown."""
        return self.query_one("#asking").has_class("shown")

    def show_filter(self, text: str, state: str) -> None:
        """Show the current filter, and the progress of its search."""
        pieces: list[Styled] = [(" filter: ", "dim"), (text, "bold"), (f"  {state}", "yellow")]
        self.filter_line.say(pieces if text else [])


# -- the layout of the screen, in Textual's style sheets; colours are the terminal's own sixteen ------

CSS = """
Screen { background: ansi_default; color: ansi_default; layout: vertical; }
#top { height: 1; }
#filter, #note { height: 1; display: none; }
#filter.shown, #note.shown { display: block; }
#note { color: ansi_yellow; }
#note.error { color: ansi_red; text-style: bold; }
#asking { height: 1; display: none; }
#asking.shown { display: block; }
#prompt { width: auto; padding: 0 1 0 1; text-style: bold; }
#bar { width: 1fr; border: none; height: 1; padding: 0; background: ansi_default; color: ansi_default; }
#bar:focus { background: ansi_default; }
#list, .tab { height: 1fr; }
.tab { display: none; }
#panes { height: 45%; min-height: 7; max-height: 22; layout: horizontal; }
#fields, #hexes, #ladder, #page { border: round ansi_blue; height: 1fr; width: 1fr; }
#fields:focus, #hexes:focus, #ladder:focus, #page:focus { border: round ansi_yellow; }
#hexes { width: 80; }
#ladder, #page { display: none; }
.narrow #hexes { width: 1fr; }
.narrow.tall #panes { layout: vertical; height: 55%; max-height: 44; }
.narrow.short #hexes { display: none; }
.narrow.short.bytes #hexes { display: block; }
.narrow.short.bytes #fields { display: none; }
.explaining #hexes, .explaining.narrow.short.bytes #hexes { display: none; }
.explaining #page { display: block; }
.explaining.narrow.short #page { display: none; }
.explaining.narrow.short.bytes #page { display: block; }
.tabbed #list { display: none; }
.tabbed #fields, .tabbed #hexes { display: none; }
.tabbed.narrow.short.bytes #hexes { display: none; }
.tabbed #page { display: block; }
.talking #fields, .talking #hexes { display: none; }
.talking.narrow.short.bytes #hexes { display: none; }
.talking #ladder { display: block; }
.talking.explaining #page, .talking.explaining.narrow.short.bytes #page { display: none; }
.zoom-list #panes { display: none; }
.zoom-panes #list, .zoom-panes .tab { display: none; }
.zoom-panes #panes, .zoom-panes.narrow.tall #panes { height: 1fr; max-height: 100%; }
#hints { height: 1; }
#small { display: none; }
.tiny > *, .flat > * { display: none; }
.tiny > #small, .flat > #small { display: block; height: 1; }
TextDialog, KeyQuestion { align: center middle; background: ansi_default; }
#text { border: round ansi_yellow; height: 90%; width: 90%; max-width: 110; }
KeyQuestion #text { height: auto; background: ansi_default; padding: 0; }
OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
  color: ansi_default; background: ansi_default; text-style: reverse;
}
"""
