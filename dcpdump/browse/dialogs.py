"""Dialogs over the screen: pages of text, and questions that one key answers."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from dcpdump.browse.pieces import Piece
from dcpdump.browse.text_panes import TextPane


def _box(title: str) -> TextPane:
    pane = TextPane(id="text")
    pane.add_class("box")
    pane.border_title = title
    pane.border_subtitle = "Esc"
    return pane


class TextDialog(ModalScreen[None]):
    """A page of text."""

    BINDINGS = [  # noqa: RUF012 - as Textual has it
        Binding("escape,q,question_mark,enter,ctrl+c", "dismiss", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("home,g", "edge(-1)", show=False),
        Binding("end,G", "edge(1)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Sequence[Piece]]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """Make the page."""
        yield _box(self._title)

    def on_mount(self) -> None:
        """Show the text."""
        self.query_one(TextPane).show(self._lines)
        self.query_one(TextPane).focus()

    def action_move(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(TextPane).move(by)

    def action_page(self, by: int) -> None:
        """Scroll by screens."""
        self.query_one(TextPane).page(by)

    def action_edge(self, to: int) -> None:
        """Scroll to the beginning, or the end."""
        self.query_one(TextPane).edge(to)


class KeyQuestion(ModalScreen[str]):
    """A question; the answer is the key that was pressed, or nothing."""

    def __init__(self, question: str, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question = question
        self._answers = answers
        for key, _ in answers:
            self._bindings.bind(key, f"answer({key!r})", show=False)
        self._bindings.bind("escape", "answer('')", show=False)
        self._bindings.bind("ctrl+c", "answer('')", show=False)

    def compose(self) -> ComposeResult:
        """Make the question."""
        pane = _box(self._question)
        pane.styles.height = len(self._answers) + 2
        yield pane

    def on_mount(self) -> None:
        """Show the answers."""
        self.query_one(TextPane).show([[(f" {key}  ", "bold cyan"), (text, "")] for key, text in self._answers])

    def action_answer(self, key: str) -> None:
        """Take an answer."""
        self.dismiss(key)
