"""What the requests of a stream came to, in words: those before the one that was granted, and how far that one came."""

from collections import Counter

from dcpdump.streams.request import NEVER, ROLLBACK, SUCCESS, Request
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import seqno, status, times


def earlier(stream: Stream) -> str:
    """Return what requests came to before the one that was granted."""
    words = []
    answered = [request for request in stream.requests if not request.ambiguous]
    rollbacks = Counter(request.rollback_seqno for request in answered if request.status == ROLLBACK)
    for target, count in rollbacks.items():
        words.append(f"rolled back to {seqno(target)} before" + (f", {times(count)}" if count > 1 else ""))
    refused = Counter(r.status for r in answered if r.status not in (None, SUCCESS, ROLLBACK))
    words += [f"refused before: {status(code)}" for code in refused]
    return "; ".join(words)


def reached(stream: Stream, request: Request) -> str:
    """Return how far a stream came that ended Ok, in words, and of how much where that is known."""
    start, end, last = request.start_seqno, request.fixed_end, stream.high_seqno
    if stream.connection.notifies:
        return f": there is more than seqno {seqno(start)}"
    if request.end_seqno == NEVER:
        return ""
    if last is not None:
        return f", seqno {last} reached" if end is None else f", seqno {last} of {end} reached"
    if start is None or end is None or end > start:
        return ""
    return f" after 0 items: end seqno {seqno(end)} is not above the start, {seqno(start)}"
