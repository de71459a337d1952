"""Draw the tables of streams, findings and connections, and the dialogue of a stream, and go to their frames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from dcpdump.browse.analysis import Dialogue, StreamKey, TabRow, TabRows
from dcpdump.browse.pane import Pane, Styled
from dcpdump.escape import safe
from dcpdump.render.ladder import Arrow, Rung
from dcpdump.render.spec import page as message_page
from dcpdump.render.style import STYLES, Line, LineKind
from dcpdump.render.text_columns import fitting_columns, padded
from dcpdump.streams.wording import clock

if TYPE_CHECKING:
    from dcpdump.browse.browser import Browser

_GAP = 2
#: The least width of the last column, a text, before other columns are omitted for it.
_LAST = 32
#: The rank of rows without a sort key.
_NOTHING = (None, "")
#: How many rows determine the widths.
_MEASURED = 2_000


class TabTable(Pane[TabRow]):
    """A table with a selected row."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.tab: TabRows | None = None
        self._sorted: tuple[int | None, bool] = (None, False)  # the column sorted by, and whether backwards
        self._widths: list[tuple[int, int]] = []  # the shown columns → their widths
        self._for = -1  # the width of the pane that they are for

    def fill(self, tab: TabRows) -> None:
        """Show a table; the cursor and the order stay."""
        self.tab, self._for = tab, -1
        self.nothing = tab.nothing
        self.sort(*self._sorted)
        self.put(self.cursor)
        self.moved()

    # -- sorting ------------------------------------------------------------------------------------------

    def sort_next(self) -> None:
        """Sort by the next column; after the last comes the original order."""
        order = [None, *(column for column, _ in self._shown())]
        at = order.index(self._sorted[0]) if self._sorted[0] in order else 0
        self.sort(order[(at + 1) % len(order)])

    def sort(self, column: int | None, backwards: bool = False) -> None:
        """Sort by a column, rows without a value last; None: the original order."""
        if self.tab is None:
            return
        chosen, rows = self.selected, self.tab.rows
        self._sorted = column, backwards
        if column is not None:
            known = [row for row in rows if row.keys[column] not in _NOTHING]
            unknown = [row for row in rows if row.keys[column] in _NOTHING]
            rows = sorted(known, key=lambda row: row.keys[column], reverse=backwards) + unknown
        self.rows = rows
        if chosen in self.rows:
            self.cursor = self.rows.index(chosen)
        self.show_cursor()

    def click_head(self, column: int) -> None:
        """Sort by the column clicked; a second click reverses the order."""
        at = 1
        for each, width in self._shown():
            if at <= column < at + width + _GAP:
                self.sort(each, self._sorted == (each, False))
                return
            at += width + _GAP

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def head(self) -> Sequence[Styled]:
        """Return the heads of the columns."""
        if self.tab is None or not self.rows:
            return ()
        names = []
        for column, name in enumerate(self.tab.table.heads):
            mark = "" if self._sorted[0] != column else "▾" if self._sorted[1] else "▴"
            names.append(name + mark)
        return [(self._line(names), "bold")]

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a row."""
        row = self.rows[line]
        return [(self._line(row.cells), STYLES.get(row.kind, ""))]

    def _line(self, cells: Sequence[str]) -> str:
        assert self.tab is not None
        shown = self._shown()
        fields = []
        for column, width in shown:
            text = safe(cells[column])
            right = self.tab.table.heads[column] in self.tab.table.right
            if column != shown[-1][0] or right:
                text = set_cell_size(padded(text, width, right=right), width)
            fields.append(text)
        return " " + (" " * _GAP).join(fields)

    def _shown(self) -> list[tuple[int, int]]:
        """Return the columns that fit, and their widths; the least important are omitted first."""
        if self.tab is None:
            return []
        if self._for == self.size.width:
            return self._widths
        heads, rows = self.tab.table.heads, self.rows[:_MEASURED]
        widths = [
            max([cell_len(head) + 1, *(cell_len(safe(row.cells[at])) for row in rows)]) for at, head in enumerate(heads)
        ]
        filled = [at for at in range(len(heads)) if any(row.cells[at] for row in self.rows)]
        last = len(heads) - 1

        def fits(columns: Sequence[int]) -> bool:
            taken = sum(widths[at] + _GAP for at in columns if at != last) + min(widths[last], _LAST) + 2
            return taken <= self.size.width

        order = dict.fromkeys(heads.index(name) for name in (*self.tab.table.least, *reversed(heads[1:-1])))
        shown = fitting_columns(filled, [at for at in order if at in filled], fits)
        self._for, self._widths = self.size.width, [(at, widths[at]) for at in shown]
        return self._widths


# -- the dialogue of a stream -------------------------------------------------------------------------
# The dialogue is drawn as in the specification, with the consumer at the left.

_TIME, _FRAME = 13, 14
_HEADS = {Arrow.ASKS: "▶", Arrow.ANSWERS: "◀", Arrow.REFUSES: "✗"}
_STYLES = {Arrow.ASKS: "yellow", Arrow.ANSWERS: "", Arrow.REFUSES: "bold red", Arrow.BAND: "cyan", Arrow.NOTE: "dim"}


class LadderPane(Pane[Rung]):
    """The rows of a dialogue."""

    def __init__(self) -> None:
        super().__init__(id="ladder")
        self._inner: list[bool] = []  # whether a row belongs to an unfolded one

    def show(self, dialogues: Sequence[Dialogue], number: int | None) -> None:
        """Show the dialogues of a stream, one after the other; the cursor is at a frame or before it."""
        self.rows = [rung for each in dialogues for rung in each.rungs]
        self._inner = [False] * len(self.rows)
        self.border_title = f"dialogue of {dialogues[0].title}"
        self.border_subtitle = f"{dialogues[0].client} at the left, {dialogues[0].server} at the right"
        before = [at for at, rung in enumerate(self.rows) if rung.frame and number and rung.frame <= number]
        self.top = 0
        self.cursor = before[-1] if before else 0
        self.show_cursor()

    def span(self) -> tuple[int, int | None]:
        """Return the range of frames of the selected row."""
        before = [rung.frame for rung in self.rows[: self.cursor] if rung.frame]
        after = [rung.frame for rung in self.rows[self.cursor + 1 :] if rung.frame]
        return (before[-1] if before else 0), (after[0] if after else None)

    def toggle(self, more: Sequence[Rung]) -> None:
        """Unfold the selected row of messages into more rows, or fold it again."""
        at = self.cursor
        if self._inner[at]:
            return
        below = at + 1
        while below < len(self.rows) and self._inner[below]:
            below += 1
        more = [] if below > at + 1 else more
        self.rows = [*self.rows[: at + 1], *more, *self.rows[below:]]
        self._inner[at + 1 : below] = [True] * len(more)
        self.refresh()

    def styled(self, line: int) -> Sequence[Styled]:
        """Return a row: the time, the arrow with the message, the frame."""
        return rung_line(self.rows[line], self.size.width, inner=self._inner[line])


def rung_line(rung: Rung, width: int, *, inner: bool = False) -> list[Styled]:
    """Return a row of a ladder; ``inner``: it belongs to an unfolded row."""
    arrow, text, ts_ns, frame = rung
    when = clock(ts_ns) if ts_ns is not None else ""
    number = f"#{frame:,}" if frame is not None else ""
    width = max(20, width - _TIME - _FRAME - 2)
    return [
        (f"{when:<{_TIME}}", "dim"),
        (f"    ◀ {text}".ljust(width) if inner else _drawn(arrow, text, width), _STYLES[arrow]),
        (f" {number:>{_FRAME - 1}}", "dim"),
    ]


def _drawn(arrow: Arrow, text: str, width: int) -> str:
    """Return an arrow with a text on it."""
    free, head = width - cell_len(text), _HEADS.get(arrow, "")
    if free < 6:
        return f"{head or ' '} {text}"
    if arrow is Arrow.BAND:
        half = "═" * ((free - 2) // 2)
        return f"{half} {text} {half}".ljust(width)
    if not head:
        return f"  {text}".ljust(width)
    line = "─" * (free - 4)
    return f"─ {text} {line}{head}" if arrow is Arrow.ASKS else f"{head}{line} {text} ─"


# -- where the rows of tables and dialogues lead ------------------------------------------------------

#: The most rows of an unfolded row.
_MOST = 500
_AWAY = "e: away"


class TabPages:
    """The content of the tables, and where their rows lead."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._screen = browser.screen

    def fill(self) -> None:
        """Fill the tables, once all frames were read."""
        if self._browser.analysis is not None:
            for name, table in self._screen.tables.items():
                table.fill(self._browser.analysis.tabs[name])

    def open(self, name: str) -> None:
        """Show a tab; in that of streams, select the stream under the cursor."""
        if name == self._screen.tab:
            return
        self._browser.leave()
        key = self._stream() if self._screen.table is None else None
        self._screen.show_tab(name)
        table = self._screen.table
        if table is None:
            return
        self._ask_again()
        if name == "streams" and key is not None:
            table.put(next((at for at, row in enumerate(table.rows) if row.stream == key), table.cursor))
        self.show_page()

    def _ask_again(self) -> None:
        """Analyse the frames so far, for an input without end."""
        frames = self._browser.frames
        if frames.state.progress[1] is None and not frames.complete:
            self._browser.analysing.begin(final=False)

    def show_page(self) -> None:
        """Show the text of a row of the table below it; of a stream its dialogue."""
        table, analysis, below = self._screen.table, self._browser.analysis, list[Sequence[Styled]]()
        if table is None:
            return
        row = table.selected
        if row and row.stream and analysis:
            for dialogue in analysis.dialogues.get(row.stream, ()):
                below += [[], *(rung_line(rung, self._screen.size.width - 3) for rung in dialogue.rungs)]
        hint = "Enter: the frame" if row and row.frame and not row.stream else "Enter: its frames"
        self._write(row, hint, below)

    def _write(self, row: TabRow | None, hint: str, below: Sequence[Sequence[Styled]] = ()) -> None:
        """Write the text of a row on the page."""
        page = self._screen.page
        page.border_title, page.border_subtitle = " · ".join(filter(None, row.cells[:4])) if row else "", hint
        page.write(row.page if row else (), below)

    def enter(self) -> None:
        """Go to the frame of a finding or a dialogue, or to the frames of another row."""
        table = self._screen.table
        if self._screen.instead is self._screen.ladder:
            self._enter_rung()
        row = None if table is None else table.selected
        if row is None:
            return
        if row.frame is not None and row.stream is None:
            self._browser.go(row.frame)
            self._write(row, _AWAY)
            self._screen.show_instead(self._screen.page)
        elif row.clauses:
            self._browser.with_clauses(*row.clauses, text="")

    def sort(self) -> None:
        """Sort the table of the tab by its next column."""
        if self._screen.table is not None:
            self._screen.table.sort_next()

    def explain(self) -> None:
        """Show the page of the rule that a frame breaks, or of its message, beside its fields; or hide it."""
        screen = self._screen
        if screen.tab == "findings":
            self.enter()
        elif screen.table is not None:
            screen.say("e explains a finding, or a frame")
        elif screen.instead is screen.page:
            screen.show_instead(None)
        elif (record := self._browser.record()) is not None:
            findings = self._browser.analysis.tabs["findings"].rows if self._browser.analysis else ()
            found = next((row for row in findings if row.frame == record.number), None)
            if found is not None:
                self._write(found, _AWAY)
            else:
                page, lines = screen.page, message_page(record.frame.message).split("\n")
                page.border_title, page.border_subtitle = record.frame.message.name, _AWAY
                page.write([Line(LineKind.PLAIN, text) for text in lines])
            screen.show_instead(screen.page)

    # -- dialogues ----------------------------------------------------------------------------------------

    def _stream(self) -> StreamKey | None:
        number = self._browser.number
        if number is None:
            return None
        facts = self._browser.frames.facts(number)
        return None if facts.vbucket is None else (facts.connection, facts.vbucket, facts.stream_id)

    def dialogue(self) -> None:
        """Show the dialogue of the stream of the row, or hide it."""
        if self._screen.instead is self._screen.ladder:
            self._screen.show_instead(None)
            return
        table, key, number = self._screen.table, self._stream(), self._browser.number
        if table is not None:
            key, number = (table.selected.stream, table.selected.frame) if table.selected else (None, None)
        self._ask_again()
        analysis = self._browser.analysis
        if analysis is None:
            self._screen.say("dialogues need all frames: they are still being read")
            return
        found = analysis.dialogues.get(key, ()) if key is not None else ()
        if not found:
            self._screen.say("this frame is of no stream")
            return
        if table is not None:
            self._browser.leave()
            self._screen.show_frames()
        self._screen.ladder.show(found, number)
        self._screen.show_instead(self._screen.ladder)
        self.follow()

    def follow(self) -> None:
        """Move the list to the frame of the dialogue."""
        rung = self._screen.ladder.selected
        if self._screen.instead is self._screen.ladder and rung is not None and rung.frame is not None:
            self._screen.list.go(rung.frame)

    def _enter_rung(self) -> None:
        """Unfold a row of messages; of others, go to the frame."""
        rung = self._screen.ladder.selected
        if rung is not None and rung.arrow is Arrow.BAND:
            self._screen.ladder.toggle(self._snapshots(*self._screen.ladder.span()))
        elif rung is not None and rung.frame is not None:
            self._screen.show_instead(None)
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
