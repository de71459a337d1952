"""Arrange the parts of the screen, and show or hide them. Knows no keys and no frames."""

import os
from collections.abc import Callable
from typing import Any

from textual import events
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


Submit = Callable[[str], None]  #: handles the input, or raises FilterError
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

    def __init__(self, offer: Callable[[str], None]) -> None:
        super().__init__(id="bar", compact=True, select_on_focus=False)
        self._offer = offer
        self._histories: dict[Submit, list[str]] = {}
        self._history: list[str] = []
        self._at = 0
        self._complete: Complete | None = None
        self.submit: Submit = offer

    def ask(self, submit: Submit, text: str, complete: Complete | None) -> None:
        """Ask for input; each kind of question has its own history."""
        self.submit, self._complete = submit, complete
        self._history = self._histories.setdefault(submit, [])
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
        self.set_class(not pieces, "away")
        self.write((), [pieces])


class BrowseScreen(Screen[int]):
    """The list, and below it the selected frame; or a tab; or a dialogue."""

    def __init__(self, frames: IndexedFrames, value_bytes: int | None) -> None:
        super().__init__()
        self.top = TopLine()
        self.filter_line = TextLine(id="filter").add_class("away")
        self.prompt = Static("", id="prompt", markup=False)
        self.bar = FilterBar(self.say)
        self._asking = Horizontal(self.prompt, self.bar, id="asking", classes="away")
        self.note = TextLine(id="note").add_class("away")
        self.list = FrameList(frames)
        self.tables = {name: TabTable(id=name) for name in TABS[1:]}
        self.fields = FieldsPane(value_bytes)
        self.hexes = HexPane()
        self.ladder = LadderPane()
        self.page = TextPane(id="page")
        self._below = Container(self.fields, self.hexes, self.ladder, self.page, id="below")
        self.hints = TextLine(id="hints")
        self.tab = TABS[0]
        self.instead: Pane[Any] | None = None  #: the ladder, shown for fields and bytes, or the page, for the bytes
        self.zoomed: Pane[Any] | None = None  #: the list, the table or a pane below, which fills the screen
        self._second = False  # whether bytes, not fields, are seen where only one of them fits
        self._dragged: tuple[Pane[Any], bool] | None = None  # the pane whose border is dragged; whether the upper one
        self._lines: int | None = None  # height of the panes below, after their border was dragged

    def compose(self) -> ComposeResult:
        """Make the parts."""
        self._arrange()
        yield self.top
        yield self.filter_line
        yield self._asking
        yield self.note
        yield self.list
        yield from self.tables.values()
        yield self._below
        yield self.hints
        yield Static(f"at least {_LEAST_WIDTH} × {_LEAST_HEIGHT} are needed", id="small")

    def on_mount(self) -> None:
        """Begin with the list."""
        hints = [hint.rpartition(" ") for hint in HINTS]
        self.hints.say([piece for key, _, text in hints for piece in ((f" {key} ", "bold cyan"), (f"{text} ", ""))])
        self.focus_at_once(self.list)

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the panes again; forget sizes that were dragged in the other layout."""
        if self.has_class("wide") != (event.size.width >= _WIDE):
            for each in (self.fields, self.hexes):
                each.styles.clear_rule("width")
                each.styles.clear_rule("height")
        self._arrange()

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
    def lower(self) -> list[Pane[Any]]:
        """Return the panes below, also those that do not fit."""
        if self.table is not None:
            return [self.page]
        return [self.ladder] if self.instead is self.ladder else [self.fields, self.instead or self.hexes]

    @property
    def pane(self) -> Pane[Any]:
        """Return the pane with the focus."""
        return self.focused if isinstance(self.focused, Pane) else self.main

    @property
    def shows_both(self) -> bool:
        """Return whether fields and bytes are seen at once."""
        return self.has_class("wide") or self.has_class("tall")

    def _arrange(self) -> None:
        """Choose the layout for the terminal, and show the panes that fit into it."""
        width, height = self.app.size
        self.set_class(width >= _WIDE, "wide")
        self.set_class(height >= _TALL, "tall")
        self.set_class(width < _LEAST_WIDTH or height < _LEAST_HEIGHT, "small")
        upper, lower = [self.main], self.lower
        if len(lower) > 1 and not self.shows_both:
            lower = [lower[self._second]]
        if self.zoomed is not None:
            upper, lower = (upper, []) if self.zoomed is self.main else ([], lower)
        panes: list[Pane[Any]] = [self.list, *self.tables.values(), self.fields, self.hexes, self.ladder, self.page]
        for pane in panes:
            pane.set_class(pane not in [*upper, *lower], "away")
        self._below.set_class(not lower, "away")
        styles, dragged = self._below.styles, self.zoomed is not None or self._lines is not None
        styles.height = self._lines if self.zoomed is None else "1fr"
        styles.max_height = "100%" if dragged else None

    def focus_at_once(self, pane: Widget) -> None:
        """Focus a part at once, since the next key may be pending."""
        self.set_focus(pane, scroll_visible=False)

    def show_tab(self, name: str) -> None:
        """Show frames, or one of the tables."""
        self.tab = name
        if self.table is not None:
            self.instead = None
        self.unzoom()
        self.focus_at_once(self.main)

    def show_frames(self) -> None:
        """Show frames instead of a table."""
        if self.table is not None:
            self.show_tab(TABS[0])

    def show_instead(self, pane: Pane[Any] | None) -> None:
        """Show the ladder for fields and bytes, or the page for bytes, in front of the fields; None: these again."""
        self.instead, self._second = pane, pane is self.page
        self.unzoom()
        self.focus_at_once(self.ladder if pane is self.ladder else self.list)
        if pane is self.ladder:
            self.call_after_refresh(self.ladder.centre, always=True)

    def turn(self, by: int) -> None:
        """Go to the next pane."""
        panes = [self.main, *self.lower]
        at = panes.index(self.pane) if self.pane in panes else 0
        self.focus_pane(panes[(at + by) % len(panes)])

    def focus_pane(self, pane: Pane[Any]) -> None:
        """Focus a pane; where bytes and fields share a place, it comes to the front."""
        if pane in self.lower:
            self._second = pane is not self.fields
        if self.zoomed is not None:
            self.zoomed = pane
        self._arrange()
        self.focus_at_once(pane)

    def zoom(self) -> None:
        """Let the pane fill the screen, or no longer."""
        self.zoomed = self.pane if self.zoomed is None else None
        self._arrange()

    def unzoom(self) -> None:
        """Show all panes."""
        self.zoomed = None
        self._arrange()

    def next_times(self) -> None:
        """Show times with the next reference."""
        times = list(TimeColumn)
        self.list.times = times[(times.index(self.list.times) + 1) % len(times)]
        self.list.refresh()
        self.say(f"times: {self.list.times.value}")

    # -- borders that are dragged -------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag a border of a pane, the upper one, or one at the side."""
        pane, region = self.get_widget_at(event.screen_x, event.screen_y)
        upper = event.screen_y == region.y
        if isinstance(pane, Pane) and pane.gutter.top and (upper or event.screen_x in (region.x, region.right - 1)):
            self._dragged = pane, upper
            pane.capture_mouse()

    def on_mouse_up(self) -> None:
        """Release the border."""
        if self._dragged is not None:
            self._dragged[0].release_mouse()
            self._dragged = None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Resize panes to the border that is dragged."""
        if self._dragged is None:
            return
        (pane, upper), (width, height) = self._dragged, self.size
        if not upper:
            if self.has_class("wide") and self.fields in self.lower:
                self.fields.styles.width = max(_LEAST_COLUMNS, min(event.screen_x, width - _LEAST_COLUMNS))
                self.hexes.styles.width = "1fr"
        elif pane in self.lower[1:] and self.fields.region.bottom == pane.region.y:
            lines = event.screen_y - self.fields.region.y
            self.fields.styles.height = max(_LEAST_LINES, min(lines, self._below.size.height - _LEAST_LINES))
        else:
            self._lines = max(_LEAST_LINES, min(height - event.screen_y - 1, height - 6))
            self._arrange()

    # -- questions and notes ------------------------------------------------------------------------------

    def say(self, text: str, *, error: bool = False) -> None:
        """Show a note, until the next key."""
        self.note.set_class(error, "error")
        self.note.say([(f" {text}", "bold red" if error else "yellow")] if text else [])

    def ask(self, prompt: str, submit: Submit, text: str = "", complete: Complete | None = None) -> None:
        """Show the input line, with a text in it."""
        self.prompt.update(prompt)
        self.bar.ask(submit, text, complete)
        self._asking.remove_class("away")
        self.focus_at_once(self.bar)

    def close_bar(self) -> None:
        """Hide the input line."""
        self._asking.add_class("away")
        self.focus_at_once(self.ladder if self.instead is self.ladder else self.main)

    def action_leave_bar(self) -> None:
        """Leave the input line without an answer."""
        self.say("")
        self.close_bar()

    @property
    def bar_is_open(self) -> bool:
        """Return whether the input line is shown."""
        return not self._asking.has_class("away")


# -- the layout of the screen, in Textual's style sheets; colours are the terminal's own sixteen ------

CSS = """
Screen { background: ansi_default; color: ansi_default; layout: vertical; }
#top { height: 1; }
.away { display: none; }
#filter, #note, #asking, #hints { height: 1; }
#note { color: ansi_yellow; }
#note.error { color: ansi_red; text-style: bold; }
#prompt { width: auto; padding: 0 1 0 1; text-style: bold; }
#bar { width: 1fr; border: none; height: 1; padding: 0; background: ansi_default; color: ansi_default; }
#bar:focus { background: ansi_default; }
#list, TabTable { height: 1fr; }
#below { height: 45%; min-height: 7; max-height: 22; layout: horizontal; }
#below > Pane { border: round ansi_blue; height: 1fr; width: 1fr; }
#below > Pane:focus { border: round ansi_yellow; }
.tall #below { layout: vertical; height: 55%; max-height: 44; }
.wide #below { layout: horizontal; height: 45%; max-height: 22; }
.wide #below > #hexes { width: 80; }
#small { display: none; }
.small > * { display: none; }
.small > #small { display: block; height: 1; }
Dialog { align: center middle; background: ansi_default; }
#text { border: round ansi_yellow; height: 90%; width: 90%; max-width: 110; }
OptionList#text { height: auto; background: ansi_default; padding: 0; }
OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
  color: ansi_default; background: ansi_default; text-style: reverse;
}
"""
