"""ChoosingConsumer: what all consumers of chosen frames do, whichever way they take them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from dcpdump.batch.block import Block
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.reading import Consumer
from dcpdump.dissect import Dissector
from dcpdump.filter.choices import OPTION, collection_choice

_LISTED = 8


def collection_notes(texts: Mapping[str, str], dissection: Dissector) -> Iterator[str]:
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


P = TypeVar("P")


class ChoosingConsumer(Consumer[P]):
    """A consumer of the frames that a selection wants, to be shown in some way."""

    def __init__(self, chosen: Selection, shown: Display) -> None:
        self._chosen, self._times, self.redactor = chosen, shown.times, shown.redactor

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return which names of collections are not known."""
        return collection_notes(self._chosen.texts, dissection)

    def meet(self, block: Block) -> None:
        """Set the beginning of the capture."""
        self._chosen.begin(block.begins_ns)
        self._times.begin(block.begins_ns)
