"""Be a user who may do nothing, for whom files and folders have the modes that they have."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield an empty folder that everybody may read: those of pytest are for their owner alone."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(place)


@contextmanager
def powerless() -> Iterator[None]:
    """Have this process no rights but those of nobody; a user who is not root has none to give up."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
