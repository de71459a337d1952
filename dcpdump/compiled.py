"""Find out whether the modules that every packet passes are compiled here, or interpreted."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec


def is_compiled(module: str = "dcpdump.net.batch") -> bool:
    """Return whether a module is compiled: all are or none. Interpreted ones do the same, several times slower."""
    spec = find_spec(module)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
