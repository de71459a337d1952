"""Colour, put on whole lines last, and only where it was decided that there is to be any."""

from dcpdump.render.lines import Kind, Line

_STYLES = {
    Kind.PLACE: "dim",
    Kind.TITLE: "bold cyan",
    Kind.COLUMNS: "dim",
    Kind.PROBLEM: "bold red",
    Kind.HINT: "yellow",
}


class Palette:
    """It paints lines, or leaves them alone."""

    def __init__(self, colour: bool) -> None:
        self._codes: dict[Kind, tuple[str, str]] = {}
        if colour:
            from rich.color import ColorSystem  # here, so that plain output never loads rich
            from rich.style import Style

            for kind, name in _STYLES.items():
                before, _, after = Style.parse(name).render("\0", color_system=ColorSystem.STANDARD).partition("\0")
                self._codes[kind] = (before, after)

    @property
    def paints(self) -> bool:
        """Whether it changes anything."""
        return bool(self._codes)

    def paint(self, line: Line) -> str:
        """It gives the line's text, in its kind's colour."""
        before, after = self._codes.get(line.kind, ("", ""))
        return f"{before}{line.text}{after}" if line.text else ""
