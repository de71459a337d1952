"""FilterBar: a line of text to be typed in, with history and completion; errors stand under it."""

import os
from collections.abc import Callable

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input


class FilterBar(Input):
    """A line that asks for a filter, a place, a text, a file name: whatever its prompt says."""

    BINDINGS = [  # noqa: RUF012 - as Textual has it
        Binding("tab", "complete", show=False),
        Binding("up", "recall(-1)", show=False),
        Binding("down", "recall(1)", show=False),
        Binding("escape", "leave", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
    ]

    class Left(Message):
        """The message that it was left without an answer."""

    class Offered(Message):
        """Several completions fit."""

        def __init__(self, names: list[str]) -> None:
            super().__init__()
            self.names = names

    def __init__(self) -> None:
        super().__init__(id="bar", compact=True, select_on_focus=False)
        self._histories: dict[str, list[str]] = {}
        self._history: list[str] = []
        self._at = 0
        self._complete: Callable[[str], list[str]] | None = None
        self.kind = ""

    def ask(self, kind: str, text: str, complete: Callable[[str], list[str]] | None = None) -> None:
        """Ask for something; each kind of question has a history of its own."""
        self.kind, self._complete = kind, complete
        self._history = self._histories.setdefault(kind, [])
        self._at = len(self._history)
        self.value = text
        self.cursor_position = len(text)

    def remember(self, text: str) -> None:
        """Keep an answer for the next time."""
        if text and (not self._history or self._history[-1] != text):
            self._history.append(text)

    def action_recall(self, by: int) -> None:
        """Show an earlier answer."""
        self._at = max(0, min(self._at + by, len(self._history)))
        self.value = self._history[self._at] if self._at < len(self._history) else ""
        self.cursor_position = len(self.value)

    def action_complete(self) -> None:
        """Complete what was typed as far as it is certain; where it is not, offer what fits."""
        names = self._complete(self.value) if self._complete else []
        if not names:
            return
        start = os.path.commonprefix(names)  # noqa: RUF071 - its characters are meant
        if len(start) > len(self.value) or len(names) == 1:
            self.value = start
            self.cursor_position = len(start)
        if len(names) > 1:
            self.post_message(self.Offered([name.strip().replace(",", " ").split(" ")[-1] for name in names]))

    def action_leave(self) -> None:
        """Leave without an answer."""
        self.post_message(self.Left())
