"""Pack parts, and what else is known of frames, as bytes for another process.

What is large is not copied into the pickle: it stands behind it, and is read where it is.

What every process has in any case, the protocol table and its plans, is given by its place there. To be read only
by the same version of dcpdump, and only where no one else could have written it: the bytes are a pickle.
"""

import pickle
from collections.abc import Iterator
from dataclasses import fields
from io import BytesIO
from operator import attrgetter
from struct import Struct, pack, unpack_from
from typing import Any

from dcpdump.batch.part import Part
from dcpdump.batch.plans import PLANS
from dcpdump.record import Record
from dcpdump.spec import MESSAGES, PUSHES

#: To pack a record and unpack it takes as long as to write so many frames that a plan took.
_FRAMES_A_RECORD = 20
_NUMBER = Struct("=Q")
_ALIGNED = 64  #: bytes: what NumPy reads must not begin anywhere


def is_heavy(part: Part) -> bool:
    """Return whether a part is sooner written than packed: there are records of many frames."""
    return len(part) < _FRAMES_A_RECORD * sum(isinstance(each, Record) for each in part.records.values())


def pieces_of(thing: object) -> list[bytes | memoryview]:
    """Pack a thing as pieces to be written one behind another. Large ones are the thing's own memory."""
    file, buffers = BytesIO(), list[pickle.PickleBuffer]()
    _Writer(file, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append).dump(thing)
    pieces: list[bytes | memoryview] = [file.getbuffer(), *(each.raw() for each in buffers)]
    head = pack(f"={len(pieces) + 1}Q", len(pieces), *map(len, pieces))
    filled: list[bytes | memoryview] = []
    for each in (head, *pieces):
        filled += each, bytes(-len(each) % _ALIGNED)
    return filled


def thing_of(data: memoryview) -> Any:
    """Return the thing of which these are the pieces: its columns lie in their memory."""
    (count,) = _NUMBER.unpack_from(data)
    _, *sizes = unpack_from(f"={count + 1}Q", data)
    at, pieces = 0, list[memoryview]()
    for size in (_NUMBER.size * (count + 1), *sizes):
        pieces.append(data[at : at + size])
        at += size + -size % _ALIGNED
    return pickle.loads(pieces[1], buffers=pieces[2:])


def _things() -> Iterator[object]:
    """Yield all that the protocol table is made of, always in the same order."""
    for message in (*MESSAGES.values(), *PUSHES.values()):
        yield message
        for layout in message.layouts:
            yield layout
            yield from layout.extras
            yield from layout.parts
    yield from PLANS


_THINGS = list(_things())
_PLACES = {id(thing): place for place, thing in enumerate(_THINGS)}


def _thing(place: int) -> object:
    return _THINGS[place]


def _by_place(thing: object) -> Any:
    place = _PLACES.get(id(thing))
    return thing.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if place is None else (_thing, (place,))


_values_of = attrgetter(*(each.name for each in fields(Part)))


def _reduced(part: Part) -> Any:
    first, data, *others = _values_of(part)
    return _part, (pickle.PickleBuffer(data), first, *others)


def _part(data: Any, first: int, *others: Any) -> Part:
    return Part(first, bytes(data), *others)


class _Writer(pickle.Pickler):
    #: By class, because asking about every single object would take most of the time.
    dispatch_table = dict.fromkeys(map(type, _THINGS), _by_place) | {Part: _reduced}
