"""Note who of a connection is the client, and what the two agreed, by the messages of their handshakes."""

from dcpdump.tls import handshake as hs
from dcpdump.tls.keyring import Key, Keyring, Terms
from dcpdump.tls.secrets import CLIENT_RANDOM, Secrets

#: Handshakes of one connection that are remembered.
_HANDSHAKES = 64


class Parties:
    """Both sides of one connection. ``changed``: something was learnt by which more may be opened."""

    __slots__ = ("_key", "_roles", "_secrets", "changed", "early", "randoms", "ring", "server_name")

    def __init__(self, secrets: Secrets) -> None:
        self.ring = Keyring(secrets)
        self.early: bool | None = None  #: whether the server reads what the client sent early
        self.server_name = ""
        self.changed = False
        self.randoms: dict[bytes, bytes] = {}  #: of handshakes that were opened, and under which their secrets are
        self._key: Key | None = None  # the last that opened a record
        self._roles: list[int | None] = [None, None]
        self._secrets = secrets

    @property
    def terms(self) -> Terms:
        """What the last hellos say."""
        return self.ring.terms

    @property
    def greeted(self) -> bool:
        """Whether any hello was seen."""
        return self.terms.client is not None or self.terms.server is not None

    def role(self, direction: int) -> int | None:
        """Return 0 where a direction is the client's, 1 where it is the server's, None where that is not known."""
        return self._roles[direction]

    def cast(self, direction: int, role: int) -> None:
        """Note which side a direction is."""
        self._roles[direction], self._roles[1 - direction] = role, 1 - role

    def message(self, direction: int, kind: int, body: bytes, *, early: bool) -> bool:
        """Take a message of a handshake, ``early`` under that key; return whether it is a hello."""
        terms = self.terms
        if kind == hs.CLIENT_HELLO:
            client = hs.client_hello(body)
            if client is None:
                return False
            self._client(client)
            self.cast(direction, 0)
            return True
        if kind == hs.SERVER_HELLO:
            server = hs.server_hello(body)
            if server is None or server.retry:
                return server is not None
            if terms.server is not None:
                terms = self.ring.terms = Terms(turn=terms.turn + 1)
            terms.server = server
            self.changed = True
            self.cast(direction, 1)
            return True
        if kind == hs.NEW_SESSION_TICKET and 0 < terms.version < hs.TLS_1_3:
            terms.tickets.append(hs.ticket_of(body))
        elif kind == hs.ENCRYPTED_EXTENSIONS and terms.version >= hs.TLS_1_3 and self.early is None:
            self.decide_early(hs.takes_early_data(body))
        elif kind == hs.END_OF_EARLY_DATA and early:
            self.decide_early(True)
        return False

    def decide_early(self, taken: bool) -> None:
        """Note whether the server reads what the client sent early."""
        self.early, self.changed = taken, True

    def opened_with(self, key: Key) -> None:
        """Note a key that opened a record: whose secret it is made of, and which sessions have that."""
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

    def _client(self, client: hs.ClientHello) -> None:
        terms = self.terms
        if terms.server is not None and terms.client is not None:
            self.ring.terms = Terms(client, turn=terms.turn + 1)
        else:
            if terms.client is not None:  # after a HelloRetryRequest nothing is early any more
                client.early = False
            terms.client = client
        self.server_name = self.server_name or client.server_name
        self._secrets.claim(client.random)
        self.changed = True
