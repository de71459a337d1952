"""Unsealer: the events of one TLS connection in, the events of the text inside out.

It reads the hellos, keeps what cannot be opened yet as long as that is worth it, and keeps the books: each byte is
text, of TLS around it, or stays encrypted. Which key opens a record is found out by an Opening.
"""

from array import array
from typing import Final

from dcpdump.net.batch import Segments
from dcpdump.net.event import Bytes, Conflict, End, Event, Gap
from dcpdump.tls import handshake as hs
from dcpdump.tls import sealing as why
from dcpdump.tls.account import describe
from dcpdump.tls.bulk import open_run
from dcpdump.tls.cut import Sealed, is_hello
from dcpdump.tls.keyring import EARLY
from dcpdump.tls.opening import Opened, Opening
from dcpdump.tls.parties import Parties
from dcpdump.tls.sealing import Sealing
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, Secrets
from dcpdump.tls.side import DATA, Places, Queued, Side, Waiting
from dcpdump.tls.suites import SUITES

CCS: Final = 20
HANDSHAKES: Final = 22
#: Bytes that wait for the other side's hello; and for a secret, and how long the latter, where time passes.
_ORDER: Final = 64 * 1024
_PATIENCE: Final = 4 * 1024 * 1024
_PATIENCE_NS: Final = 10_000_000_000
#: The shortest record under a key.
_LEAST: Final = 22
#: What is not known to be TLS is that after so many records in a chain.
_CHAIN: Final = 8

Told = list[tuple[int, Event]]


class Unsealer:
    """One connection. ``late``: its beginning was not captured, and it may be something else than TLS."""

    __slots__ = (
        "_final",
        "_growth",
        "_opening",
        "_parties",
        "_ring",
        "_secrets",
        "_serial",
        "_sides",
        "_too_late",
        "_traces",
        "late",
    )

    def __init__(self, secrets: Secrets, *, late: bool = False, traces: bool = False) -> None:
        self._secrets = secrets
        self._parties = Parties(secrets)
        self._ring = self._parties.ring
        self._opening = Opening(self._ring)
        self._sides: list[Side | None] = [None, None]
        self._serial = 0
        self._final = False
        self._too_late = 0  # bytes that were given up before their secrets came
        self._growth = secrets.growth
        self._traces = traces  # whether it keeps where the text of each record stands
        self.late = late

    # -- what comes in -----------------------------------------------------------------------------------

    def feed(self, direction: int, event: Event) -> Told:
        """Take the next event of a direction, and return what it makes known of the text."""
        if isinstance(event, Conflict):
            return []
        told: Told = []
        side = self._sides[direction] or self._begin(direction, event)
        if isinstance(event, Bytes):
            side.cutter.feed(event.data, event.seen)
            self._cut(side, told)
        elif isinstance(event, Gap):
            found = side.cutter.last_found()
            if found is not None:
                self._take(side, found, told)
                self._cut(side, told)
            hurt = side.cutter.gap(event.length, event.seen)
            side.reason = event.reason
            if hurt is not None:
                self._take(side, hurt, told)
            side.unknown = side.unknown or event.length is None
        else:
            side.cutter.close()
            self._cut(side, told)
            side.ended = True
            self._take(side, event, told)
        side.count_skipped()
        if self._parties.changed or self._growth != self._secrets.growth:
            self._go_on(told)
        if side.ended and not self._secrets.growing and all(each is None or each.ended for each in self._sides):
            told += self.close()
        return told

    def run(self, segments: Segments, at: int, stop: int, texts: Segments) -> tuple[int, Told]:
        """Take segments ``at`` … ``stop``-1 of one direction, and add the text of plain records to ``texts``.

        Return the first segment that was not taken, and what the last of the others makes known behind those texts.
        """
        direction = segments.places[at] & 1
        side = self._sides[direction]
        if side is None or not side.steady:
            return at + 1, self.feed(direction, segments.event(at).event)
        taken, rest = open_run(side, segments, at, stop, texts)
        return taken, [] if rest is None else self.feed(direction, rest)

    def look_again(self) -> Told:
        """Go on with what waits, where there are new secrets."""
        told: Told = []
        if self._growth != self._secrets.growth:
            self._go_on(told)
        return told

    def close(self) -> Told:
        """Take it that nothing follows, no secret either, and return what waited."""
        told: Told = []
        self._final, self._ring.guessed = True, True
        self._go_on(told)
        for side in self._sides:
            if side is not None:
                self._decide_early(side, told)
                side.cutter.give_up()
                side.count_skipped()
        self._final = False
        return told

    def _begin(self, direction: int, event: Bytes | Gap | End) -> Side:
        late = self.late or isinstance(event, Gap) or (isinstance(event, Bytes) and event.joined_late)
        searching = late and not (isinstance(event, Bytes) and is_hello(event.data))
        side = Side(direction, self._secrets, event.offset, late=late, searching=searching)
        self._sides[direction] = side
        if self._traces:
            side.places = Places(array("q"), array("q"), array("q"), array("q"))
        return side

    def _cut(self, side: Side, told: Told) -> None:
        while (sealed := side.cutter.next()) is not None:
            self._take(side, sealed, told)

    # -- waiting -----------------------------------------------------------------------------------------

    def _take(self, side: Side, item: Waiting, told: Told) -> None:
        if side.queue or not self._process(side, item, told):
            self._serial += 1
            side.queue.append(Queued(self._serial, item))
            side.queued += item.there if isinstance(item, Sealed) else 0
            if side.since is None:
                side.since = item.seen.ts_ns
            if self._is_too_much(side, item):
                self._ring.guessed = True
                self._parties.changed = True

    def _go_on(self, told: Told) -> None:
        """Go on with what waits, in the order in which it came."""
        self._parties.changed = True
        while self._parties.changed:
            self._parties.changed, self._growth = False, self._secrets.growth
            for each in self._sides:
                if each is not None and self._parties.early is not None:
                    self._decide_early(each, told)
            waiting = [each for each in self._sides if each is not None and each.queue]
            while waiting:
                side = min(waiting, key=lambda each: each.queue[0].serial)
                item = side.queue[0].item
                if not self._process(side, item, told):
                    waiting.remove(side)
                    continue
                side.queue.popleft()
                side.queued -= item.there if isinstance(item, Sealed) else 0
                if not side.queue:
                    side.since = None
                    waiting.remove(side)

    def _is_too_much(self, side: Side, item: Waiting) -> bool:
        """Return whether so much waits that it goes on as things are."""
        if not self._ring.known():
            return side.queued > _ORDER
        waited = 0 if side.since is None or item.seen.ts_ns is None else item.seen.ts_ns - side.since
        return side.queued > _PATIENCE or waited > _PATIENCE_NS

    def give_up(self) -> Told:
        """Give the memory back: what waits stays closed, and nothing waits any more for these secrets."""
        told: Told = []
        for side in self._sides:
            if side is not None and side.queue:
                side.patient = False
        self._ring.guessed = True
        self._go_on(told)
        return told

    def _decide_early(self, side: Side, told: Told) -> None:
        if side.early is not None:
            out: list[Event] = []
            side.decide_early(self._parties.early is not False, out)
            told += [(side.direction, event) for event in out]

    # -- records -----------------------------------------------------------------------------------------

    def _process(self, side: Side, item: Waiting, told: Told) -> bool:
        """Take a record or the end; return False where it has to wait."""
        out: list[Event] = []
        if isinstance(item, End):
            if side.early is not None and not self._final:
                return False
            if side.opened and (side.lost or side.unknown):
                side.lose(None, item.seen, out)
            out.append(item._replace(offset=side.offset))
        else:
            if side.end is not None and item.offset != side.end:
                side.lost = True
            done = self._record(side, item, out)
            if done is None:
                return False
            if done or not (side.lost or side.unknown):
                side.end = item.end
        told += [(side.direction, event) for event in out]
        return True

    def _record(self, side: Side, sealed: Sealed, out: list[Event]) -> bool | None:
        """Take a record: True where its place is certain, None where it has to wait."""
        if side.closed:
            side.pass_by(sealed)
            return False
        plain = self._is_plain(side, sealed)
        if plain is None:
            return None
        if plain:
            self._plain(side, sealed)
            return True
        side.protected = True
        role = self._parties.role(side.direction)
        if role is None or not self._parties.greeted:
            return self._join(side, sealed, out)
        if side.opener is None:
            ready = self._ready(side, role)
            if ready is None:
                return None
            if not ready:
                side.pass_by(sealed)
                return False
        opened = self._opening.open(side, role, sealed, out)
        if opened is not None:
            self._opened(side, sealed, opened, out)
        return opened is not None

    def _is_plain(self, side: Side, sealed: Sealed) -> bool | None:
        """Return whether a record is in clear; None where that is to be seen yet."""
        version = self._ring.terms.version
        if sealed.kind == DATA:
            return False
        if version >= hs.TLS_1_3:
            return True
        if side.opener is not None or side.protected:
            return False
        if not side.ccs:
            return not side.late or sealed.kind != HANDSHAKES or sealed.body[:1] in (b"\1", b"\2")
        if version:
            return False
        return None if not self._ring.guessed else self._ring.has(0)

    def _ready(self, side: Side, role: int) -> bool | None:
        """Return whether keys are there to be tried; None where they may come."""
        ring, secrets = self._ring, self._secrets
        if not ring.known():
            return None
        server = ring.terms.server
        if server is not None and not 0x0301 <= server.version <= hs.TLS_1_3:
            side.closed = why.VERSION
        elif server is not None and server.suite not in SUITES:
            side.closed = why.SUITE
        elif ring.has(role) or (secrets.gather() and ring.has(role)):
            return True
        elif secrets.growing and not self._final:
            if side.patient and not side.passed and side.queued <= _PATIENCE:
                return None
            self._too_late = max(self._too_late, side.encrypted)
        else:
            side.closed = why.NO_SECRET
            if server is None and ring.secrets.of(ring.random, CLIENT_RANDOM):
                side.closed = why.NO_SERVER_HELLO
        return False

    def _join(self, side: Side, sealed: Sealed, out: list[Event]) -> bool:
        """Look for the secret of a direction of which the handshake was not captured."""
        if side.opener is not None and side.key is not None:
            opened = self._opening.open(side, 0, sealed, out)
        else:
            other = self._sides[1 - side.direction]
            partner = other.key if other is not None else None
            side.joining.note(sealed)
            self._secrets.gather()
            joined = side.joining.try_record(sealed, partner)
            if joined is None:
                side.pass_by(sealed)
                return False
            role = int(joined.key.label != CLIENT_TRAFFIC)
            self._parties.cast(side.direction, role)
            self._secrets.claim(joined.key.random)
            side.late = True
            side.joined_at = joined.number
            side.proven(joined.key, joined.opener, joined.number)
            opened = Opened(joined.kind, joined.text)
        if opened is not None:
            self._opened(side, sealed, opened, out)
        return opened is not None

    def _opened(self, side: Side, sealed: Sealed, opened: Opened, out: list[Event]) -> None:
        """Take what a record holds."""
        kind, text = opened
        key, opener = side.key, side.opener
        assert key is not None
        assert opener is not None
        if side.unopened:  # the handshake, of which the key is missing
            side.encrypted -= side.unopened
            side.tls += side.unopened
            side.unopened = side.passed = 0
        parties = self._parties
        parties.opened_with(key)
        if key.rank == EARLY:
            if parties.early is None and side.early is None:
                side.early = []
            elif parties.early is False:
                side.tls += sealed.there
                return
        elif side.early is not None and parties.early is None:
            parties.decide_early(False)  # it ended without a word of its end: the server refused it
        if key.label != CLIENT_RANDOM and len(sealed.body) - opener.overhead != len(text):
            side.padded = True
        if kind == DATA:
            before = side.offset
            side.give(text, sealed.seen, out)
            side.tls += sealed.there - len(text)
            side.note_place(sealed, before)
            return
        side.tls += sealed.there
        side.turning = kind == CCS
        if kind == HANDSHAKES:
            self._messages(side, text)

    def _plain(self, side: Side, sealed: Sealed) -> None:
        """Take a record in clear."""
        side.tls += sealed.there
        if sealed.holes or side.lost or side.unknown:
            side.messages.lose()
        if side.lost or side.unknown or side.passed:  # a record under a key may have been lost, or be this one
            side.passed += 1 + (sealed.offset - side.end) // _LEAST if side.end is not None else 1
        side.lost = side.unknown = False
        if sealed.kind == CCS:
            side.ccs = True
        elif sealed.kind == HANDSHAKES and not sealed.holes and self._messages(side, sealed.body):
            side.late = False  # it begins with the connection

    def _messages(self, side: Side, text: bytes) -> bool:
        """Take a part of the handshake; return whether it ends a hello."""
        early = side.key is not None and side.key.rank == EARLY
        found = [
            self._parties.message(side.direction, kind, body, early=early) for kind, body in side.messages.feed(text)
        ]
        return any(found)

    def places(self, direction: int) -> Places | None:
        """Return where the text of the records of a direction stands, where that was kept."""
        side = self._sides[direction]
        return side.places if side is not None else None

    # -- what is known -----------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """The memory that waiting bytes take."""
        return sum(side.held for side in self._sides if side is not None)

    @property
    def waits(self) -> bool:
        """Whether anything waits for secrets."""
        return any(side is not None and side.queue for side in self._sides)

    @property
    def account(self) -> tuple[int, int, int]:
        """How many bytes were given as text, are of TLS around it, and stay encrypted."""
        sides = [side for side in self._sides if side is not None]
        return sum(s.given for s in sides), sum(s.tls for s in sides), sum(s.encrypted for s in sides)

    @property
    def pending(self) -> int:
        """The captured bytes that wait."""
        return sum(side.pending for side in self._sides if side is not None)

    @property
    def opened(self) -> bool:
        """Whether any record was opened."""
        return any(side is not None and side.opened for side in self._sides)

    @property
    def likely(self) -> bool:
        """Whether it may well be TLS, where nothing else is known of it."""
        return self.certain or sum(side.cutter.chained for side in self._sides if side is not None) > 1

    @property
    def certain(self) -> bool:
        """Whether it is TLS: a hello was read, a record opened, or many follow one another."""
        return self._parties.greeted or self.opened or self._chained >= _CHAIN

    @property
    def _chained(self) -> int:
        return max((side.cutter.chained for side in self._sides if side is not None), default=0)

    def sealing(self) -> Sealing:
        """Return what is known of the connection, and what became of it."""
        return describe(self._parties, self._sides, self._secrets, self._too_late)
