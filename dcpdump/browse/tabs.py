"""TabTable: the rows of a tab, sorted by any column, as wide as the terminal."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from dcpdump.browse.analysis import TabRow, TabRows
from dcpdump.browse.pane import Pane
from dcpdump.browse.pieces import Piece
from dcpdump.escape import safe
from dcpdump.render.style import STYLES, LineKind
from dcpdump.render.text_columns import fitting_columns

_GAP = 2
#: The last column is a text: it gets so many cells at least, before others are left out for it.
_LAST = 32
#: Widths are those of so many rows.
_MEASURED = 2_000


class TabTable(Pane):
    """A table of which a row is selected."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.add_class("tab")
        self.table: TabRows | None = None
        self.waiting = ""  #: what is said as long as there is no table
        self._rows: list[TabRow] = []
        self._sorted: tuple[int, bool] | None = None
        self._widths: list[tuple[int, int]] = []  # column → its width; those that are shown
        self._for = -1

    def fill(self, table: TabRows) -> None:
        """Show a table; the cursor and the order stay."""
        order, self._sorted = self._sorted, None
        self.table = table
        self._rows = list(table.rows)
        self._for = -1
        if order is not None:
            self.sort(order[0])
            if order[1]:
                self.sort(order[0])
        self.put(self.cursor)
        self.refresh()
        self.post_message(self.Moved(self))

    @property
    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    @property
    def selected(self) -> TabRow | None:
        """Return the selected row."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def select_stream(self, place: tuple[int, int, int]) -> None:
        """Select the row of a stream, where there is one."""
        at = next((at for at, row in enumerate(self._rows) if row.stream == place), None)
        if at is not None:
            self.put(at)

    # -- sorting ------------------------------------------------------------------------------------------

    def sort_next(self) -> None:
        """Sort by the next column; behind the last comes the order of the beginning."""
        shown = [column for column, _ in self._shown()]
        if not shown:
            return
        if self._sorted is None:
            self.sort(shown[0])
        elif self._sorted[0] == shown[-1]:
            self.sort(None)
        else:
            self.sort(shown[shown.index(self._sorted[0]) + 1] if self._sorted[0] in shown else shown[0])

    def sort(self, column: int | None) -> None:
        """Sort by a column; once more: the other way round. None: as at the beginning."""
        if self.table is None:
            return
        chosen = self.selected
        if column is None:
            self._sorted, self._rows = None, list(self.table.rows)
        else:
            backwards = self._sorted == (column, False)
            self._sorted = (column, backwards)
            self._rows = sorted(self.table.rows, key=lambda row: _order(row.cells[column]), reverse=backwards)
        if chosen is not None:
            self.cursor = self._rows.index(chosen)
        self.show_cursor()

    def click_head(self, column: int) -> None:
        """Sort by the column that was clicked at."""
        at = 1
        for each, width in self._shown():
            if at <= column < at + width + _GAP:
                self.sort(each)
                return
            at += width + _GAP

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def heads(self) -> Sequence[Sequence[Piece]]:
        """Return the heads of the columns."""
        if self.table is None or not self._rows:
            return [[(f" {self.waiting if self.table is None else self.table.nothing}", "dim")]]
        names = []
        for column, name in enumerate(self.table.heads):
            mark = "" if self._sorted is None or self._sorted[0] != column else "▾" if self._sorted[1] else "▴"
            names.append(name + mark)
        return [[(self._line(names), "bold")]]

    def pieces(self, line: int) -> Sequence[Piece]:
        """Return a row."""
        row = self._rows[line]
        style = STYLES.get(row.kind, "") if row.kind is not LineKind.PLACE else "dim"
        return [(self._line(row.cells), style)]

    def _line(self, cells: Sequence[str]) -> str:
        assert self.table is not None
        shown = self._shown()
        fields = []
        for column, width in shown:
            text = safe(cells[column])
            right = self.table.heads[column] in self.table.right
            if column != shown[-1][0] or right:
                free = " " * max(0, width - cell_len(text))
                text = set_cell_size(free + text if right else text + free, width)
            fields.append(text)
        return " " + (" " * _GAP).join(fields)

    def _shown(self) -> list[tuple[int, int]]:
        """Return the columns that fit, and their widths: those that are needed least go first."""
        if self.table is None:
            return []
        if self._for == self.size.width:
            return self._widths
        heads, rows = self.table.heads, self._rows[:_MEASURED]
        widths = [
            max([cell_len(head) + 1, *(cell_len(safe(row.cells[at])) for row in rows)]) for at, head in enumerate(heads)
        ]
        filled = [at for at in range(len(heads)) if any(row.cells[at] for row in self._rows)]
        last = len(heads) - 1

        def fits(columns: Sequence[int]) -> bool:
            taken = sum(widths[at] + _GAP for at in columns if at != last) + min(widths[last], _LAST) + 2
            return taken <= self.size.width

        order = dict.fromkeys(heads.index(name) for name in (*self.table.least, *reversed(heads[1:-1])))
        shown = fitting_columns(filled, [at for at in order if at in filled], fits)
        self._for, self._widths = self.size.width, [(at, widths[at]) for at in shown]
        return self._widths


def _order(cell: str) -> tuple[int, float, str]:
    """Return what a cell is sorted by: what is empty first, then numbers, then texts."""
    digits = cell.removeprefix("≥ ").partition(" (")[0].replace(",", "")
    if digits.isdecimal():
        return (1, float(digits), "")
    return (0 if not cell else 2, 0.0, cell)
