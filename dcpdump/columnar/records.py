"""Records: the packets of a block as a sequence, each made when it is looked at."""

from collections.abc import Sequence
from typing import overload

from dcpdump.columnar.plan import Array
from dcpdump.net.packet import Packet


class Records(Sequence[Packet]):
    """Packets that lie in ``data``, of one file or interface."""

    def __init__(
        self,
        data: bytes | memoryview,
        numbers: Array,
        ts_ns: Array,
        links: Array,
        starts: Array,
        ends: Array,
        wire: Array,
        path: str,
    ) -> None:
        self._data, self._path, self._links = data, path, links
        self._numbers, self._ts_ns, self._starts, self._ends, self._wire = numbers, ts_ns, starts, ends, wire

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Packet: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Packet]: ...

    def __getitem__(self, index: int | slice) -> Packet | Sequence[Packet]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        data = bytes(self._data[self._starts[index] : self._ends[index]])
        number, ts_ns, wire = int(self._numbers[index]), int(self._ts_ns[index]), int(self._wire[index])
        return Packet(number, ts_ns, int(self._links[index]), data, wire, self._path)
