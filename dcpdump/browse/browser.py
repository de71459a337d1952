"""Keep the list of frames and the cursor, and move between frames, filters and tabs."""

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.browse.analysis import Analysing, Analysis
from dcpdump.browse.frame_panes import FieldLine, clause_of
from dcpdump.browse.indexed_frames import Failed, IndexedFrames
from dcpdump.browse.rows import ListedFrames, RowText
from dcpdump.browse.screen import BrowseScreen
from dcpdump.clock import clock_in_use
from dcpdump.filter import FilterError, parse_instant
from dcpdump.record import Record
from dcpdump.render.style import LineKind

if TYPE_CHECKING:
    from dcpdump.browse.search import FrameSearch, RowSearch


# -- where one was, to step back to and forward again -------------------------------------------------


class Position(NamedTuple):
    """A frame, under a filter, in a tab."""

    tab: str
    filter: str
    number: int | None


class History:
    """The earlier positions, and those left by stepping back."""

    def __init__(self) -> None:
        self._before: list[Position] = []
        self._after: list[Position] = []

    def leave(self, position: Position) -> None:
        """Note a position before it is left by a jump, a filter, another tab."""
        if not self._before or self._before[-1] != position:
            self._before.append(position)
        self._after.clear()

    def step(self, now: Position, by: int) -> Position | None:
        """Return the position before (``by`` -1), or the one left by stepping back (1); None without one."""
        source, other = (self._before, self._after) if by < 0 else (self._after, self._before)
        while source:
            position = source.pop()
            if position != now:
                other.append(now)
                return position
        return None


# -- what is browsed, and what the screen needs of the command line -----------------------------------


class Commands(NamedTuple):
    """Functions of the command line for filters and commands over the captures."""

    hides: bool  #: whether keys, values and names are hidden
    check: Callable[[str], object]  #: raises FilterError if a text is no filter
    completions: Callable[[str], list[str]]  #: returns the completions of a text
    #: Returns a filter with another clause, of a name and a value; one of the same name is replaced.
    with_clause: Callable[[str, str, str], str]
    #: Returns a command over the captures: its name, a filter, the numbers of frames ("": all), more options.
    words: Callable[[str, str, str, Sequence[str]], list[str]]


class OpenCaptures(NamedTuple):
    """The captures to browse, with their options."""

    name: str
    frames: IndexedFrames
    commands: Commands
    analysing: Analysing
    value_bytes: int | None
    paths: Sequence[str]
    filter: str = ""  #: the filter at the beginning
    follows: bool = False  #: whether the list stays at the end


# -- the frames under a filter, and the way through them ----------------------------------------------

#: Seconds of a turn before keys are handled again.
_TURN = 0.015
#: Seconds to wait for a search before the screen is drawn.
_AT_ONCE = 0.15
#: A frame that arrives within so many seconds is drawn together with its row.
_WITH_THE_ROW = 0.01
#: Commands that need the frame wait for it up to so many seconds.
_PATIENCE = 10.0


class Browser:
    """The list of frames under a filter, and the movements in it."""

    def __init__(self, frames: IndexedFrames, screen: BrowseScreen, commands: Commands, analysing: Analysing) -> None:
        self.frames, self.screen, self.commands, self.analysing = frames, screen, commands, analysing
        self.filter = ""
        self.search: FrameSearch | None = None
        self.rows: RowSearch | None = None  #: the search for the next row with a text or a problem
        self.history = History()
        self.sought = ""  #: the text that was searched last
        self._everything = ListedFrames()
        screen.list.listed = self._everything
        self._describing: frozenset[int] = frozenset()  # the frames whose texts were requested
        self._ticket = 0  # of that request
        self._shown: int | None = None  # the frame that is shown or requested
        self._record: Record | None = None
        self._decoding = 0  # the ticket of the request for it

    # -- as time goes -------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Read answers, and request what the screen lacks; return whether there is more work."""
        until = time.monotonic() + _TURN
        more = self.frames.step()
        while more and time.monotonic() < until:
            more = self.frames.step()
        if self._everything.frames != self.frames.count:
            self._everything.grow(self.frames.count, self.frames.columns.values("gap_frame"))
        if self.search is not None:
            self.search.step()
            if self.search.failure:
                self.screen.say(f"the search has ended: {self.search.failure}", error=True)
        self.screen.list.grown()
        if self._shown is None:
            self.show_frame()
        self._describe()
        self._end_row_search()
        return more

    @property
    def drawn(self) -> bool:
        """Return whether the frame under the cursor and the texts of the rows have arrived."""
        return self.shows_frame and not self._describing

    @property
    def searching(self) -> bool:
        """Return whether a search is running."""
        return self.rows is not None or (self.search is not None and not self.search.done)

    def _describe(self) -> None:
        """Request the texts of visible rows."""
        wanted = self.screen.list.undescribed()
        if not self._describing.issuperset(wanted):
            self.frames.drop(self._ticket)
            self._describing = frozenset(wanted)
            self._ticket = self.frames.ask(self._described, "describe", wanted)

    def _described(self, texts: dict[int, RowText] | Failed | None) -> None:
        if isinstance(texts, Failed):
            self.screen.list.describe(dict.fromkeys(self._describing, RowText("not known")))
        elif texts is not None:
            self.screen.list.describe(texts)
            return
        self._describing = frozenset()

    @property
    def analysis(self) -> Analysis | None:
        """Return the analysis for the tabs, once it is there."""
        return self.analysing.result

    # -- what is shown ------------------------------------------------------------------------------------

    @property
    def number(self) -> int | None:
        """Return the frame under the cursor."""
        return self.screen.list.number

    def record(self) -> Record | None:
        """Return the frame under the cursor, waiting for it if necessary; None without one."""
        self.show_frame()
        self.frames.wait(_PATIENCE, lambda: self.shows_frame)
        return self._record

    def next_view(self) -> None:
        """Show the next view of the bytes of the frame, in front where they share a place with the fields."""
        if self.record() is not None:
            self.screen.hexes.next_view()
            if self.screen.hexes in self.screen.lower and not self.screen.shows_both:
                self.screen.focus_pane(self.screen.hexes)

    @property
    def shows_frame(self) -> bool:
        """Return whether the frame under the cursor has arrived and is shown."""
        return self._shown == self.number and not self.frames.awaits(self._decoding)

    def show_frame(self) -> None:
        """Show the fields and bytes of the frame under the cursor, when it arrives."""
        number = self.number
        if number == self._shown:
            return
        self.frames.drop(self._decoding)
        self._shown = number
        if number is None:
            self._draw(None)
            return
        self._decoding = self.frames.ask(self._decoded, "decode", number)
        self.frames.wait(_WITH_THE_ROW, lambda: self.shows_frame)

    def _decoded(self, value: Record | Failed | None) -> None:
        if isinstance(value, Failed):
            self.screen.say(f"#{self._shown:,} cannot be read again: {value.why}", error=True)
            self._draw(None)
        elif value is not None:
            self._draw(value)

    def show_findings(self) -> None:
        """Show the frame again, with new findings."""
        if not self.frames.awaits(self._decoding):
            self._draw(self._record)

    def _draw(self, record: Record | None) -> None:
        self._record = record
        found = self.analysis.findings.get(self._shown or 0, ()) if self.analysis else ()
        findings = [FieldLine(LineKind.HINT if kind is LineKind.FIELD else kind, text) for kind, text in found]
        self.screen.fields.show(record, findings)
        self.screen.hexes.show(record)
        self.light()

    def light(self, *, go: bool = True) -> None:
        """Highlight the bytes of the selected field; ``go``: put the cursor on the first."""
        line = self.screen.fields.selected
        self.screen.hexes.light(*((line.start, line.end) if line is not None else (0, 0)), go=go)

    def light_field(self) -> None:
        """Select the field of the selected byte."""
        self.screen.fields.select_byte(self.screen.hexes.byte)
        self.light(go=False)

    # -- positions ----------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """Return the current position."""
        return Position(self.screen.tab, self.filter, self.number)

    def leave(self) -> None:
        """Note the position before it is left."""
        self.history.leave(self.position)

    def go(self, number: int | None, nothing: str = "") -> None:
        """Go to a frame; a filter that hides it ends, and Esc restores it. ``nothing``: the note without a frame."""
        if number is None:
            self.screen.say(nothing)
            return
        self.leave()
        hidden = not self.screen.list.listed.has(number)
        if hidden:
            self._set_filter("", number)
            self.screen.say(f"the filter hides #{number:,}: it is off, Esc brings it back")
        self.screen.show_frames()
        self.screen.list.go(number)

    def step(self, by: int) -> bool:
        """Go to the position before (``by`` -1), or to the one that was left (1); return whether there is one."""
        position = self.history.step(self.position, by)
        if position is None:
            return False
        if position.filter != self.filter:
            self._set_filter(position.filter, position.number)
        if position.tab != self.screen.tab:
            self.screen.show_tab(position.tab)
        if position.number is not None:
            self.screen.list.go(position.number)
        return True

    # -- filters ------------------------------------------------------------------------------------------

    def apply(self, text: str) -> None:
        """Filter by a text; the old list stays if the text is not valid."""
        text = text.strip()
        if text:
            self.commands.check(text)  # raises an error before the position is left
        self.leave()
        self._set_filter(text, self.number)
        self.screen.show_frames()

    def _set_filter(self, text: str, number: int | None) -> None:
        self.stop_search()
        self.filter, self.search, listed = text, None, self._everything
        if text:
            from dcpdump.browse.search import FrameSearch

            search = self.search = FrameSearch(self.frames, text)
            self.frames.wait(_AT_ONCE, lambda: search.done)
            listed = search.listed
        self.screen.list.show(listed, number)

    def stop_search(self) -> bool:
        """End the searches that are running; return whether there was one."""
        running = self.searching
        for each in (self.search, self.rows):
            if each is not None:
                each.close()
        self.rows = None
        return running

    def only(self, names: Sequence[str]) -> None:
        """List only frames that have the same as this one, as far as it has them: connection, vbucket."""
        if self.number is not None:
            facts = self.frames.facts(self.number)._asdict()
            self.with_clauses(*((name, str(facts[name])) for name in names if facts[name] is not None))

    def filter_field(self, sign: str) -> None:
        """List only frames with the value of the selected field; with the ``sign`` ! only the others."""
        record, line = self.record(), self.screen.fields.selected
        clause = None if record is None or line is None or line.field is None else clause_of(record, line.field)
        if clause is None:
            self.screen.say("no option of read chooses by this field")
            return
        if clause[0] == "key" and self.commands.hides:
            self.screen.say("keys are hidden: what is shown of them chooses nothing")
            return
        self.with_clauses((clause[0], sign + clause[1]))

    def with_clauses(self, *clauses: tuple[str, str], text: str | None = None) -> None:
        """Filter by additional clauses. ``text``: the filter to extend, instead of the current one."""
        text = self.filter if text is None else text
        for name, value in clauses:
            text = self.commands.with_clause(text, name, value)
        self.apply(text)

    # -- jumps --------------------------------------------------------------------------------------------

    def answer(self) -> None:
        """Go from a request to its response, or back."""
        if self.number is not None:
            answers, columns = self.frames.columns.answers_of(self.number), self.frames.columns
            number = answers[0] if answers else columns.request_of(self.number)
            self.go(number, "neither a response nor a request whose response was captured")

    def next_of_stream(self, step: int, *, marker: bool = False) -> None:
        """Go to the next frame of this stream; ``marker``: to its next snapshot marker."""
        from dcpdump.browse.search import StreamScan

        if self.number is not None:
            found = StreamScan(self.frames, self.number).next(step, marker=marker)
            self.go(found, f"no other {'snapshot' if marker else 'frame'} of this stream")

    def next_snapshot(self, step: int) -> None:
        """Go to the next snapshot marker of this stream; backwards, that of the snapshot that the frame is in."""
        self.next_of_stream(step, marker=True)

    def seek(self, text: str) -> None:
        """Go to the next listed row with a text."""
        self.sought = text.lower()
        self.find(1)

    def find(self, step: int) -> None:
        """Go to the next listed row with the text searched last."""
        if self.sought:
            self.search_rows(step, self.sought)
        else:
            self.screen.say("\\ searches a text")

    def search_rows(self, step: int, text: str = "") -> None:
        """Go to the next listed row with a text, or with a problem, a refusal or lost bytes.

        Moving the cursor ends the search.
        """
        if self.number is None:
            return
        from dcpdump.browse.search import RowSearch

        if self.rows is not None:
            self.rows.close()
        rows = self.rows = RowSearch(self.frames, self.screen.list.listed, self.number, step, text)
        self.frames.wait(_AT_ONCE, lambda: rows.done)
        self._end_row_search()

    def _end_row_search(self) -> None:
        """Go to the row that was found; where the cursor was moved meanwhile, end the search."""
        rows = self.rows
        if rows is not None and (rows.done or rows.start != self.number):
            rows.close()
            self.rows = None
            if rows.start == self.number:
                self.go(rows.found, rows.failure or rows.nothing)

    def go_to(self, text: str) -> None:
        """Go to a frame that was typed: 12, #12, 12:22:17, +30s, 40%. Raises FilterError."""
        text = text.strip().replace(",", "")
        numbers = self.screen.list.listed.numbers
        if plain := re.fullmatch(r"#?(\d+)", text):
            number = int(plain[1])
            if not 1 <= number <= self.frames.count:
                raise FilterError(f"there is no frame {number:,}: they are 1 to {self.frames.count:,}")
        elif percent := re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text):
            number = numbers[min(len(numbers) - 1, int(float(percent[1]) * len(numbers) / 100))] if numbers else 0
        else:
            instant = parse_instant("go to", text, clock_in_use().zone)
            number = self.frames.at_time(instant.at(self.frames.state.begins_ns))
        self.go(number or None)
