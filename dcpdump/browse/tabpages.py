"""Fill the tabs that need all frames, show the dialogue of a stream, and go to the frames of rows."""

from collections.abc import Sequence

from dcpdump.browse.analysis import StreamKey, TabRow
from dcpdump.browse.browser import Browser
from dcpdump.browse.pane import Styled
from dcpdump.browse.tabs import LadderPane, TabTable, rung_line
from dcpdump.browse.topline import TABS
from dcpdump.render.ladder import Arrow, Rung
from dcpdump.render.spec import page as message_page
from dcpdump.render.style import Line, LineKind

#: The most rows of an unfolded row.
_MOST = 500
_AWAY = "e: away"


class TabPages:
    """The content of the tables, and where their rows lead."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._screen = browser.screen

    def fill(self) -> None:
        """Fill the tables, once all frames were read."""
        if self._browser.analysis is not None:
            for name, table in self._screen.tables.items():
                table.fill(self._browser.analysis.tabs[name])

    def open(self, name: str) -> None:
        """Show a tab; in that of streams, select the stream under the cursor."""
        key = self._stream() if self._screen.tab == TABS[0] else None
        self._screen.show_tab(name)
        if name == TABS[0]:
            return
        self._ask_again()
        table = self._screen.tables[name]
        if name == "streams" and key is not None:
            table.select_stream(key)
        self.show_page(table)

    def _ask_again(self) -> None:
        """Analyse the frames so far, for an input without end."""
        frames = self._browser.frames
        if frames.state.progress[1] is None and not frames.complete:
            self._browser.analysing.begin(final=False)

    def show_page(self, table: TabTable) -> None:
        """Show the text of a row below; of a stream its dialogue."""
        if table is not self._screen.main:
            return
        row = table.selected
        hint = "Enter: the frame" if row and row.frame and not row.stream else "Enter: its frames"
        self._write(row, hint, self._dialogue(row.stream) if row and row.stream else ())

    def _write(self, row: TabRow | None, hint: str, below: Sequence[Sequence[Styled]] = ()) -> None:
        """Write the text of a row on the page."""
        page = self._screen.page
        page.border_title, page.border_subtitle = " · ".join(filter(None, row.cells[:4])) if row else "", hint
        page.write(row.page if row else (), below)

    def _dialogue(self, key: StreamKey) -> list[Sequence[Styled]]:
        analysis = self._browser.analysis
        lines: list[Sequence[Styled]] = []
        for dialogue in analysis.dialogues.get(key, ()) if analysis else ():
            lines += [[], *(rung_line(rung, self._screen.size.width - 3) for rung in dialogue.rungs)]
        return lines

    def enter(self) -> None:
        """Go to the frame of a finding, or to the frames of another row."""
        table = self._screen.main
        row = table.selected if isinstance(table, TabTable) else None
        if row is None:
            return
        if row.frame is not None and row.stream is None:
            self._browser.go(row.frame)
            self._write(row, _AWAY)
            self._screen.show_beside(True)
        elif row.clauses:
            self._browser.with_clauses(*row.clauses, text="")

    def sort(self) -> None:
        """Sort the table of the tab by its next column."""
        table = self._screen.main
        if isinstance(table, TabTable):
            table.sort_next()

    def explain(self) -> None:
        """Show the page of the rule that a frame breaks, or of its message, beside its fields; or hide it."""
        screen = self._screen
        if screen.tab == "findings":
            self.enter()
            return
        if screen.tab != TABS[0]:
            screen.say("e explains a finding, or a frame")
            return
        if screen.shows_page:
            screen.show_beside(False)
            return
        record, analysis = self._browser.record(), self._browser.analysis
        if record is None:
            return
        findings = analysis.tabs["findings"].rows if analysis else ()
        found = next((row for row in findings if row.frame == record.number), None)
        if found is not None:
            self._write(found, _AWAY)
        else:
            screen.page.border_title, screen.page.border_subtitle = record.frame.message.name, _AWAY
            screen.page.write([Line(LineKind.PLAIN, text) for text in message_page(record.frame.message).split("\n")])
        screen.show_dialogue(False)
        screen.show_beside(True)

    # -- dialogues ----------------------------------------------------------------------------------------

    def _stream(self) -> StreamKey | None:
        number = self._browser.number
        if number is None:
            return None
        facts = self._browser.frames.facts(number)
        return None if facts.vbucket is None else (facts.connection, facts.vbucket, facts.stream_id)

    def dialogue(self) -> None:
        """Show the dialogue of the stream of the row, or hide it."""
        if self._screen.shows_dialogue:
            self._screen.show_dialogue(False)
            return
        if self._screen.tab != TABS[0]:
            row = self._screen.tables[self._screen.tab].selected
            key = None if row is None else row.stream
            number = None if row is None else row.frame
        else:
            key, number = self._stream(), self._browser.number
        self._ask_again()
        analysis = self._browser.analysis
        if analysis is None:
            self._screen.say("dialogues need all frames: they are still being read")
            return
        found = analysis.dialogues.get(key, ()) if key is not None else ()
        if not found:
            self._screen.say("this frame is of no stream")
            return
        if self._screen.tab != TABS[0]:
            self._browser.leave()
            self._screen.show_tab(TABS[0])
        self._screen.ladder.show(found, number)
        self._screen.show_dialogue(True)
        self.follow(self._screen.ladder)

    def follow(self, pane: LadderPane) -> None:
        """Move the list to the frame of the dialogue."""
        rung = pane.selected
        if self._screen.shows_dialogue and rung is not None and rung.frame is not None:
            self._screen.list.go(rung.frame)

    def enter_rung(self, pane: LadderPane) -> None:
        """Unfold a row of messages; of others, go to the frame."""
        rung = pane.selected
        if rung is None:
            return
        if rung.arrow is Arrow.BAND:
            pane.toggle(self._snapshots)
        elif rung.frame is not None:
            self._screen.show_dialogue(False)
            self._browser.go(rung.frame)

    def _snapshots(self, after: int, before: int | None) -> list[Rung]:
        """Return the snapshots of the stream between two frames, a row each."""
        from dcpdump.browse.search import StreamScan

        frames = self._browser.frames
        number = after or before or self._browser.number or 1
        found = StreamScan(frames, number).snapshots(after, before)
        out = []
        for number, messages in found[:_MOST]:
            text = f"snapshot-marker, {messages:,} message{'s' * (messages != 1)} follow"
            out.append(Rung(Arrow.BAND, text, frames.ts_ns(number), number))
        if len(found) > _MOST:
            out.append(Rung(Arrow.NOTE, f"… {len(found) - _MOST:,} more snapshots"))
        return out or [Rung(Arrow.NOTE, "no snapshot marker among them")]
