"""Follow one direction of a TLS connection: its records, its key, its offset in the text, and all its bytes by fate.

Decrypted text becomes events, and other bytes become gaps. The key is chosen by the RecordReader.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.net.event import END, Bytes, End, Event, Gap, Seen
from dcpdump.startup import dataclass, field
from dcpdump.tls.keyring import APPLICATION, EARLY, HANDSHAKE, Key
from dcpdump.tls.records import DATA, HEAD, HandshakeMessages, RecordCutter, TlsRecord
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, SERVER_TRAFFIC, Secrets, mark_of
from dcpdump.tls.suites import BY_LENGTH, GCM, SUITES

if TYPE_CHECKING:
    from dcpdump.tls.openers import Opener


# -- the secret and the record number of a direction that is joined after its handshake ---------------
# TLS 1.3 needs only the secret and the record's number. The effort is bounded: small windows of numbers for all secrets
# first, larger ones at later records, with a bound for the direction and for the run.

#: How many numbers are tried for a direction, and the cost of one with ciphers that try number by number.
EFFORT: Final = 1 << 28
_SLOW_EFFORT: Final = 1 << 26
_SLOW: Final = 100
#: How many numbers each attempt tries, with AES-GCM and with other ciphers.
_WINDOWS: Final = (1 << 16, 1 << 20, 1 << 26)
_SLOW_WINDOWS: Final = (1 << 12, 1 << 16, 1 << 20)
#: How many numbers are tried with keys after a KeyUpdate, and how many such keys.
_UPDATED: Final = 64
_GENERATIONS: Final = 2
#: The most connections for which these keys are tried at once; with more, only at later records.
_FEW: Final = 256
#: The body length of a close_notify, which is no record to search with.
_CLOSE_NOTIFY: Final = 19
#: A record tried number by number should be this short, if there is one.
_SHORT: Final = 300
#: If records of so many lengths are all complete blocks, the cipher is CBC.
_DISTINCT: Final = 5
_LABELS: Final = (CLIENT_TRAFFIC, SERVER_TRAFFIC)


class _JoinedLate(NamedTuple):
    """A record that was decrypted: its key and number, its type and its text."""

    key: Key
    opener: "Opener"
    number: int
    kind: int
    text: bytes


class Joining:
    """The search for the key of a direction joined late; ``reach``: the highest number tried with all secrets."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._records = 0
        self._attempts = 0
        self._left = EFFORT
        self._slow_left = _SLOW_EFFORT
        self.shortest = _SHORT
        self.reach = 0
        self.tried = 0
        self._growth = secrets.growth
        self._nonce = -1
        self._rests = 0  # a bit for each length, in blocks
        self._lengths: set[int] = set()
        self.version = 0  #: as the records suggest; 0: unknown

    def note(self, record: TlsRecord) -> None:
        """Infer the version from an encrypted record: before 1.3 more is in clear."""
        nonce = int.from_bytes(record.body[:8], "big")
        minor = record.head[1] << 8 | record.head[2]
        whole_blocks = self._is_in_blocks(len(record.body))
        if record.kind != DATA or minor < 0x0303 or nonce == self._nonce + 1 or whole_blocks:
            self.version = minor
        self._nonce = nonce

    def _is_in_blocks(self, length: int) -> bool:
        """Return whether a length is one of CBC: complete blocks, perhaps with a MAC of SHA-1 after them."""
        self._rests |= 1 << length % 16
        if len(self._lengths) < _DISTINCT:
            self._lengths.add(length)
        return len(self._lengths) >= _DISTINCT and self._rests in (1, 1 << 4)

    @property
    def spent(self) -> int:
        """Return the cost of the numbers tried so far."""
        return EFFORT - self._left + _SLOW_EFFORT - self._slow_left

    def try_record(self, record: TlsRecord, partner: Key | None) -> "_JoinedLate | None":
        """Search the key and number of a record; ``partner``: the key of the other direction, if found."""
        if record.holes or len(record.body) <= _CLOSE_NOTIFY or record.kind != DATA:
            return None
        if self._growth != self._secrets.growth:
            self._growth, self._records, self._attempts = self._secrets.growth, 0, 0
        self._records += 1
        self.shortest = min(self.shortest, len(record.body))
        if self._records & (self._records - 1) or not len(self._secrets):
            return None
        attempt = min(self._attempts, len(_WINDOWS) - 1)
        self._attempts += 1
        self.tried += 1
        for fast in (True, False):
            found = self._attempt(record, partner, attempt, fast)
            if found is not None:
                return found
        return None

    def _attempt(self, record: TlsRecord, partner: Key | None, attempt: int, fast: bool) -> "_JoinedLate | None":
        from dcpdump.tls.openers import Opener13, find_number

        window = (_WINDOWS if fast else _SLOW_WINDOWS)[attempt]
        if not fast and attempt and len(record.body) > self.shortest:
            window = _SLOW_WINDOWS[0]
        whole, few = True, attempt > 0 or len(self._secrets) <= _FEW
        for key, secret in self._keys(partner, fast):
            if not self.spend(window, fast=fast):
                whole = False
                break
            opener = Opener13(SUITES[key.suite], secret)
            found = find_number(opener, record.head, record.body, 0, window)
            for generation in range(1, _GENERATIONS + 1) if few else ():
                if found is not None:
                    break
                opener = opener.next()
                key = key._replace(generation=generation)
                found = find_number(opener, record.head, record.body, 0, _UPDATED)
            if found is not None:
                return _JoinedLate(key, opener, found[0], *found[1])
        if whole and fast:
            self.reach = max(self.reach, window)
        return None

    def _keys(self, partner: Key | None, fast: bool) -> Iterator[tuple[Key, bytes]]:
        """Yield the keys to try, with their secrets."""
        if partner is not None:
            label = SERVER_TRAFFIC if partner.label == CLIENT_TRAFFIC else CLIENT_TRAFFIC
            choices = [(partner.random, label)]
        else:
            choices = [(random, label) for random in self._secrets.free() for label in _LABELS]
        for random, label in choices:
            found = self._secrets.of(random, label)
            for secret in found:
                for suite in BY_LENGTH[len(secret)]:
                    if (suite.kind == GCM) == fast and (partner is None or partner.suite == suite.number):
                        yield Key(random, label, mark_of(secret), 0, suite.number, APPLICATION, 0), secret

    def spend(self, window: int, *, fast: bool) -> bool:
        left = self._left if fast else self._slow_left
        cost = window if fast else window * _SLOW
        if cost > min(left, self._secrets.budget):
            return False
        self._secrets.budget -= cost
        if fast:
            self._left -= cost
        else:
            self._slow_left -= cost
        return True


# -- one direction ------------------------------------------------------------------------------------

#: Bytes of memory for a record beside its body.
_COST: Final = 256

Waiting = TlsRecord | End


class Queued(NamedTuple):
    """A record that waits for a secret or the other side's hello, and its rank among all of the connection."""

    serial: int
    item: Waiting


class TextOffsets(NamedTuple):
    """The offsets of each record of text, in the direction as sent, and in the text."""

    starts: "array[int]"
    ends: "array[int]"
    texts: "array[int]"
    stops: "array[int]"

    def add(self, start: int, end: int, text: int, stop: int) -> None:
        """Add a record."""
        self.starts.append(start)
        self.ends.append(end)
        self.texts.append(text)
        self.stops.append(stop)


@dataclass(slots=True, eq=False)
class Side:
    """One direction. ``given`` + ``tls`` + ``encrypted`` + ``held`` are all its captured bytes."""

    direction: int
    cutter: RecordCutter
    joining: Joining
    joined_late: bool  #: its beginning was not captured
    end: int | None  #: offset of the next record; None: unknown
    messages: HandshakeMessages = field(default_factory=HandshakeMessages)
    ccs: bool = False  #: a ChangeCipherSpec came in clear
    turning: bool = False  #: an encrypted ChangeCipherSpec came: the next record has another key
    protected: bool = False  #: records are encrypted
    opener: "Opener | None" = None
    key: Key | None = None
    number: int = 0  #: number of the next record under the key
    assumed: int = 0  #: records since the last one decrypted
    unknown: bool = False  #: an unknown number of bytes was lost since then
    lost: bool = False  #: the number of the next record is not known
    missing: list[Gap] = field(default_factory=list)  #: lost bytes, as sent, that are in no gap of the text yet
    offset: int = 0  #: of the text
    early: list[Bytes] | None = None  #: early data, which counts only if the server accepts it
    queue: deque[Queued] = field(default_factory=deque)
    queued: int = 0  #: captured bytes in it
    since: int | None = None  #: the time since which it waits
    ended: bool = False
    closed: str = ""  #: why no more is decrypted
    opened: int = 0  #: records
    failures: int = 0  #: records in a row that were not decrypted
    tries: int = 0  #: records whose number was searched since the last one decrypted
    passed: int = 0  #: encrypted records before the first one decrypted
    unopened: int = 0  #: bytes of the handshake without a key
    text_offsets: TextOffsets | None = None  #: offsets of each record's text, if requested
    padded: bool = False
    patient: bool = True  #: records may wait for their secret
    joined_at: int | None = None
    given: int = 0
    tls: int = 0
    encrypted: int = 0
    lost_records: int = 0

    @property
    def held(self) -> int:
        """Return how many bytes of memory waiting bytes take."""
        return self.cutter.weight + self.queued + _COST * len(self.queue) + sum(len(e.data) for e in self.early or ())

    @property
    def in_step(self) -> bool:
        """Return whether the position of the next record is known."""
        return not self.lost and not self.unknown

    @property
    def steady(self) -> bool:
        """Return whether many records can be decrypted at once."""
        return (
            self.opener is not None
            and self.in_step
            and not (self.queue or self.closed or self.early is not None or self.assumed or self.failures)
            and self.key is not None
            and self.key.rank != EARLY
            and self.cutter.steady
        )

    def count_skipped(self) -> None:
        """Count the bytes that the cutter skipped."""
        if self.opened:
            self.tls += self.cutter.skipped
        else:
            self.encrypted += self.cutter.skipped
        self.cutter.skipped = 0

    def pass_by(self, record: TlsRecord) -> None:
        """Leave a record encrypted."""
        self._chain(record)
        self.encrypted += record.there
        self.passed += 1

    def proven(self, key: Key, opener: "Opener", number: int) -> None:
        """Note that a record was decrypted with a key and a number."""
        self.key, self.opener, self.number = key, opener, number + 1
        self.assumed = self.failures = self.tries = 0
        self.lost = self.unknown = self.turning = False
        self.opened += 1

    def note_offsets(self, record: TlsRecord, before: int) -> None:
        """Note the offsets of a record whose text begins at ``before``."""
        if self.text_offsets is not None and self.offset > before:
            self.text_offsets.add(record.offset, record.end, before, self.offset)

    # -- text --------------------------------------------------------------------------------------------

    def give(self, text: bytes, seen: Seen, out: list[Event]) -> None:
        """Emit text; keep early data until it is known whether the server accepts it."""
        if not text:
            return
        event = Bytes(self.offset, text, seen, self.joined_late)
        if self.key is not None and self.key.rank == EARLY and self.early is not None:
            self.early.append(event)
            return
        self.given += len(text)
        self.offset += len(text)
        out.append(event)

    def decide_early(self, taken: bool, out: list[Event]) -> None:
        """Emit the early data, or drop it, since the client sends it again."""
        early, self.early = self.early, None
        for event in early or ():
            if taken:
                self.given += len(event.data)
                out.append(event._replace(offset=self.offset))
                self.offset += len(event.data)
            else:
                self.tls += len(event.data)

    def lose(self, length: int | None, seen: Seen, out: list[Event]) -> None:
        """Emit a gap in the text."""
        if length == 0:
            return
        out.append(Gap(self.offset, length, END, seen))
        self.offset += length or 0

    def hurt(self, record: TlsRecord, out: list[Event]) -> None:
        """Emit the captured part of a record with missing bytes, assuming that its number is the next."""
        opener = self.opener
        assert opener is not None
        number = self.number
        self.number += 1
        self.assumed += 1
        self.lost_records += not record.cut
        found = opener.decrypt_unverified(number, record.body) if opener.exact else None
        if found is not None and any(start < found[0] for start, _ in record.holes):
            found = None  # a part of the nonce is missing
        self._chain(record)
        inside = 1 if self.key is not None and self.key.label != CLIENT_RANDOM else 0
        length = max(len(record.body) - opener.overhead, 0)
        kind = self._kind(record, found, inside)
        if kind != DATA:
            self.tls += record.there
            self.messages.lose()
            return
        if found is None or self.padded:
            self.tls += record.there
            if not record.cut:
                self.lose(length if opener.exact and not self.padded else None, record.seen, out)
            return
        given, before = self.given, self.offset
        self._pieces(record, found[0], found[1][:length], out)
        self.tls += record.there - (self.given - given)
        self.note_offsets(record, before)

    def _kind(self, record: TlsRecord, found: tuple[int, bytes] | None, inside: int) -> int:
        """Return the type of a damaged record: DATA if unknown, except in the handshake."""
        if not inside:
            return record.kind
        if self.key is not None and self.key.rank == HANDSHAKE:
            return 0
        if not found or not found[1]:
            return DATA
        last = len(found[1]) - 1
        if any(start <= last < end for start, end in record.holes):
            return DATA
        if not found[1][last]:
            self.padded = True
            return DATA
        return found[1][last]

    def _pieces(self, record: TlsRecord, start: int, text: bytes, out: list[Event]) -> None:
        at = 0
        for begin, end in record.holes:
            hole, stop = max(begin - start, 0), min(end - start, len(text))
            if hole >= len(text):
                break
            self.give(text[at:hole], record.seen, out)
            if record.cut and stop == len(text):
                return
            self.lose(stop - hole, record.seen, out)
            at = stop
        self.give(text[at:], record.seen, out)

    def damaged(self, record: TlsRecord, out: list[Event]) -> None:
        """Emit a gap for a complete record in sequence that is not decrypted."""
        opener = self.opener
        assert opener is not None
        self._chain(record)
        self.number += 1
        self.assumed += 1
        self.failures += 1
        self.lost_records += 1
        self.tls += record.there
        length = max(len(record.body) - opener.overhead, 0)
        self.lose(length if opener.exact and not self.padded else None, record.seen, out)

    def found_again(self, record: TlsRecord, key: Key, number: int, out: list[Event]) -> None:
        """Emit a gap for the bytes lost before a record whose number was found."""
        opener = self.opener
        missed = number - self.number if key == self.key else max(number, 1)
        known = opener is not None and key == self.key and opener.exact and not self.padded and not self.unknown
        if known and opener is not None and self.end is not None:
            lost = record.offset - self.end - missed * (HEAD + opener.overhead)
            self.lost_records += missed
            if lost >= 0 and missed >= 0:
                self.lose(lost, record.seen, out)
                return
            missed = 0  # which is counted
        begun = self.offset or self.given
        if begun or (not self.joined_late and key.rank == APPLICATION and number > (key.label == CLIENT_RANDOM)):
            self.lost_records += max(missed, 0)
            self.lose(None, record.seen, out)

    def _chain(self, record: TlsRecord) -> None:
        """Let a cipher that chains records continue after one that is not decrypted."""
        if self.opener is not None and not self.opener.exact:
            self.opener.decrypt_unverified(self.number, record.body)
