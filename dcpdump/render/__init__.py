"""Show frames. OUTPUTS is the list of formats: name → the functions that write it."""

from collections.abc import Callable
from dataclasses import dataclass

from dcpdump.record import Record
from dcpdump.render import csv, grid, line, ndjson, table
from dcpdump.render.lines import Line, LineKind
from dcpdump.render.style import Palette


@dataclass(frozen=True, slots=True)
class View:
    """How much of a frame to show, and in what colours."""

    value_bytes: int | None
    palette: Palette
    file: bool = False  #: several captures: say which one a frame is from


Writer = Callable[[Record, View], str]


def _for_people(draw: Callable[[Record, int | None], list[Line]], *, apart: bool) -> Writer:
    def write(record: Record, view: View) -> str:
        lines = draw(record, view.value_bytes)
        if apart:
            if record.connection is not None:
                lines.insert(0, table.place(record, file=view.file))
            lines.append(Line(LineKind.PLAIN, ""))
        return "".join(f"{view.palette.paint(drawn)}\n" for drawn in lines)

    return write


@dataclass(frozen=True, slots=True)
class Output:
    """One format: what it writes before all frames, and for each frame."""

    write: Writer
    header: Callable[[], str] | None = None
    newline: str = "\n"


OUTPUTS: dict[str, Output] = {
    "table": Output(_for_people(table.lines, apart=True)),
    "grid": Output(_for_people(grid.lines, apart=True)),
    "line": Output(_for_people(line.lines, apart=False)),
    "ndjson": Output(lambda record, view: ndjson.text(record, view.value_bytes) + "\n"),
    "csv": Output(lambda record, view: csv.text(record, view.value_bytes) + "\r\n", lambda: csv.header() + "\r\n"),
}
