"""Skips: where a client resumes behind what it has received, so that the changes in between are never sent to it.

It may have got them elsewhere, so nothing is said unless each stream of the vbucket that may be of this client was
captured from its beginning without loss, and it asks again at once: another of its group, or another server, may have
served the vbucket meanwhile. The end of each snapshot that was announced counts as received. Who asks from now on
names a seqno that the server reported.
"""

from functools import cached_property
from typing import NamedTuple

from dcpdump.spec.names import CLOSED, FILTER_EMPTY, FROM_LATEST, OK
from dcpdump.streams.consumer import alike, same, same_by_name
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.losses import Losses
from dcpdump.streams.request import NEVER, Request
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

#: A client that asks again so soon was served by nobody else meanwhile.
_SOON_NS = 10 * 1_000_000_000
#: Of a vbucket with more streams nothing is said: each request would have to be compared with all before it.
_MOST = 128
#: Ends that a client wanted: it may have handed the vbucket over to another, or reads in parts.
_WANTED = (OK, CLOSED, FILTER_EMPTY)


class Skip(NamedTuple):
    """A request from a seqno beyond all that its client had received."""

    request: Request
    received: int  #: the highest seqno that it can have had
    last: Stream  #: the stream that it had before

    @property
    def text(self) -> str:
        """Return what is skipped, in words."""
        number, start = self.last.connection.number, self.request.start
        return (
            f"resumed from seqno {start}, and had received up to {self.received} on connection {number}: "
            f"{self.received + 1}..{start} are not sent to it"
        )


class Skips:
    """The streams of a ledger that is closed, by vbucket. Each question costs a few steps."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def of(self, stream: Stream) -> Skip | None:
        """Return what a client skips by the stream that it was granted; None where nothing is certain."""
        request, ledger = stream.grant, self._ledger
        if request is None or not _resumes(stream, request) or ledger.evicted_streams or not ledger.alone:
            return None
        last = self._last(stream, request)
        if last is None or self._losses.since(last.connection, last.first_ns) is not None:
            return None
        received = self._received(stream, request)
        if received is None or request.start <= received or ledger.logs.reports(stream.vbucket, request.start):
            return None
        return Skip(request, received, last)

    @cached_property
    def _losses(self) -> Losses:
        return Losses(self._ledger.connections.values(), self._ledger.evicted_lost_ns)

    @cached_property
    def _streams(self) -> dict[int, list[Stream]]:
        """Return the streams of each vbucket that has not too many."""
        found: dict[int, list[Stream]] = {}
        for stream in self._ledger.streams:
            found.setdefault(stream.vbucket, []).append(stream)
        return {vbucket: streams for vbucket, streams in found.items() if len(streams) <= _MOST}

    def _last(self, stream: Stream, request: Request) -> Stream | None:
        """Return the stream that a client had, of those that ended shortly before a request the latest."""
        asked_ns, found = request.ts_ns or 0, list[tuple[int, int]]()
        streams = self._streams.get(stream.vbucket, [])
        for at, each in enumerate(streams):
            ns = _gone_ns(each)
            if ns is not None and 0 <= asked_ns - ns <= _SOON_NS and _precedes(each, stream, request):
                found.append((ns, at))
        return streams[max(found)[1]] if found else None

    def _received(self, stream: Stream, request: Request) -> int | None:
        """Return the highest seqno that a client can have received before a request; None where that is not known."""
        received = 0
        for each in self._streams[stream.vbucket]:
            if each is stream or each.waits or not _may_be_same(each.connection, stream.connection):
                continue
            if each.requests and each.requests[0].frame > request.frame:
                continue
            if each.doubtful:
                return None
            received = max(received, each.reached)
        return received


def _resumes(stream: Stream, request: Request) -> bool:
    """Return whether a stream is for all that comes after a seqno which its client names."""
    named = request.start and request.ts_ns is not None and not request.bits & FROM_LATEST
    return bool(named) and _is_plain(stream, request)


def _is_plain(stream: Stream, request: Request) -> bool:
    """Return whether a stream brings each change of its vbucket, and no takeover ends it."""
    return not request.filtered and not stream.takeover


def _gone_ns(stream: Stream) -> int | None:
    """Return when a stream ended against its client's will; None where it did not."""
    if stream.closed:
        return None
    if stream.end_frame is not None:
        return None if stream.end_status in _WANTED else stream.ended_ns
    return stream.connection.ended_ns


def _precedes(before: Stream, stream: Stream, request: Request) -> bool:
    """Return whether a client surely had a stream which it continues from beyond what that has brought."""
    first, log = before.grant, before.failover_log or ()
    if first is None or before.high_seqno is None or request.start <= before.reached:
        return False
    if before.stream_id != stream.stream_id or not _is_plain(before, first) or first.end_seqno != NEVER:
        return False
    branch = request.vbucket_uuid in {each.uuid for each in log}
    named = request.start in {each.seqno for each in stream.failover_log or ()}
    return branch and not named and same_by_name(before.connection, stream.connection)


def _may_be_same(one: ConnectionState, other: ConnectionState) -> bool:
    """Return whether two connections may be of one client: also those that do not say who they are."""
    nameless = None in (one.identity.family, other.identity.family)
    return one is other or nameless or same(one, other) or alike(one, other)
