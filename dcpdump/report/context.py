"""Hold the data from which all sections of a page are made, and make links between them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, TypeVar

from dcpdump.diagnosis.diagnosis import Diagnosis
from dcpdump.diagnosis.trouble import Command, Evidence, speaks_dcp
from dcpdump.record import Record
from dcpdump.render.column import INTEGERS, Column
from dcpdump.report.draw import TimeAxis
from dcpdump.report.gathered import Gathered
from dcpdump.report.html import Child, Markup, Value, element
from dcpdump.startup import dataclass, field
from dcpdump.streams.causes import Verdict
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

Row = TypeVar("Row")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
HUES = 5
#: The most connections with their own pictures.
LANES = 24


@dataclass(slots=True)
class Context:
    """The diagnosis, the data gathered for it, and the selection that the page shows."""

    found: Diagnosis
    gathered: Gathered
    times: TimeAxis | None  #: None: nothing has a time
    title: str
    line: Callable[[Command], str]  #: makes a command line that can be pasted
    redacted: bool
    records: dict[int, Record] = field(default_factory=dict)  #: the frames that the page shows
    dialogues: dict[Stream, int] = field(default_factory=dict)  #: those that are drawn, by number

    @property
    def evidence(self) -> Evidence:
        """What the diagnosis was made from."""
        return self.found.evidence

    @property
    def verdicts(self) -> dict[Stream, Verdict]:
        """The verdicts by stream."""
        return dict(self.evidence.judged)

    @property
    def lanes(self) -> list[ConnectionState]:
        """The connections with their own pictures: those in trouble, then those with the most bytes."""
        has_row, ranks = self.gathered.traffic.has_row, self.found.ranks

        def order(each: ConnectionState) -> tuple[object, ...]:
            rank = ranks.get(each.number, len(ranks))
            return not has_row(each.number), rank, not speaks_dcp(each), -each.bytes

        return sorted(nsmallest(LANES, self.evidence.connections, order), key=lambda each: each.number)

    def more(self, count: int, command: Command, what: str = "more") -> Markup | None:
        """Return how many more there are than the page shows, and the command for them; None without any."""
        return element("p", f"{count:,} {what}: ", element("code", self.line(command))) if count > 0 else None

    def frame(self, number: int | None, label: str | None = None) -> Markup:
        """Return a link to a frame, or only its number if the page does not show it."""
        text = label or f"frame {number:,}"
        return element("a", text, href=f"#frame-{number}") if number in self.records else element("span", text)


def hue(connection: ConnectionState) -> str:
    """Return the class of a connection's colour; they repeat."""
    return f"hue{connection.number % HUES}"


def table(
    columns: Iterable[Column[Row]],
    rows: Sequence[Row],
    drawn: Mapping[str, Callable[[Row], Child]] = _NOTHING,
    about: Callable[[Row], Mapping[str, Value]] = lambda row: _NOTHING,
    *,
    kind: str = "",
    sortable: str | None = None,
) -> Markup | None:
    """Return rows as a table in a box of its own, which scrolls where it is too wide; None without rows.

    ``drawn``: what writes cells that are more than text, by the heads of their columns; ``about``: what writes the
    attributes of a row; ``sortable``: the id of the rows where a script sorts them. Columns without any cell are left
    out.
    """
    made = [(each, [*map(drawn.get(each.head) or each.cell, rows)]) for each in columns]
    there = [(each, cells) for each, cells in made if any(cells)]
    shown = [(each, "num" if each.is_right or each.kind in INTEGERS else None, cells) for each, cells in there]
    heads = [
        element("th", each.head, scope="col", class_=kind)
        if sortable is None
        else element("th", element("button", each.head, type="button"), scope="col", aria_sort="none", class_=kind)
        for each, kind, _ in shown
    ]
    lines = [
        element("tr", [element("td", cells[at], class_=kind) for _, kind, cells in shown], **about(row))
        for at, row in enumerate(rows)
    ]
    box = element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", lines, id=sortable),
        class_=None if sortable is None else "sortable",
    )
    return element("div", box, class_=f"wide{kind}") if rows else None


def folded(summary: Child, *children: Child, **attributes: Value) -> Markup:
    """Return what is shown below its summary, where that is opened."""
    return element("details", element("summary", summary), children, **attributes)


def section(name: str, title: str, *children: Child, lead: str = "") -> Markup:
    """Return a section of the page."""
    return element(
        "section",
        element("h2", title, id=f"{name}-title"),
        element("p", lead, class_="lead") if lead else None,
        children,
        id=name,
        aria_labelledby=f"{name}-title",
    )
