"""Pack parts, and what else is known of frames, as bytes for another process.

What every process has in any case, the protocol table and its plans, is given by its place there. To be read only
by the same version of dcpdump, and only where no one else could have written it: the bytes are a pickle.
"""

import pickle
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from dcpdump.batch.layouts import all_plans
from dcpdump.batch.part import Part
from dcpdump.record import Record
from dcpdump.spec import MESSAGES, PUSHES

#: To pack a record and unpack it takes as long as to write so many frames that a plan took.
_FRAMES_A_RECORD = 20


def is_heavy(part: Part) -> bool:
    """Return whether a part is sooner written than packed: there are records of many frames."""
    return len(part) < _FRAMES_A_RECORD * sum(isinstance(each, Record) for each in part.records.values())


def packed(thing: object) -> bytes:
    """Pack a thing."""
    file = BytesIO()
    _Writer(file, pickle.HIGHEST_PROTOCOL).dump(thing)
    return file.getvalue()


def unpacked(data: bytes | memoryview) -> Any:
    """Return the thing again, with nothing of it in the memory of ``data``."""
    return pickle.load(BytesIO(data))


def _things() -> Iterator[object]:
    """Yield all that the protocol table is made of, always in the same order."""
    for message in (*MESSAGES.values(), *PUSHES.values()):
        yield message
        for layout in message.layouts:
            yield layout
            yield from layout.extras
            yield from layout.parts
    yield from all_plans()


_THINGS = list(_things())
_PLACES = {id(thing): place for place, thing in enumerate(_THINGS)}


def _thing(place: int) -> object:
    return _THINGS[place]


def _by_place(thing: object) -> Any:
    place = _PLACES.get(id(thing))
    return thing.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if place is None else (_thing, (place,))


class _Writer(pickle.Pickler):
    #: By class, because asking about every single object would take most of the time.
    dispatch_table = dict.fromkeys(map(type, _THINGS), _by_place)
