"""Whether the modules that every packet passes are compiled here, or interpreted."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec


def is_compiled() -> bool:
    """Return whether they are compiled. What they do is the same; it takes several times as long where they are not."""
    spec = find_spec("dcpdump.net.batch")
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
