"""Packets of a batch as a sequence, each made when it is looked at."""

from collections.abc import Callable, Sequence
from typing import overload

from dcpdump.net.batch import Batch
from dcpdump.net.no_time import NO_TIME
from dcpdump.net.packet import Packet


class Packets(Sequence[Packet]):
    """The packets of a batch, none of which is kept.

    ``wire``: how long each of them was on the wire; ``interfaces``: by which each was captured, if there are several.
    """

    def __init__(self, batch: Batch, wire: Callable[[int], int], interfaces: Sequence[int] = ()) -> None:
        self._batch, self._wire, self._interfaces = batch, wire, interfaces

    def __len__(self) -> int:
        return len(self._batch)

    @overload
    def __getitem__(self, index: int) -> Packet: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Packet]: ...

    def __getitem__(self, index: int | slice) -> Packet | Sequence[Packet]:
        if isinstance(index, slice):
            return [self._packet(place) for place in range(*index.indices(len(self)))]
        return self._packet(index)

    def _packet(self, index: int) -> Packet:
        batch = self._batch
        data = batch.data[batch.starts[index] : batch.ends[index]]
        ts = batch.times[index]
        name, by = batch.files[batch.file[index]], self._interfaces[index] if self._interfaces else 0
        time = None if ts == NO_TIME else ts
        return Packet(batch.numbers[index], time, batch.links[index], data, self._wire(index), name, "", by)
