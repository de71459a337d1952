"""Read the records of a TLS connection: hellos in clear, and records decrypted with keys.

The reading of a record depends on those before it. One that cannot be read yet is reported as such, and the caller
queues it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from dcpdump.net.event import End, Event
from dcpdump.tls import outcome as why
from dcpdump.tls import records
from dcpdump.tls.keyring import APPLICATION, EARLY, HANDSHAKE, Key, Keyring, Terms
from dcpdump.tls.outcome import Alert, Failure
from dcpdump.tls.records import ALERT, CHANGE_CIPHER_SPEC, DATA, HANDSHAKES, HEAD, TlsRecord
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, Secrets
from dcpdump.tls.side import Side, Waiting
from dcpdump.tls.suites import SUITES

#: How many first records of a direction may stay encrypted: with all keys known, and with those of the handshake
#: missing.
_FAILURES: Final = 4
_FLIGHT: Final = 64
#: How many records in a row fail before their numbers are searched.
_DAMAGED: Final = 4
#: How many numbers are searched after a loss of unknown length.
_UNKNOWN: Final = 1 << 20
#: The cost of a number with ciphers that cannot try many at once.
_SLOW: Final = 100


# -- who of a connection is the client, and what the two agreed ---------------------------------------

#: How many handshakes of a connection are remembered.
_HANDSHAKES = 64


class Parties:
    """The roles and handshakes of a connection. ``changed``: new facts may help to decrypt waiting records."""

    __slots__ = ("_key", "_roles", "_secrets", "changed", "early", "randoms", "ring", "server_name")

    def __init__(self, secrets: Secrets) -> None:
        self.ring = Keyring(secrets)
        self.early: bool | None = None  #: whether the server reads what the client sent early
        self.server_name = ""
        self.changed = False
        self.randoms: dict[bytes, bytes] = {}  #: of the handshakes that were decrypted, and those with their secrets
        self._key: Key | None = None  # the last key that decrypted a record
        self._roles: list[int | None] = [None, None]
        self._secrets = secrets

    @property
    def terms(self) -> Terms:
        """Return the content of the last hellos."""
        return self.ring.terms

    @property
    def greeted(self) -> bool:
        """Return whether any hello was seen."""
        return self.terms.client is not None or self.terms.server is not None

    def role(self, direction: int) -> int | None:
        """Return 0 for the client's direction, 1 for the server's, None if unknown."""
        return self._roles[direction]

    def cast(self, direction: int, role: int) -> None:
        """Note the role of a direction."""
        self._roles[direction], self._roles[1 - direction] = role, 1 - role

    def message(self, direction: int, kind: int, body: bytes, *, early: bool) -> bool:
        """Handle a handshake message, ``early`` under the early key; return whether it is a hello."""
        terms = self.terms
        if kind == records.CLIENT_HELLO:
            client = records.client_hello(body)
            if client is None:
                return False
            self._client(client)
            self.cast(direction, 0)
            return True
        if kind == records.SERVER_HELLO:
            server = records.server_hello(body)
            if server is None or server.retry:
                return server is not None
            if terms.server is not None:
                terms = self.ring.terms = Terms(turn=terms.turn + 1)
            terms.server = server
            self.changed = True
            self.cast(direction, 1)
            return True
        if kind == records.NEW_SESSION_TICKET and 0 < terms.version < records.TLS_1_3:
            terms.tickets.append(records.ticket_of(body))
        elif kind == records.ENCRYPTED_EXTENSIONS and terms.version >= records.TLS_1_3 and self.early is None:
            self.decide_early(records.accepts_early_data(body))
        elif kind == records.END_OF_EARLY_DATA and early:
            self.decide_early(True)
        return False

    def decide_early(self, taken: bool) -> None:
        """Note whether the server reads what the client sent early."""
        self.early, self.changed = taken, True

    def opened_with(self, key: Key) -> None:
        """Note a key that decrypted a record, its secret, and the sessions with this secret."""
        terms = self.terms
        if key != self._key:
            self._key = key
            if len(self.randoms) < _HANDSHAKES:
                own = self.ring.random if key.turn == terms.turn else b""
                self.randoms[own or key.random] = key.random
        server = terms.server
        if server is not None and key.label == CLIENT_RANDOM and key.turn == terms.turn:
            if server.session and self._secrets.owner(server.session) is None:
                self._secrets.remember(server.session, key.random)
            while terms.tickets:
                self._secrets.remember(terms.tickets.pop(), key.random)

    def _client(self, client: records.ClientHello) -> None:
        terms = self.terms
        if terms.server is not None and terms.client is not None:
            self.ring.terms = Terms(client, turn=terms.turn + 1)
        else:
            if terms.client is not None:  # after a HelloRetryRequest there is no early data
                client.early = False
            terms.client = client
        self.server_name = self.server_name or client.server_name
        self._secrets.claim(client.random)
        self.changed = True


# -- how far the handshake comes, and which alert or close ends the connection ------------------------

_CERTIFICATE: Final = 11
_MESSAGES: Final = {
    0: "HelloRequest",
    records.CLIENT_HELLO: "ClientHello",
    records.SERVER_HELLO: "ServerHello",
    records.NEW_SESSION_TICKET: "NewSessionTicket",
    records.END_OF_EARLY_DATA: "EndOfEarlyData",
    records.ENCRYPTED_EXTENSIONS: "EncryptedExtensions",
    _CERTIFICATE: "Certificate",
    12: "ServerKeyExchange",
    13: "CertificateRequest",
    14: "ServerHelloDone",
    15: "CertificateVerify",
    16: "ClientKeyExchange",
    20: "Finished",
    21: "CertificateURL",
    22: "CertificateStatus",
    24: "KeyUpdate",
    25: "CompressedCertificate",
}
#: The body lengths of the shortest records of TLS 1.3, by tag size: the two bytes of an alert and its type.
_ENCRYPTED_ALERTS: Final = (19, 11)


class _Progress:
    """The handshake of one connection. Directions are 0 and 1."""

    __slots__ = ("_alert", "_certified", "_close", "_last", "_unlocked")

    def __init__(self) -> None:
        self._last = ["", ""]  # the last message of each direction; empty: none, or unknown
        self._certified = [False, False]  # whether a direction sent a certificate
        self._unlocked = [False, False]  # whether a direction sent more under a key than an alert
        self._alert: tuple[Alert, int, str, bool] | None = None  # direction, message before, encrypted
        self._close: tuple[int, str, int] | None = None  # the time, FIN or RST, and the direction

    def message(self, direction: int, kind: int, body: bytes) -> None:
        """Note a message of a handshake."""
        name = _MESSAGES.get(kind, f"handshake message {kind}")
        if kind == records.SERVER_HELLO and (hello := records.server_hello(body)) is not None and hello.retry:
            name = "HelloRetryRequest"
        self._last[direction] = name
        self._certified[direction] |= kind == _CERTIFICATE

    def lose(self, direction: int) -> None:
        """Note that bytes of a direction were lost: its last message is unknown."""
        self._last[direction] = ""
        self._unlocked[direction] = True

    def alert(self, direction: int, text: bytes, version: int, *, encrypted: bool = False) -> None:
        """Note an alert, in clear or ``encrypted`` and decrypted; the first fatal one counts."""
        if len(text) != 2 or text[0] not in (1, 2):
            return
        self._keep(direction, Alert(text[0], text[1]), version, encrypted=encrypted)

    def begin_keys(self, direction: int, version: int, client_size: int | None, *, handshake: bool) -> None:
        """Note the first encrypted record of a direction; ``client_size``: its body's length, if the client sent it.

        A client of TLS 1.3 begins with its certificate or its Finished, which are longer than an alert.
        """
        if version >= records.TLS_1_3 and client_size in _ENCRYPTED_ALERTS:
            self._keep(direction, Alert(0, None), version, encrypted=True)
            return
        self._unlocked[direction] = True
        if version >= records.TLS_1_3:
            self._last[direction] = "encrypted messages"
        elif handshake:
            self._last[direction] = "Finished"

    def end(self, direction: int, event: End) -> None:
        """Note how a direction ended."""
        if event.reason in ("fin", "rst"):
            at = event.seen.ts_ns if event.reset_ns is None else event.reset_ns
            found = at or 0, event.reason, 1 - direction if event.by_peer else direction
            self._close = found if self._close is None else min(self._close, found)

    def failure(self, parties: Parties, sides: Sequence[Side]) -> Failure | None:
        """Return how the connection failed; None if it did not, or if that is unknown."""
        joined_late = any(side.joined_late for side in sides)
        whole = all(self._unlocked[side.direction] for side in sides)
        _, close, closer = self._close or (0, "", 0)
        alert, sender, step, encrypted = self._alert or (None, closer, self._last[1 - closer], False)
        fatal = alert is not None and alert.fatal(parties.terms.version)
        if not fatal and (joined_late or whole or not close):
            return None
        given = any(side.direction == sender and side.given for side in sides)
        established = fatal and encrypted and (given or parties.terms.version < records.TLS_1_3)

        def name(direction: int) -> str:
            role = parties.role(direction)
            role = direction if role is None and not joined_late else role
            return "" if role is None else ("client", "server")[role]

        known = alert is not None
        return Failure(established, alert, name(sender) if known else "", step, close, name(closer) if close else "")

    def _keep(self, direction: int, alert: Alert, version: int, *, encrypted: bool) -> None:
        before = self._alert
        if before is not None and before[0].number is not None and before[0].fatal(version):
            return
        peer = 1 - direction
        step = "Certificate" if alert.of_certificate and self._certified[peer] else self._last[peer]
        self._alert = alert, direction, step, encrypted


#: The length of the shortest encrypted record.
_LEAST: Final = 22


# -- the records of both sides ------------------------------------------------------------------------


class RecordReader:
    """A reader of the records of both sides. ``final``: no bytes and no secrets follow."""

    __slots__ = ("_ring", "_secrets", "final", "parties", "progress", "too_late")

    def __init__(self, secrets: Secrets) -> None:
        self.parties = Parties(secrets)
        self.progress = _Progress()
        self.final = False
        self.too_late = 0  #: bytes that passed before their secrets came
        self._secrets = secrets
        self._ring = self.parties.ring

    def read(self, side: Side, item: Waiting, partner: Key | None) -> list[Event] | None:
        """Return the events of the text for a record, or the end; None if it has to wait.

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

    def _record(self, side: Side, record: TlsRecord, partner: Key | None, out: list[Event]) -> bool | None:
        """Read a record: return True if its position is certain, None if it has to wait."""
        if side.closed:
            side.pass_by(record)
            return False
        plain = self._is_plain(side, record)
        if plain is None:
            return None
        if plain:
            self._plain(side, record)
            return True
        role = self.parties.role(side.direction)
        if not side.protected:
            side.protected = True
            self._first_under_key(side, record, role)
        if role is None or not self.parties.greeted:
            return self._join(side, record, partner, out)
        if side.opener is None:
            ready = self._ready(side, role)
            if ready is None:
                return None
            if not ready:
                side.pass_by(record)
                return False
        elif self._waits(side, role, record):
            return None
        opened = self._open(side, role, record, out)
        if opened is not None:
            self._opened(side, record, opened, out)
        return opened is not None

    def _first_under_key(self, side: Side, record: TlsRecord, role: int | None) -> None:
        """Note the first encrypted record of a direction."""
        client, size = self._ring.terms.client, len(record.body)
        whole = side.in_step and not (side.joined_late or record.holes or (client is not None and client.early))
        shortest = size if role == 0 and whole else None
        handshake = record.kind == HANDSHAKES
        self.progress.begin_keys(side.direction, self._ring.terms.version, shortest, handshake=handshake)

    def _is_plain(self, side: Side, record: TlsRecord) -> bool | None:
        """Return whether a record is in clear; None if that is still open."""
        version = self._ring.terms.version
        if record.kind == DATA:
            return False
        if version >= records.TLS_1_3:
            return True
        if side.opener is not None or side.protected:
            return False
        if not side.ccs:
            return not side.joined_late or record.kind != HANDSHAKES or record.body[:1] in (b"\1", b"\2")
        if version:
            return False
        return None if not self._ring.guessed else self._ring.has(0)

    def _ready(self, side: Side, role: int) -> bool | None:
        """Return whether there are keys to try; None if they may still come."""
        ring, secrets = self._ring, self._secrets
        if not ring.known():
            return None
        server = ring.terms.server
        if server is not None and not 0x0301 <= server.version <= records.TLS_1_3:
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

    def _waits(self, side: Side, role: int, record: TlsRecord) -> bool:
        """Return whether a record follows a handshake, and its secret may still come."""
        key, opener = side.key, side.opener
        if key is None or opener is None or record.holes or not side.in_step:
            return False
        if key.rank == APPLICATION and not side.turning:
            return False
        if not (self._secrets.growing and side.patient) or self.final:
            return False
        missing = next(self._ring.after(key, role), None) is None
        return missing and opener.open(side.number, record.head, record.body) is None

    def _join(self, side: Side, record: TlsRecord, partner: Key | None, out: list[Event]) -> bool:
        """Search the secret of a direction whose handshake was not captured."""
        if side.opener is not None and side.key is not None:
            opened = self._open(side, 0, record, out)
        else:
            side.joining.note(record)
            self._secrets.gather()
            joined = side.joining.try_record(record, partner)
            if joined is None:
                side.pass_by(record)
                return False
            role = int(joined.key.label != CLIENT_TRAFFIC)
            self.parties.cast(side.direction, role)
            self._secrets.claim(joined.key.random)
            side.joined_late = True
            side.joined_at = joined.number
            side.proven(joined.key, joined.opener, joined.number)
            opened = joined.kind, joined.text
        if opened is not None:
            self._opened(side, record, opened, out)
        return opened is not None

    def _opened(self, side: Side, record: TlsRecord, opened: tuple[int, bytes], out: list[Event]) -> None:
        """Handle the type and the text of a decrypted record."""
        kind, text = opened
        key, opener = side.key, side.opener
        assert key is not None
        assert opener is not None
        if side.unopened:  # the handshake, whose key is missing
            side.encrypted -= side.unopened
            side.tls += side.unopened
            side.unopened = side.passed = 0
        parties = self.parties
        parties.opened_with(key)
        if key.rank == EARLY:
            if parties.early is None and side.early is None:
                side.early = []
            elif parties.early is False:
                side.tls += record.there
                return
        elif side.early is not None and parties.early is None:
            parties.decide_early(False)  # early data without its end: the server refused it
        if key.label != CLIENT_RANDOM and len(record.body) - opener.overhead != len(text):
            side.padded = True
        if kind == DATA:
            before = side.offset
            side.give(text, record.seen, out)
            side.tls += record.there - len(text)
            side.note_offsets(record, before)
            return
        side.tls += record.there
        side.turning = kind == CHANGE_CIPHER_SPEC
        if kind == ALERT:
            self.progress.alert(side.direction, text, self._ring.terms.version, encrypted=True)
        if kind == HANDSHAKES:
            self._messages(side, text)

    def _plain(self, side: Side, record: TlsRecord) -> None:
        """Handle a record in clear."""
        side.tls += record.there
        if record.holes or side.lost or side.unknown:
            side.messages.lose()
        if side.lost or side.unknown or side.passed:  # an encrypted record may have been lost, or be this one
            side.passed += 1 + (record.offset - side.end) // _LEAST if side.end is not None else 1
        side.lost = side.unknown = False
        if record.kind == CHANGE_CIPHER_SPEC:
            side.ccs = True
        elif record.kind == ALERT:
            self.progress.alert(side.direction, record.body, self._ring.terms.version)
        elif record.kind == HANDSHAKES and not record.holes and self._messages(side, record.body):
            side.joined_late = False  # the direction begins with the connection

    def _messages(self, side: Side, text: bytes) -> bool:
        """Handle a piece of the handshake; return whether it completes a hello."""
        early = side.key is not None and side.key.rank == EARLY
        hello = False
        for kind, body in side.messages.feed(text):
            self.progress.message(side.direction, kind, body)
            hello |= self.parties.message(side.direction, kind, body, early=early)
        return hello

    # -- which key and which number open a record: by proof -------------------------------------------
    # A record that the current key does not decrypt is tried with the keys that may follow. So ends of handshakes, key
    # updates and new handshakes need not be parsed, and may even be lost.

    def _open(self, side: Side, role: int, record: TlsRecord, out: list[Event]) -> tuple[int, bytes] | None:
        """Return the type and the text of a record. If that fails, count it, emit the text or gap for it: None."""
        if side.passed and side.opener is None and not side.failures:
            side.lost = True
        if side.lost or side.unknown:
            return self._find_again(side, role, record, out)
        if record.holes:
            if side.opener is None:
                side.lost = True
                side.pass_by(record)
            else:
                side.hurt(record, out)
            return None
        opened = self._in_step(side, role, record)
        if opened is None:
            if side.assumed and not side.failures:
                side.lost = True
                side.end = record.offset
                return self._find_again(side, role, record, out)
            self._unopened(side, role, record, out)
        return opened

    def _in_step(self, side: Side, role: int, record: TlsRecord) -> tuple[int, bytes] | None:
        _, head, body = record[:3]
        if side.opener is not None and side.key is not None:
            found = side.opener.open(side.number, head, body)
            if found is not None:
                side.proven(side.key, side.opener, side.number)
                return found
        for key in self._ring.after(side.key, role):
            opener = self._ring.opener(key, role)
            found = opener.open(0, head, body)
            if found is not None:
                side.proven(key, opener, 0)
                return found
        return None

    def _unopened(self, side: Side, role: int, record: TlsRecord, out: list[Event]) -> None:
        """Classify a complete record in sequence that is not decrypted."""
        key, ring = side.key, self._ring
        if key is not None and key.rank == APPLICATION:
            if side.turning:
                side.failures += 1
                side.pass_by(record)
                if next(ring.after(key, role), None) is None:
                    side.closed = why.NO_SECRET
                elif side.failures >= _FAILURES:
                    side.closed = why.NO_FIT
            elif side.failures < _DAMAGED:
                side.damaged(record, out)
            else:
                side.lost = True
                side.pass_by(record)
            return
        side.failures += 1
        side.unopened += record.there
        side.pass_by(record)
        keys = list(ring.after(None, role))
        ranks = {each.rank for each in keys}
        client = ring.terms.client
        flight = HANDSHAKE not in ranks or (client is not None and client.early)
        most = _FLIGHT if flight and not (keys and keys[0].label == CLIENT_RANDOM) else _FAILURES
        if APPLICATION not in ranks and key is not None:
            side.closed = why.NO_SECRET
        elif side.failures >= most:
            side.closed = why.NO_FIT

    def _find_again(self, side: Side, role: int, record: TlsRecord, out: list[Event]) -> tuple[int, bytes] | None:
        """Search the number of a record after a loss; in a row of failures only for some records."""
        side.tries += not record.holes
        if record.holes or side.tries & (side.tries - 1):
            side.pass_by(record)
            return None
        for key, first, stop in self._ranges(side, role, record):
            from dcpdump.tls.openers import find_number, is_fast

            opener = self._ring.opener(key, role) if key != side.key or side.opener is None else side.opener
            cost = (stop - first) * (1 if is_fast(opener) else _SLOW)
            if stop - first > _FLIGHT and not side.joining.spend(cost, fast=True):
                continue
            found = find_number(opener, record.head, record.body, first, stop)
            if found is not None:
                side.found_again(record, key, found[0], out)
                side.proven(key, opener, found[0])
                return found[1]
        side.pass_by(record)
        return None

    def _ranges(self, side: Side, role: int, record: TlsRecord) -> Iterator[tuple[Key, int, int]]:
        """Yield keys, and the numbers that a record may have under them."""
        key, opener = side.key, side.opener
        missing = record.offset - side.end if side.end is not None else 0
        least = HEAD + (opener.overhead if opener is not None else 17)
        most = missing // least + (_UNKNOWN if side.unknown else 0)
        if key is not None and opener is not None:
            fewest = 0 if side.unknown else missing // (HEAD + (1 << 14) + 2_048)
            yield key, max(side.number - side.assumed + fewest, 0), side.number + most + 1
        fresh = most + side.assumed + side.passed + 1
        for each in self._ring.after(key, role):
            yield each, 0, fresh
            if key is not None and each.generation > key.generation:
                yield each._replace(generation=each.generation + 1), 0, fresh
