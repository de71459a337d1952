"""Course: how one stream has gone so far, as far as it was witnessed.

None means not witnessed. After lost bytes what was known is kept, but ``stale``: what a rule finds with it
is no verdict, until the next snapshot marker brings new ground.
"""

from typing import TYPE_CHECKING, NamedTuple

from dcpdump.streams.burst import Burst, Close
from dcpdump.streams.sight import Shape, Sight

if TYPE_CHECKING:
    from dcpdump.check.dialogue import Dialogue

TAKEOVER, DISK_ONLY, TO_LATEST, FROM_LATEST, CACHE_TRANSFER = 0x01, 0x02, 0x04, 0x40, 0x100
MEMORY, DISK, CHECKPOINT, ACKNOWLEDGE, HISTORY, DUPLICATES = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
ACTIVE, PENDING = 1, 3
#: Keys remembered of one snapshot, and durable writes of one stream; beyond, their rules are silent.
MANY = 1_000_000


#: A frame of which only the place is known.
NOTHING = Sight(
    0, None, 0, 0, 0, 0, False, False, 0, 0, 0, 0, 24, 0, None, Shape("", (), {}, -1), (), b"", 0, 0, 0, 0, True, False,
    None,
)  # fmt: skip


def kept(sight: Sight) -> Sight:
    """It gives a sight that may be remembered: it does not hold the bytes of the capture around it."""
    return sight._replace(data=b"", key_at=0, value_at=0, record=None)


class Request(NamedTuple):
    """A stream request, as it was sent."""

    sight: Sight
    vbucket: int
    flags: int
    start: int
    end: int
    uuid: int
    snap_start: int
    snap_end: int
    sid: int | None  #: 0: the JSON has none; None: it could not be read
    filtered: bool


class Marker(NamedTuple):
    """A snapshot marker."""

    number: int
    start: int
    end: int
    flags: int
    version: str
    ts_ns: int | None


class Course:
    """One stream: a vbucket, a stream id and an opaque on one connection, from one grant to its end."""

    __slots__ = (
        "acked",
        "acks_due",
        "acks_early",
        "after_oso",
        "cache",
        "cache_ended",
        "cached",
        "calm",
        "closed",
        "data_since_marker",
        "dialogue",
        "end_reason",
        "end_sight",
        "ended",
        "filtered",
        "granted",
        "high",
        "items",
        "keys",
        "last",
        "last_number",
        "last_ts",
        "late",
        "lost",
        "marker",
        "markers",
        "opaque",
        "oso",
        "oso_high",
        "oso_keys",
        "pending_keys",
        "prepares",
        "previous",
        "request",
        "sid",
        "stale",
        "state",
        "told",
        "unacked",
        "vbucket",
        "why",
    )  # fmt: skip

    def __init__(self, dialogue: "Dialogue", opaque: int, vbucket: int, sid: int) -> None:
        self.dialogue = dialogue
        self.opaque, self.vbucket, self.sid = opaque, vbucket, sid
        self.request: Request | None = None
        self.late = False  #: its request or its grant was not witnessed
        self.lost = False  #: bytes of its connection were lost since
        self.stale = False  #: there has been no marker since the join or the loss
        self.why = ""  #: other than those: why it is stale
        self.granted = True
        self.ended = False
        self.end_reason: int | None = None
        self.end_sight: Sight | None = None
        self.closed = False  #: CLOSE_STREAM was answered with success
        self.filtered: bool | None = False
        self.calm = False  #: it is inside a snapshot, and nothing forbids data
        self.marker: Marker | None = None
        self.previous: Marker | None = None
        self.markers = 0
        self.last: int | None = None  #: seqno of the last message that has one
        self.high = 0  #: the highest seqno or marker end that was sent
        self.items = 0
        self.data_since_marker = 0
        self.keys: dict[bytes, int] = {}
        self.pending_keys: dict[bytes, int] = {}
        self.oso = False
        self.oso_high = 0
        self.oso_keys: set[bytes] = set()
        self.after_oso = False
        self.cache = False
        self.cache_ended = False
        self.cached = 0
        self.prepares: dict[bytes, tuple[int, Sight]] = {}  #: open ones by key: seqno and where
        self.acked: int | None = None
        self.acks_due: list[Sight] = []
        self.acks_early: list[Sight] = []
        self.unacked: dict[int, Sight] = {}
        self.state: int | None = None  #: the last SET_VBUCKET_STATE
        self.last_number = 0
        self.last_ts: int | None = None
        self.told: set[str] = set()  #: rules that said "unknown" since the last loss

    @property
    def doubtful(self) -> bool:
        """Whether its beginning, or bytes since, are missing."""
        return self.late or self.lost

    @property
    def last_sight(self) -> Sight:
        """The place of its last message."""
        return NOTHING._replace(
            number=self.last_number,
            ts_ns=self.last_ts,
            connection=self.dialogue.number,
            word=max(self.vbucket, 0),
            opaque=self.opaque,
            direction=self.dialogue.source or 0,
        )

    @property
    def live(self) -> bool:
        """Whether messages of it are to be expected."""
        return self.granted and not self.ended

    @property
    def takeover(self) -> bool:
        """Whether it hands the vbucket over; false where that was not witnessed."""
        return self.request is not None and bool(self.request.flags & TAKEOVER)

    @property
    def letters(self) -> str:
        """Which suspensions other than missing bytes are in force. (Nothing on the wire tells a replica as source.)"""
        found = ""
        marker = self.marker
        if self.oso:
            found += "o"
        if marker is not None and marker.flags & (HISTORY | DUPLICATES):
            found += "h"
        if self.takeover:
            found += "t"
        if self.filtered is not False:
            found += "f"
        if self.cache and not self.cache_ended and self.marker is None:
            found += "x"
        return found

    # -- learning ---------------------------------------------------------------------------------------

    def lose(self, *, sent: bool) -> None:
        """It hears that bytes of the connection were lost; ``sent``: of the direction that sends its items."""
        self.lost = True
        self.told.clear()
        self.why = ""
        self.acks_due.clear()
        self.acks_early.clear()
        if sent:
            self.stale = True
            self.calm = False
            self.prepares.clear()
            self.unacked.clear()
            self.keys.clear()
            self.pending_keys.clear()

    def unclear(self, why: str) -> None:
        """It hears that nobody can know how it goes on, up to the next marker."""
        self.stale = True
        self.why = why
        self.calm = False

    def fits(self, sight: Sight) -> bool:
        """It says whether a message may be the next of it."""
        seqno, marker = sight.seqno, self.marker
        if seqno is None or not self.live:
            return self.live
        inside = self.oso or (marker is not None and marker.start <= seqno <= marker.end)
        return inside and (self.oso or self.last is None or seqno > self.last)

    def begin(self, marker: Marker) -> None:
        """It takes a snapshot marker."""
        if self.stale:
            self.stale = False
            self.why = ""
            self.last = self.previous = None
            self.ended = self.oso = self.cache = False
        else:
            self.previous = self.marker
        same = (
            self.marker is not None
            and marker.flags & HISTORY
            and (marker.start, marker.end) == (self.marker.start, self.marker.end)
        )
        self.marker = marker
        self.markers += 1
        self.high = max(self.high, marker.end)
        self.data_since_marker = 0
        if not same:
            self.keys.clear()
            self.pending_keys.clear()
        self.calm = self.live and self.state != ACTIVE
        self.after_oso = False

    def item(self, sight: Sight, seqno: int) -> None:
        """It takes a message with a seqno."""
        self.last = seqno
        self.items += 1
        self.data_since_marker += 1
        marker = self.marker
        if seqno > self.high:
            self.high = seqno
        if self.oso and seqno > self.oso_high:
            self.oso_high = seqno
        if marker is not None and marker.flags & ACKNOWLEDGE and seqno == marker.end:
            if self.acks_early:
                self.acks_early.pop()
            else:
                self.acks_due.append(kept(sight))

    def goes_on(self, burst: Burst) -> bool:
        """It says whether mutations are simply the next of a snapshot: neither its first nor anything to settle."""
        marker = self.marker
        return (
            self.calm
            and (self.vbucket, self.sid) == (burst.word, burst.stream_id)
            and self.data_since_marker > 0
            and not self.oso
            and not self.prepares
            and marker is not None
            and not marker.flags & ACKNOWLEDGE
        )

    def burst(self, burst: Burst, close: Close) -> None:
        """It takes mutations that are simply the next of a snapshot, and rising."""
        self.last_number, self.last_ts = close.first + burst.frames - 1, burst.last_ns
        self.last = burst.last_seqno
        self.high = max(self.high, burst.high_seqno)
        self.items += burst.frames
        self.data_since_marker += burst.frames
        if self.marker is not None and not self.marker.flags & DUPLICATES:
            self.keys.update(zip(close.keys, close.seqnos, strict=True))

    def out_of_order(self, begins: bool) -> None:
        """It takes the start or the end of an out-of-order snapshot."""
        self.oso = begins
        self.oso_keys.clear()
        self.calm = begins and self.live
        if begins:
            self.stale = False
            self.why = ""
            self.oso_high = 0
            self.data_since_marker = 0
        else:
            self.after_oso = True
            self.last = None

    def end(self, sight: Sight) -> None:
        """It takes STREAM_END."""
        self.ended = True
        self.calm = False
        self.end_reason = sight.get("status")
        self.end_sight = kept(sight)

    def prepare(self, sight: Sight, seqno: int) -> None:
        """It takes a durable write that is not decided."""
        if len(self.prepares) < MANY:
            place = kept(sight)
            self.prepares[sight.key] = seqno, place
            if len(self.unacked) < MANY:
                self.unacked[seqno] = place

    def resolve(self, sight: Sight) -> None:
        """It takes a COMMIT or an ABORT."""
        self.prepares.pop(sight.key, None)

    def complete(self, seqno: int) -> None:
        """It hears up to which seqno all prepares are decided."""
        self.prepares = {key: open for key, open in self.prepares.items() if open[0] > seqno}

    def settle(self, sight: Sight) -> None:
        """It takes a document of a disk snapshot, which stands for the commit of its key's prepare."""
        if self.marker is not None and self.marker.flags & DISK:
            self.prepares.pop(sight.key, None)

    def acknowledge(self, sight: Sight) -> None:
        """It takes a SEQNO_ACKNOWLEDGED."""
        seqno = sight.get("prepared_seqno")
        if seqno is not None:
            self.acked = seqno
            self.unacked = {at: prepare for at, prepare in self.unacked.items() if at > seqno}

    def marker_acknowledged(self, sight: Sight) -> None:
        """It takes the response to a marker with the acknowledge flag."""
        if self.acks_due:
            self.acks_due.pop(0)
        elif len(self.acks_early) < MANY:
            self.acks_early.append(kept(sight))

    def inherit_acknowledgements(self, nowhere: "Course") -> None:
        """A stream that is granted takes those that were captured before the grant, under its opaque."""
        self.acks_early = [each for each in nowhere.acks_early if each.opaque == self.opaque]
        nowhere.acks_early = [each for each in nowhere.acks_early if each.opaque != self.opaque]
