"""Describe a TLS connection, and why it was not decrypted. Values only."""

from functools import cache
from typing import Final, NamedTuple

from dcpdump.startup import dataclass

NO_SECRETS: Final = "no-secrets"  #: there are no secrets at all
NO_SECRET: Final = "no-secret"  #: there are no secrets of this connection
NO_FIT: Final = "do-not-fit"  #: its secrets decrypt nothing
LATE: Final = "joined-late"  #: TLS 1.2 or before, and its hellos were not captured
NOT_FOUND: Final = "not-found"  #: captured from its middle, and no secret decrypts it up to record number ``reach``
SUITE: Final = "suite"  #: its cipher is not supported
VERSION: Final = "version"  #: its version is not supported
NO_SERVER_HELLO: Final = "no-server-hello"
TOO_LATE: Final = "too-late"  #: too many bytes passed before its secrets came
ONE_DIRECTION: Final = "one-direction"  #: there is no secret of one side
HANDSHAKE: Final = "handshake-only"  #: there are secrets of the handshake, and none of the data

VERSIONS: Final = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}


@dataclass(frozen=True, slots=True)
class TlsReport:
    """A TLS connection: ``cause`` is empty if it was decrypted."""

    version: str  #: TLS 1.3 …, or TLS if unknown
    suite: str  #: empty if unknown
    server_name: str
    opened_bytes: int  #: of text
    encrypted_bytes: int  #: not decrypted
    lost_records: int
    cause: str
    server: bool = False  #: the direction without a secret, where the other has one, is the server's
    joined_at: int | None = None  #: the number of the TLS record at which it was recognised
    secrets: int = 0  #: how many connections the secrets are of
    logs: int = 0  #: how many key logs there are
    records: int = 0  #: how many secrets were tried in vain
    reach: int = 0  #: up to which record number they were tried
    passed: int = 0  #: bytes that passed before the secrets came
    randoms: tuple[tuple[bytes, bytes], ...] = ()  #: client randoms, and those with their secrets
    inside: str = ""  #: the protocol of the text, if it is not DCP's
    src: str = ""  #: the ends of the connection, and the lower port
    dst: str = ""
    port: int = 0
    failure: "Failure | None" = None  #: how it failed, if it did
    hidden: bool = False  #: names and addresses are redacted already

    @property
    def unread(self) -> bool:
        """Return whether it failed, or a part of it was not decrypted."""
        return bool(self.cause) or self.failure is not None

    @property
    def short(self) -> str:
        """Return version and suite for a column."""
        version = self.version.removeprefix("TLS ")
        return f"{version} {self.suite}".strip()


# -- how a TLS connection failed ----------------------------------------------------------------------
# The alert, its sender, the message before it, and the side that closed: as values and in words.

WARNING: Final = 1
FATAL: Final = 2
CLOSE_NOTIFY: Final = 0
USER_CANCELED: Final = 90

_LEVELS: Final = {WARNING: "warning", FATAL: "fatal"}
#: Names of alerts that Python's ``ssl`` does not have, or spells otherwise.
_OTHER_NAMES: Final = {
    21: "decryption_failed",
    41: "no_certificate",
    60: "export_restriction",
    86: "inappropriate_fallback",
    USER_CANCELED: "user_canceled",
    109: "missing_extension",
    116: "certificate_required",
    120: "no_application_protocol",
}
#: Advice by alert: {0} is its sender, {1} the other side.
_ADVICE: Final = {
    40: "compare the cipher suites of both sides, and whether the {0} asks for a certificate",
    42: "compare the {1}'s certificate with the CAs and the names that the {0} trusts",
    44: "the {1}'s certificate was revoked: give it another",
    45: "compare the dates of the {1}'s certificate with the clock of the {0}",
    46: "compare the {1}'s certificate with the CAs and the names that the {0} trusts",
    48: "give the {0} the CA that signed the {1}'s certificate",
    49: "see what the {0} allows to this certificate",
    70: "allow a version of TLS that both sides have",
    71: "allow a cipher suite that is strong enough for the {0}",
    86: "the {1} came back with an older version of TLS: see why its first attempt failed",
    112: "compare the server name that the client asks for with those of the server",
    116: "give the {1} a certificate, or make client certificates optional at the {0}",
    120: "compare the application protocols (ALPN) of both sides",
}
_ABOUT_CERTIFICATES: Final = frozenset((*range(41, 47), 48, 111, 113, 114))
_CLOSES: Final = {"fin": ("closed", "FIN"), "rst": ("reset", "RST")}


@cache
def _names() -> dict[int, str]:
    from ssl import AlertDescription  # here, as it takes a while, and hardly a capture has alerts

    prefix = "ALERT_DESCRIPTION_"
    return {int(each): each.name.removeprefix(prefix).lower() for each in AlertDescription} | _OTHER_NAMES


class Alert(NamedTuple):
    """An alert: ``number`` is None if it is encrypted."""

    level: int
    number: int | None

    @property
    def name(self) -> str:
        """Return the alert's name, or its number without a name; empty if it is encrypted."""
        return "" if self.number is None else _names().get(self.number, f"alert {self.number}")

    @property
    def level_name(self) -> str:
        """Return ``warning``, ``fatal``, or the number; empty if it is encrypted."""
        return "" if self.number is None else _LEVELS.get(self.level, str(self.level))

    @property
    def of_certificate(self) -> bool:
        """Return whether it refuses the certificate of the other side."""
        return self.number in _ABOUT_CERTIFICATES

    def fatal(self, version: int) -> bool:
        """Return whether the connection ends with it; from TLS 1.3 on, this is independent of its level."""
        ends = self.number not in (CLOSE_NOTIFY, USER_CANCELED)
        return ends and (self.number is None or self.level == FATAL or version >= 0x0304)


class Failure(NamedTuple):
    """How a connection failed, with or without an alert, and with or without a captured close."""

    established: bool  #: the handshake was over
    alert: Alert | None
    sender: str  #: of the alert: client or server; empty if unknown
    step: str  #: the last handshake message of the other side before it; empty if unknown
    close: str  #: fin or rst; empty if neither was captured
    closer: str  #: client or server; empty if unknown

    @property
    def text(self) -> str:
        """Return in words who sent which alert after which message, and who closed."""
        acts, who = [], self.sender if self.alert else self.closer
        verb, flag = _CLOSES.get(self.close, ("", ""))
        closed = f"{verb} the connection ({flag})" if verb else ""
        if self.alert is not None:
            level = f" ({self.alert.number}, {self.alert.level_name})" if self.alert.number is not None else ""
            named = f"the alert {self.alert.name}{level}" if level else "an encrypted alert"
            acts.append(f"{_side(who)} sent {named}{self._after(who)}")
            if closed:
                acts.append(closed if self.closer == who else f"{_side(self.closer)} {closed}")
        else:
            acts.append(f"{_side(who)} {closed}{self._after(who)} without an alert")
        return " and ".join(acts)

    @property
    def advice(self) -> str:
        """Return in words what to examine."""
        who = self.sender or self.closer or "server"
        other = "client" if who == "server" else "server"
        number = self.alert.number if self.alert is not None else None
        return _ADVICE.get(number or 0, "the log of the {0} may say more").format(who, other)

    def _after(self, who: str) -> str:
        if not self.step:
            return ""
        return f" after the {'client' if who == 'server' else 'server'}'s {self.step}" if who else f" after {self.step}"


def _side(name: str) -> str:
    return f"the {name}" if name else "one side"
