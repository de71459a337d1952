"""Read captures: files, pipes, folders and interfaces as Packets in one timeline, with a record of any damage.

Begin with ``file``: a Capture, and the timeline of several. ``paths`` finds captures; ``source`` reads their bytes,
which ``compression`` unpacks; ``pcap``, ``pcapng`` and the quick ``plain_pcap`` read the formats; ``rewriter`` and
``blocks`` write. ``live`` captures with ``bpf``, and ``relay`` passes connections on. Knows files, not protocols.
Imports ``net``, and ``tls`` for secrets in captures.

Importing the package costs nothing: a module is imported when what it defines is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcpdump.capture.damage import Damage, Health
    from dcpdump.capture.file import Capture, open_capture, timeline
    from dcpdump.capture.paths import expand

__all__ = ["Capture", "Damage", "Health", "expand", "open_capture", "timeline"]
_MODULES = {
    "Capture": "file",
    "Damage": "damage",
    "Health": "damage",
    "expand": "paths",
    "open_capture": "file",
    "timeline": "file",
}


def __getattr__(name: str) -> Any:
    """Import the module that defines a name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
