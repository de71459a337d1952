"""Hash frames so that the hashes differ where a fact differs that concealing must keep, or any byte."""

from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.batch.part import Part
from dcpdump.disclosure import is_damaged
from dcpdump.record import Record
from dcpdump.rewrite.plain_frames import Plain
from dcpdump.wire.frame import Span
from dcpdump.wire.value import Body


class FramePlace(NamedTuple):
    """Where a frame was captured."""

    number: int
    connection: int
    direction: int
    offset: int
    length: int
    gap_before: int
    packet: int
    ts_ns: int


def places_of(part: Part) -> Iterator[FramePlace]:
    """Yield the places of a part's frames."""
    ends = [(each.connection, each.direction) for each in part.places]
    columns = part.offset, part.length, part.gap_before, part.packet, part.ts_ns
    rows = zip(part.place.tolist(), *(column.tolist() for column in columns), strict=True)
    for number, (place, *facts) in enumerate(rows, part.first):
        yield FramePlace(number, *ends[place], *facts)


def plain_proof_hash(place: FramePlace, plain: Plain, data: bytes) -> int:
    """Return the hash of a plain frame whose bytes, once written, are ``data``."""
    # Its numbers are among its bytes, and so are the lengths of its parts.
    body = plain.body
    value = None if body is None else (len(body.faults), _texts(body))
    return hash((place, plain.name, plain.guess and plain.message.collection_key, value, data))


def proof_hash(place: FramePlace, record: Record, data: bytes) -> int:
    """Return the hash of any frame whose bytes, once written, are ``data``."""
    if is_damaged(record.frame):
        return damaged_hash(place, record.frame.raw.holes, data)
    return hash((place, _facts(record), data))


def damaged_hash(place: FramePlace, holes: tuple[Span, ...], data: bytes) -> int:
    """Return the hash of a damaged frame: nothing of it is sure but its header, and that is among its bytes."""
    return hash((place, holes, data))


def _texts(body: Body | None) -> tuple[tuple[int, int], ...] | None:
    """Return the lengths of the texts of xattrs; None for faulty xattrs, of which only a part was read."""
    if body is None or body.faults or body.xattrs is None:
        return None
    return tuple((len(name), len(text)) for name, text in body.xattrs)


def _facts(record: Record) -> tuple[object, ...]:
    """Return what must be the same for a frame and its concealed copy: every number, and how long texts are."""
    frame, meaning = record.frame, record.meaning
    return (
        frame.raw.holes,
        frame.header,
        frame.layout.version,
        frame.stream_id,
        tuple(frame.lookup.items()),
        tuple(
            (field.start, field.end, field.value if isinstance(field.value, int) else None) for field in frame.fields
        ),
        tuple((problem.start, problem.end) for problem in record.problems),
        record.vbucket,
        record.request,
        (meaning.collection, meaning.collection_inferred, _texts(meaning.body)),
        tuple((item.collection, _texts(item.body)) for item in meaning.items),
    )
