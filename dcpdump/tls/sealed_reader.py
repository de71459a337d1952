"""Read the records of a TLS connection: hellos in clear, and what keys open.

What a record is depends on those before it; of one that cannot be read yet this is said, and it waits elsewhere.
"""

from typing import Final

from dcpdump.net.event import End, Event
from dcpdump.tls import handshake as hs
from dcpdump.tls import sealing as why
from dcpdump.tls.keyring import APPLICATION, EARLY, Key
from dcpdump.tls.opening import OpenedRecord, Opening
from dcpdump.tls.parties import Parties
from dcpdump.tls.progress import ALERT, Progress
from dcpdump.tls.record_cutter import Sealed
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, Secrets
from dcpdump.tls.side import DATA, Side, Waiting
from dcpdump.tls.suites import SUITES

CCS: Final = 20
HANDSHAKES: Final = 22
#: The shortest record under a key.
_LEAST: Final = 22


class SealedReader:
    """Reads the records of both sides. ``final``: nothing follows, no secret either."""

    __slots__ = ("_opening", "_ring", "_secrets", "final", "parties", "progress", "too_late")

    def __init__(self, secrets: Secrets) -> None:
        self.parties = Parties(secrets)
        self.progress = Progress()
        self.final = False
        self.too_late = 0  #: bytes that passed before their secrets came
        self._secrets = secrets
        self._ring = self.parties.ring
        self._opening = Opening(self._ring)

    def read(self, side: Side, item: Waiting, partner: Key | None) -> list[Event] | None:
        """Return what a record, or the end, gives of the text; None where it has to wait.

        ``partner`` is the key of the other side.
        """
        out: list[Event] = []
        if isinstance(item, End):
            if side.early is not None and not self.final:
                return None
            if side.opened and (side.lost or side.unknown):
                side.lose(None, item.seen, out)
            out.append(item._replace(offset=side.offset))
        else:
            if side.end is not None and item.offset != side.end:
                side.lost = True
            done = self._record(side, item, partner, out)
            if done is None:
                return None
            if done or not (side.lost or side.unknown):
                side.end = item.end
        return out

    def _record(self, side: Side, sealed: Sealed, partner: Key | None, out: list[Event]) -> bool | None:
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
        role = self.parties.role(side.direction)
        if not side.protected:
            side.protected = True
            self._first_under_key(side, sealed, role)
        if role is None or not self.parties.greeted:
            return self._join(side, sealed, partner, out)
        if side.opener is None:
            ready = self._ready(side, role)
            if ready is None:
                return None
            if not ready:
                side.pass_by(sealed)
                return False
        elif self._waits(side, role, sealed):
            return None
        opened = self._opening.open(side, role, sealed, out)
        if opened is not None:
            self._opened(side, sealed, opened, out)
        return opened is not None

    def _first_under_key(self, side: Side, sealed: Sealed, role: int | None) -> None:
        """Note the first record of a direction that is not in clear."""
        client, size = self._ring.terms.client, len(sealed.body)
        whole = side.in_step and not (side.late or sealed.holes or (client is not None and client.early))
        shortest = size if role == 0 and whole else None
        handshake = sealed.kind == HANDSHAKES
        self.progress.begin_keys(side.direction, self._ring.terms.version, shortest, handshake=handshake)

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
        elif secrets.growing and not self.final:
            if side.patient:
                return None
            self.too_late = max(self.too_late, side.encrypted)
        else:
            side.closed = why.NO_SECRET
            if server is None and ring.secrets.of(ring.random, CLIENT_RANDOM):
                side.closed = why.NO_SERVER_HELLO
        return False

    def _waits(self, side: Side, role: int, sealed: Sealed) -> bool:
        """Return whether a record is behind a handshake, and the secret of what follows may come yet."""
        key, opener = side.key, side.opener
        if key is None or opener is None or sealed.holes or not side.in_step:
            return False
        if key.rank == APPLICATION and not side.turning:
            return False
        if not (self._secrets.growing and side.patient) or self.final:
            return False
        missing = next(self._ring.after(key, role), None) is None
        return missing and opener.open(side.number, sealed.head, sealed.body) is None

    def _join(self, side: Side, sealed: Sealed, partner: Key | None, out: list[Event]) -> bool:
        """Search the secret of a direction of which the handshake was not captured."""
        if side.opener is not None and side.key is not None:
            opened = self._opening.open(side, 0, sealed, out)
        else:
            side.joining.note(sealed)
            self._secrets.gather()
            joined = side.joining.try_record(sealed, partner)
            if joined is None:
                side.pass_by(sealed)
                return False
            role = int(joined.key.label != CLIENT_TRAFFIC)
            self.parties.cast(side.direction, role)
            self._secrets.claim(joined.key.random)
            side.late = True
            side.joined_at = joined.number
            side.proven(joined.key, joined.opener, joined.number)
            opened = OpenedRecord(joined.kind, joined.text)
        if opened is not None:
            self._opened(side, sealed, opened, out)
        return opened is not None

    def _opened(self, side: Side, sealed: Sealed, opened: OpenedRecord, out: list[Event]) -> None:
        """Take what a record holds."""
        kind, text = opened
        key, opener = side.key, side.opener
        assert key is not None
        assert opener is not None
        if side.unopened:  # the handshake, of which the key is missing
            side.encrypted -= side.unopened
            side.tls += side.unopened
            side.unopened = side.passed = 0
        parties = self.parties
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
        if kind == ALERT:
            self.progress.alert(side.direction, text, self._ring.terms.version, sealed=True)
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
        elif sealed.kind == ALERT:
            self.progress.alert(side.direction, sealed.body, self._ring.terms.version)
        elif sealed.kind == HANDSHAKES and not sealed.holes and self._messages(side, sealed.body):
            side.late = False  # it begins with the connection

    def _messages(self, side: Side, text: bytes) -> bool:
        """Take a part of the handshake; return whether it ends a hello."""
        early = side.key is not None and side.key.rank == EARLY
        hello = False
        for kind, body in side.messages.feed(text):
            self.progress.message(side.direction, kind, body)
            hello |= self.parties.message(side.direction, kind, body, early=early)
        return hello
