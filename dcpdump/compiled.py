"""Whether the modules that every packet passes are compiled here, or interpreted."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec


def is_compiled(module: str = "dcpdump.net.batch") -> bool:
    """Return whether one of them is, and so are all. Interpreted they do the same, and take several times as long."""
    spec = find_spec(module)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
