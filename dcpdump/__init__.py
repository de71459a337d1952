"""dcpdump: a packet inspector for Couchbase's Database Change Protocol (DCP).

    from dcpdump import explain, read

``explain(paste)`` returns the Records of pasted bytes; ``read(path, …)`` yields those of captures, in order. Importing
the package costs nothing: what a function needs is imported when it is called.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcpdump.capture.key_log import KeyLogs
    from dcpdump.net.packet import Packet
    from dcpdump.record import Record

__version__ = "0.2.0"
__all__ = ["__version__", "explain", "read"]


def explain(paste: str | bytes) -> "list[Record]":
    """Return the frames of pasted bytes, as hex, dump, literal or packets. Raises errors.PasteError."""
    from dcpdump.annotate import annotate
    from dcpdump.paste import read_paste

    return [one.record for one in annotate(read_paste(paste).parts)]


def read(*sources: Any, keylog: str | None = None) -> "Iterator[Record]":
    """Yield the frames of captures, in order of completion. Raises errors.CaptureError.

    Sources are paths of captures (files, folders, globs), or scapy's packets, single or in lists, which a record's
    ``where.packet`` numbers from 1. ``keylog``: a file with the secrets of TLS connections in the format of
    SSLKEYLOGFILE.
    """
    from dcpdump.capture.key_log import KeyLogs
    from dcpdump.dissect import Dissector

    keys = KeyLogs((keylog,) if keylog else ())
    keys.read()
    dissector = Dissector(secrets=keys.secrets)
    for packet in _packets(sources, keys):
        yield from dissector.feed(packet)
    yield from dissector.drain()


def _packets(sources: tuple[Any, ...], keys: "KeyLogs") -> "Iterator[Packet]":
    """Yield the packets of captures merged by time, or scapy's packets."""
    from os import PathLike, fspath

    if all(isinstance(source, (str, PathLike)) for source in sources):
        from dcpdump.capture.file import Capture, timeline
        from dcpdump.capture.paths import expand

        return timeline([Capture(path, secrets=keys.secrets) for path in expand([*map(fspath, sources)])])
    if any(isinstance(source, (str, PathLike)) for source in sources):
        raise TypeError("either paths of captures or packets of scapy's, not both")
    from dcpdump.scapy import packets_of

    return packets_of(sources)
