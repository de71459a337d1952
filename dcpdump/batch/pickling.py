"""Pack parts and other data about frames as bytes for another process.

Large arrays are not copied into the pickle: they follow it, and are used in place by the reader.

Entries of the protocol table, and its plans, which every process has, are given by their number. The bytes are a
pickle: read them only with the same version of dcpdump, and only where no one else could have written them.
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

#: Packing and unpacking a record takes as long as writing so many frames with a plan.
_FRAMES_A_RECORD = 20
_NUMBER = Struct("=Q")
_ALIGNED = 64  #: bytes: NumPy needs aligned data


def is_heavy(part: Part) -> bool:
    """Return whether a part is written faster than it is packed, because many frames have records."""
    return len(part) < _FRAMES_A_RECORD * sum(isinstance(each, Record) for each in part.records.values())


def pieces_of(thing: object) -> list[bytes | memoryview]:
    """Pack an object as pieces to be written one after another. Large pieces are the object's own memory."""
    file, buffers = BytesIO(), list[pickle.PickleBuffer]()
    _Writer(file, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append).dump(thing)
    pieces: list[bytes | memoryview] = [file.getbuffer(), *(each.raw() for each in buffers)]
    head = pack(f"={len(pieces) + 1}Q", len(pieces), *map(len, pieces))
    filled: list[bytes | memoryview] = []
    for each in (head, *pieces):
        filled += each, bytes(-len(each) % _ALIGNED)
    return filled


def thing_of(data: memoryview) -> Any:
    """Return the object packed in ``data``; its columns use this memory."""
    (count,) = _NUMBER.unpack_from(data)
    _, *sizes = unpack_from(f"={count + 1}Q", data)
    at, pieces = 0, list[memoryview]()
    for size in (_NUMBER.size * (count + 1), *sizes):
        pieces.append(data[at : at + size])
        at += size + -size % _ALIGNED
    return pickle.loads(pieces[1], buffers=pieces[2:])


def _things() -> Iterator[object]:
    """Yield all objects of the protocol table, always in the same order."""
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
    #: By class, because a call for every single object would take most of the time.
    dispatch_table = dict.fromkeys(map(type, _THINGS), _by_place) | {Part: _reduced}
