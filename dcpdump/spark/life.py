"""Life: all that is known of one connection at one moment, as plain data that can be sent to where it goes on.

This module knows how the machines of ``net`` and ``wire`` keep their state, slot by slot, and nothing of what it
means. What they only count with (books, bytes kept to compare repeats with) is left behind.
"""

import marshal
import pickle
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

from dcpdump.columnar.runs import RunSplitter
from dcpdump.net.backlog import Backlog, Waiting
from dcpdump.net.balance import Balance
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.flow import reverse_key
from dcpdump.net.history import History
from dcpdump.net.limits import Limits
from dcpdump.net.patience import Patience
from dcpdump.wire.resync import Streams
from dcpdump.wire.session import SessionState, session_essence
from dcpdump.wire.split import FrameSplitter

#: Bytes of a frame under way that a life keeps when it is made thin.
HEAD = 1024 * 1024
_ELSEWHERE = frozenset({"_balance", "_limits", "_history", "_backlog", "_patience", "_streams", "_state"})
_STREAM = tuple(name for kind in reversed(ByteStream.__mro__) for name in getattr(kind, "__slots__", ()))
_SPLITTER = FrameSplitter.__slots__

Slots = dict[str, Any]


class Life(NamedTuple):
    """A connection: two streams of bytes and, where they brought any, two splitters and a session."""

    number: int
    key: bytes  #: of direction 0, as headers have it
    streams: tuple[Slots, Slots]
    splitters: tuple[Slots | None, Slots | None] = (None, None)
    session: SessionState | None = None  #: None: nothing was said yet, or all is over
    framed: tuple[bool, bool] = (False, False)
    before: tuple[int, int] = (0, 0)
    ended: int = 0
    protocol: str = ""
    thin: bool = False  #: of a frame under way only the head is there; what follows are zeros
    syn: bool = False  #: the opening was captured

    @property
    def pair(self) -> bytes:
        """What both directions are known by."""
        return pair_of(self.key)

    @property
    def deadline(self) -> int | None:
        """When something is to be given up, whatever comes."""
        times = [stream["deadline"] for stream in self.streams if stream["deadline"] is not None]
        return min(times) if times else None

    def packed(self) -> bytes:
        """It packs itself, to be kept or sent."""
        return self.number.to_bytes(8, "big") + bytes([self.thin]) + zlib.compress(pickle.dumps(self[1:], 5), 1)

    @classmethod
    def unpacked(cls, data: bytes) -> "Life":
        """It reads what ``packed`` wrote."""
        return cls(int.from_bytes(data[:8], "big"), *pickle.loads(zlib.decompress(data[9:])))

    def digest(self) -> bytes:
        """It gives the same few bytes for lives that go on in the same way."""
        return blake2b(marshal.dumps(_essence(self), 2), digest_size=16).digest()  # pickle would tell twins from equals


def renumbered(packed: bytes, number: int) -> bytes:
    """It gives a packed life another number."""
    return number.to_bytes(8, "big") + packed[8:]


def number_of(packed: bytes) -> int:
    """It gives the number of a packed life."""
    return int.from_bytes(packed[:8], "big")


def is_thin(packed: bytes) -> bool:
    """It says whether a packed life has not all that is under way in it."""
    return bool(packed[8])


def pair_of(key: bytes) -> bytes:
    """It gives the lesser key of both directions."""
    return min(key, reverse_key(key))


# -- streams ------------------------------------------------------------------------------------------------


def stream_slots(stream: ByteStream) -> Slots:
    """It takes a stream's state out of it."""
    slots = {name: getattr(stream, name) for name in _STREAM if name not in _ELSEWHERE}
    backlog, patience = stream._backlog, stream._patience
    slots["waiting"] = sorted((tuple(each) for each in backlog._heap), key=_order)
    slots["at"] = dict(backlog._at)
    slots["patience"] = None if patience is None else (patience._lost_since, patience.deadline)
    return slots


def stream_of(slots: Slots, limits: Limits, balance: Balance) -> ByteStream:
    """It makes a stream that goes on from a state."""
    stream = ByteStream(limits, balance)
    if slots["_base"] is not None:
        stream._history, stream._backlog, stream._patience = History(limits.history), Backlog(), Patience(limits)
        backlog = stream._backlog
        backlog._heap = [Waiting(*each) for each in slots["waiting"]]  # sorted, so a heap
        backlog._at = dict(slots["at"])
        backlog.size = sum(len(each.data) for each in backlog._heap)
        backlog.cost = backlog.size + 2 * 128 * len(backlog._heap)
        balance.pending_bytes += backlog.size
        stream._patience._lost_since, stream._patience.deadline = slots["patience"] or (None, None)
    for name in _STREAM:
        if name not in _ELSEWHERE:
            setattr(stream, name, slots[name])
    balance.pending_bytes += stream._aside
    return stream


def _order(waiting: tuple[Any, ...]) -> tuple[int, int]:
    return waiting[0], waiting[1]


# -- splitters ----------------------------------------------------------------------------------------------


def splitter_slots(splitter: FrameSplitter) -> Slots:
    """It takes a splitter's state out of it."""
    slots = {name: getattr(splitter, name) for name in _SPLITTER if name not in _ELSEWHERE}
    slots |= {"_data": bytes(splitter._data), "_marks": list(splitter._marks), "_holes": list(splitter._holes)}
    slots["state"] = splitter._state.__name__
    return slots


def splitter_of(slots: Slots, streams: Streams) -> RunSplitter:
    """It makes a splitter that goes on from a state."""
    splitter = RunSplitter(streams)
    for name in _SPLITTER:
        if name not in _ELSEWHERE:
            setattr(splitter, name, slots[name])
    splitter._data = bytearray(slots["_data"])
    splitter._marks, splitter._holes = list(slots["_marks"]), list(slots["_holes"])
    splitter._state = getattr(splitter, slots["state"])
    return splitter


def thinned(slots: Slots | None) -> tuple[Slots | None, bool]:
    """It lets zeros stand for what a long frame under way has beyond its head."""
    if slots is None or len(slots["_data"]) <= HEAD or slots["state"] != "_cut":
        return slots, False
    data = slots["_data"]
    return {**slots, "_data": data[:HEAD] + bytes(len(data) - HEAD)}, True


# -- what is the same ---------------------------------------------------------------------------------------


def _essence(life: Life) -> tuple[Any, ...]:
    """It leaves out of a life what says nothing about how it goes on."""
    return (
        life.number,
        life.key,
        tuple(map(_stream_essence, life.streams)),
        tuple(map(_splitter_essence, life.splitters)),
        None if life.session is None else session_essence(life.session),
        life.ended,
        life.syn,
    )


def _stream_essence(slots: Slots) -> tuple[Any, ...]:
    offset, arrived = slots["offset"], slots["_arrived"]
    begun = slots["_base"] is not None
    since, deadline = slots["patience"] or (None, None)
    fin = slots["_fin"]
    acked = slots["_acked"]
    return (
        offset,
        slots["_base"],
        slots["_ready"],
        slots["_isn"],
        slots["last_ack"],
        slots["_gathering"] and slots["_since"],
        slots["joined_late"],
        slots["_now"],
        slots["_reset_at"],
        slots["_reset_by_peer"],
        slots["_ended"],
        slots["_stray"] and tuple(slots["_stray"]),
        slots["deadline"],
        deadline,
        max(slots["_top"], offset),
        None if acked is None else max(acked, offset),
        None if fin is None else (fin[0], fin[1] - arrived, fin[2]),
        None if since is None else (since[0], since[1] - arrived),
        [
            (start, order - arrived, data, cut, when, tuple(seen))
            for start, order, data, cut, when, seen in slots["waiting"]
        ],
        begun or (slots["_first_ack"], slots["answers"]),
    )


def _splitter_essence(slots: Slots | None) -> tuple[Any, ...] | None:
    if slots is None:
        return None
    if slots["foreign"]:
        return ("foreign", slots["_offset"])
    data, state = slots["_data"], slots["state"]
    marks = [(end, tuple(where)) for end, where in slots["_marks"] if end > slots["_offset"]] if data else []
    return (
        state,
        slots["_offset"],
        len(data),
        data[:HEAD],
        marks,
        [tuple(span) for span in slots["_holes"]],
        slots["_lost"],
        slots["_confidence"],
        slots["_passing"],
        state == "_search" and (slots["_segment"], slots["_doubtful"]),
    )
