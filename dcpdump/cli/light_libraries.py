"""Keep libraries from bringing what is not used here: NumPy threads, and pyarrow pandas."""

import os
import sys
from collections.abc import Sequence
from types import ModuleType

#: Environment variables for the number of threads of the libraries behind NumPy.
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class _Without:
    """A finder of modules that finds no pandas, and leaves all others to others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raise ImportError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not to be imported", name=name)


def keep_pandas_out() -> None:
    """Have no module of this process import pandas, as pyarrow does with its first array: that takes half a second.

    For a process of our own alone.
    """
    sys.meta_path.insert(0, _Without())


def let_pandas_in() -> None:
    """Have modules import pandas again: Spark needs it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Without)]


def keep_numpy_to_one_thread() -> None:
    """Have NumPy start no threads when it is imported, whatever the environment says.

    Nothing here computes with matrices, so those threads could only do harm: they would keep the rights that the
    main thread gives up, and where processes are limited NumPy could not even be imported.
    """
    os.environ.update(dict.fromkeys(_BLAS_THREADS, "1"))
