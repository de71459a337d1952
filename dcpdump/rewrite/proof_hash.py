"""Fingerprints: numbers that differ where frames do, in any fact that concealing has to leave, or in any byte."""

from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.batch.part import Part
from dcpdump.disclosure import is_damaged
from dcpdump.record import Record
from dcpdump.rewrite.plain_frames import Plain
from dcpdump.wire.body import Body


class FramePlace(NamedTuple):
    """Where a frame was found."""

    number: int
    connection: int
    direction: int
    offset: int
    length: int
    gap_before: int
    packet: int
    ts_ns: int


def places_of(part: Part) -> Iterator[FramePlace]:
    """It gives the places of a part's frames."""
    ends = [(each.connection, each.direction) for each in part.places]
    columns = part.offset, part.length, part.gap_before, part.packet, part.ts_ns
    rows = zip(part.place.tolist(), *(column.tolist() for column in columns), strict=True)
    for number, (place, *facts) in enumerate(rows, part.first):
        yield FramePlace(number, *ends[place], *facts)


def fingerprint_of_plain(place: FramePlace, plain: Plain, data: bytes) -> int:
    """It gives the number of a plain frame of which ``data`` is to be, or is, what was written."""
    # Its numbers are among its bytes, and so are the lengths of its parts.
    body = plain.body
    value = None if body is None else (len(body.faults), _texts(body))
    return hash((place, plain.name, plain.guess and plain.message.collection_key, value, data))


def fingerprint(place: FramePlace, record: Record, data: bytes) -> int:
    """It gives the number of any frame of which ``data`` is to be, or is, what was written."""
    return hash((place, _facts(record), data))


def _texts(body: Body | None) -> tuple[tuple[int, int], ...] | None:
    """It gives how long the texts of xattrs are; with a fault, what was read up to it is not sure."""
    if body is None or body.faults or body.xattrs is None:
        return None
    return tuple((len(name), len(text)) for name, text in body.xattrs)


def _facts(record: Record) -> tuple[object, ...]:
    """It gives what is to be the same of a frame and of the concealed one: every number, and how long texts are."""
    frame, meaning = record.frame, record.meaning
    if is_damaged(frame):  # nothing is sure but its header, and that is among the bytes
        return (frame.raw.holes,)
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
        (meaning.collection, meaning.collection_inferred, tuple(item.collection for item in meaning.items)),
        _texts(meaning.body),
    )
