"""Histories: what happened to documents, as streams report it, and how far that is all."""

from typing import NamedTuple
from zlib import crc32

from dcpdump.record import Record
from dcpdump.streams.knowledge import CARVED
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import seqno, status
from dcpdump.text import counted

VBUCKETS = 1024


class Change(NamedTuple):
    """A message about a document."""

    record: Record
    seqno: int | None
    key: bytes
    collection: int | None
    rev_seqno: int | None
    cas: int
    datatype: int
    item: int | None = None  #: its place among the documents of a cache transfer
    revoked: Request | None = None  #: the request whose rollback took it back

    @property
    def identity(self) -> tuple[int | None, int | None, bytes, int | None, int]:
        """Return what the same change has wherever it is sent again."""
        return self.record.vbucket, self.seqno, self.key, self.collection, self.cas


class Coverage(NamedTuple):
    """How much of a vbucket's seqnos one stream has in the capture. ``complete`` None: that cannot be known."""

    stream: Stream
    first: int | None
    last: int | None
    complete: bool | None
    why: str


def coverage(stream: Stream) -> Coverage:
    """Return whether everything that a stream brought is in the capture."""
    request = stream.request
    begins = request.start_seqno + 1 if stream.begin_captured and request and request.start_seqno is not None else None
    first = begins if begins is not None else stream.seqnos.first
    last = stream.seqnos.high
    missing = _missing(stream)
    if missing:
        return Coverage(stream, first, last, False, missing)
    if request is not None and stream.granted and stream.seqnos.first is None:
        return Coverage(stream, first, last, True, "nothing was sent")
    why = "0 bytes lost"
    if stream.gaps.bridged:
        why += ": where bytes of its connection were lost, it continues at the next seqno or snapshot"
    if begins is None:
        why += f"; the capture joined at seqno {seqno(first)}"
    elif request is not None and request.filtered:
        why += "; of the collections that were asked for"
    return Coverage(stream, first, last, True, why)


def _missing(stream: Stream) -> str:
    """Return why not everything of a stream is known; nothing where it is."""
    request = stream.request
    if request is not None and stream.waits:
        if request.status is None:
            return "no answer to its request was captured"
        return f"it was not granted: {status(request.status)}"
    why = [_lost(stream)] if stream.gaps.times else []
    if stream.gaps.cut:
        why.append(f"{counted(stream.gaps.cut, 'message')} whose key was not captured whole")
    if stream.oso:
        why.append("an out-of-order snapshot is open: lower seqnos may follow")
    return "; ".join(why)


def _lost(stream: Stream) -> str:
    """Return what may be missing, and behind which seqnos."""
    if stream.connection.carved:
        return CARVED
    size = "" if stream.gaps.missed.unknown and not stream.gaps.missed.lost else "up to "
    known = [seqno(each) for each in stream.gaps.behind if each is not None]
    if len(known) < len(stream.gaps.behind):
        where = " before its first seqno" + (f", and after {', '.join(known)}" if known else "")
    else:
        where = f" after seqno {', '.join(known)}"
    return f"{size}{stream.gaps.missed.words()}{where}{', …' * (stream.gaps.times > len(stream.gaps.behind))}"


def vbucket_of(key: bytes) -> int:
    """Return the vbucket that a key without its collection prefix belongs to."""
    return (crc32(key) >> 16 & 0x7FFF) % VBUCKETS
