"""Ahead: the blocks of captures, read by a helper while those before them are worked on here.

A helper's blocks lie in memory that both share, in one of a few rooms: first the bytes of the packets, then all
else. What was found wrong with the captures so far comes with each block.
"""

import mmap
import os
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import islice
from typing import NamedTuple

from dcpdump.capture import Capture
from dcpdump.capture.damage import Health
from dcpdump.columnar.block import BLOCK_BYTES, Block
from dcpdump.columnar.input import blocks_of
from dcpdump.columnar.pcap import room_for
from dcpdump.helper import LEAST_BYTES, Helper, can_help, write_all

_ROOMS = 2
#: Of a room, what packets may take, and all of it. Memory that nobody writes to is none, so there may be much.
_DATA = room_for(BLOCK_BYTES)
_ROOM = 64 << 20
_SIZE = 8  #: bytes of a number that says how much is told


class _Told(NamedTuple):
    """What a helper tells."""

    block: Block | None  #: None: that was all
    healths: dict[int, Health]  #: of those captures of which there is something new


def blocks_ahead(captures: Sequence[Capture], jobs: int | None = None) -> Iterator[Block]:
    """It gives the packets of captures, as ``blocks_of`` does: with a helper, where there is enough to do for two.

    ``jobs``: how many processes there may be; None: as many as there are processors.
    """
    whole = all(capture.rereadable for capture in captures)
    much = whole and sum(os.path.getsize(capture.name) for capture in captures) >= LEAST_BYTES
    if not much or (jobs or os.cpu_count() or 1) < 2 or not can_help():
        return blocks_of(captures)
    rooms = [mmap.mmap(-1, _ROOM) for _ in range(_ROOMS)]
    try:
        helper = Helper(partial(_read, captures, rooms))
    except OSError:  # there may be no more processes
        return blocks_of(captures)
    return _heard(captures, rooms, helper)


def _heard(captures: Sequence[Capture], rooms: Sequence[mmap.mmap], helper: Helper) -> Iterator[Block]:
    """It gives the blocks that a helper tells of."""
    given = 0
    try:
        while len(head := helper.hear(1 + _SIZE)) > _SIZE:
            place, size = head[0], int.from_bytes(head[1:], "big")
            room = memoryview(rooms[place])
            data = room[_DATA : _DATA + size] if size <= _ROOM - _DATA else helper.hear(size)
            if len(data) < size:
                break
            told = _unpacked(data, room)
            for number, health in told.healths.items():
                captures[number].health = health
            if told.block is None:
                return
            yield told.block
            given += 1
            helper.tell(bytes([place]))
    finally:
        helper.let_go()
    # It has died: of what, will be seen here.
    yield from islice(blocks_of(captures), given, None)


# -- in the helper ------------------------------------------------------------------------------------------


def _read(captures: Sequence[Capture], rooms: Sequence[mmap.mmap], orders: int, results: int) -> None:
    """It reads captures, as far ahead as there are rooms."""
    place = 0

    def room() -> Iterator[memoryview]:
        while True:
            yield memoryview(rooms[place])[:_DATA]

    blocks = blocks_of(captures, room())
    known = [_state(capture.health) for capture in captures]
    for place in _free(orders):
        block = next(blocks, None)
        news = {
            number: capture.health
            for number, capture in enumerate(captures)
            if _state(capture.health) != known[number] or block is None
        }
        known = [_state(capture.health) for capture in captures]
        told = _packed(_Told(block, news))
        fits = len(told) <= _ROOM - _DATA
        if fits:
            rooms[place][_DATA : _DATA + len(told)] = told
        os.write(results, bytes([place]) + len(told).to_bytes(_SIZE, "big"))
        if not fits:
            write_all(results, told)
        if block is None:
            return


def _free(orders: int) -> Iterator[int]:
    """It gives rooms in which nothing is needed any more."""
    free = deque(range(_ROOMS))
    while True:
        if not free:
            free.extend(os.read(orders, _ROOMS))
        if not free:
            return
        yield free.popleft()


def _state(health: Health) -> tuple[int, ...]:
    return health.damage_count, len(health.warnings), len(health.notes), health.drops


# -- bytes --------------------------------------------------------------------------------------------------


def _packed(told: _Told) -> bytes:
    """It packs what is told; bytes that lie in a room stay there."""
    file = BytesIO()
    _Writer(file, pickle.HIGHEST_PROTOCOL).dump(told)
    return file.getvalue()


def _unpacked(data: bytes | memoryview, room: memoryview) -> _Told:
    reader = _Reader(BytesIO(data))
    reader.room = room
    told: _Told = reader.load()
    return told


class _Writer(pickle.Pickler):
    def persistent_id(self, thing: object) -> int | None:
        return len(thing) if isinstance(thing, memoryview) else None


class _Reader(pickle.Unpickler):
    room: memoryview

    def persistent_load(self, size: int) -> memoryview:
        return self.room[:size]
