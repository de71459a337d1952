"""Run the screen: keys, dialogs, status lines, and the turns in which other work is done."""

import asyncio
import io
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from rich.console import Console
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import Reactive
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from dcpdump.browse.browser import Browser, OpenCaptures
from dcpdump.browse.indexed_frames import IndexedFrames
from dcpdump.browse.keys import all_keys, help_lines
from dcpdump.browse.marks import COPIES, Marks
from dcpdump.browse.pane import Pane, Styled, TextPane
from dcpdump.browse.screen import CSS, BrowseScreen
from dcpdump.browse.tabs import TabPages
from dcpdump.browse.topline import density
from dcpdump.clock import clock_in_use
from dcpdump.conversation import Missing
from dcpdump.errors import ExitCode
from dcpdump.filter import FilterError
from dcpdump.net.packet import NO_TIME
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import bytes_text
from dcpdump.streams.wording import span
from dcpdump.text import counted

# -- the first lines ----------------------------------------------------------------------------------
# The status lines: how much is listed, the progress of reading and searching, the cursor.

#: Seconds between two drawings of the density. The first one imports NumPy, which would delay the first frames.
_DENSITY_S = 0.25


class Status:
    """The status lines of the screen."""

    def __init__(self, browser: Browser, opened: OpenCaptures) -> None:
        self._browser, self._opened = browser, opened
        self._drawn: object = None

    def show(self) -> None:
        """Show changes."""
        browser, screen, top = self._browser, self._browser.screen, self._browser.screen.top
        number, listed, analysing = browser.number, screen.list.listed, browser.analysing
        some = "" if listed.everything else f"{listed.frames:,} of "
        notes = ((f"  {note}", "yellow") for note in self._notes())
        top.left = (f" {self._opened.name}", "bold"), (f"  {some}{counted(browser.frames.count, 'frame')}", ""), *notes
        top.tab, top.progress = screen.tab, f"{100 * analysing.progress:.0f} %" if analysing.working else ""
        top.at_ns = None if number is None else browser.frames.ts_ns(number)
        pieces = [(" filter: ", "dim"), (browser.filter, "bold"), (f"  {self._searching()}", "yellow")]
        screen.filter_line.say(pieces if browser.filter else [])
        screen.list.nothing = "" if self._searching() or not browser.filter else "no frame matches; Esc steps back"
        for table in screen.tables.values():
            if table.tab is None:
                table.nothing = self._waiting()

    def _notes(self) -> tuple[str, ...]:
        browser, frames = self._browser, self._browser.frames
        notes = []
        if not frames.complete and not frames.failure:
            read, size = frames.state.progress
            notes.append(f"reading {100 * read // size} %" if size else "waiting" if frames.state.idle else "reading")
        if browser.rows is not None:
            notes.append(f"searching at #{browser.rows.at:,} (Esc stops)")
        if browser.screen.list.marks:
            notes.append(f"● {len(browser.screen.list.marks):,} marked")
        if frames.failure:
            notes.append(frames.failure)
        if frames.damage:
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

    def _waiting(self) -> str:
        frames, analysing = self._browser.frames, self._browser.analysing
        if analysing.failure:
            return analysing.failure
        if not frames.complete and not analysing.working:
            return "this needs all frames: " + (self._notes() or ("reading",))[0]
        return f"all frames are read once more: {100 * analysing.progress:.0f} %"

    @property
    def _density_of(self) -> object:
        """Return what the density depends on."""
        listed = self._browser.screen.list.listed
        return self._browser.frames.count, listed.frames, id(listed), self._browser.screen.top.bars

    @property
    def waiting(self) -> bool:
        """Return whether the density is still to be drawn."""
        return self._browser.frames.count > 0 and self._drawn != self._density_of

    def draw_density(self) -> None:
        """Draw the density, if it has changed and the frames are shown."""
        browser, top = self._browser, self._browser.screen.top
        if self.waiting and browser.drawn:
            self._drawn = self._density_of
            top.density = density(browser.frames.columns.ts_ns, browser.screen.list.listed, top.bars)


# -- the app ------------------------------------------------------------------------------------------

#: The most turns a second; keys are handled between them.
_TURNS = 20


class BrowseApp(App[int]):
    """The application with one screen."""

    CSS = CSS
    theme = Reactive("ansi-dark")  # set at the beginning: a change would parse all style sheets again
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*all_keys()]

    def __init__(self, opened: OpenCaptures) -> None:
        super().__init__(ansi_color=True)
        self.opened = opened
        self.main = BrowseScreen(opened.frames, opened.value_bytes)
        self.browser = Browser(opened.frames, self.main, opened.commands, opened.analysing)
        self.pages = TabPages(self.browser)
        self.marks = Marks(self.browser, self.copy_to_clipboard)
        self.status = Status(self.browser, opened)
        self._parts = {"browser": self.browser, "screen": self.main, "pages": self.pages, "marks": self.marks}
        self.error_console = Console(file=io.StringIO())  # the caller reports an error, after the screen is closed
        self.stopped: Callable[[], int | None] = lambda: None  #: the exit code of a signal that came before it is open
        self._stale = False  # whether another frame is to be shown
        self.main.list.moved = self._show_moved
        self.main.fields.moved, self.main.hexes.moved = self.browser.light, self.browser.light_field
        self.main.ladder.moved = self.pages.follow
        for table in self.main.tables.values():
            table.moved = self.pages.show_page

    async def run_async(self, **how: Any) -> int | None:
        """Run until it is left. Signals are handled before the terminal is changed, so that it is always put back."""
        loop = asyncio.get_running_loop()
        statuses = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGHUP: ExitCode.HUNG_UP}
        for number, status in (statuses | {signal.SIGINT: ExitCode.INTERRUPTED}).items():
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
                loop.add_signal_handler(number, partial(self.exit, status))
        return self.stopped() or await super().run_async(**how)

    def get_default_screen(self) -> Screen[Any]:
        """Return the only screen."""
        return self.main

    def on_mount(self) -> None:
        """Begin to take turns."""
        self.set_interval(1 / _TURNS, self._turn)
        self.set_interval(_DENSITY_S, self.status.draw_density)
        if (descriptor := self.opened.frames.descriptor) is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._arrived, descriptor)
        self.main.list.follows = self.opened.follows
        if self.opened.filter:
            self._accepts(self.browser.apply, self.opened.filter)
        self._turn()

    def _turn(self) -> None:
        """Do a piece of pending work, and show the progress."""
        if not self.is_running or self.return_code is not None:
            return
        before = self.browser.analysis
        more = self.browser.turn()
        analysing = self.browser.analysing
        frames = self.opened.frames
        if frames.complete and not frames.count:
            self.exit(ExitCode.UNUSABLE)
        if frames.count and (frames.complete or frames.failure):
            analysing.begin(final=True)
        analysing.poll()
        if self.browser.analysis is not before:
            self.pages.fill()
            self.browser.show_findings()
        self.status.show()
        if more:
            self.call_later(self.call_after_refresh, self._turn)

    def _arrived(self, descriptor: int) -> None:
        """Read the results of the other process; stop waiting when it has ended."""
        self._turn()
        if self.opened.frames.descriptor is None:
            asyncio.get_running_loop().remove_reader(descriptor)

    def exit(self, *arguments: Any, **named: Any) -> None:
        """Leave; the other processes end while the terminal is put back."""
        if (descriptor := self.opened.frames.descriptor) is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
        self.opened.frames.leave()
        self.opened.analysing.close()
        super().exit(*arguments, **named)

    @property
    def error(self) -> Exception | None:
        """Return what ended the screen, if that was an exception."""
        return self._exception

    def _show_moved(self) -> None:
        """Show the frame under the cursor, once for all moves before the next drawing."""
        if not self._stale:
            self._stale = True
            self.call_after_refresh(self._show_frame)

    def _show_frame(self) -> None:
        self._stale = False
        self.browser.show_frame()
        self.status.show()

    # -- asking -------------------------------------------------------------------------------------------

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        self.main.say("")
        if self._accepts(self.main.bar.submit, message.value):
            self.main.bar.remember(message.value)
            self.main.close_bar()
            self.status.show()

    def _accepts(self, submit: Callable[[str], None], text: str) -> bool:
        """Return whether a text is valid, and handled; show what is wrong with it."""
        try:
            submit(text)
        except FilterError as error:
            self.main.say(f"{error}" + f" ({error.hint})" * bool(error.hint), error=True)
            return False
        return True

    # -- moving -------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether keys are active: not while a text is typed; in a dialog only those that move."""
        if self.screen is not self.main:
            return action == "pane" and isinstance(self.screen.focused, Pane)
        return not self.main.bar_is_open

    async def run_action(self, *arguments: Any, **named: Any) -> bool:
        """Take the note away, which was read before the next key, and do what the key says."""
        if self.check_action("", ()):
            self.main.say("")
        return await super().run_action(*arguments, **named)

    def action_do(self, part: str, verb: str, *values: Any) -> None:
        """Have a part of the screen do something. Textual passes one value at most."""
        getattr(self._parts[part], verb)(*values)

    def action_pane(self, verb: str, by: int) -> None:
        """Move in the pane that has the focus."""
        pane = self.main.pane if self.screen is self.main else self.screen.focused
        if verb == "edge" and pane is self.main.list:
            self.browser.leave()
        getattr(pane, verb)(by)

    def action_ask_position(self) -> None:
        """Ask where to go."""
        self.main.ask("go to", self.browser.go_to)

    def action_step_back(self) -> None:
        """Step back."""
        if self.main.zoomed is not None:
            self.main.unzoom()
        elif self.main.instead is not None:
            self.main.show_instead(None)
        elif not self.browser.stop_search() and not self.browser.step(-1) and self.browser.filter:
            self.browser.apply("")

    # -- choosing -----------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Ask for a filter."""
        text = f"{self.browser.filter} " if self.browser.filter else ""
        self.main.ask("filter", self.browser.apply, text, self.opened.commands.completions)

    def action_search(self) -> None:
        """Ask for a text."""
        self.main.ask("search", self.browser.seek)

    # -- showing ------------------------------------------------------------------------------------------

    def action_about(self) -> None:
        """Show information about the capture."""
        self.push_screen(page_of("capture", about(self.opened.paths, self.opened.frames)))

    def action_time(self, ts_ns: int) -> None:
        """Go to a time."""
        self.main.list.go(self.opened.frames.at_time(ts_ns))

    def action_follow(self) -> None:
        """Stay at the end."""
        self.main.list.edge(1)
        self.main.list.follows = True

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(page_of("keys", (), help_lines()))

    # -- taking along -------------------------------------------------------------------------------------

    def action_copy(self) -> None:
        """Ask what to copy."""
        self.push_screen(question("copy", COPIES), self.marks.copy)

    # -- leaving ------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Leave; ask once about marks that were not written."""
        if self.marks.unwritten:
            answers = (("q", "leave"), ("w", "write them"))
            self.push_screen(question(f"{self.marks.what} not written", answers), self._answer_leaving)
        else:
            self.exit(0)

    def _answer_leaving(self, key: str | None) -> None:
        if key == "q":
            self.exit(0)
        elif key == "w":
            self.marks.ask()


# -- dialogs ------------------------------------------------------------------------------------------


class Dialog(ModalScreen[str]):
    """A page of text, in which keys move, or answers to choose from; left by one of some keys, or by Esc."""

    BINDINGS = [  # noqa: RUF012 - as Textual has it
        Binding("escape,ctrl+c", "dismiss('')", show=False),
        Binding("space", "app.pane('page', 1)", show=False),
    ]

    def __init__(self, title: str, content: TextPane | OptionList, keys: Sequence[str]) -> None:
        super().__init__()
        self._content, self._keys = content, keys
        content.border_title, content.border_subtitle = title, "Esc"

    def compose(self) -> ComposeResult:
        """Make the content."""
        yield self._content

    def on_key(self, event: events.Key) -> None:
        """Leave by a key."""
        if event.key in self._keys:
            self.dismiss(event.key)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Leave by the answer that was chosen with Enter, or the mouse."""
        self.dismiss(event.option_id)


def page_of(title: str, lines: Sequence[Line], below: Sequence[Sequence[Styled]] = ()) -> Dialog:
    """Return a dialog with a page of text."""
    pane = TextPane(id="text")
    pane.write(lines, below)
    return Dialog(title, pane, ("q", "question_mark", "enter"))


def question(text: str, answers: Sequence[tuple[str, str]]) -> Dialog:
    """Return a dialog with a question, and its answers by keys."""
    options = (Option(f" {key}  {answer}", key) for key, answer in answers)
    return Dialog(text, OptionList(*options, id="text", markup=False), [key for key, _ in answers])


# -- what the captures are, how far they are read, and what of them is damaged ------------------------


def about(paths: Sequence[str], frames: IndexedFrames) -> list[Line]:
    """Return information about captures as lines."""
    read, size = frames.state.progress
    lines = [Line(LineKind.TITLE, "captures")]
    for path in paths:
        with suppress(OSError):
            lines.append(Line(LineKind.PLAIN, f"  {path}  {bytes_text(os.stat(path).st_size)}"))
    connections = counted(len({each.connection for each in frames.directions}), "connection")
    far = "all of it is read" if frames.complete else f"{bytes_text(read)} are read"
    far += f" of {bytes_text(size)}" if size and not frames.complete else ""
    text = f"{counted(frames.count, 'frame')} · {connections} · {far}"
    lines += [Line(LineKind.PLAIN, ""), Line(LineKind.PLAIN, text)]
    times = frames.columns.ts_ns[frames.columns.ts_ns != NO_TIME]
    if len(times):
        first, last = (clock_in_use().full(int(ts)) for ts in (times.min(), times.max()))
        lines.append(Line(LineKind.PLAIN, f"{first} to {last} ({span(int(times.max() - times.min()))})"))
    if frames.state.lost[0]:
        lines.append(Line(LineKind.PROBLEM, Missing(*frames.state.lost).words()))
    if frames.state.skipped_bytes:
        lines.append(Line(LineKind.PROBLEM, f"{counted(frames.state.skipped_bytes, 'byte')} skipped"))
    lines += [Line(LineKind.PROBLEM, str(damage)) for damage in frames.damage] or [
        Line(LineKind.GOOD, "nothing of the files is damaged")
    ]
    return lines
