"""Keep what key logs hold, by the client random of the connection. Knows the format of RFC 9850, and no cipher.

Key logs of programs hold lines of other uses, and lines that are damaged; those are counted and passed by. Nothing
here ever shows a secret: neither by ``repr`` nor in the text of an error.
"""

from collections.abc import Callable, Iterator
from typing import Final

from dcpdump.startup import lazy_pattern

#: What the connections so far say of the secrets of a run; the secrets themselves are not in it: client randoms of
#: connections of the capture; the last of them with secrets; ids and tickets of sessions → the client random of the
#: connection that made them; record numbers that the run may still try.
SecretsState = tuple[list[bytes], bytes, dict[bytes, bytes], int]

CLIENT_RANDOM: Final = "CLIENT_RANDOM"  #: the master secret of TLS 1.2 and before
CLIENT_EARLY: Final = "CLIENT_EARLY_TRAFFIC_SECRET"
CLIENT_HANDSHAKE: Final = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
SERVER_HANDSHAKE: Final = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC: Final = "CLIENT_TRAFFIC_SECRET_0"
SERVER_TRAFFIC: Final = "SERVER_TRAFFIC_SECRET_0"
#: Labels whose secrets open records, and how long these may be.
LENGTHS: Final = {
    CLIENT_RANDOM: (48,),
    CLIENT_EARLY: (32, 48),
    CLIENT_HANDSHAKE: (32, 48),
    SERVER_HANDSHAKE: (32, 48),
    CLIENT_TRAFFIC: (32, 48),
    SERVER_TRAFFIC: (32, 48),
}
_LABELS: Final = tuple(LENGTHS)
_NUMBERS: Final = {label.encode(): number for number, label in enumerate(_LABELS)}
#: Labels that are right, and of no use here.
_USELESS: Final = lazy_pattern(rb"(?:EXPORTER_SECRET|EARLY_EXPORTER_\w+|ECH_\w+|RSA|PMS_CLIENT_RANDOM)\s")
_LINE: Final = lazy_pattern(rb"\s*([A-Za-z_0-9]+)[ \t]+([0-9a-fA-F]{64})[ \t]+([0-9a-fA-F]+)\s*")
_BOM: Final = b"\xef\xbb\xbf"
#: A longer line is none of a key log: what follows is passed by up to its end.
_LONGEST: Final = 4_096
#: Secrets of one label and random that are kept: programs may log guesses before the one that holds.
_TRIES: Final = 4
#: Connections whose secrets are kept, and sessions that may be resumed.
_CONNECTIONS: Final = 1_000_000
_SESSIONS: Final = 65_536
#: Zeros up to which some programs fill secrets.
_PADDED: Final = 64
#: Record numbers that a run may try, at most.
_TRIED: Final = 1 << 31


class MissingSecretError(LookupError):
    """A state needs a secret that is not there."""


def mark_of(secret: bytes) -> bytes:
    """Return what tells a secret from others of its label and connection, and says nothing of it."""
    import hmac  # here, because most captures are read without secrets

    return hmac.digest(secret, b"dcpdump mark", "sha256")[:8]


class Secrets:
    """The secrets of a run. ``growing``: more may come, so that what cannot be opened yet is worth keeping."""

    def __init__(self, most: int = _CONNECTIONS) -> None:
        self._of: dict[bytes, bytes] = {}  # client random → label, length and secret, one behind the other
        self._most = most
        self._claimed: set[bytes] = set()
        self._last = b""  # the last that was claimed, of those with secrets
        self._sessions: dict[bytes, bytes] = {}
        self._logs: set[str] = set()
        self._sources: list[Callable[[], None]] = []
        self.growing = False
        self.poll: Callable[[], None] | None = None  #: takes what was added
        self.growth = 0  #: how many secrets were taken so far
        self.refused = 0  #: lines that are not understood
        self.budget = _TRIED  #: record numbers that may still be tried, to join connections in their middle

    def state(self) -> SecretsState:
        """Return what the connections so far say of the secrets as plain values, for ``restore``."""
        return sorted(self._claimed), self._last, dict(self._sessions), self.budget

    def restore(self, state: SecretsState) -> None:
        """Continue from a state. To be asked once the secrets are there."""
        claimed, self._last, sessions, self.budget = state
        self._claimed, self._sessions = set(claimed), dict(sessions)

    def __repr__(self) -> str:
        return f"<secrets of {len(self._of)} connections>"

    def __len__(self) -> int:
        return len(self._of)

    @property
    def logs(self) -> int:
        """How many key logs and blocks of secrets there were."""
        return len(self._logs)

    def begin_log(self, name: str) -> None:
        """Add the name of a key log or of a block of secrets."""
        self._logs.add(name)

    def take_all(self, other: "Secrets") -> None:
        """Take the secrets that another has."""
        for random in other._of:
            for line in other.lines(random):
                self.take(line.strip())
        self._logs |= other._logs

    def key_log(self) -> bytes:
        """Return all secrets as a key log."""
        return b"".join(line.strip() + b"\n" for random in self._of for line in self.lines(random))

    def renewed(self) -> "Secrets":
        """Return the same secrets for another reading of the same captures."""
        self.gather()
        other = Secrets(self._most)
        other._of, other._logs, other.growth = self._of, self._logs, self.growth
        return other

    def forget_connections(self) -> None:
        """Take it that no connection was seen yet: captures are read anew, or other ones."""
        self._claimed, self._last, self.budget = set(), b"", _TRIED

    def add_source(self, gather: Callable[[], None]) -> None:
        """Note what takes further secrets, to be asked once there is something that they may open."""
        self._sources.append(gather)

    def gather(self) -> bool:
        """Take the secrets of all sources that were not asked yet; return whether there were any new ones."""
        before = self.growth
        while self._sources:
            self._sources.pop()()
        return self.growth != before

    def feed(self, text: bytes) -> None:
        """Take the whole text of a key log."""
        log = KeyLog(self)
        log.feed(text)
        log.close()

    def take(self, line: bytes) -> bool:
        """Take a line, and return whether it holds a secret that opens records."""
        found = _LINE.fullmatch(line)
        if found is None:
            if line.strip() and not line.lstrip().startswith(b"#"):
                self.refused += not _USELESS.match(line.lstrip())
            return False
        label, random, digits = found.groups()
        number = _NUMBERS.get(label.upper())
        if number is None:
            self.refused += not _USELESS.match(label.upper() + b" ")
            return False
        secret = _unpadded(digits, LENGTHS[_LABELS[number]])
        if not secret:
            self.refused += 1
            return False
        self._keep(bytes.fromhex(random.decode()), number, secret)
        return True

    def of(self, random: bytes, label: str) -> list[bytes]:
        """Return the secrets of a connection that have a label, the newest first."""
        number = _LABELS.index(label)
        return [secret for each, secret in _entries(self._of.get(random, b"")) if each == number][::-1]

    def marked(self, random: bytes, label: str, mark: bytes) -> bytes:
        """Return the secret of a connection that has a label and a mark."""
        for secret in self.of(random, label):
            if mark_of(secret) == mark:
                return secret
        raise MissingSecretError("a secret that opened a connection before is not among those given")

    def knows(self, random: bytes) -> bool:
        """Return whether there is any secret of a connection."""
        return random in self._of

    def claim(self, random: bytes) -> None:
        """Note that a connection of the capture has this client random: it is not that of another one."""
        if len(self._claimed) < self._most:
            self._claimed.add(random)
            self._last = random if random in self._of else self._last

    def free(self) -> Iterator[bytes]:
        """Yield the client randoms that no connection of the capture is known to have, the likeliest first.

        Those are the ones that were logged at about the same time as the last that was found; else the newest.
        """
        order = list(reversed(self._of))
        middle = order.index(self._last) if self._last in self._of else 0
        for distance in range(max(middle, len(order) - middle) + 1):
            for at in {middle - distance, middle + distance}:
                if 0 <= at < len(order) and order[at] not in self._claimed:
                    yield order[at]

    def remember(self, session: bytes, random: bytes) -> None:
        """Note which connection's master secret a session has, by its id or its ticket."""
        self._sessions.pop(session, None)
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = random

    def owner(self, session: bytes) -> bytes | None:
        """Return the client random of the connection whose master secret a session has."""
        return self._sessions.get(session)

    def lines(self, random: bytes, owner: bytes | None = None) -> list[bytes]:
        """Return the secrets of a connection as lines of a key log, the oldest first; maybe those of another's."""
        found = _entries(self._of.get(owner or random, b""))
        return [b"%b %b %b\n" % (_LABELS[n].encode(), random.hex().encode(), s.hex().encode()) for n, s in found]

    def _keep(self, random: bytes, number: int, secret: bytes) -> None:
        have = list(_entries(self._of.pop(random, b"")))
        entries = [each for each in have if each != (number, secret)]
        same = [each for each in entries if each[0] == number]
        if len(same) >= _TRIES:
            entries.remove(same[0])
        self._of[random] = b"".join(bytes((each, len(old))) + old for each, old in [*entries, (number, secret)])
        if len(self._of) > self._most:
            del self._of[next(iter(self._of))]
        self.growth += (number, secret) not in have


class KeyLog:
    """One key log as it grows: ``feed`` it what was added. Lines that are not ended yet wait."""

    __slots__ = ("_begun", "_passing", "_rest", "_secrets", "refused", "taken")

    def __init__(self, secrets: Secrets, name: str = "") -> None:
        self._secrets = secrets
        self._rest = b""
        self._begun = False
        self._passing = False  # the rest of a line that is too long
        self.refused = 0  #: lines that are not understood
        self.taken = 0  #: lines that hold a secret
        secrets.begin_log(name)

    def feed(self, text: bytes) -> None:
        """Take what was added."""
        text = self._rest + text
        if not self._begun and len(text) >= len(_BOM):
            self._begun = True
            text = text.removeprefix(_BOM)
        lines = text.replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._take(line)
        if len(self._rest) > _LONGEST:
            self._rest, self._passing = b"", True

    def close(self) -> None:
        """Take a last line that has no end."""
        self.close_line()
        self._rest = b""

    def close_line(self) -> None:
        """Take a last line that has no end as it is, though more may come."""
        self._take(self._rest.removeprefix(_BOM))

    def restart(self) -> None:
        """Begin anew: the log was truncated, or replaced."""
        self._rest, self._begun, self._passing = b"", False, False

    def _take(self, line: bytes) -> None:
        if self._passing:
            self._passing = False
            return
        if line.strip(b" \t\0"):
            before = self._secrets.refused
            self.taken += self._secrets.take(line.strip(b" \t\0"))
            self.refused += self._secrets.refused - before


def _unpadded(digits: bytes, lengths: tuple[int, ...]) -> bytes:
    """Return a secret without the zeros that fill it up; empty where it is none of these lengths."""
    if len(digits) % 2 or len(digits) > 2 * _PADDED:
        return b""
    secret = bytes.fromhex(digits.decode())
    least = len(secret.rstrip(b"\0"))
    length = next((length for length in lengths if least <= length <= len(secret)), 0)
    return secret[:length] if least else b""


def _entries(packed: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(packed):
        stop = at + 2 + packed[at + 1]
        yield packed[at], packed[at + 2 : stop]
        at = stop
