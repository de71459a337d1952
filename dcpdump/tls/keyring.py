"""Choose the keys that may decrypt the two sides of a connection, from its hellos and the secrets."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from dcpdump.startup import dataclass, field
from dcpdump.tls.records import TLS_1_3, ClientHello, ServerHello
from dcpdump.tls.secrets import (
    CLIENT_EARLY,
    CLIENT_HANDSHAKE,
    CLIENT_RANDOM,
    CLIENT_TRAFFIC,
    SERVER_HANDSHAKE,
    SERVER_TRAFFIC,
    Secrets,
    mark_of,
)
from dcpdump.tls.suites import BY_LENGTH, SUITES, KeyBasis

if TYPE_CHECKING:
    from dcpdump.tls.openers import Opener

#: Labels of the keys in the order of their use, by the client and by the server.
_ORDER: Final = (
    (CLIENT_EARLY, CLIENT_HANDSHAKE, CLIENT_TRAFFIC),
    ("", SERVER_HANDSHAKE, SERVER_TRAFFIC),
)
EARLY: Final = 0
HANDSHAKE: Final = 1
APPLICATION: Final = 2
#: How many connections' secrets are tried where the client's hello is missing.
_STRANGERS: Final = 4_096
#: How many openers are kept, since the same keys may be tried at many records.
_OPENERS: Final = 64


class Key(NamedTuple):
    """The identity of a key: which secret it was made from, and how, without the secret itself."""

    random: bytes
    label: str
    mark: bytes  #: that distinguishes the secret from others with the label
    generation: int
    suite: int
    rank: int  #: EARLY, HANDSHAKE or APPLICATION
    turn: int  #: the number of the handshake that made it


@dataclass(slots=True)
class Terms:
    """The content of one handshake's hellos."""

    client: ClientHello | None = None
    server: ServerHello | None = None
    turn: int = 0  #: the handshake's number in the connection
    tickets: list[bytes] = field(default_factory=list)  #: of TLS 1.2, from the server

    @property
    def version(self) -> int:
        """Return the version, 0 before the server chose it."""
        return self.server.version if self.server else 0


@dataclass(slots=True)
class Keyring:
    """The keys of one connection."""

    secrets: Secrets
    terms: Terms = field(default_factory=Terms)
    guessed: bool = False  #: a missing hello will not come: try the secrets alone
    _made: dict[tuple[Key, int], "Opener"] = field(default_factory=dict)

    @property
    def random(self) -> bytes:
        """Return the client's random; empty without its hello."""
        return self.terms.client.random if self.terms.client else b""

    def known(self) -> bool:
        """Return whether all inputs of the keys but the secrets are known."""
        return self.guessed or (self.terms.server is not None and self.terms.client is not None)

    def after(self, key: Key | None, role: int) -> Iterator[Key]:
        """Yield the keys that a side may use after one (None: first), the most likely first."""
        if key is not None and key.rank == APPLICATION and key.label != CLIENT_RANDOM:
            yield key._replace(generation=key.generation + 1)
        elif not self.known():
            return
        elif not self.terms.server or self.terms.version >= TLS_1_3:
            yield from self._later(-1 if key is None else key.rank, role)
        elif key is None or key.turn != self.terms.turn:
            yield from self._masters()

    def has(self, role: int) -> bool:
        """Return whether any secret may decrypt a side."""
        return next(self.after(None, role), None) is not None

    def opener(self, key: Key, role: int) -> "Opener":
        """Return the opener of records under a key."""
        made = self._made.get((key, role))
        if made is None:
            made = self.make(key, self._basis(key, role))
            if len(self._made) > _OPENERS:
                self._made.clear()
            self._made[key, role] = made
        return made

    def owners(self) -> list[bytes]:
        """Return the client randoms whose master secret may apply: its own, and that of the session it resumes."""
        hello, found = self.terms.client, []
        if hello is None:
            return []
        if self.secrets.knows(hello.random):
            found.append(hello.random)
        sessions = [hello.ticket, hello.session]
        if self.terms.server is not None:
            sessions.append(self.terms.server.session)
        for session in sessions:
            owner = self.secrets.owner(session) if session else None
            if owner is not None and owner not in found:
                found.append(owner)
        return found

    def _later(self, rank: int, role: int) -> Iterator[Key]:
        randoms = [self.random] if self.random else self._strangers()
        known = SUITES.get(self.terms.server.suite) if self.terms.server else None
        early = bool(self.terms.client and self.terms.client.early)
        for each in range(max(rank + 1, EARLY if early else HANDSHAKE), APPLICATION + 1):
            label = _ORDER[role][each]
            for random in randoms if label else ():
                found = self.secrets.of(random, label)
                for secret in found:
                    for suite in [known] if known and each != EARLY else BY_LENGTH[len(secret)]:
                        yield Key(random, label, mark_of(secret), 0, suite.number, each, self.terms.turn)

    def _masters(self) -> Iterator[Key]:
        server = self.terms.server
        if server is None or server.suite not in SUITES:
            return
        for random in self.owners() if self.random else self._strangers():
            found = self.secrets.of(random, CLIENT_RANDOM)
            for secret in found:
                yield Key(random, CLIENT_RANDOM, mark_of(secret), 0, server.suite, APPLICATION, self.terms.turn)

    def _strangers(self) -> list[bytes]:
        return [random for random, _ in zip(self.secrets.free(), range(_STRANGERS), strict=False)]

    def _basis(self, key: Key, role: int) -> KeyBasis | None:
        """Return the inputs of a key beside its secret, from the known hellos."""
        server = self.terms.server
        if key.label != CLIENT_RANDOM or server is None:
            return None
        return KeyBasis(server.version, server.random + (self.random or key.random), role == 1, server.etm)

    def make(self, key: Key, basis: KeyBasis | None) -> "Opener":
        """Return the opener of records under a key, made from these inputs."""
        # here, since importing ciphers takes a while
        from dcpdump.tls.openers import Opener13, opener12

        secret = self.secrets.marked(key.random, key.label, key.mark)
        suite = SUITES[key.suite]
        if basis is not None:
            return opener12(suite, secret, basis)
        opener = Opener13(suite, secret)
        for _ in range(key.generation):
            opener = opener.next()
        return opener
