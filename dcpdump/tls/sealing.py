"""Describe a TLS connection, and why it stays closed where it does. Values only."""

from typing import TYPE_CHECKING, Final

from dcpdump.quick_dataclass import dataclass

if TYPE_CHECKING:
    from dcpdump.tls.failure import Failure

NO_SECRETS: Final = "no-secrets"  #: none at all
NO_SECRET: Final = "no-secret"  #: none of this connection
NO_FIT: Final = "do-not-fit"  #: what there is opens nothing
LATE: Final = "joined-late"  #: TLS 1.2 or before, and its hellos were not captured
NOT_FOUND: Final = "not-found"  #: joined late, and no secret opens it up to ``reach``
SUITE: Final = "suite"  #: its cipher is not one that is opened
VERSION: Final = "version"  #: nor its version
NO_SERVER_HELLO: Final = "no-server-hello"
TOO_LATE: Final = "too-late"  #: so much passed before its secrets came
ONE_DIRECTION: Final = "one-direction"  #: there is no secret of one side
HANDSHAKE: Final = "handshake-only"  #: there are secrets of the handshake, and none of what follows

VERSIONS: Final = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}


@dataclass(frozen=True, slots=True)
class Sealing:
    """A TLS connection: ``cause`` is empty where it was opened."""

    version: str  #: TLS 1.3 …, or TLS where that is not known
    suite: str  #: empty where it is not known
    server_name: str
    opened_bytes: int  #: of text
    encrypted_bytes: int  #: not opened
    lost_records: int
    cause: str
    server: bool = False  #: the direction that has no secret, where the other one has, is the server's
    joined_at: int | None = None  #: the number of the record at which it was recognised
    secrets: int = 0  #: of how many connections there are secrets
    logs: int = 0  #: and in how many key logs
    records: int = 0  #: that were tried in vain
    reach: int = 0  #: up to which number they were
    passed: int = 0  #: bytes that came before the secrets
    randoms: tuple[tuple[bytes, bytes], ...] = ()  #: client randoms, and under which their secrets were found
    inside: str = ""  #: which other protocol the text is
    src: str = ""  #: the ends of the connection, and the lower port
    dst: str = ""
    port: int = 0
    failure: "Failure | None" = None  #: how it failed, where it did
    hidden: bool = False  #: names and addresses are hashes already, where they are to be

    @property
    def unread(self) -> bool:
        """Return whether it failed, or something of it was not opened."""
        return bool(self.cause) or self.failure is not None

    @property
    def short(self) -> str:
        """Return version and suite as a column has them."""
        version = self.version.removeprefix("TLS ")
        return f"{version} {self.suite}".strip()
