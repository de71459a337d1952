"""Histories: what happened to documents, as streams tell it, and how far that is all."""

from typing import NamedTuple
from zlib import crc32

from dcpdump.record import Record
from dcpdump.streams.spoken import seqno
from dcpdump.streams.state import Stream

VBUCKETS = 1024


class Change(NamedTuple):
    """A message about a document."""

    record: Record
    stream: Stream | None
    seqno: int | None
    key: bytes
    collection: int | None
    rev_seqno: int | None
    cas: int
    datatype: int


class Coverage(NamedTuple):
    """How much of a vbucket's seqnos one stream has in the capture. ``complete`` None: that cannot be known."""

    stream: Stream
    first: int | None
    last: int | None
    complete: bool | None
    why: str


def coverage(stream: Stream) -> Coverage:
    """It says whether everything that a stream brought is in the capture."""
    request = stream.request
    begins = request.start_seqno + 1 if stream.witnessed and request and request.start_seqno is not None else None
    first = begins if begins is not None else stream.first_seqno
    last = stream.high_seqno
    if request is not None and stream.granted and stream.first_seqno is None:
        return Coverage(
            stream, first, last, not stream.epoch, "nothing was sent" if not stream.epoch else _lost(stream)
        )
    if stream.epoch:
        return Coverage(stream, first, last, False, _lost(stream))
    if begins is None:
        return Coverage(stream, first, last, True, f"0 bytes lost; the capture joined at seqno {seqno(first)}")
    if request is not None and request.filtered:
        return Coverage(stream, first, last, True, "0 bytes lost; of the collections that were asked for")
    return Coverage(stream, first, last, True, "0 bytes lost")


def _lost(stream: Stream) -> str:
    return f"{stream.lost_bytes:,} bytes were lost or skipped meanwhile"


def vbucket_of(key: bytes, vbuckets: int = VBUCKETS) -> int:
    """It gives the vbucket that a key without its collection prefix belongs to."""
    return (crc32(key) >> 16 & 0x7FFF) % vbuckets
