"""Find which end of a connection is the server, and how that is known. Without evidence neither is.

In order of strength: what only a client or only a server sends; who opened the connection; an address that serves
another connection; the ports that Couchbase listens on; a port that several connections share; the ports of a
development cluster; and last, who sends the changes and who has a port of those that systems give to clients, if
they agree. The first two are seen, the others inferred.
"""

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.spec import MESSAGES
from dcpdump.spec.field import Sender
from dcpdump.spec.opcodes import DCP_ABORT, DCP_COMMIT, DCP_OPEN, DCP_PREPARE, DCP_SET_VBUCKET_STATE, GET_ERROR_MAP

if TYPE_CHECKING:
    from dcpdump.streams.state import ConnectionState

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
    """Return the roles that were seen, whatever follows from other connections."""
    if connection.server is not None:
        return Roles(connection.server, Basis.MESSAGES)
    return Roles(1, Basis.SYN) if connection.syn else UNKNOWN


def inferred(connection: "ConnectionState") -> Roles:
    """Return what ports and messages of a connection suggest by themselves."""
    ports = port(connection.src), port(connection.dst)
    server = _one(ports, PORTS)
    if server is not None:
        return Roles(server, Basis.PORT)
    return _weakly(connection, ports)


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
        each.inferred = _among(each, servers, peers)


def _among(connection: "ConnectionState", servers: set[str], peers: dict[int, set[int]]) -> Roles:
    """Return what a connection among others suggests."""
    elsewhere = _one((connection.src, connection.dst), servers)
    if elsewhere is not None:
        return Roles(elsewhere, Basis.ELSEWHERE)
    alone = inferred(connection)
    if alone.basis is Basis.PORT:
        return alone
    one, other = (len(peers[port(end)]) for end in (connection.src, connection.dst))
    if one != other and min(one, other) == 1:
        return Roles(0 if one > other else 1, Basis.SHARED)
    return alone


def _weakly(connection: "ConnectionState", ports: tuple[int, int]) -> Roles:
    server = _one(ports, _DEVELOPMENT)
    if server is not None:
        return Roles(server, Basis.DEVELOPMENT)
    producer = None if replicates(connection) else connection.feeder
    given = [bool(each >= _EPHEMERAL) for each in ports]
    lasting = None if given[0] is given[1] else int(given[0])
    if lasting is not None and producer in (None, lasting):
        return Roles(lasting, Basis.EPHEMERAL if producer is None else Basis.PRODUCER)
    return Roles(producer, Basis.PRODUCER) if lasting is None and producer is not None else UNKNOWN


def replicates(connection: "ConnectionState") -> bool:
    """Return whether nodes talk to each other: then either may be the server."""
    return connection.replicates or any(stream.count(*_BETWEEN_NODES) for stream in connection.streams)


def _one(ends: tuple[object, object], among: Collection[object]) -> int | None:
    """Return which of two ends is among others, if only one is."""
    first, second = ends[0] in among, ends[1] in among
    return None if first == second else 0 if first else 1


def port(end: str) -> int:
    """Return the port of an address; 0 where it has none."""
    text = end.rpartition(":")[2]
    return int(text) if text.isascii() and text.isdecimal() else 0
