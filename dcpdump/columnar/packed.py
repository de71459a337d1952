"""Packed: parts, and what else is known of frames, as bytes for another process.

What every process has in any case, the protocol table and its plans, is told by its place there. To be read only
by the same version of dcpdump, and only where nobody else could have written it: the bytes are a pickle.
"""

import pickle
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from dcpdump.columnar.plan import all_plans
from dcpdump.spec import MESSAGES, PUSHES


def packed(thing: object) -> bytes:
    """It packs a thing."""
    file = BytesIO()
    _Writer(file, pickle.HIGHEST_PROTOCOL).dump(thing)
    return file.getvalue()


def unpacked(data: bytes | memoryview) -> Any:
    """It gives the thing again, with nothing of it in the memory of ``data``."""
    return _Reader(BytesIO(data)).load()


def _things() -> Iterator[object]:
    """It gives all that the protocol table is made of, always in the same order."""
    for message in (*MESSAGES.values(), *PUSHES.values()):
        yield message
        for layout in (*message.request, *message.response):
            yield layout
            yield from layout.extras
            yield from layout.value if isinstance(layout.value, tuple) else ()
    yield from all_plans()


_THINGS = list(_things())
_PLACES = {id(thing): place for place, thing in enumerate(_THINGS)}


class _Writer(pickle.Pickler):
    def persistent_id(self, thing: object) -> int | None:
        return _PLACES.get(id(thing))


class _Reader(pickle.Unpickler):
    def persistent_load(self, place: int) -> object:
        return _THINGS[place]
