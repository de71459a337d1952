"""Decrypt one TLS connection: its events in, the events of the text inside out.

Records that cannot be decrypted yet wait, within bounds. Each byte is counted: as text, as TLS around it, or as left
encrypted. Records are read by a RecordReader.
"""

import pickle
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import accumulate
from typing import Final

from dcpdump.net.batch import Segments
from dcpdump.net.event import Bytes, Conflict, End, Event, Events, Gap
from dcpdump.tls import outcome as why
from dcpdump.tls.keyring import APPLICATION
from dcpdump.tls.outcome import VERSIONS, TlsReport
from dcpdump.tls.record_reader import Parties, RecordReader
from dcpdump.tls.records import HEAD, TLS_1_3, RecordCutter, TlsRecord, is_hello, plausible
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, SERVER_TRAFFIC, Secrets
from dcpdump.tls.side import Joining, Queued, Side, TextOffsets, Waiting
from dcpdump.tls.suites import SUITES, name_of

# -- what became of a TLS connection, and why it stays closed where it does ---------------------------


def describe(parties: Parties, sides: Sequence[Side], secrets: Secrets, too_late: int) -> TlsReport:
    """Return the report of a connection. ``sides``: those of which bytes were captured."""
    server = parties.terms.server
    version = server.version if server else max((side.joining.version for side in sides), default=0)
    suite = name_of(server.suite) if server else ""
    for side in sides:
        if side.key is not None and server is None:
            version = TLS_1_3 if side.key.label != CLIENT_RANDOM else version
            suite = SUITES[side.key.suite].name
    reason = _why(parties, sides, secrets, too_late)
    closed = next((side for side in sides if side.closed or (side.encrypted and not side.opened)), None)
    direction = closed.direction if closed is not None and any(side.opened for side in sides) else None
    return TlsReport(
        VERSIONS.get(version, "TLS"),
        suite,
        parties.server_name,
        sum(side.given for side in sides),
        sum(side.encrypted for side in sides),
        sum(side.lost_records for side in sides),
        reason,
        direction is not None and parties.role(direction) == 1,
        next((side.joined_at for side in sides if side.joined_at is not None), None),
        len(secrets),
        secrets.logs,
        max((side.failures or side.joining.tried for side in sides), default=0),
        max((side.joining.reach for side in sides), default=0),
        too_late,
        tuple(parties.randoms.items()),
    )


def _why(parties: Parties, sides: Sequence[Side], secrets: Secrets, too_late: int) -> str:
    """Return why a part stays encrypted; empty if none does."""
    if not any(side.encrypted for side in sides):
        return ""
    if too_late and any(parties.ring.has(role) for role in (0, 1)):
        return why.TOO_LATE
    closed = next((side.closed for side in sides if side.closed), "")
    if any(side.opened for side in sides):
        if closed == why.NO_SECRET and all(side.key is None or side.key.rank != APPLICATION for side in sides):
            return why.HANDSHAKE
        if closed in (why.NO_SECRET, why.NO_FIT):
            return why.ONE_DIRECTION if closed == why.NO_SECRET else closed
        if not any(side.encrypted and not side.opened for side in sides):
            return ""
        return why.NOT_FOUND if _has_both(sides, secrets) else why.ONE_DIRECTION
    if closed in (why.SUITE, why.VERSION):
        return closed
    if not len(secrets):
        return why.NO_SECRETS
    if closed:
        return closed
    if parties.greeted:
        return why.NO_SECRET
    traffic = any(side.joining.tried for side in sides) and any(side.joining.spent for side in sides)
    old = any(0 < side.joining.version < TLS_1_3 for side in sides)
    return why.LATE if old or not traffic else why.NOT_FOUND


def _has_both(sides: Sequence[Side], secrets: Secrets) -> bool:
    """Return whether a connection captured from its middle has the secrets of both directions."""
    random = next((side.key.random for side in sides if side.joined_at is not None and side.key is not None), b"")
    return all(secrets.of(random, label) for label in (CLIENT_TRAFFIC, SERVER_TRAFFIC))


# -- plain records of a direction, many at once: nearly all of a long connection ----------------------


def _open_run(side: Side, segments: Segments, at: int, stop: int, texts: Segments) -> tuple[int, Bytes | None]:
    """Decrypt the records in segments ``at`` … ``stop``-1 of a steady side, and add their text to ``texts``.

    Return the first segment not used, and the rest of the one before it if a record begins there that is not plain.
    """
    opener, cutter = side.opener, side.cutter
    assert opener is not None
    held = cutter.pop_pending()
    begin = cutter.offset - len(held)
    pieces = segments.pieces
    data = held + (pieces[at] if stop == at + 1 else b"".join(pieces[at:stop]))
    found: list[bytes] = []
    ends: list[int] = []
    used = opener.run(data, side.number, found, ends)
    reach = list(accumulate((len(piece) for piece in pieces[at:stop]), initial=len(held)))[1:]
    if found:
        if side.text_offsets is not None:
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
    return at + each + 1, Bytes(begin + used, data[used : reach[each]], segments.seen(at + each), side.joined_late)


def _add(
    side: Side, segments: Segments, at: int, reach: list[int], records: tuple[list[bytes], list[int]], texts: Segments
) -> int:
    """Add the text of records that end in segments, whose ends are in ``reach``; return its size.

    The text that one segment completes is one piece.
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
    texts.put_text(segments, at, side.joined_late, pieces)
    size = offset - side.offset
    side.offset = offset
    return size


def _note(side: Side, begin: int, found: list[bytes], ends: list[int]) -> None:
    """Note the offsets of records' text; the first record begins at ``begin``."""
    start, offset = begin, side.offset
    for text, end in zip(found, ends, strict=True):
        if text and side.text_offsets is not None:
            side.text_offsets.add(start, begin + end, offset, offset + len(text))
        start, offset = begin + end, offset + len(text)


# -- the state of an unsealer: all that decides what it makes of the events that come next ------------
# A state has no secrets: openers are named by the connection, the label and the mark of their secret. The bytes are a
# pickle: read them only with the same version of dcpdump, and where no one else could have written them.


class _Writer(pickle.Pickler):
    def persistent_id(self, each: object) -> str | None:
        """Return the name of an object that is not written: the secrets, and openers made from them."""
        return "secrets" if isinstance(each, Secrets) else "opener" if hasattr(each, "decrypt_unverified") else None


class _Reader(pickle.Unpickler):
    def __init__(self, state: bytes, secrets: Secrets) -> None:
        super().__init__(BytesIO(state))
        self._secrets = secrets

    def persistent_load(self, name: str) -> Secrets | None:
        """Return the secrets of this run, or an opener made from them."""
        return self._secrets if name == "secrets" else None


#: How many bytes wait for the other side's hello; and for a secret, and for how long, in live captures.
_ORDER: Final = 64 * 1024
_PATIENCE: Final = 4 * 1024 * 1024
_PATIENCE_NS: Final = 10_000_000_000
#: How many gaps wait for a gap of the text.
_GAPS: Final = 256
#: A connection without a hello counts as TLS after so many records in sequence.
_CHAIN: Final = 8


class Unsealer:
    """One connection. ``joined_late``: its beginning was not captured, and it may not be TLS."""

    __slots__ = ("_growth", "_parties", "_reader", "_ring", "_secrets", "_serial", "_sides", "_traces", "joined_late")

    def __init__(self, secrets: Secrets, *, joined_late: bool = False, traces: bool = False) -> None:
        self._secrets = secrets
        self._reader = RecordReader(secrets)
        self._parties = self._reader.parties
        self._ring = self._parties.ring
        self._sides: list[Side | None] = [None, None]
        self._serial = 0
        self._growth = secrets.growth
        self._traces = traces  # whether the offsets of each record's text are kept
        self.joined_late = joined_late

    def state(self) -> bytes:
        """Return the state for ``restored``: all on which the handling of later events depends, without secrets."""
        openers = [None if each is None else each.opener for each in self._sides]
        made = [None if each is None else (each.basis, each.before) for each in openers]
        file = BytesIO()
        _Writer(file, pickle.HIGHEST_PROTOCOL).dump((self, made))
        return file.getvalue()

    @staticmethod
    def restored(state: bytes, secrets: Secrets) -> "Unsealer":
        """Return an Unsealer that continues from a state, with the same secrets. Raises MissingSecretError."""
        found: Unsealer
        found, made = _Reader(state, secrets).load()
        for side, each in zip(found._sides, made, strict=True):
            if side is not None and side.key is not None and each is not None:
                basis, before = each
                side.opener = found._ring.make(side.key, basis)
                side.opener.before = before
        return found

    # -- what comes in -----------------------------------------------------------------------------------

    def feed(self, direction: int, event: Event) -> Events:
        """Handle the next event of a direction, and return the events of the text."""
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
                self._open_or_queue(side, found, events)
                self._cut(side, events)
            hurt = side.cutter.gap(event.length, event.seen)
            self._reader.progress.lose(direction)
            side.missing.append(event)
            if hurt is not None:
                self._open_or_queue(side, hurt, events)
            side.unknown = side.unknown or event.length is None
        else:
            side.cutter.close()
            self._cut(side, events)
            side.ended = True
            self._reader.progress.end(direction, event)
            self._open_or_queue(side, event, events)
        side.count_skipped()
        if self._parties.changed or self._growth != self._secrets.growth:
            self._resume(events)
        if side.ended and not self._secrets.growing and all(each.ended for each in self._present):
            events += self.close()
        return events

    def run(self, segments: Segments, at: int, stop: int, texts: Segments) -> tuple[int, Events]:
        """Decrypt segments ``at`` … ``stop``-1 of one direction, and add the text of plain records to ``texts``.

        Return the first segment not used, and the events that follow these texts.
        """
        direction = segments.direction_ids[at] & 1
        side = self._sides[direction]
        if side is None or not side.steady:
            return at + 1, self.feed(direction, segments.event(at).event)
        taken, rest = _open_run(side, segments, at, stop, texts)
        return taken, [] if rest is None else self.feed(direction, rest)

    def open_waiting(self) -> Events:
        """Continue with waiting records, if there are new secrets."""
        events: Events = []
        if self._growth != self._secrets.growth:
            self._resume(events)
        return events

    def close(self) -> Events:
        """End the input: no bytes and no secrets follow; return the events of waiting records."""
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
        joined_late = self.joined_late or isinstance(event, Gap) or (isinstance(event, Bytes) and event.joined_late)
        searching = joined_late and not (isinstance(event, Bytes) and is_hello(event.data))
        cutter = RecordCutter(event.offset, searching=searching)
        end = None if searching else event.offset
        side = self._sides[direction] = Side(direction, cutter, Joining(self._secrets), joined_late, end)
        if self._traces:
            side.text_offsets = TextOffsets(array("q"), array("q"), array("q"), array("q"))
        return side

    def _cut(self, side: Side, events: Events) -> None:
        while (record := side.cutter.next()) is not None:
            self._open_or_queue(side, record, events)

    # -- waiting -----------------------------------------------------------------------------------------

    def _open_or_queue(self, side: Side, item: Waiting, events: Events) -> None:
        if side.queue or not self._process(side, item, events):
            self._serial += 1
            side.queue.append(Queued(self._serial, item))
            side.queued += item.there if isinstance(item, TlsRecord) else 0
            if side.since is None:
                side.since = item.seen.ts_ns
            if self._is_too_much(side, item):
                side.patient = not self._ring.known()  # first for a hello that does not come
                self._ring.guessed = self._parties.changed = True

    def _process(self, side: Side, item: Waiting, events: Events) -> bool:
        """Read a record or the end; return False if it has to wait."""
        other = self._sides[1 - side.direction]
        out = self._reader.read(side, item, other.key if other is not None else None)
        if out is None:
            return False
        events += [(side.direction, event) for event in out]
        return True

    def _resume(self, events: Events) -> None:
        """Continue with waiting records, in the order in which they came."""
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
                side.queued -= item.there if isinstance(item, TlsRecord) else 0
                if not side.queue:
                    side.since = None
                    waiting.remove(side)

    def _is_too_much(self, side: Side, item: Waiting) -> bool:
        """Return whether too many bytes wait for a record to wait longer."""
        if not self._ring.known():
            return side.queued > _ORDER
        live = self._secrets.poll is not None and side.since is not None and item.seen.ts_ns is not None
        waited = (item.seen.ts_ns or 0) - (side.since or 0) if live else 0
        return side.queued > _PATIENCE or waited > _PATIENCE_NS

    def give_up(self) -> Events:
        """Release the memory: waiting records stay encrypted, and later ones do not wait for these secrets."""
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

    def text_offsets(self, direction: int) -> TextOffsets | None:
        """Return the offsets of the text of a direction's records, if they were kept."""
        side = self._sides[direction]
        return side.text_offsets if side is not None else None

    # -- what was lost -----------------------------------------------------------------------------------

    def pop_gaps(self, direction: int) -> tuple[Gap, ...]:
        """Return the bytes that a direction lost, as sent, since the last call."""
        side = self._sides[direction]
        found = () if side is None else tuple(side.missing)
        if side is not None:
            side.missing = []
        return found

    def untold(self, direction: int, gap: Gap | None = None) -> Gap | None:
        """Return the losses of a direction up to ``gap``; None if a gap of the text will report them."""
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
        """Return the sides of which bytes were captured."""
        return [side for side in self._sides if side is not None]

    @property
    def held(self) -> int:
        """Return the memory that waiting bytes take."""
        return sum(side.held for side in self._present)

    @property
    def account(self) -> tuple[int, int, int]:
        """Return how many bytes became text, are TLS around it, and stay encrypted."""
        sides = self._present
        return sum(s.given for s in sides), sum(s.tls for s in sides), sum(s.encrypted for s in sides)

    @property
    def opened(self) -> bool:
        """Return whether any record was decrypted."""
        return any(side.opened for side in self._present)

    @property
    def likely(self) -> bool:
        """Return whether it is probably TLS, without other evidence."""
        return self.certain or sum(side.cutter.chained for side in self._present) > 1

    @property
    def certain(self) -> bool:
        """Return whether it is TLS: a hello was read, a record decrypted, or many records follow one another."""
        return self._parties.greeted or self.opened or any(s.cutter.chained >= _CHAIN for s in self._present)

    def report(self) -> TlsReport:
        """Return the report of the connection."""
        report = describe(self._parties, self._present, self._secrets, self._reader.too_late)
        return replace(report, failure=self._reader.progress.failure(self._parties, self._present))
