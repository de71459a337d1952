"""Identity: who the two ends of a connection are: which is the server, and which consumer the other is.

A consumer has one client id where its agent or its names carry one, else one host, and names of one family there, or
that differ in one number. It has one bucket, and is on one side of a replication: the two legs of ns_server's proxy are
not one consumer.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec import MESSAGES
from dcpdump.spec.field import Sender
from dcpdump.spec.opcodes import DCP_ABORT, DCP_COMMIT, DCP_OPEN, DCP_PREPARE, DCP_SET_VBUCKET_STATE, GET_ERROR_MAP
from dcpdump.startup import lazy_pattern
from dcpdump.streams.wording import product

if TYPE_CHECKING:
    from dcpdump.streams.state import ConnectionState

# -- which end is the server, and how that is known; without evidence neither is ----------------------
# In order of strength: what only a client or only a server sends; who opened the connection; an address that serves
# another connection; the ports that Couchbase listens on; a port that several connections share; the ports of a
# development cluster; and last, who sends the changes and who has a port of those that systems give to clients, if
# they agree. The first two are seen, the others inferred.

#: Data, data over TLS, and data between nodes.
PORTS = frozenset({11210, 11207, 11209})
#: Where the nodes of a development cluster listen, one after the other: 12000, 12002 …
_DEVELOPMENT = frozenset(range(12000, 12064, 2))
#: From here on are the ports that systems give to those who connect.
_EPHEMERAL = 32_768
#: What nodes send to one another, and a client does not ask for: SET_VBUCKET_STATE, PREPARE, COMMIT, ABORT.
_BETWEEN_NODES = (DCP_SET_VBUCKET_STATE, DCP_PREPARE, DCP_COMMIT, DCP_ABORT)


class Basis(Enum):
    """The evidence of which end is the server."""

    MESSAGES = "what only a client or only a server sends"
    SYN = "who opened the connection"
    ELSEWHERE = "the address is a server's on another connection"
    PORT = "a port that Couchbase listens on"
    SHARED = "a port that several connections share"
    DEVELOPMENT = "a port of a development cluster"
    PRODUCER = "who sends the changes"
    EPHEMERAL = "only the other end has a port of those that systems give to clients"


class Roles(NamedTuple):
    """The direction in which the server sends, and the evidence. None: there is none."""

    server: int | None = None
    basis: Basis | None = None

    @property
    def word(self) -> str | None:
        """Return whether they were ``seen`` or ``inferred``, as JSON has it; None where they are not known."""
        return None if self.basis is None else "seen" if self.basis in (Basis.MESSAGES, Basis.SYN) else "inferred"

    @property
    def inferred(self) -> bool:
        """Return whether they are known, and only inferred."""
        return self.word == "inferred"


UNKNOWN = Roles()


def _by_client() -> list[bool | None]:
    """Return for each opcode whether a client sends its request; None where that is not evidence of the ends."""
    senders: list[bool | None] = [None] * 256
    for opcode, message in MESSAGES.items():
        if message.sender is Sender.MANAGER or (message.sender is Sender.CLIENT and not message.dcp):
            senders[opcode] = True
    senders[DCP_OPEN] = True  # who connected sends it, whatever the server is to be
    senders[GET_ERROR_MAP] = None  # of either end: a server that replicates asked other servers for their error map
    senders[0xFF] = None
    return senders


_BY_CLIENT = _by_client()


def server_by(opcode: int, direction: int, *, response: bool) -> int | None:
    """Return the direction in which the server sends, by a message that only one of both ends sends; else None."""
    client = _BY_CLIENT[opcode]
    return None if client is None else direction if response is client else 1 - direction


def seen(connection: "ConnectionState") -> Roles:
    """Return the roles that were seen on this connection itself."""
    if connection.server is not None:
        return Roles(connection.server, Basis.MESSAGES)
    return Roles(1, Basis.SYN) if connection.syn else UNKNOWN


def infer(connections: Collection["ConnectionState"]) -> None:
    """Note in each connection of which the roles were not seen what all of them suggest."""
    unknown = [each for each in connections if seen(each).server is None]
    if not unknown:
        return
    known = [(each, seen(each).server) for each in connections]
    servers = {each.src if server == 0 else each.dst for each, server in known if server is not None}
    peers: dict[int, set[int]] = {}
    for each in connections:
        one, other = port(each.src), port(each.dst)
        peers.setdefault(one, set()).add(other)
        peers.setdefault(other, set()).add(one)
    for each in unknown:
        each.inferred = inferred(each, servers, peers)


def inferred(
    connection: "ConnectionState", servers: Collection[str] = (), peers: Mapping[int, Collection[int]] | None = None
) -> Roles:
    """Return the roles that its ports and messages suggest; and others: ``servers``, and the ``peers`` of each port."""
    evidence = _evidence(connection, servers, peers or {})
    return next((Roles(server, basis) for basis, server in evidence if server is not None), UNKNOWN)


def _evidence(
    connection: "ConnectionState", servers: Collection[str], peers: Mapping[int, Collection[int]]
) -> Iterator[tuple[Basis, int | None]]:
    """Yield what each kind of evidence suggests, the strongest first."""
    ends = connection.src, connection.dst
    ports = port(ends[0]), port(ends[1])
    yield Basis.ELSEWHERE, _one(ends, servers)
    yield Basis.PORT, _one(ports, PORTS)
    one, other = (len(peers.get(each, ())) for each in ports)
    yield Basis.SHARED, int(one < other) if one != other and min(one, other) == 1 else None
    yield Basis.DEVELOPMENT, _one(ports, _DEVELOPMENT)
    producer = None if replicates(connection) else connection.producer_direction
    given = [each >= _EPHEMERAL for each in ports]
    lasting = None if given[0] is given[1] else int(given[0])
    agreed = lasting if producer in (None, lasting) else None
    yield Basis.EPHEMERAL if producer is None else Basis.PRODUCER, producer if lasting is None else agreed


def replicates(connection: "ConnectionState") -> bool:
    """Return whether nodes talk to each other: then either may be the server."""
    return connection.replicates or any(stream.traffic.count(*_BETWEEN_NODES) for stream in connection.streams)


def _one(ends: tuple[object, object], among: Collection[object]) -> int | None:
    """Return which of two ends is among others, if only one is."""
    first, second = ends[0] in among, ends[1] in among
    return None if first == second else 0 if first else 1


def port(end: str) -> int:
    """Return the port of an address; 0 where it has none."""
    text = end.rpartition(":")[2]
    return int(text) if text.isascii() and text.isdecimal() else 0


# -- which consumer the other end is ------------------------------------------------------------------

#: What differs between the names of one client's connections: a UUID; hexadecimal, with a digit, and not short; or a
#: longer word at the end, of small letters, capitals, and digits or padding, as base64 has them.
_COUNTER = lazy_pattern(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Fa-f]*[0-9])[0-9A-Fa-f]{4,}(?![0-9A-Za-z])"
    r"|(?<=:)(?=[^:]*[a-z])(?=[^:]*[A-Z])(?=[^:]*[0-9=])[0-9A-Za-z+/]{8,}={0,2}$"
)
#: A short number, by which connections, or workers, of one client are told apart where nothing else differs.
_NUMBER = lazy_pattern(r"(?<![0-9A-Za-z])[0-9]{1,3}(?![0-9A-Za-z])")
#: The address of a node, which names may have in them too, and the node that a replication has its changes from.
_NODE = lazy_pattern(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?(?:_[0-9]+)?(?![0-9.])")
_SOURCE = lazy_pattern(r"(?<=^replication:)[^>]*(?=->)")
#: In the JSON of agents and names, which may be cut short: the client's id, before that of the connection.
_ID = lazy_pattern(r'"i"\s*:\s*"([^"/]+)[^"]*')


class Identity(NamedTuple):
    """What a connection says of who uses it. None: nothing."""

    client_id: str | None = None
    family: str | None = None  #: its name, without what its other connections would have otherwise
    agent: str | None = None
    counters: tuple[str, ...] = ()  #: what was left out of the name, but for addresses
    numberless: str | None = None  #: its family, without short numbers
    numbers: tuple[str, ...] = ()  #: those


NAMELESS = Identity()


def identify(connection: "ConnectionState") -> Identity:
    """Return what agent and name of a connection say."""
    agent, name = connection.setup.agent, connection.setup.name
    found = [_ID.search(text) for text in (agent, name) if text is not None]
    client_id = next((each[1] for each in found if each), None)
    if name is None:
        return Identity(client_id, agent=product(agent))
    if name.startswith("replication:"):
        return Identity(client_id, _SOURCE.sub("#", name), product(agent))
    placeless = _NODE.sub("#", _ID.sub("#", name))
    family, counters = _COUNTER.sub("#", placeless), tuple(_COUNTER.findall(placeless))
    numbers = tuple(_NUMBER.findall(family))
    return Identity(client_id, family, product(agent), counters, _NUMBER.sub("#", family), numbers)


def same(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections are of one consumer, as far as they say."""
    if one is other:
        return True
    if _apart(one, other):
        return False
    mine, theirs = one.identity, other.identity
    if mine.client_id is not None and theirs.client_id is not None:
        return mine.client_id == theirs.client_id
    return _fit(mine, theirs) and host(one) == host(other) is not None


def same_by_name(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections are of one consumer, and its whole name or its id says so."""
    named = one.setup.name is not None and one.setup.name == other.setup.name
    known = one.identity.client_id is not None and other.identity.client_id is not None
    return one is other or (same(one, other) and (named or known))


def alike(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections have one name, but for ids: they may be of a client before and after a restart."""
    mine, theirs = one.identity, other.identity
    return None not in (mine.family, theirs.family) and not _apart(one, other) and _fit(mine, theirs)


def same_or_alike(one: "ConnectionState", other: "ConnectionState") -> bool:
    """Return whether two connections are of one consumer, or may be of one before and after a restart."""
    return same(one, other) or alike(one, other)


def _apart(one: "ConnectionState", other: "ConnectionState") -> bool:
    return _differ(one.setup.bucket, other.setup.bucket) or _differ(one.role, other.role)


def _fit(mine: Identity, theirs: Identity) -> bool:
    """Return whether agents and names may be of one consumer, client ids ignored."""
    if _differ(mine.agent, theirs.agent):
        return False
    if _differ(mine.family, theirs.family) and not _renumbered(mine, theirs):
        return False
    counters = list(zip(mine.counters, theirs.counters, strict=False))
    # of several, one is of the connection, and another of the client
    return len(counters) < 2 or any(each == other for each, other in counters)


def _renumbered(mine: Identity, theirs: Identity) -> bool:
    """Return whether two names differ in one short number, and in nothing else."""
    if mine.numberless is None or mine.numberless != theirs.numberless or mine.counters != theirs.counters:
        return False
    return sum(each != other for each, other in zip(mine.numbers, theirs.numbers, strict=False)) == 1


def host(connection: "ConnectionState") -> str | None:
    """Return the address of the consumer's end: that which the changes are sent to; else of the client."""
    direction = connection.producer_direction
    end = connection.client_address if direction is None else connection.src if direction else connection.dst
    return host_of(end) if end else None


def host_of(end: str) -> str:
    """Return an end of a connection without its port."""
    return end.rpartition(":")[0]


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def hosts(connection: "ConnectionState") -> frozenset[str]:
    """Return the addresses of both ends, without ports."""
    return frozenset((host_of(connection.src), host_of(connection.dst)))


#: What the connections of one consumer have in common: its client id, or its host.
Owner = tuple[str, str]


def owners(connection: "ConnectionState") -> tuple[Owner, ...]:
    """Return by what the other connections of a connection's consumer are found."""
    client_id, address = connection.identity.client_id, host(connection)
    return tuple((kind, text) for kind, text in (("id", client_id), ("host", address)) if text is not None)
