"""Follow how far the handshake of a TLS connection comes, and which alert or close ends it."""

from typing import TYPE_CHECKING, Final

from dcpdump.net.event import End
from dcpdump.tls import handshake as hs
from dcpdump.tls.sealing import Alert, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpdump.tls.parties import Parties
    from dcpdump.tls.side import Side

ALERT: Final = 21
_CERTIFICATE: Final = 11
_MESSAGES: Final = {
    0: "HelloRequest",
    hs.CLIENT_HELLO: "ClientHello",
    hs.SERVER_HELLO: "ServerHello",
    hs.NEW_SESSION_TICKET: "NewSessionTicket",
    hs.END_OF_EARLY_DATA: "EndOfEarlyData",
    hs.ENCRYPTED_EXTENSIONS: "EncryptedExtensions",
    _CERTIFICATE: "Certificate",
    12: "ServerKeyExchange",
    13: "CertificateRequest",
    14: "ServerHelloDone",
    15: "CertificateVerify",
    16: "ClientKeyExchange",
    20: "Finished",
    21: "CertificateURL",
    22: "CertificateStatus",
    24: "KeyUpdate",
    25: "CompressedCertificate",
}
#: Bodies of the shortest records of TLS 1.3, by the size of their tags: two bytes of an alert and its type.
_ENCRYPTED_ALERTS: Final = (19, 11)


class Progress:
    """The handshake of one connection. Directions are 0 and 1."""

    __slots__ = ("_alert", "_certified", "_close", "_last", "_unlocked")

    def __init__(self) -> None:
        self._last = ["", ""]  # the last message of each direction, empty: none, or not known
        self._certified = [False, False]  # whether a direction sent a certificate
        self._unlocked = [False, False]  # whether it sent more under a key than an alert
        self._alert: tuple[Alert, int, str, bool] | None = None  # its direction, the message before it, under a key
        self._close: tuple[int, str, int] | None = None  # when, how, and the direction of who did

    def message(self, direction: int, kind: int, body: bytes) -> None:
        """Note a message of a handshake."""
        name = _MESSAGES.get(kind, f"handshake message {kind}")
        if kind == hs.SERVER_HELLO and (hello := hs.server_hello(body)) is not None and hello.retry:
            name = "HelloRetryRequest"
        self._last[direction] = name
        self._certified[direction] |= kind == _CERTIFICATE

    def lose(self, direction: int) -> None:
        """Note that bytes of a direction were lost: which message was its last is not known."""
        self._last[direction] = ""
        self._unlocked[direction] = True

    def alert(self, direction: int, text: bytes, version: int, *, sealed: bool = False) -> None:
        """Note an alert, which was in clear or ``sealed`` and opened; the first that is fatal stands."""
        if len(text) != 2 or text[0] not in (1, 2):
            return
        self._keep(direction, Alert(text[0], text[1]), version, sealed=sealed)

    def begin_keys(self, direction: int, version: int, client_size: int | None, *, handshake: bool) -> None:
        """Note the first record of a direction under a key; ``client_size``: of its body, where the client sent it.

        A client of TLS 1.3 begins with its certificate or its Finished, which are longer than an alert.
        """
        if version >= hs.TLS_1_3 and client_size in _ENCRYPTED_ALERTS:
            self._keep(direction, Alert(0, None), version, sealed=True)
            return
        self._unlocked[direction] = True
        if version >= hs.TLS_1_3:
            self._last[direction] = "encrypted messages"
        elif handshake:
            self._last[direction] = "Finished"

    def end(self, direction: int, event: End) -> None:
        """Note how a direction ended."""
        if event.reason in ("fin", "rst"):
            at = event.seen.ts_ns if event.reset_ns is None else event.reset_ns
            found = at or 0, event.reason, 1 - direction if event.by_peer else direction
            self._close = found if self._close is None else min(self._close, found)

    def failure(self, parties: "Parties", sides: "Sequence[Side]") -> Failure | None:
        """Return how the connection failed; None where it did not, or where that is not known."""
        late = any(side.late for side in sides)
        whole = all(self._unlocked[side.direction] for side in sides)
        _, close, closer = self._close or (0, "", 0)
        alert, sender, step, sealed = self._alert or (None, closer, self._last[1 - closer], False)
        fatal = alert is not None and alert.fatal(parties.terms.version)
        if not fatal and (late or whole or not close):
            return None
        given = any(side.direction == sender and side.given for side in sides)
        established = fatal and sealed and (given or parties.terms.version < hs.TLS_1_3)

        def name(direction: int) -> str:
            role = parties.role(direction)
            role = direction if role is None and not late else role
            return "" if role is None else ("client", "server")[role]

        known = alert is not None
        return Failure(established, alert, name(sender) if known else "", step, close, name(closer) if close else "")

    def _keep(self, direction: int, alert: Alert, version: int, *, sealed: bool) -> None:
        before = self._alert
        if before is not None and before[0].number is not None and before[0].fatal(version):
            return
        peer = 1 - direction
        step = "Certificate" if alert.of_certificate and self._certified[peer] else self._last[peer]
        self._alert = alert, direction, step, sealed
