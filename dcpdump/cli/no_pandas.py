"""Keep pyarrow from importing pandas where it is installed: half a second, for nothing that is used here.

It does so as soon as it makes an array. For a process of our own alone, and not for Spark, which needs pandas.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Without(MetaPathFinder):
    """A finder of modules that finds no pandas, and leaves all others to others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raise ImportError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not to be imported", name=name)


def keep_pandas_out() -> None:
    """Have no module of this process import pandas."""
    sys.meta_path.insert(0, _Without())
