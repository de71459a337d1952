"""Unseal one TLS connection: its events in, the events of the text inside out.

It keeps what cannot be opened yet as long as that is worth it, and counts: each byte is text, of TLS around it, or
stays encrypted. What records mean is for a SealedReader.
"""

from array import array
from dataclasses import replace
from typing import Final

from dcpdump.net.batch import Segments
from dcpdump.net.event import Bytes, Conflict, End, Event, Events, Gap
from dcpdump.tls.account import describe
from dcpdump.tls.bulk import open_run
from dcpdump.tls.late import Joining
from dcpdump.tls.record_cutter import Sealed, SealedCutter, is_hello
from dcpdump.tls.sealed_reader import SealedReader
from dcpdump.tls.sealing import Sealing
from dcpdump.tls.secrets import Secrets
from dcpdump.tls.side import Places, Queued, Side, Waiting
from dcpdump.tls.unsealer_state import packed, unpacked

#: Bytes that wait for the other side's hello; and for a secret, and how long the latter, where time passes.
_ORDER: Final = 64 * 1024
_PATIENCE: Final = 4 * 1024 * 1024
_PATIENCE_NS: Final = 10_000_000_000
#: Gaps that wait for one of the text.
_GAPS: Final = 256
#: What is not known to be TLS is that after so many records in a chain.
_CHAIN: Final = 8


class Unsealer:
    """One connection. ``late``: its beginning was not captured, and it may be something else than TLS."""

    __slots__ = ("_growth", "_parties", "_reader", "_ring", "_secrets", "_serial", "_sides", "_traces", "late")

    def __init__(self, secrets: Secrets, *, late: bool = False, traces: bool = False) -> None:
        self._secrets = secrets
        self._reader = SealedReader(secrets)
        self._parties = self._reader.parties
        self._ring = self._parties.ring
        self._sides: list[Side | None] = [None, None]
        self._serial = 0
        self._growth = secrets.growth
        self._traces = traces  # whether it keeps where the text of each record stands
        self.late = late

    def state(self) -> bytes:
        """Return all that decides what it makes of the next events, without secrets, for ``restored``."""
        openers = [None if each is None else each.opener for each in self._sides]
        made = [None if each is None else (each.basis, each.before) for each in openers]
        return packed((self, made))

    @staticmethod
    def restored(state: bytes, secrets: Secrets) -> "Unsealer":
        """Return an unsealer that continues from a state, with the same secrets. Raises MissingSecretError."""
        found: Unsealer
        found, made = unpacked(state, secrets)
        for side, each in zip(found._sides, made, strict=True):
            if side is not None and side.key is not None and each is not None:
                basis, before = each
                side.opener = found._ring.make(side.key, basis)
                side.opener.before = before
        return found

    # -- what comes in -----------------------------------------------------------------------------------

    def feed(self, direction: int, event: Event) -> Events:
        """Take the next event of a direction, and return what it makes known of the text."""
        if isinstance(event, Conflict):
            return []
        events: Events = []
        side = self._sides[direction] or self._begin(direction, event)
        if isinstance(event, Bytes):
            side.cutter.feed(event.data, event.seen)
            self._cut(side, events)
        elif isinstance(event, Gap):
            found = side.cutter.last_found()
            if found is not None:
                self._take(side, found, events)
                self._cut(side, events)
            hurt = side.cutter.gap(event.length, event.seen)
            self._reader.progress.lose(direction)
            side.missing.append(event)
            if hurt is not None:
                self._take(side, hurt, events)
            side.unknown = side.unknown or event.length is None
        else:
            side.cutter.close()
            self._cut(side, events)
            side.ended = True
            self._reader.progress.end(direction, event)
            self._take(side, event, events)
        side.count_skipped()
        if self._parties.changed or self._growth != self._secrets.growth:
            self._resume(events)
        if side.ended and not self._secrets.growing and all(each.ended for each in self._present):
            events += self.close()
        return events

    def run(self, segments: Segments, at: int, stop: int, texts: Segments) -> tuple[int, Events]:
        """Take segments ``at`` … ``stop``-1 of one direction, and add the text of plain records to ``texts``.

        Return the first segment that was not taken, and what the last of the others makes known behind those texts.
        """
        direction = segments.places[at] & 1
        side = self._sides[direction]
        if side is None or not side.steady:
            return at + 1, self.feed(direction, segments.event(at).event)
        taken, rest = open_run(side, segments, at, stop, texts)
        return taken, [] if rest is None else self.feed(direction, rest)

    def open_waiting(self) -> Events:
        """Continue with what waits, where there are new secrets."""
        events: Events = []
        if self._growth != self._secrets.growth:
            self._resume(events)
        return events

    def close(self) -> Events:
        """Take it that nothing follows, no secret either, and return what waited."""
        events: Events = []
        self._reader.final, self._ring.guessed = True, True
        self._resume(events)
        for side in self._present:
            self._decide_early(side, events)
            side.cutter.give_up()
            side.count_skipped()
        self._reader.final = False
        return events

    def _begin(self, direction: int, event: Bytes | Gap | End) -> Side:
        late = self.late or isinstance(event, Gap) or (isinstance(event, Bytes) and event.joined_late)
        searching = late and not (isinstance(event, Bytes) and is_hello(event.data))
        cutter = SealedCutter(event.offset, searching=searching)
        end = None if searching else event.offset
        side = self._sides[direction] = Side(direction, cutter, Joining(self._secrets), late, end)
        if self._traces:
            side.places = Places(array("q"), array("q"), array("q"), array("q"))
        return side

    def _cut(self, side: Side, events: Events) -> None:
        while (sealed := side.cutter.next()) is not None:
            self._take(side, sealed, events)

    # -- waiting -----------------------------------------------------------------------------------------

    def _take(self, side: Side, item: Waiting, events: Events) -> None:
        if side.queue or not self._process(side, item, events):
            self._serial += 1
            side.queue.append(Queued(self._serial, item))
            side.queued += item.there if isinstance(item, Sealed) else 0
            if side.since is None:
                side.since = item.seen.ts_ns
            if self._is_too_much(side, item):
                side.patient = not self._ring.known()  # then at first for a hello that does not come
                self._ring.guessed = self._parties.changed = True

    def _process(self, side: Side, item: Waiting, events: Events) -> bool:
        """Take a record or the end; return False where it has to wait."""
        other = self._sides[1 - side.direction]
        out = self._reader.read(side, item, other.key if other is not None else None)
        if out is None:
            return False
        events += [(side.direction, event) for event in out]
        return True

    def _resume(self, events: Events) -> None:
        """Continue with what waits, in the order in which it came."""
        self._parties.changed = True
        while self._parties.changed:
            self._parties.changed, self._growth = False, self._secrets.growth
            for each in self._present if self._parties.early is not None else ():
                self._decide_early(each, events)
            waiting = [each for each in self._present if each.queue]
            while waiting:
                side = min(waiting, key=lambda each: each.queue[0].serial)
                item = side.queue[0].item
                if not self._process(side, item, events):
                    waiting.remove(side)
                    continue
                side.queue.popleft()
                side.queued -= item.there if isinstance(item, Sealed) else 0
                if not side.queue:
                    side.since = None
                    waiting.remove(side)

    def _is_too_much(self, side: Side, item: Waiting) -> bool:
        """Return whether so much waits that it waits no longer."""
        if not self._ring.known():
            return side.queued > _ORDER
        live = self._secrets.poll is not None and side.since is not None and item.seen.ts_ns is not None
        waited = (item.seen.ts_ns or 0) - (side.since or 0) if live else 0
        return side.queued > _PATIENCE or waited > _PATIENCE_NS

    def give_up(self) -> Events:
        """Give the memory back: what waits stays closed, and nothing waits any more for these secrets."""
        events: Events = []
        for side in self._present:
            if side.queue:
                side.patient = False
        self._ring.guessed = True
        self._resume(events)
        return events

    def _decide_early(self, side: Side, events: Events) -> None:
        if side.early is not None:
            out: list[Event] = []
            side.decide_early(self._parties.early is not False, out)
            events += [(side.direction, event) for event in out]

    def places(self, direction: int) -> Places | None:
        """Return where the text of the records of a direction stands, where that was kept."""
        side = self._sides[direction]
        return side.places if side is not None else None

    # -- what was lost -----------------------------------------------------------------------------------

    def take_gaps(self, direction: int) -> tuple[Gap, ...]:
        """Return what a direction lost, as it was sent, since this was asked last."""
        side = self._sides[direction]
        found = () if side is None else tuple(side.missing)
        if side is not None:
            side.missing = []
        return found

    def untold(self, direction: int, gap: Gap | None = None) -> Gap | None:
        """Return where in a direction lies what it lost, a ``gap`` last; None where a gap of the text will say it."""
        side = self._sides[direction]
        if gap is not None and (not self.opened or side is None):
            return gap
        if side is None or not side.missing:
            return None
        tells = gap is not None and not side.closed and len(side.missing) < _GAPS
        return None if tells else side.missing[-1]._replace(offset=side.offset, length=0)

    # -- what is known -----------------------------------------------------------------------------------

    @property
    def _present(self) -> list[Side]:
        """The sides of which anything was captured."""
        return [side for side in self._sides if side is not None]

    @property
    def held(self) -> int:
        """The memory that waiting bytes take."""
        return sum(side.held for side in self._present)

    @property
    def account(self) -> tuple[int, int, int]:
        """How many bytes were given as text, are of TLS around it, and stay encrypted."""
        sides = self._present
        return sum(s.given for s in sides), sum(s.tls for s in sides), sum(s.encrypted for s in sides)

    @property
    def pending(self) -> int:
        """The captured bytes that wait."""
        return sum(side.pending for side in self._present)

    @property
    def opened(self) -> bool:
        """Whether any record was opened."""
        return any(side.opened for side in self._present)

    @property
    def likely(self) -> bool:
        """Whether it may well be TLS, where nothing else is known of it."""
        return self.certain or sum(side.cutter.chained for side in self._present) > 1

    @property
    def certain(self) -> bool:
        """Whether it is TLS: a hello was read, a record opened, or many follow one another."""
        return self._parties.greeted or self.opened or any(s.cutter.chained >= _CHAIN for s in self._present)

    def sealing(self) -> Sealing:
        """Return what is known of the connection, and what became of it."""
        sealing = describe(self._parties, self._present, self._secrets, self._reader.too_late)
        return replace(sealing, failure=self._reader.progress.failure(self._parties, self._present))
