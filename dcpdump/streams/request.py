"""A stream request, and what was answered."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.names import DISK_ONLY, FROM_LATEST, TAKEOVER, TO_LATEST

if TYPE_CHECKING:
    from dcpdump.streams.facts import Entry
    from dcpdump.streams.request_faults import RequestFault
    from dcpdump.streams.stream import Stream


NEVER = (1 << 64) - 1


@dataclass(slots=True)
class Request:
    """A stream request, and what was answered."""

    frame: int
    ts_ns: int | None
    opaque: int
    flags: int | None
    start_seqno: int | None
    end_seqno: int | None
    vbucket_uuid: int | None
    snap_start_seqno: int | None
    snap_end_seqno: int | None
    stream_id: int = 0
    collections: tuple[str, ...] | None = None  #: the filter
    scope: str | None = None
    purge_seqno: int | None = None
    has_json: bool = False
    readable: bool = True  #: its JSON, if it has any, could be read
    fault: "RequestFault | None" = None  #: what is wrong with its JSON
    datatype: int = 0
    status: int | None = None  #: None: no answer was captured
    answer_frame: int | None = None
    answered_ns: int | None = None
    rollback_seqno: int | None = None
    failover_log: "tuple[Entry, ...] | None" = None
    said: str = ""  #: what the server said about an error, with its reference
    still_open: "Stream | None" = None  #: the stream of the same place that was open when this one was asked for
    ambiguous: bool = False  #: something was not captured: its answer may be that of another with its opaque
    doubtful: bool = False  #: bytes were lost while it waited
    torn: bool = False  #: when it was answered, the beginning of its connection was missing, or bytes since
    repeats: int = 0  #: equal ones of its stream, with equal answers, that are not kept
    after_omitted: bool = False  #: those between the one before it and it are not kept

    @property
    def filtered(self) -> bool:
        """Whether only some collections were asked for, or that could not be read."""
        return self.collections is not None or self.scope is not None or not self.readable

    @property
    def likeness(self) -> Hashable:
        """Return what requests and their answers have in common that differ in nothing but their times."""
        numbers = self.start_seqno, self.end_seqno, self.snap_start_seqno, self.snap_end_seqno, self.vbucket_uuid
        asked = self.flags, self.collections, self.scope, self.purge_seqno, self.fault, self.datatype
        return numbers, asked, self.status, self.rollback_seqno, self.ambiguous, self.doubtful, self.torn

    @property
    def snap_start(self) -> int:
        """The start of the snapshot that the client is in; 0 where it was lost."""
        return self.snap_start_seqno or 0

    @property
    def bits(self) -> int:
        """The flags; 0 where they were lost."""
        return self.flags or 0

    @property
    def start(self) -> int:
        """The start seqno; 0 where it was lost."""
        return self.start_seqno or 0

    @property
    def end(self) -> int:
        """The end seqno; 0 where it was lost."""
        return self.end_seqno or 0

    @property
    def fixed_end(self) -> int | None:
        """The seqno at which the stream ends; None where the server puts another in its place, or where it was lost."""
        moved = self.flags is None or self.flags & (TAKEOVER | DISK_ONLY | TO_LATEST)
        return None if moved else self.end_seqno

    def begins_below(self, seqno: int) -> bool:
        """Return whether a seqno is above its start; no where the server puts another in its place, or it was lost."""
        return self.start_seqno is not None and seqno > self.start_seqno and not self.bits & FROM_LATEST

    @property
    def purpose(self) -> tuple[tuple[str, ...] | None, str | None]:
        """Return which documents it asks for."""
        return self.collections, self.scope
