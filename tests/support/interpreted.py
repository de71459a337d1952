"""Import the modules of dcpdump as they are written, though they are compiled."""

from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parents[2] / "dcpdump"


class Interpreted:
    """Find the modules of dcpdump as they are written, whatever is compiled of them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the source of a module is; None of what is not dcpdump's."""
        if name.partition(".")[0] != "dcpdump":
            return None
        folders = [str(PACKAGE.parent)] if path is None else path
        specs = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target) for folder in folders)
        return next((spec for spec in specs if spec is not None), None)
