"""Cut the bytes of a batch of packets into frames, many at once where splitters are ready."""

from typing import TYPE_CHECKING, Final

from dcpdump.conversation import Conversation, Tally
from dcpdump.net.batch import Segments
from dcpdump.net.packet import NO_TIME
from dcpdump.wire.frame import Where
from dcpdump.wire.frames import Frames
from dcpdump.wire.split import FrameSplitter

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row: Final = tuple.__new__
#: The least and the most segments that are cut together, and the most bytes of them.
_LEAST: Final = 4
_MOST: Final = 65_536
_MOST_BYTES: Final = 64 * 1024
#: The most frames of a piece, weighed by memory. A frame that is decoded as a record takes about 3 KB.
MOST_WEIGHT: Final = 8_192


class Cutting:
    """A cutter of segments into ``frames``; ``involved``: the conversations of these, by number.

    ``conversations``: a Dissector's, by connection number. ``most``: the weight of frames at which it is full; those
    that ``begin`` removed count as ``begun``, until the owner sets that to 0.
    """

    __slots__ = ("_conversations", "_most", "_reach", "_tally", "begun", "frames", "involved")

    def __init__(self, conversations: dict[int, Conversation], tally: Tally, most: int) -> None:
        self.frames = Frames()
        self.involved: dict[int, Conversation] = {}
        self.begun = 0
        self._conversations = conversations
        self._tally = tally
        self._most = most
        self._reach = _MOST  # how many segments are joined next: few, after joining many failed

    def begin(self) -> tuple[Frames, dict[int, Conversation]]:
        """Return the frames so far with their conversations, and begin new ones."""
        self.begun += self.frames.weight
        done = self.frames, self.involved
        self.frames, self.involved = Frames(), {}
        return done

    @property
    def full(self) -> bool:
        """Return whether no more frames should be added."""
        return self.begun + self.frames.weight >= self._most

    def cut(self, segments: Segments, at: int, *, opened: bool = False) -> int:
        """Cut segments from ``at`` on until it is full; return the first that was not cut here.

        ``opened``: the segments are decrypted text; encrypted segments are not cut here.
        """
        conversations, tally = self._conversations, self._tally
        direction_ids, pieces = segments.direction_ids, segments.pieces
        count = len(direction_ids)
        while at < count and not self.full:
            direction_id = direction_ids[at]
            conversation = conversations.get(direction_id >> 1)
            if conversation is None or (conversation.tls is not None and not opened):
                return at
            direction = direction_id & 1
            splitter = conversation.splitters[direction]
            if splitter is None or not (splitter.foreign or splitter.ready):
                return at
            stop = at + 1
            last = min(count, at + self._reach)
            joined: i64 = len(pieces[at])
            while stop < last and direction_ids[stop] == direction_id and joined < _MOST_BYTES:
                joined += len(pieces[stop])
                stop += 1
            if splitter.foreign:
                size = sum([len(piece) for piece in pieces[at:stop]])
                splitter.pass_by(size)
                if conversation.framed[direction]:
                    tally.skipped_bytes += size
                else:
                    conversation.before[direction] += size
            else:
                stop = self._cut_direction(segments, at, stop, conversation, splitter)
                if stop == at:
                    return at
            at = stop
        return at

    def _cut_direction(
        self, segments: Segments, at: int, stop: int, conversation: Conversation, splitter: FrameSplitter
    ) -> int:
        """Cut segments ``at`` … ``stop``-1, all of one direction, up to the first that is not ordinary."""
        frames, tally, pieces, direction_id = self.frames, self._tally, segments.pieces, segments.direction_ids[at]
        offset, have, before, size = splitter.offset, splitter.held, len(frames), frames.size
        while (used := splitter.cut_many(pieces[at:stop], frames, direction_id)) < 0:
            self._reach = _LEAST
            reach, stop = have, at
            while reach + len(pieces[stop]) <= frames.fault:
                reach += len(pieces[stop])
                stop += 1
            if stop == at:
                return at
        self._reach = min(4 * self._reach, _MOST)
        if used:
            self.involved[direction_id >> 1] = conversation
            conversation.framed[direction_id & 1] = True
            tally.frames += len(frames) - before
            tally.frame_bytes += used
        rows, numbers, times = segments.rows, segments.numbers, segments.times
        file, files = segments.file, segments.files
        end: i64 = used
        reached: i64 = have
        for each in range(at, stop):
            row: i64 = rows[each]
            ts_ns = None if times[row] == NO_TIME else times[row]
            before_it = reached
            reached += len(pieces[each])
            if before_it < end:
                frames.bound(size + min(reached, end), numbers[row], ts_ns, files[file[row]])
            if reached > end:
                where: Where = _row(Where, (numbers[row], ts_ns, files[file[row]]))
                splitter.mark(offset + reached, where)
        return stop
