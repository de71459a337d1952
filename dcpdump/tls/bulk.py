"""Open the plain records of a direction many at once: nearly all of a long connection is such."""

from bisect import bisect_right
from itertools import accumulate

from dcpdump.net.batch import Segments
from dcpdump.net.event import Bytes
from dcpdump.tls.record_cutter import HEAD, plausible
from dcpdump.tls.side import Side


def open_run(side: Side, segments: Segments, at: int, stop: int, texts: Segments) -> tuple[int, Bytes | None]:
    """Open the records in segments ``at`` … ``stop``-1 of a steady side, and add their text to ``texts``.

    Return the first segment that was not taken, and the rest of the one before it, where that begins a record that is
    not plain.
    """
    opener, cutter = side.opener, side.cutter
    assert opener is not None
    held = cutter.take_held()
    begin = cutter.offset - len(held)
    pieces = segments.pieces
    data = held + (pieces[at] if stop == at + 1 else b"".join(pieces[at:stop]))
    found: list[bytes] = []
    ends: list[int] = []
    used = opener.run(data, side.number, found, ends)
    reach = list(accumulate((len(piece) for piece in pieces[at:stop]), initial=len(held)))[1:]
    if found:
        if side.places is not None:
            _note(side, begin, found, ends)
        size = _add(side, segments, at, reach, (found, ends), texts)
        side.number += len(found)
        side.opened += len(found)
        side.given += size
        side.tls += used - size
        side.end = begin + used
    rest = len(data) - used
    last = stop - 1
    if rest < HEAD or (plausible(data, used) and rest < HEAD + (data[used + 3] << 8 | data[used + 4])):
        cutter.give_back(begin + used, data[used:], segments.seen(last), len(found))
        return stop, None
    each = next(index for index, end in enumerate(reach) if end > used)
    cutter.give_back(begin + used, b"", segments.seen(at + each), len(found))
    return at + each + 1, Bytes(begin + used, data[used : reach[each]], segments.seen(at + each), side.late)


def _add(
    side: Side, segments: Segments, at: int, reach: list[int], records: tuple[list[bytes], list[int]], texts: Segments
) -> int:
    """Add the text of records that end in segments, of which ``reach`` says where these do; return its size.

    What one segment completed is one piece.
    """
    found, ends = records
    offset, first, count = side.offset, 0, len(found)
    pieces: list[tuple[int, int, bytes]] = []
    for row, end in enumerate(reach, at):
        if ends[first] > end:
            continue
        stop = bisect_right(ends, end, first)
        piece = found[first] if stop == first + 1 else b"".join(found[first:stop])
        if piece:
            pieces.append((row, offset, piece))
            offset += len(piece)
        first = stop
        if first == count:
            break
    texts.put_text(segments, at, side.late, pieces)
    size = offset - side.offset
    side.offset = offset
    return size


def _note(side: Side, begin: int, found: list[bytes], ends: list[int]) -> None:
    """Note where the text of records stands, of which the first begins at an offset."""
    start, offset = begin, side.offset
    for text, end in zip(found, ends, strict=True):
        if text and side.places is not None:
            side.places.add(start, begin + end, offset, offset + len(text))
        start, offset = begin + end, offset + len(text)
