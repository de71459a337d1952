"""Revocations: which changes a client had to take back, as the server's history goes on without them."""

from dcpdump.streams.clause import Clause
from dcpdump.streams.consumer import same_by_name
from dcpdump.streams.explanation import NoClause, explain
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream

_Place = tuple[int, int]  #: a vbucket and a stream id


class Revocations:
    """The rollbacks to another history of a ledger that is closed, by what they are of."""

    def __init__(self, ledger: Ledger) -> None:
        self._rollbacks: dict[_Place, list[tuple[Request, Stream]]] = {}
        for stream in ledger.streams:
            # Nothing comes between equal rollbacks of one stream.
            first = {(each.start_seqno, each.rollback_seqno): each for each in reversed(stream.rollbacks)}
            for each in first.values():
                if _is_of_history(each, stream, ledger):
                    self._rollbacks.setdefault((stream.vbucket, stream.stream_id), []).append((each, stream))
        for found in self._rollbacks.values():
            found.sort(key=lambda each: each[0].answer_frame or 0)

    def of(self, stream: Stream, frame: int, seqno: int) -> Request | None:
        """Return the request whose rollback revoked what a frame of a stream brought; None where none did.

        The client asked for what follows after it, and was sent back to before it. One that was granted from there
        all the same, by an older uuid, has kept it.
        """
        for request, asked in self._rollbacks.get((stream.vbucket, stream.stream_id), ()):
            later = (request.answer_frame or 0) > frame
            if not later or not (request.rollback_seqno or 0) < seqno <= request.start:
                continue
            granted = asked.grant
            kept = granted is not None and granted.start >= seqno
            if not kept and same_by_name(stream.connection, asked.connection):
                return request
        return None


def _is_of_history(request: Request, stream: Stream, ledger: Ledger) -> bool:
    """Return whether a client was sent back as the server's history is another, and not for purges alone.

    Those go to 0; to above that only another history sends a client.
    """
    found = explain(request, stream, ledger)
    if found.clause is Clause.UNKNOWN:
        return bool(request.rollback_seqno) and found.cause is not NoClause.REQUEST
    return found.clause in (Clause.SNAPSHOT, Clause.UUID)
