"""Write chosen frames as they are completed: few one by one, many at once in several processes, or with their context.

The code for many frames is imported when there are many: a filter of opcodes or vbuckets leaves few.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from dcpdump.batch.block import Block
from dcpdump.batch.dissector import BatchOrRecords
from dcpdump.cli.options import Invocation
from dcpdump.cli.reading import Consumer
from dcpdump.cli.sink import Sink
from dcpdump.clock import TimeKind
from dcpdump.dissect import Dissector
from dcpdump.filter.choices import OPTION, collection_choice
from dcpdump.record import Record
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from dcpdump.startup import dataclass, field

if TYPE_CHECKING:
    from dcpdump.batch.filter import Masks
    from dcpdump.batch.frame_batch import FrameBatch

#: Fewer rows than this are written faster than a process is started.
FORK_ROWS = 1000
#: Rows that are written at a time, where they are made one by one.
_SHOWN_ROWS = 128
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
    """A consumer of the frames that a selection chooses."""

    def __init__(self, asked: Invocation) -> None:
        self._asked, self._chosen, self.redactor = asked, asked.frames, asked.redactor
        self._masks: Masks | None = None

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return a note on unknown names of collections."""
        return collection_notes(self._chosen.texts, dissection)

    @property
    def _is_full(self) -> bool:
        """Return whether enough frames were consumed."""
        return self.frames == self._chosen.count

    def observe(self, block: Block) -> None:
        """Set the beginning of the capture."""
        self._chosen.begin(block.begins_ns)
        self._asked.times.begin(block.begins_ns)

    def chosen_rows(self, batch: "FrameBatch", before: int) -> Sequence[int]:
        """Return the rows of a batch that are chosen. ``before``: how many rows were chosen of earlier batches."""
        from dcpdump.batch.filter import wanted_rows

        if self._masks is None:
            self._masks = self._chosen.masks
        rows, count = wanted_rows(batch, self._masks), self._chosen.count
        return rows if count is None else rows[: count - before]


class Selected(ChoosingConsumer["FrameBatch"]):
    """A consumer that passes on chosen rows, up to their count."""

    def __init__(self, asked: Invocation, put: "Callable[[FrameBatch, Sequence[int]], object]", verb: str) -> None:
        super().__init__(asked)
        self._put, self.verb = put, verb

    def consume(self, batches: "list[FrameBatch]") -> bool:
        """Pass on the rows that are chosen; return whether there are enough."""
        for batch in batches:
            rows = self.chosen_rows(batch, self.frames)
            if rows:
                self.frames += len(rows)
                self._put(batch, rows)
            if self._is_full:
                return True
        return False


class FrameOutput(ChoosingConsumer[Any]):
    """A consumer that writes chosen frames. ``several``: there are several captures; ``jobs``: how many processes to
    use.
    """

    def __init__(self, asked: Invocation, sink: Sink, *, several: bool = False, jobs: int = 1) -> None:
        super().__init__(asked)
        self._sink, self._jobs = sink, jobs
        self._output = OUTPUTS[asked.format]
        self._view = View(asked.value_bytes, Palette(asked.coloured(sink.is_terminal)), file=several, times=asked.times)
        self._many: _ManyFrames | None = None  # writes them where there are many

    def begin(self) -> None:
        """Write the header."""
        if self._output.header is not None:
            self._sink.write(self._output.header())

    def consume(self, pieces: list[BatchOrRecords]) -> bool:
        """Write what is chosen; return whether there are enough."""
        return any(self._print_chosen(piece) for piece in pieces)

    def after_block(self, *, idle: bool) -> bool:
        """Write what is ready; everything while the input is idle: it may be long before more arrives."""
        if self._many is not None:
            self._many.write(all=idle)
        self._sink.flush()
        return False

    def finish(self) -> None:
        """Write what is pending."""
        self.after_block(idle=True)

    def close(self) -> None:
        """End the workers. Frames that they were still making are not shown."""
        if self._many is not None:
            self.frames -= self._many.close()

    def _print_chosen(self, piece: BatchOrRecords) -> bool:
        if not isinstance(piece, list):
            if self._many is None:
                self._many = _ManyFrames(self._asked, self._view, self._sink, self._jobs)
            if rows := self.chosen_rows(piece, self.frames):
                self.frames += len(rows)
                self._many.put(piece, rows)
            return self._is_full
        if self._many is not None:
            self._many.write(all=True)  # these frames must not overtake the pending ones
        for record in piece:
            if self._chosen.filter.accepts(record):
                self._sink.write(self._output.write(self._asked.shown(record), self._view))
                self.frames += 1
                if self._is_full:
                    return True
        return False


class _ManyFrames:
    """Frames of batches on their way to the sink, which other processes make where there are many."""

    def __init__(self, asked: Invocation, view: View, sink: Sink, jobs: int) -> None:
        from dcpdump.batch.frame_batch import is_heavy, pieces_of, thing_of
        from dcpdump.processes import Workers
        from dcpdump.render.plain_formats import Bulk

        self._sink, self._is_heavy = sink, is_heavy
        self._bulk = Bulk(asked.format, view, asked.redactor)
        self._jobs = jobs if asked.times.kind is not TimeKind.DELTA else 1  # frame after frame
        self._workers: Workers[tuple[FrameBatch, Sequence[int]]] = Workers(self._jobs, self._made, pieces_of, thing_of)
        self._pending: deque[int] = deque()  # the number of rows in each text that is not written yet

    def put(self, batch: "FrameBatch", rows: Sequence[int]) -> None:
        """Have rows of a batch made, and write those that are."""
        at_once = self._bulk.at_once
        if self._jobs > 1 and len(rows) >= FORK_ROWS and not (at_once and self._is_heavy(batch)):
            self._pending.append(len(rows))
            self._write(self._workers.put((batch, rows)))
            return
        most = len(rows) if at_once else _SHOWN_ROWS
        pieces = [rows[at : at + most] for at in range(0, len(rows), most)]
        for piece in pieces:
            self._pending.append(len(piece))
            self._write(self._workers.put_here((batch, piece)))

    def write(self, *, all: bool) -> None:
        """Write what is ready, or (``all``) wait for what is not."""
        self._write(self._workers.finish() if all else self._workers.ready())

    def close(self) -> int:
        """End the workers, and return how many frames are not written."""
        self._workers.close()
        return sum(self._pending)

    def _made(self, wanted: "tuple[FrameBatch, Sequence[int]]") -> bytes:
        return self._sink.recoded(self._bulk.text(*wanted))

    def _write(self, texts: Iterable[bytes | memoryview]) -> None:
        for text in texts:
            self._pending.popleft()  # before the write, during which a signal may arrive
            self._sink.write_encoded(text)


# -- chosen frames with those around them on the same connection, as ``grep -C`` has lines --------------

#: Most connections, and most bytes of frames, of which frames are kept since a hit may follow. Beyond that, those that
#: were idle longest lose theirs.
_CONNECTIONS, _BYTES = 10_000, 64 << 20
#: What a kept frame costs beside its own bytes, about.
_RECORD_BYTES = 2_000
#: What stands between frames of a connection where others were left out.
_APART = "--\n"


@dataclass(slots=True)
class _Nearby:
    """A connection's frames before its next hit. Those of the batch that is being read are rows."""

    before: deque[Record | int] = field(default_factory=deque)
    after: int = 0  #: so many frames are still to be written behind the last hit
    apart: bool = True  #: frames were left out since the last one that was written


class ContextOutput(ChoosingConsumer["FrameBatch"]):
    """A consumer that writes chosen frames, and ``around`` frames of the same connection before and after each."""

    def __init__(self, asked: Invocation, sink: Sink, around: int, *, several: bool = False) -> None:
        super().__init__(asked)
        self._sink, self._around = sink, around
        self._write = OUTPUTS[asked.format].write
        palette = Palette(asked.coloured(sink.is_terminal))
        hits = View(asked.value_bytes, palette, file=several, times=asked.times, context=False)
        self._views = hits, replace(hits, context=True)
        self._apart = "" if asked.format == "ndjson" else _APART
        self._nearby: OrderedDict[int, _Nearby] = OrderedDict()  # by connection, the one idle longest first
        self._hits = 0
        self._behind = 0  # frames that are still to be written behind hits, on all connections

    @property
    def _full(self) -> bool:
        return self._hits == self._chosen.count

    def consume(self, batches: "list[FrameBatch]") -> bool:
        """Write what is chosen, and what is around it; return whether there is enough."""
        return any(self._print_chosen(batch) for batch in batches)

    def after_block(self, *, idle: bool) -> bool:
        """Write what there is."""
        self._sink.flush()
        return False

    def _print_chosen(self, batch: "FrameBatch") -> bool:
        hits = set(self.chosen_rows(batch, 0))
        connections = [direction.connection for direction in batch.directions]
        for row, at in enumerate(batch.direction.tolist()):
            nearby = self._of(connections[at])
            if row in hits and not self._full:
                self._hit(batch, row, nearby)
            elif nearby.after:
                nearby.after -= 1
                self._behind -= 1
                self._put(batch.record(row), context=True)
            else:
                nearby.before.append(row)
                if len(nearby.before) > self._around:
                    nearby.before.popleft()
                    nearby.apart = True
            if self._full and not self._behind:
                return True
        self._keep(batch)
        return False

    def _of(self, connection: int) -> _Nearby:
        found = self._nearby.get(connection)
        if found is None:
            found = self._nearby[connection] = _Nearby()
        else:
            self._nearby.move_to_end(connection)
        return found

    def _hit(self, batch: "FrameBatch", row: int, nearby: _Nearby) -> None:
        if nearby.apart and self.frames:
            self._sink.write(self._apart)
        for kept in nearby.before:
            self._put(batch.record(kept) if isinstance(kept, int) else kept, context=True)
        nearby.before.clear()
        self._put(batch.record(row), context=False)
        self._behind += self._around - nearby.after
        nearby.after, nearby.apart = self._around, False
        self._hits += 1

    def _put(self, record: Record, *, context: bool) -> None:
        self._sink.write(self._write(self._asked.shown(record), self._views[context]))
        self.frames += 1

    def _keep(self, batch: "FrameBatch") -> None:
        """Keep the frames before the next hits when their batch goes: the newest, as far as they fit."""
        left = _BYTES
        for nearby in reversed(self._nearby.values()):
            kept = [batch.record(each) if isinstance(each, int) else each for each in nearby.before]
            nearby.before.clear()
            for record in reversed(kept):
                left -= len(record.frame.raw.data) + _RECORD_BYTES
                if left >= 0:
                    nearby.before.appendleft(record)
            nearby.apart |= len(nearby.before) < len(kept)
        while len(self._nearby) > _CONNECTIONS:
            self._behind -= self._nearby.popitem(last=False)[1].after
