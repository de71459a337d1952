"""Read the messages of a handshake, as far as records and names need them. Never raises."""

from typing import Final

from dcpdump.quick_dataclass import dataclass, field

CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
NEW_SESSION_TICKET: Final = 4
END_OF_EARLY_DATA: Final = 5
ENCRYPTED_EXTENSIONS: Final = 8
TLS_1_3: Final = 0x0304
#: The random of a server hello that asks for another client hello.
RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

_SERVER_NAME, _ENCRYPT_THEN_MAC, _TICKET, _EARLY_DATA, _VERSIONS = 0, 22, 35, 42, 43
#: A longer message is of no interest, and not kept.
_LONGEST: Final = 64 * 1024


@dataclass(slots=True)
class ClientHello:
    """What a client says first."""

    random: bytes
    session: bytes
    ticket: bytes = b""
    early: bool = False  #: text follows before the server's answer
    server_name: str = ""


@dataclass(slots=True)
class ServerHello:
    """What the server chose."""

    random: bytes
    session: bytes
    suite: int
    version: int
    etm: bool = False  #: the MAC is outside

    @property
    def retry(self) -> bool:
        """Whether it asks for another client hello."""
        return self.random == RETRY


@dataclass(slots=True)
class HandshakeMessages:
    """Puts the messages of a handshake together, which may span records. A lost part costs what is begun."""

    held: bytes = b""
    passing: int = field(default=0)  #: bytes of a message that is not kept

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take the text of a record, and return the messages that it completes: type and body."""
        if self.passing:
            passed = min(self.passing, len(data))
            self.passing -= passed
            data = data[passed:]
        data = self.held + data
        found, at = [], 0
        while len(data) - at >= 4:
            length = int.from_bytes(data[at + 1 : at + 4], "big")
            end = at + 4 + length
            if end > len(data) and length > _LONGEST:
                self.passing = end - len(data)
                at = len(data)
                break
            if end > len(data):
                break
            found.append((data[at], data[at + 4 : end]))
            at = end
        self.held = data[at:]
        return found

    def lose(self) -> None:
        """Take it that bytes were lost: the next record begins a message."""
        self.held, self.passing = b"", 0


class _Reader:
    """Reads numbers and vectors; what is not there is 0, or empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        return self.take(self.number(size))

    def extensions(self) -> dict[int, bytes]:
        inner, found = _Reader(self.vector(2)), {}
        while inner:
            kind = inner.number(2)
            found[kind] = inner.vector(2)
        return found


def client_hello(body: bytes) -> ClientHello | None:
    """Read a client hello; None where it is too short for one."""
    if len(body) < 35:
        return None
    reader = _Reader(body[2:])
    random, session = reader.take(32), reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    extensions = reader.extensions()
    names = _Reader(_Reader(extensions.get(_SERVER_NAME, b"")).vector(2))
    name = names.vector(2) if names.number(1) == 0 else b""
    return ClientHello(
        random, session, extensions.get(_TICKET, b""), _EARLY_DATA in extensions, name.decode("ascii", "replace")
    )


def server_hello(body: bytes) -> ServerHello | None:
    """Read a server hello; None where it is too short for one."""
    if len(body) < 37:
        return None
    reader = _Reader(body)
    legacy, random, session, suite = reader.number(2), reader.take(32), reader.vector(1), reader.number(2)
    reader.take(1)
    extensions = reader.extensions()
    chosen = extensions.get(_VERSIONS, b"")
    version = int.from_bytes(chosen, "big") if len(chosen) == 2 else legacy
    return ServerHello(random, session, suite, version, _ENCRYPT_THEN_MAC in extensions)


def takes_early_data(body: bytes) -> bool:
    """Return whether a server's encrypted extensions say that it reads what the client sent early."""
    return _EARLY_DATA in _Reader(body).extensions()


def ticket_of(body: bytes) -> bytes:
    """Return the ticket that a server of TLS 1.2 gives."""
    return _Reader(body[4:]).vector(2)
