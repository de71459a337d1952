"""FrameEvent and DocumentRun: what the ledger learns of a frame, and of many documents at once.

They are cheap to make, and all that the ledger ever gets of a frame. A run means the same as one event each.
"""

from collections.abc import Callable, Iterator
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.batch.document_runs import Inspected
from dcpdump.record import Record
from dcpdump.spec.field import Field, Layout
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import OWN_SEQNO
from dcpdump.text import counted, measured
from dcpdump.wire.frame import unpack_header

if TYPE_CHECKING:
    from dcpdump.streams.stream import Snapshot


#: The end of a stream that has none, where it asks for all that comes.
NEVER = (1 << 64) - 1


class Entry(NamedTuple):
    """One line of a failover log."""

    uuid: int
    seqno: int


#: The length of what is before a frame where an unknown number of bytes was lost.
UNKNOWN_LOSS = -1


class Missed(NamedTuple):
    """What of a direction is in no frame."""

    lost: int = 0  #: bytes that were sent and never captured
    gaps: int = 0  #: in so many places
    unknown: int = 0  #: places of which it is not known how many bytes they lack
    skipped: int = 0  #: bytes that were captured, where no frame was found to begin

    def plus(self, other: "Missed") -> "Missed":
        """Return it with what another has."""
        return Missed(*map(int.__add__, self, other))

    def minus(self, other: "Missed") -> "Missed":
        """Return it without what another has."""
        return Missed(*map(int.__sub__, self, other))

    def words(self, of: str = "") -> str:
        """Return it as the beginning of a sentence; ``of``: whose bytes they are."""
        amount, verb = measured(self.lost, self.unknown), "was" if (self.lost, self.unknown) == (1, 0) else "were"
        skipped = "was" if self.skipped == 1 else "were"
        if self.gaps and self.skipped:
            return f"{amount}{of} {verb} lost and {self.skipped:,} skipped"
        if self.skipped:
            return f"{counted(self.skipped, 'byte')}{of} {skipped} skipped"
        return f"{amount}{of} {verb} lost" if self.gaps else f"bytes{of} could not be read"


NOTHING_MISSED = Missed()


class Before(NamedTuple):
    """What is before a frame in its direction, and in no frame, or missing in the frame before."""

    length: int  #: bytes; UNKNOWN_LOSS where it is unknown how many
    missed: Missed

    @property
    def skipped(self) -> bool:
        """Return whether all of it was captured."""
        return self.length == self.missed.skipped and not self.missed.gaps


class Shape(NamedTuple):
    """A layout as events have it: which field stands where in ``FrameEvent.fields``."""

    version: str  #: of the layout: "1", "2.0", "2.2", "?" where none fits
    names: tuple[str, ...]
    at_of: dict[str, int]
    own: int  #: where the message's own seqno stands, -1 where it has none


@cache
def shape_of(layout: Layout) -> Shape:
    """Return the shape of a layout: its extras, then the fixed fields of its value."""
    names = tuple(part.name for part in (*layout.extras, *layout.parts) if isinstance(part, Field))
    at_of = {name: at for at, name in enumerate(names)}
    own = next((at_of[name] for name in OWN_SEQNO if name in at_of), -1)
    return Shape(layout.version, names, at_of, own)


#: The shape of a frame whose numbers were taken away, as they may be bytes of a key or a value.
HIDDEN = Shape("?", (), {}, -1)


class FrameEvent(NamedTuple):
    """One frame."""

    number: int  #: 1, 2, 3 … over the whole input
    ts_ns: int | None
    connection: int
    direction: int  #: 0: sent by the end that opened the connection
    magic: int
    opcode: int
    response: bool
    server: bool  #: a server's own opcodes (magic 0x82, 0x83)
    vbucket_or_status: int  #: of a request its vbucket, of a response its status
    opaque: int
    cas: int
    datatype: int
    length: int  #: of the whole frame
    stream_id: int  #: 0: none
    seqno: int | None  #: that the message itself brings: by_seqno, commit_seqno, abort_seqno
    shape: Shape
    fields: tuple[int | None, ...]  #: extras and fixed fields of the value, in the order of ``shape.names``
    data: bytes  #: the frame lies in here
    key_at: int  #: where in ``data`` its key begins
    value_at: int  #: where its key ends and its value begins
    value_length: int  #: with metadata, if there is any
    complete: bool  #: all its bytes are there
    weak: bool  #: found on weak evidence, after bytes were lost
    record: Record | None  #: of what was decoded one by one: most responses, control, what has JSON, damaged frames
    before: Before | None = None  #: what was lost or skipped just before it; None where nothing was

    @property
    def vbucket(self) -> int:
        """The vbucket of a request."""
        return self.vbucket_or_status

    @property
    def status(self) -> int:
        """The status of a response."""
        return self.vbucket_or_status

    @property
    def key(self) -> bytes:
        """The key as it is on the wire, prefix included; empty where there is none."""
        return self.data[self.key_at : self.value_at]

    @property
    def framing(self) -> bytes:
        """The framing extras of a frame whose magic has any, as the header counts them."""
        start = 0 if self.record is not None else self.value_at + self.value_length - self.length
        return self.data[start + HEADER_LENGTH :][: unpack_header(self.data, start).framing_length]

    @property
    def value(self) -> bytes:
        """The value as it is on the wire, with metadata."""
        return self.data[self.value_at : self.value_at + self.value_length]

    def get(self, name: str) -> int | None:
        """Return a field by name; None where the frame has none such, or it was lost."""
        at = self.shape.at_of.get(name)
        return None if at is None else self.fields[at]


#: An entry of a failover log: uuid and seqno.
_ENTRY = Struct(">QQ")
#: What a NamedTuple's own constructor calls; calling it directly halves the cost of a row.
_row = tuple.__new__
#: A frame of which only the place is known.
NO_FRAME = FrameEvent(
    0, None, 0, 0, 0, 0, False, False, 0, 0, 0, 0, 24, 0, None, Shape("", (), {}, -1), (), b"", 0, 0, 0, True, False,
    None,
)  # fmt: skip


def between(first: int | None, last: int | None) -> int | None:
    """Return the time from one time to another; None where one is unknown, or the clock went back between them."""
    return None if first is None or last is None or last < first else last - first


def stream_key(vbucket: int, stream_id: int) -> int:
    """Return what tells a stream of a connection from its others: its vbucket, and its stream id."""
    return vbucket << 16 | stream_id


def identity_of(frame: FrameEvent) -> FrameEvent:
    """Return an event that may be remembered: what identifies its frame, and nothing of what is in it."""
    number, ts_ns, connection, direction, magic, opcode, response, server, either, opaque = frame[:10]
    return _row(FrameEvent, (
        number, ts_ns, connection, direction, magic, opcode, response, server, either, opaque, 0, 0, frame.length,
        frame.stream_id, frame.seqno, NO_FRAME.shape, (), b"", 0, 0, 0, True, frame.weak, None, None,
    ))  # fmt: skip


def event_of(record: Record) -> FrameEvent:
    """Return the event of a record."""
    frame, header = record.frame, record.frame.header
    shape = shape_of(frame.layout)
    fields = tuple(frame.lookup.get(name) for name in shape.names)
    key_at = header.key_at
    sid = frame.stream_id or 0
    if sid and not header.framing_length:  # the id of a server that counts its length as 0
        key_at += 3
    return FrameEvent(
        record.number,
        frame.raw.where.ts_ns,
        0 if record.connection is None else record.connection,
        record.direction,
        header.magic,
        header.opcode,
        frame.magic.response,
        frame.magic.server,
        header.vbucket_or_status,
        header.opaque,
        header.cas,
        header.datatype,
        frame.raw.length,
        sid,
        None if shape.own < 0 else fields[shape.own],
        shape,
        fields,
        frame.raw.data,
        key_at,
        key_at + header.key_length,
        max(0, frame.raw.length - key_at - header.key_length),
        not frame.raw.holes and len(frame.raw.data) >= frame.raw.length,
        frame.raw.confidence == "low",
        record,
    )


def failover_log(event: FrameEvent) -> Iterator[Entry]:
    """Yield the entries of the failover log that an answer brings, newest first."""
    if event.record is None:  # it is whole, and its value is nothing else
        yield from map(Entry._make, _ENTRY.iter_unpack(event.value))
        return
    uuid: int | None = None
    for field in event.record.frame.fields:
        if field.group == "failover_log" and isinstance(field.value, int):
            if field.field.name == "vbucket_uuid":
                uuid = field.value
            elif uuid is not None:
                yield Entry(uuid, field.value)
                uuid = None


# -- messages of one stream that follow one another ---------------------------------------------------


class DocumentRun(NamedTuple):
    """Mutations, deletions and expirations, all whole, with nothing lost in between and times that never go back.

    Where it is not inspected closely, the snapshot marker that announces them may be its first frame.
    """

    first: int  #: number of the first frame
    frames: int
    connection: int
    direction: int
    vbucket: int
    opaque: int
    stream_id: int  #: 0: none
    size: int  #: bytes of all frames
    first_ns: int
    last_ns: int
    first_seqno: int
    last_seqno: int
    high_seqno: int  #: the largest
    kinds: tuple[tuple[int, int, int], ...]  #: opcode, frames, bytes: of each message that there is
    pause_ns: int  #: the longest time between two of them
    each: Callable[[], list[FrameEvent]]  #: makes the events of all frames
    close: Inspected | None = None  #: where it was requested
    snapshot: "Snapshot | None" = None  #: what its marker announces, if one is among its frames


Step = FrameEvent | DocumentRun


def one_by_one(step: Step) -> list[FrameEvent]:
    """Return the events of a frame or a run."""
    return step.each() if isinstance(step, DocumentRun) else [step]
