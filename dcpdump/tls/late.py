"""Search the secret and the record number of a direction that is joined after its handshake.

Of TLS 1.3 the secret alone is needed, and the number of the record. The effort is in proportion: small windows for
all secrets first, larger ones at later records, and a bound for the direction and for the run.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.tls.keyring import APPLICATION, Key
from dcpdump.tls.record_cutter import Sealed
from dcpdump.tls.secrets import CLIENT_TRAFFIC, SERVER_TRAFFIC, Secrets, mark_of
from dcpdump.tls.suites import BY_LENGTH, GCM, SUITES

if TYPE_CHECKING:
    from dcpdump.tls.openers import Opener

#: Numbers that are tried of a direction, and how many a cipher counts for that has to be tried number by number.
EFFORT: Final = 1 << 28
_SLOW_EFFORT: Final = 1 << 26
_SLOW: Final = 100
#: How many numbers each attempt tries, with AES-GCM and with others.
_WINDOWS: Final = (1 << 16, 1 << 20, 1 << 26)
_SLOW_WINDOWS: Final = (1 << 12, 1 << 16, 1 << 20)
#: Numbers that are tried of keys after a KeyUpdate, and how many of those.
_UPDATED: Final = 64
_GENERATIONS: Final = 2
#: Connections of which those keys are tried at once; of more only at later records.
_FEW: Final = 256
#: The body of a close_notify: no record to be looked for.
_ALERT: Final = 19
#: What is tried number by number is to be short, where there is anything short.
_SHORT: Final = 300
#: Records of so many lengths that all are whole blocks are of CBC.
_DISTINCT: Final = 5
_LABELS: Final = (CLIENT_TRAFFIC, SERVER_TRAFFIC)


class JoinedLate(NamedTuple):
    """A record that opened: under which key and number, its type and its text."""

    key: Key
    opener: "Opener"
    number: int
    kind: int
    text: bytes


class Joining:
    """One direction. ``reach`` is up to which number all secrets were tried, ``tried`` how many records were."""

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
        self._rests = 0  # of lengths divided by a block: a bit each
        self._lengths: set[int] = set()
        self.version = 0  #: as the records show it, 0 where they do not

    def note(self, sealed: Sealed) -> None:
        """See by a record that is closed which version it may be: before 1.3 more is in clear."""
        nonce = int.from_bytes(sealed.body[:8], "big")
        minor = sealed.head[1] << 8 | sealed.head[2]
        whole_blocks = self._is_in_blocks(len(sealed.body))
        if sealed.kind != 23 or minor < 0x0303 or nonce == self._nonce + 1 or whole_blocks:
            self.version = minor
        self._nonce = nonce

    def _is_in_blocks(self, length: int) -> bool:
        """Return whether records are as long as those of CBC: whole blocks, maybe with a MAC of SHA-1 behind them."""
        self._rests |= 1 << length % 16
        if len(self._lengths) < _DISTINCT:
            self._lengths.add(length)
        return len(self._lengths) >= _DISTINCT and self._rests in (1, 1 << 4)

    @property
    def spent(self) -> int:
        """How many numbers were tried, as they count."""
        return EFFORT - self._left + _SLOW_EFFORT - self._slow_left

    def try_record(self, sealed: Sealed, partner: Key | None) -> "JoinedLate | None":
        """Search what opens a record; ``partner`` is the key of the other direction, where that is found."""
        if sealed.holes or len(sealed.body) <= _ALERT or sealed.kind != 23:
            return None
        if self._growth != self._secrets.growth:
            self._growth, self._records, self._attempts = self._secrets.growth, 0, 0
        self._records += 1
        self.shortest = min(self.shortest, len(sealed.body))
        if self._records & (self._records - 1) or not len(self._secrets):
            return None
        attempt = min(self._attempts, len(_WINDOWS) - 1)
        self._attempts += 1
        self.tried += 1
        for fast in (True, False):
            found = self._attempt(sealed, partner, attempt, fast)
            if found is not None:
                return found
        return None

    def _attempt(self, sealed: Sealed, partner: Key | None, attempt: int, fast: bool) -> "JoinedLate | None":
        from dcpdump.tls.openers import Opener13, find_number

        window = (_WINDOWS if fast else _SLOW_WINDOWS)[attempt]
        if not fast and attempt and len(sealed.body) > self.shortest:
            window = _SLOW_WINDOWS[0]
        whole, few = True, attempt > 0 or len(self._secrets) <= _FEW
        for key, secret in self._keys(partner, fast):
            if not self.spend(window, fast=fast):
                whole = False
                break
            opener = Opener13(SUITES[key.suite], secret)
            found = find_number(opener, sealed.head, sealed.body, 0, window)
            for generation in range(1, _GENERATIONS + 1) if few else ():
                if found is not None:
                    break
                opener = opener.next()
                key = key._replace(generation=generation)
                found = find_number(opener, sealed.head, sealed.body, 0, _UPDATED)
            if found is not None:
                return JoinedLate(key, opener, found[0], *found[1])
        if whole and fast:
            self.reach = max(self.reach, window)
        return None

    def _keys(self, partner: Key | None, fast: bool) -> Iterator[tuple[Key, bytes]]:
        """Yield the keys to be tried, and their secrets."""
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
