"""Write chosen frames with the frames around them on the same connection, as ``grep -C`` does with lines."""

from collections import OrderedDict, deque
from dataclasses import replace

from dcpdump.batch.filter import wanted_rows
from dcpdump.batch.part import Part
from dcpdump.cli.choosing_consumer import ChoosingConsumer
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.sink import Sink
from dcpdump.record import Record
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from dcpdump.startup import dataclass, field

#: Most connections, and most bytes of frames, of which frames are kept since a hit may follow. Beyond that, those that
#: were idle longest lose theirs.
_CONNECTIONS, _BYTES = 10_000, 64 << 20
#: What a kept frame costs beside its own bytes, about.
_RECORD_BYTES = 2_000
#: What stands between frames of a connection where others were left out.
_APART = "--\n"


@dataclass(slots=True)
class _Nearby:
    """A connection's frames before its next hit. Those of the part that is being read are rows."""

    before: deque[Record | int] = field(default_factory=deque)
    after: int = 0  #: so many frames are still to be written behind the last hit
    apart: bool = True  #: frames were left out since the last one that was written


class ContextOutput(ChoosingConsumer[Part]):
    """A consumer that writes chosen frames, and ``around`` frames of the same connection before and after each."""

    def __init__(self, chosen: Selection, shown: Display, sink: Sink, around: int, *, several: bool = False) -> None:
        super().__init__(chosen, shown)
        self._shown, self._sink, self._around = shown, sink, around
        self._masks = chosen.masks
        self._write = OUTPUTS[shown.format].write
        palette = Palette(shown.coloured(sink.is_terminal))
        hits = View(shown.value_bytes, palette, file=several, times=shown.times, context=False)
        self._views = hits, replace(hits, context=True)
        self._apart = "" if shown.format == "ndjson" else _APART
        self._nearby: OrderedDict[int, _Nearby] = OrderedDict()  # by connection, the one idle longest first
        self._hits = 0
        self._behind = 0  # frames that are still to be written behind hits, on all connections

    @property
    def _full(self) -> bool:
        return self._hits == self._chosen.count

    def take(self, parts: list[Part]) -> bool:
        """Write what is chosen, and what is around it; return whether there is enough."""
        return any(self._take(part) for part in parts)

    def settle(self, *, idle: bool) -> None:
        """Write what there is."""
        self._sink.flush()

    def _take(self, part: Part) -> bool:
        hits = set(wanted_rows(part, self._masks))
        connections = [ends.connection for ends in part.places]
        for row, place in enumerate(part.place.tolist()):
            nearby = self._of(connections[place])
            if row in hits and not self._full:
                self._hit(part, row, nearby)
            elif nearby.after:
                nearby.after -= 1
                self._behind -= 1
                self._put(part.record(row), context=True)
            else:
                nearby.before.append(row)
                if len(nearby.before) > self._around:
                    nearby.before.popleft()
                    nearby.apart = True
            if self._full and not self._behind:
                return True
        self._keep(part)
        return False

    def _of(self, connection: int) -> _Nearby:
        found = self._nearby.get(connection)
        if found is None:
            found = self._nearby[connection] = _Nearby()
        else:
            self._nearby.move_to_end(connection)
        return found

    def _hit(self, part: Part, row: int, nearby: _Nearby) -> None:
        if nearby.apart and self.frames:
            self._sink.write(self._apart)
        for kept in nearby.before:
            self._put(part.record(kept) if isinstance(kept, int) else kept, context=True)
        nearby.before.clear()
        self._put(part.record(row), context=False)
        self._behind += self._around - nearby.after
        nearby.after, nearby.apart = self._around, False
        self._hits += 1

    def _put(self, record: Record, *, context: bool) -> None:
        self._sink.write(self._write(self._shown.shown(record), self._views[context]))
        self.frames += 1

    def _keep(self, part: Part) -> None:
        """Keep the frames before the next hits when their part goes: the newest, as far as they fit."""
        left = _BYTES
        for nearby in reversed(self._nearby.values()):
            kept = [part.record(each) if isinstance(each, int) else each for each in nearby.before]
            nearby.before.clear()
            for record in reversed(kept):
                left -= len(record.frame.raw.data) + _RECORD_BYTES
                if left >= 0:
                    nearby.before.appendleft(record)
            nearby.apart |= len(nearby.before) < len(kept)
        while len(self._nearby) > _CONNECTIONS:
            self._behind -= self._nearby.popitem(last=False)[1].after
