"""Browser: what is listed, where the cursor is, and how to get elsewhere; keys and dialogs are the app's."""

import re
import time
from collections.abc import Callable

import numpy as np

from dcpdump.browse.analysing import Analysing
from dcpdump.browse.analysis import Analysis
from dcpdump.browse.commands import Commands
from dcpdump.browse.field_lines import FieldLine, clause_of
from dcpdump.browse.frame_search import FrameSearch
from dcpdump.browse.indexed_frames import IndexedFrames, Mask
from dcpdump.browse.places import Place, PlaceHistory
from dcpdump.browse.screen import BrowseScreen
from dcpdump.browse.topline import TABS
from dcpdump.clock import clock_in_use
from dcpdump.errors import DcpdumpError
from dcpdump.filter import FilterError, parse_instant
from dcpdump.index.columns import GAP_BEFORE
from dcpdump.record import Record
from dcpdump.render.lines import LineKind

#: Seconds that one turn may take before keys are taken again.
_TURN = 0.015
#: Decoding a frame that takes longer than so many seconds is felt.
_SLOW = 0.03


class Browser:
    """The frames under a filter, and the way through them."""

    def __init__(self, frames: IndexedFrames, screen: BrowseScreen, commands: Commands, analysing: Analysing) -> None:
        self.frames, self.screen, self.commands, self.analysing = frames, screen, commands, analysing
        self.filter = ""
        self.search: FrameSearch | None = None
        self.places = PlaceHistory()
        self.is_slow = False  #: whether the last frame was decoded slowly: it was far from those before it
        self.failure = ""  #: why no more frames are read before the end
        self.sought = ""  #: the text that was searched last
        self._everything = screen.list.listed
        self._shown: int | None = None  # whose fields are shown

    # -- as time goes -------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Index, search and decode a little; return whether there is more to do at once."""
        until = time.monotonic() + _TURN
        grown = self._index(until)
        while self.search is not None and not self.search.done and time.monotonic() < until:
            grown |= self.search.step()
        if grown:
            self.screen.list.grown()
            self._begin()
        decoded = False
        while time.monotonic() < until and (number := self.screen.list.next_undecoded()) is not None:
            self.screen.list.decode(number)
            decoded = True
        if decoded:
            self.screen.list.refresh()
        searching = self.search is not None and not self.search.done
        return grown or decoded or searching

    def _index(self, until: float) -> bool:
        index = self.frames.index
        before = self._everything.frames
        frames = -1
        while (
            not self.failure and frames != index.frames and time.monotonic() < until
        ):  # a process sends, or a block is read here
            frames = index.frames
            try:
                index.step()
            except (DcpdumpError, OSError) as error:
                self.failure = f"reading has ended: {error}"
                break
        return self._take_rows(before)

    def _take_rows(self, before: int) -> bool:
        count = self.frames.count
        if count == before:
            return False
        flags = self.frames.index.columns.flags[before:count]
        self._everything.extend(np.arange(before + 1, count + 1), flags & GAP_BEFORE != 0)
        return self.search is None

    def _begin(self) -> None:
        """Show the first frame, once there is one."""
        if self._shown is None:
            self.show_frame()

    @property
    def analysis(self) -> Analysis | None:
        """Return what the tabs show, once it is there."""
        return self.analysing.result

    # -- what is shown ------------------------------------------------------------------------------------

    @property
    def number(self) -> int | None:
        """Return the frame under the cursor."""
        return self.screen.list.number

    def record(self) -> Record | None:
        """Return the frame under the cursor, decoded."""
        return None if self.number is None else self.frames.record(self.number)

    def show_frame(self) -> None:
        """Show the fields and bytes of the frame under the cursor."""
        number = self.number
        if number == self._shown:
            return
        self._shown, before = number, time.monotonic()
        record = self.record()
        self.is_slow = time.monotonic() - before > _SLOW
        if record is None and number is not None:
            self.screen.say(self.frames.failure, error=True)
        self.screen.fields.show(record, self._findings(number))
        self.screen.hexes.show(record)
        self.light()

    def show_again(self) -> None:
        """Show the frame under the cursor with what is known of it now."""
        self._shown = None
        self.show_frame()

    def _findings(self, number: int | None) -> list[FieldLine]:
        found = self.analysis.findings.get(number or 0, ()) if self.analysis else ()
        return [FieldLine(LineKind.HINT if kind is LineKind.FIELD else kind, text) for kind, text in found]

    def light(self) -> None:
        """Light the bytes of the selected field."""
        line = self.screen.fields.selected
        self.screen.hexes.light(*((line.start, line.end) if line is not None else (0, 0)))

    def light_field(self, byte: int) -> None:
        """Select the field of a byte."""
        self.screen.fields.select_byte(byte)
        line = self.screen.fields.selected
        if line is not None:
            self.screen.hexes.light_around(line.start, line.end)

    # -- places -------------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        """Return where one is."""
        return Place(self.screen.tab, self.filter, self.number)

    def leave(self) -> None:
        """Note the place before it is left."""
        self.places.leave(self.place)

    def go(self, number: int | None, nothing: str = "") -> None:
        """Go to a frame; a filter that hides it ends, and Esc brings it back. ``nothing``: said where there is none."""
        if number is None:
            self.screen.say(nothing)
            return
        self.leave()
        hidden = not self.screen.list.listed.has(number)
        if hidden:
            self._list_everything(number)
            self.screen.say(f"the filter hides #{number:,}: it is off, Esc brings it back")
        if self.screen.tab != TABS[0]:
            self.screen.show_tab(TABS[0])
        self.screen.list.go(number)

    def back(self) -> bool:
        """Go to the place before; return whether there is one."""
        return self._return(self.places.back(self.place))

    def forward(self) -> bool:
        """Go to the place that was left; return whether there is one."""
        return self._return(self.places.forward(self.place))

    def _return(self, place: Place | None) -> bool:
        if place is None:
            return False
        if place.filter != self.filter:
            self._set_filter(place.filter, place.number)
        if place.tab != self.screen.tab:
            self.screen.show_tab(place.tab)
        if place.number is not None:
            self.screen.list.go(place.number)
        return True

    # -- filters ------------------------------------------------------------------------------------------

    def apply(self, text: str) -> None:
        """Filter by a text; the old list stays where it cannot be understood."""
        text = text.strip()
        if text:
            self.commands.filter_of(text)  # raises what is wrong before anything is left
        self.leave()
        self._set_filter(text, self.number)
        if self.screen.tab != TABS[0]:
            self.screen.show_tab(TABS[0])

    def _set_filter(self, text: str, number: int | None) -> None:
        if not text:
            self._list_everything(number)
            return
        self.filter = text
        self.search = FrameSearch(self.frames, self.commands.filter_of(text))
        until = time.monotonic() + 10 * _TURN
        while not self.search.done and time.monotonic() < until:  # most are found before the screen is drawn again
            self.search.step()
        self.screen.list.show(self.search.listed, number)
        self._shown = None

    def _list_everything(self, number: int | None) -> None:
        self.filter, self.search = "", None
        self.screen.list.show(self._everything, number)

    def stop_search(self) -> bool:
        """End a search that is running; return whether there was one."""
        if self.search is None or self.search.done:
            return False
        self.search.close()
        return True

    def filter_field(self) -> None:
        """List only frames with the value of the selected field."""
        self._filter_field("")

    def exclude_field(self) -> None:
        """List no frames with the value of the selected field."""
        self._filter_field("!")

    def only_stream(self) -> None:
        """List only the stream of the frame."""
        self.with_clauses(*self.stream_clauses())

    def only_connection(self) -> None:
        """List only the connection of the frame."""
        self.with_clauses(*self.stream_clauses()[:1])

    def _filter_field(self, sign: str) -> None:
        record, line = self.record(), self.screen.fields.selected
        clause = None if record is None or line is None or line.field is None else clause_of(record, line.field)
        if clause is None:
            self.screen.say("no option of read chooses by this field")
            return
        self.with_clauses((clause[0], sign + clause[1]))

    def with_clauses(self, *clauses: tuple[str, str], text: str | None = None) -> None:
        """Filter by other clauses too. ``text``: what is kept, if not the filter that is on."""
        text = self.filter if text is None else text
        for name, value in clauses:
            text = self.commands.with_clause(text, name, value)
        self.apply(text)

    def stream_clauses(self) -> list[tuple[str, str]]:
        """Return the clauses that choose the stream of the frame under the cursor."""
        if self.number is None:
            return []
        facts = self.frames.facts(self.number)
        clauses = [("connection", str(facts.connection))]
        return clauses if facts.vbucket is None else [*clauses, ("vbucket", str(facts.vbucket))]

    # -- jumps --------------------------------------------------------------------------------------------

    def answer(self) -> None:
        """Go from a request to its response, or back."""
        if self.number is not None:
            self.go(self.frames.partner(self.number), "neither a response nor a request whose response was captured")

    def of_stream(self, step: int) -> None:
        """Go to the next frame of this stream."""
        self._jump(step, self.frames.of_stream, "no other frame of this stream")

    def snapshot(self, step: int) -> None:
        """Go to the next snapshot marker of this stream."""
        self._jump(step, self.frames.markers, "no other snapshot of this stream")

    def marker(self) -> None:
        """Go to the marker of the snapshot that the frame is in."""
        self._jump(-1, self.frames.markers, "no marker before it")

    def _jump(self, step: int, wanted: Callable[[int], Callable[[slice], Mask]], nothing: str) -> None:
        if self.number is not None:
            self.go(self.frames.next(self.number, step, wanted(self.number)), nothing)

    def problem(self, step: int) -> None:
        """Go to the next row with a problem, a refusal or lost bytes, among those that are listed."""
        if self.number is None:
            return
        listed = self.screen.list.listed
        if listed.everything:
            number = self.frames.next(self.number, step, self.frames.trouble)
        else:
            number = listed.next(self.number, step, self.frames.troubled(listed.numbers))
        self.go(number, "no other problem is known" + " so far" * (not self.frames.index.complete))

    def go_to(self, text: str) -> None:
        """Go to a place that was typed: 12, #12, 12:22:17, +30s, 40%. Raises FilterError."""
        text = text.strip().replace(",", "")
        plain = re.fullmatch(r"#?(\d+)", text)
        percent = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text)
        if plain or percent:
            count = self.screen.list.listed.frames
            if plain:
                number = int(plain[1])
                if not 1 <= number <= self.frames.count:
                    raise FilterError(f"there is no frame {number:,}: they are 1 to {self.frames.count:,}")
                self.go(number)
            elif percent and count:
                at = min(count - 1, int(float(percent[1]) * count / 100))
                self.go(int(self.screen.list.listed.numbers[at]))
            return
        self.go(self.frames.at_time(parse_instant("go to", text, clock_in_use().zone).at(self.frames.index.begins_ns)))

    def find(self, step: int) -> None:
        """Go to the next listed row with the text that is searched; as many rows as a second allows."""
        if not self.sought:
            self.screen.say("\\ searches a text")
            return
        listed, until = self.screen.list, time.monotonic() + 1.0
        line = listed.cursor + step
        while 0 <= line < listed.count:
            number, lost = listed.listed.at(line)
            if not lost and self.sought in listed.text(number).lower():
                self.leave()
                listed.put(line)
                listed.centre()
                return
            if time.monotonic() > until:
                listed.put(line)
                self.screen.say(f"not found up to #{number:,}; once more continues")
                return
            line += step
        self.screen.say(f"{self.sought!r} is not in the rows {'below' if step > 0 else 'above'}")
