"""Commands: what the screen asks the command line: filters as texts, and commands that do what was done by hand."""

from collections.abc import Sequence
from typing import Protocol


class Commands(Protocol):
    """What knows the options of ``read``, and the captures by the names under which they were given."""

    @property
    def hides(self) -> bool:
        """Return whether keys, values and names are hidden."""

    def check(self, text: str) -> None:
        """Raise FilterError where a text is no filter."""

    def completions(self, text: str) -> list[str]:
        """Return what a text may be completed to."""

    def with_clause(self, text: str, name: str, value: str) -> str:
        """Return a filter with another clause; one of the same name is replaced."""

    def words(self, name: str, text: str, frames: str, more: Sequence[str] = ()) -> list[str]:
        """Return a command over the captures, with a filter; ``frames``: of these numbers alone, unless empty."""
