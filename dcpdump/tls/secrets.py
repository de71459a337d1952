"""Keep the secrets of key logs, by the client random of the connection. Knows the format of RFC 9850, and no cipher.

Key logs may have lines for other purposes, and damaged lines; these are counted and ignored. Secrets are never shown:
neither by ``repr`` nor in the text of an error.
"""

from collections.abc import Callable, Iterator
from typing import Final

from dcpdump.startup import lazy_pattern

#: The state of a run's secrets, without the secrets themselves: client randoms of connections in the capture; the last
#: of them with secrets; ids and tickets of sessions → the client random of the connection that made them; how many
#: record numbers the run may still try.
SecretsState = tuple[list[bytes], bytes, dict[bytes, bytes], int]

CLIENT_RANDOM: Final = "CLIENT_RANDOM"  #: the master secret, up to TLS 1.2
CLIENT_EARLY: Final = "CLIENT_EARLY_TRAFFIC_SECRET"
CLIENT_HANDSHAKE: Final = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
SERVER_HANDSHAKE: Final = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC: Final = "CLIENT_TRAFFIC_SECRET_0"
SERVER_TRAFFIC: Final = "SERVER_TRAFFIC_SECRET_0"
#: Labels whose secrets decrypt records, and the lengths of these.
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
#: Valid labels that are not used here.
_USELESS: Final = lazy_pattern(rb"(?:EXPORTER_SECRET|EARLY_EXPORTER_\w+|ECH_\w+|RSA|PMS_CLIENT_RANDOM)\s")
_LINE: Final = lazy_pattern(rb"\s*([A-Za-z_0-9]+)[ \t]+([0-9a-fA-F]{64})[ \t]+([0-9a-fA-F]+)\s*")
_BOM: Final = b"\xef\xbb\xbf"
#: The longest line of a key log: longer ones are ignored.
_LONGEST: Final = 4_096
#: How many secrets of one label and random are kept: programs may log several before the final one.
_TRIES: Final = 4
#: How many connections' secrets are kept, and how many sessions for resumption.
_CONNECTIONS: Final = 1_000_000
_SESSIONS: Final = 65_536
#: The length to which some programs pad secrets with zeros.
_PADDED: Final = 64
#: The most record numbers that a run may try.
_TRIED: Final = 1 << 31


class MissingSecretError(LookupError):
    """A state needs a secret that is missing."""


def mark_of(secret: bytes) -> bytes:
    """Return a mark that distinguishes a secret from others of its label and connection, and does not reveal it."""
    import hmac  # here, because most captures are read without secrets

    return hmac.digest(secret, b"dcpdump mark", "sha256")[:8]


class Secrets:
    """The secrets of a run. ``growing``: more may come, so bytes that cannot be decrypted yet are kept."""

    def __init__(self, most: int = _CONNECTIONS) -> None:
        self._of: dict[bytes, bytes] = {}  # client random → label, length and secret, one after another
        self._most = most
        self._claimed: set[bytes] = set()
        self._last = b""  # the last one claimed that has secrets
        self._sessions: dict[bytes, bytes] = {}
        self._logs: set[str] = set()
        self._sources: list[Callable[[], None]] = []
        self.growing = False
        self.poll: Callable[[], None] | None = None  #: reads added lines
        self.growth = 0  #: how many secrets were added so far
        self.refused = 0  #: lines that are not valid
        self.budget = _TRIED  #: record numbers that may still be tried, to join connections in their middle

    def state(self) -> SecretsState:
        """Return the state as plain values, for ``restore``."""
        return sorted(self._claimed), self._last, dict(self._sessions), self.budget

    def restore(self, state: SecretsState) -> None:
        """Continue from a state, after the secrets were added."""
        claimed, self._last, sessions, self.budget = state
        self._claimed, self._sessions = set(claimed), dict(sessions)

    def __repr__(self) -> str:
        return f"<secrets of {len(self._of)} connections>"

    def __len__(self) -> int:
        return len(self._of)

    @property
    def logs(self) -> int:
        """Return how many key logs and blocks of secrets were added."""
        return len(self._logs)

    def begin_log(self, name: str) -> None:
        """Add the name of a key log or of a block of secrets."""
        self._logs.add(name)

    def add_all(self, other: "Secrets") -> None:
        """Add all secrets of another object."""
        for random in other._of:
            for line in other.lines(random):
                self.add_line(line.strip())
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
        """Forget the connections seen: the captures, or others, are read from the beginning."""
        self._claimed, self._last, self.budget = set(), b"", _TRIED

    def add_source(self, gather: Callable[[], None]) -> None:
        """Add a function that adds further secrets, to be called when there is TLS to decrypt."""
        self._sources.append(gather)

    def gather(self) -> bool:
        """Call the sources that were not called yet; return whether they added secrets."""
        before = self.growth
        while self._sources:
            self._sources.pop()()
        return self.growth != before

    def feed(self, text: bytes) -> None:
        """Add the complete text of a key log."""
        log = KeyLog(self)
        log.feed(text)
        log.close()

    def add_line(self, line: bytes) -> bool:
        """Add a line, and return whether it has a secret that decrypts records."""
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
        """Return the secrets of a connection with a label, the newest first."""
        number = _LABELS.index(label)
        return [secret for each, secret in _entries(self._of.get(random, b"")) if each == number][::-1]

    def marked(self, random: bytes, label: str, mark: bytes) -> bytes:
        """Return the secret of a connection with a label and a mark."""
        for secret in self.of(random, label):
            if mark_of(secret) == mark:
                return secret
        raise MissingSecretError("a secret that opened a connection before is not among those given")

    def knows(self, random: bytes) -> bool:
        """Return whether a connection has any secret."""
        return random in self._of

    def claim(self, random: bytes) -> None:
        """Note that a connection of the capture has this client random, so that no other has it."""
        if len(self._claimed) < self._most:
            self._claimed.add(random)
            self._last = random if random in self._of else self._last

    def free(self) -> Iterator[bytes]:
        """Yield the client randoms not claimed by a connection of the capture, the most likely first.

        These are the ones logged near the last one claimed; without such, the newest.
        """
        order = list(reversed(self._of))
        middle = order.index(self._last) if self._last in self._of else 0
        for distance in range(max(middle, len(order) - middle) + 1):
            for at in {middle - distance, middle + distance}:
                if 0 <= at < len(order) and order[at] not in self._claimed:
                    yield order[at]

    def remember(self, session: bytes, random: bytes) -> None:
        """Note the connection whose master secret a session has, by the session's id or ticket."""
        self._sessions.pop(session, None)
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = random

    def owner(self, session: bytes) -> bytes | None:
        """Return the client random of the connection with the master secret of a session."""
        return self._sessions.get(session)

    def lines(self, random: bytes, owner: bytes | None = None) -> list[bytes]:
        """Return the secrets of a connection, or of its ``owner``, as lines of a key log, the oldest first."""
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
    """A growing key log: ``feed`` it added text. A line without its end waits."""

    __slots__ = ("_begun", "_passing", "_rest", "_secrets", "accepted", "refused")

    def __init__(self, secrets: Secrets, name: str = "") -> None:
        self._secrets = secrets
        self._rest = b""
        self._begun = False
        self._passing = False  # ignoring the rest of a line that is too long
        self.refused = 0  #: lines that are not valid
        self.accepted = 0  #: lines with a secret
        secrets.begin_log(name)

    def feed(self, text: bytes) -> None:
        """Add text that was appended to the log."""
        text = self._rest + text
        if not self._begun and len(text) >= len(_BOM):
            self._begun = True
            text = text.removeprefix(_BOM)
        lines = text.replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._add(line)
        if len(self._rest) > _LONGEST:
            self._rest, self._passing = b"", True

    def close(self) -> None:
        """End the log: read a last line without an end."""
        self.close_line()
        self._rest = b""

    def close_line(self) -> None:
        """Read a last line without an end as it is, though more may come."""
        self._add(self._rest.removeprefix(_BOM))

    def restart(self) -> None:
        """Start again: the log was truncated, or replaced."""
        self._rest, self._begun, self._passing = b"", False, False

    def _add(self, line: bytes) -> None:
        if self._passing:
            self._passing = False
            return
        if line.strip(b" \t\0"):
            before = self._secrets.refused
            self.accepted += self._secrets.add_line(line.strip(b" \t\0"))
            self.refused += self._secrets.refused - before


def _unpadded(digits: bytes, lengths: tuple[int, ...]) -> bytes:
    """Return a secret without padding zeros; empty if it has none of these lengths."""
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
