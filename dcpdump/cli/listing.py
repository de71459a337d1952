"""Write what a command found, as lines for people or as objects for programs."""

from collections.abc import Callable, Iterable

from dcpdump.cli.options import Display
from dcpdump.cli.sink import Sink
from dcpdump.cli.terminal import terminal_size
from dcpdump.record import Json
from dcpdump.render import ndjson
from dcpdump.render.style import Line, Palette
from dcpdump.render.text_columns import Fitting, fitted


def report(
    sink: Sink, shown: Display, lines: Callable[[], Iterable[Line | Fitting]], objects: Callable[[], Iterable[Json]]
) -> None:
    """Write what was found, as lines for people, which fit a terminal, or as objects."""
    if shown.format == "ndjson":
        for row in objects():
            sink.write(ndjson.dump(row) + "\n")
        return
    palette = Palette(shown.coloured(sink.is_terminal))
    width = terminal_size().columns if sink.is_terminal else None
    for line in fitted(lines(), width):
        sink.write(palette.paint(line) + "\n")
