"""Draw the tables of streams, findings and connections, and the dialogue of a stream."""

from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size

from dcpdump.browse.analysis import Dialogue, StreamKey, TabRow, TabRows
from dcpdump.browse.pane import Pane, Styled
from dcpdump.escape import safe
from dcpdump.render.ladder import Arrow, Rung
from dcpdump.render.style import STYLES
from dcpdump.render.text_columns import fitting_columns, padded
from dcpdump.streams.wording import clock

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
        self.add_class("tab")
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
        self.post_message(self.Moved(self))

    def select_stream(self, key: StreamKey) -> None:
        """Select the row of a stream, if there is one."""
        at = next((at for at, row in enumerate(self.rows) if row.stream == key), None)
        if at is not None:
            self.put(at)

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
        if column is None:
            self.rows = list(rows)
        else:
            known = [row for row in rows if row.keys[column] not in _NOTHING]
            unknown = [row for row in rows if row.keys[column] in _NOTHING]
            self.rows = sorted(known, key=lambda row: row.keys[column], reverse=backwards) + unknown
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
_STYLES = {Arrow.ASKS: "yellow", Arrow.ANSWERS: "", Arrow.REFUSES: "bold red", Arrow.BAND: "cyan", Arrow.NOTE: "dim"}

#: Returns the messages of a row, between two frames: the rows of its unfolding.
Unfold = Callable[[int, int | None], Sequence[Rung]]


class LadderPane(Pane[Rung]):
    """The rows of a dialogue."""

    def __init__(self) -> None:
        super().__init__(id="ladder")
        self._inner: list[bool] = []  # whether a row belongs to an unfolded one
        self._dialogue = Dialogue("", "", "", ())

    def show(self, dialogues: Sequence[Dialogue], number: int | None) -> None:
        """Show the dialogues of a stream, one after the other; the cursor is at a frame or before it."""
        self.rows = [rung for each in dialogues for rung in each.rungs]
        self._inner = [False] * len(self.rows)
        if dialogues:
            self._dialogue = dialogues[0]
        self.border_title = f"dialogue of {self._dialogue.title}"
        self.border_subtitle = f"{self._dialogue.client} at the left, {self._dialogue.server} at the right"
        before = [at for at, rung in enumerate(self.rows) if rung.frame and number and rung.frame <= number]
        self.top = 0
        self.cursor = before[-1] if before else 0
        self.show_cursor()

    def span(self) -> tuple[int, int | None]:
        """Return the range of frames of the selected row."""
        before = [rung.frame for rung in self.rows[: self.cursor] if rung.frame]
        after = [rung.frame for rung in self.rows[self.cursor + 1 :] if rung.frame]
        return (before[-1] if before else 0), (after[0] if after else None)

    def toggle(self, unfold: Unfold) -> None:
        """Unfold the selected row of messages, or fold it again."""
        at = self.cursor
        if self._inner[at]:
            return
        below = at + 1
        while below < len(self.rows) and self._inner[below]:
            below += 1
        more = [] if below > at + 1 else unfold(*self.span())
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
    free = width - cell_len(text)
    if free < 6:
        head = {Arrow.ASKS: "▶", Arrow.ANSWERS: "◀", Arrow.REFUSES: "✗"}.get(arrow, " ")
        return f"{head} {text}"
    line = "─" * (free - 4)
    match arrow:
        case Arrow.ASKS:
            return f"─ {text} {line}▶"
        case Arrow.ANSWERS:
            return f"◀{line} {text} ─"
        case Arrow.REFUSES:
            return f"✗{line} {text} ─"
        case Arrow.BAND:
            half = "═" * ((free - 2) // 2)
            return f"{half} {text} {half}".ljust(width)
    return f"  {text}".ljust(width)
