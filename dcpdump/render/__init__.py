"""Write frames, streams and every other result as text for people, and as rows for programs.

Begin with ``OUTPUTS`` below, the formats of frames: ``table``, ``line``, ``objects`` (ndjson and csv) write a Record;
``plain_formats`` and ``plain_rows`` write many ordinary frames at once, with the same result. Each other module writes
what its name says (``streams``, ``findings``, ``flow`` …), as text and as objects. ``column`` is one column of such
rows, declared once; ``text_columns`` lays tables out; ``style`` colours lines.

May import ``diagnosis``, ``compare``, ``check``, ``streams`` and what is below these. Every text passes ``escape``.
"""

from collections.abc import Callable

from dcpdump.clock import PLAIN_TIMES, Clock
from dcpdump.record import Record, as_json, columns
from dcpdump.render import line, table
from dcpdump.render.objects import csv_row, csv_text, dump
from dcpdump.render.style import Line, LineKind, Palette
from dcpdump.startup import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """How much of a frame to show, and in what colours."""

    value_bytes: int | None
    palette: Palette
    file: bool = False  #: several captures: say which one a frame is from
    times: Clock = PLAIN_TIMES  #: asked once for each frame
    context: bool | None = None  #: where chosen frames are shown with others around them: whether it is one of those

    def when(self, record: Record) -> str:
        """Return the time of the next frame; empty where it has none."""
        ts_ns = record.frame.raw.where.ts_ns
        return "" if ts_ns is None else self.times.row(ts_ns)

    def marked(self, drawn: Line) -> Line:
        """Return the first line of a frame, marked where it is chosen and others are not."""
        return drawn if self.context is None else Line(drawn.kind, f"{' ' if self.context else '>'} {drawn.text}")


Writer = Callable[[Record, View], str]


def _drawn(draw: Callable[[Record, int | None], list[Line]]) -> Writer:
    """Return a writer of frames as several lines, with a line above that says where and when."""

    def write(record: Record, view: View) -> str:
        lines = draw(record, view.value_bytes)
        if record.connection is not None:
            lines.insert(0, view.marked(table.origin_line(record, view.when(record), file=view.file)))
        lines.append(Line(LineKind.PLAIN, ""))
        return view.palette.paint_all(lines)

    return write


def _one_line(record: Record, view: View) -> str:
    (drawn,) = line.lines(record, view.value_bytes, view.when(record))
    return f"{view.palette.paint(view.marked(drawn))}\n"


def _object(record: Record, view: View) -> str:
    row = as_json(record, value_bytes=view.value_bytes)
    return dump(row | {"context": True} if view.context else row) + "\n"


@dataclass(frozen=True, slots=True)
class Output:
    """One format: what it writes before all frames, and for each frame."""

    write: Writer
    header: Callable[[], str] | None = None


OUTPUTS: dict[str, Output] = {
    "table": Output(_drawn(table.lines)),
    "grid": Output(_drawn(table.grid_lines)),
    "line": Output(_one_line),
    "ndjson": Output(_object),
    "csv": Output(lambda record, view: csv_text(record, view.value_bytes), lambda: csv_row(columns()) + "\r\n"),
}
