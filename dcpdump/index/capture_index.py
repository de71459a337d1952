"""CaptureIndex: any frame of an input by its number, and what a list shows of all of them."""

from collections.abc import Iterator, Sequence

from dcpdump.batch.ends import Ends
from dcpdump.batch.filter import Masks
from dcpdump.capture import Capture
from dcpdump.capture.damage import Damage
from dcpdump.conversation import MissingValues
from dcpdump.errors import CaptureError
from dcpdump.index.building import IndexInput, IndexOptions, KeptPlace, Update, input_bytes
from dcpdump.index.checkpoints import Checkpoints
from dcpdump.index.columns import Columns
from dcpdump.index.helper import builder_of
from dcpdump.index.matcher import Matched, matching
from dcpdump.index.replay import Replay
from dcpdump.index.spool import Spool
from dcpdump.record import Record


class CaptureIndex:
    """An index of captures as one timeline, built while it is used.

    Call ``step`` again and again, from an event loop for instance; ``frames`` grows until ``complete``. Frames are
    numbered 1, 2, 3 … as ``read`` numbers them; the columns begin with frame 1 in row 0. In a ``with`` it is closed.

    With ``helped`` a process is forked, so there must be no other thread yet: then ``step`` only takes what that has
    sent. It ends with ``close``, and when this process ends in whatever way.

    It is used by one thread of one process: no method may be called while another runs, and it must be closed by the
    process that made it. Arrays that were taken from ``columns`` are read only, stay valid and as long as they were,
    and may be read by any thread. Errors of reading are those of ``read``: CaptureError, OSError; LookupError where
    there is no such frame (yet), or where it is no longer kept.
    """

    def __init__(
        self,
        captures: Sequence[Capture],
        options: IndexOptions | None = None,
        *,
        helped: bool = False,
        columns: Columns | None = None,
    ) -> None:
        """``helped``: index in another process, where one can be had, so that this one stays free for its user.

        ``columns``: empty ones, to be filled; they may have been made by another process, which then sees them too.
        """
        options = IndexOptions() if options is None else options
        self.bytes = input_bytes(captures)  #: of all files; None where that is not known
        self.columns = Columns() if columns is None else columns  #: of all frames so far
        self._spool = Spool(options.spool_bytes)
        self._builder = builder_of(IndexInput(captures, self.columns, self._spool), options, helped=helped)
        self._blocks: list[KeptPlace] = []
        self._checkpoints = Checkpoints(options.memory)
        self._replay = Replay(self._blocks, self._checkpoints, self._spool, options)
        self.ends: list[Ends] = []  #: the directions that ``columns.place`` numbers
        self.damage: list[Damage] = []  #: of the captures, found so far
        self.bytes_read = 0
        self.begins_ns: int | None = None  #: the time of the first packet, from which relative times count
        self.complete = False  #: everything was read
        self.idle = False  #: nothing comes at the moment
        self.failure = ""  #: why nothing more is indexed before the end, in words
        self.lost: MissingValues = (0, 0, {})
        self.skipped_bytes = 0
        self.counts = 0, 0, 0  #: how many frames, answers and gaps the columns have

    @property
    def frames(self) -> int:
        """Return how many frames there are so far."""
        return self.columns.frames

    @property
    def waits_for(self) -> int | None:
        """Return the file descriptor that is readable when ``step`` has something to take; None: at any time."""
        return self._builder.waits_for

    @property
    def progress(self) -> tuple[int, int | None]:
        """Return how many bytes were read, and of how many; None where that is not known."""
        return self.bytes_read if self.bytes is None else min(self.bytes_read, self.bytes), self.bytes

    def step(self, wait: float = 0.0) -> bool:
        """Index one more block, or take what a process has indexed; return whether there is more to do.

        ``wait``: seconds that it may wait for such a process where nothing is there yet.
        """
        if self.complete or self.failure:
            return False
        for update in self._builder.updates(wait):
            self._take(update)
        frames, answers, gaps = self.counts
        if frames != self.frames:
            self.columns.refresh(frames, answers, gaps)
        return not (self.complete or self.failure)

    def finish(self) -> None:
        """Index all that is left."""
        while self.step(wait=1.0):
            pass

    def record(self, number: int) -> Record:
        """Return a frame as ``read`` decodes it."""
        if not 1 <= number <= self.frames:
            raise LookupError(f"there is no frame {number:,}: {self.frames:,} are indexed")
        part = self._replay.part(number)
        row, at, columns = number - part.first, number - 1, self.columns
        then = columns.opcode[at], columns.opaque[at], columns.length[at], columns.ts_ns[at]
        if then != (part.header.opcode[row], part.header.opaque[row], part.length[row], part.ts_ns[row]):
            raise CaptureError(f"frame {number:,} is not what it was: its capture or key log was changed meanwhile")
        return part.record(row)

    def matching(self, wanted: Masks, first: int = 1) -> Iterator[Matched]:
        """Yield the numbers of the frames from ``first`` on that a filter wants, rising, as they are found.

        Of the frames that are indexed when it begins. What headers decide is answered from the columns; for keys,
        seqnos, collections and problems parts are decoded, one for each step, which may be one without a hit.
        Closing it ends the search.
        """
        if wanted.window is not None and wanted.window.start_ns is None:
            wanted.window.start_ns = self.begins_ns
        return matching(self.columns, self.ends, self._replay, wanted, first)

    def close(self) -> None:
        """End what runs, and free everything."""
        self._builder.close()
        self._spool.close()
        self.columns.close()

    def __enter__(self) -> "CaptureIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, update: Update) -> None:
        self._blocks += update.blocks
        if update.evicted:
            self._checkpoints.clear()
            self._replay.forget()
        for checkpoint in update.checkpoints:
            if self._checkpoints.add(checkpoint):
                self._builder.double_distance()
        self.ends += update.ends
        self.damage += update.damage
        self.lost, self.skipped_bytes = update.lost, update.skipped_bytes
        self.bytes_read, self.begins_ns = update.bytes_read, update.begins_ns
        self.idle, self.complete = update.idle, update.complete
        self.failure = update.failure
        self._replay.complete = update.complete
        self.counts = update.frames, update.answers, update.gaps
