"""Say which names of collections that were asked for are not known in a capture, and which are."""

from collections.abc import Iterator, Mapping

from dcpdump.dissect import Dissector
from dcpdump.filter.collection_choice import OPTION, collection_choice

_LISTED = 8


def lines(texts: Mapping[str, str], dissection: Dissector) -> Iterator[str]:
    """Yield a line where names of ``--collection`` are not known. ``texts``: the options of a selection."""
    if "collection" not in texts:
        return
    known = dissection.names.known()
    unknown = collection_choice(texts["collection"]).unknown(known)
    if not unknown:
        return
    listed = [f"{path} (0x{number:x})" for number, path in known[:_LISTED]]
    more = f" and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
    which = f"known are {', '.join(listed)}{more}" if known else "no name of a collection was captured"
    asked = ", ".join(repr(name) for name in unknown)
    yield f"dcpdump: note: {OPTION}: the name {asked} is not known in this capture; {which}; ids (0x8) always work"
