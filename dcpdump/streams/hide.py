"""hide: what a ledger says of names, addresses and texts becomes hashes, once it is closed."""

from dcpdump.redact import Redactor
from dcpdump.spec import MESSAGES
from dcpdump.spec.field import Holds
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import Connection, Request

_HELLO, _SASL, _SELECT_BUCKET, _OPEN, _CONTROL, _SYSTEM_EVENT = (
    MESSAGES[opcode] for opcode in (0x1F, 0x21, 0x89, 0x50, 0x5E, 0x5F)
)


def hide(ledger: Ledger, redactor: Redactor) -> None:
    """Hash what a ledger holds of names, addresses and texts."""

    def place(server: str, bucket: str | None, vbucket: int) -> tuple[str, str | None, int]:
        hidden = None if bucket is None else redactor.key(_SELECT_BUCKET, bucket)
        return redactor.text(server, Holds.SYSTEM), hidden, vbucket

    ledger.high = {place(*where): told for where, told in ledger.high.items()}
    ledger.logs = {place(*where): logs for where, logs in ledger.logs.items()}
    for connection in ledger.connections.values():
        _hide(connection, redactor)
        for stream in connection.streams:
            for request in stream.requests:
                hide_request(request, redactor)


def _hide(connection: Connection, redactor: Redactor) -> None:
    """Hash the names of a connection, and of what was set and created on it."""
    if connection.bucket is not None:
        connection.bucket = redactor.key(_SELECT_BUCKET, connection.bucket)
    if connection.name is not None:
        connection.name = redactor.key(_OPEN, connection.name)
    if connection.agent is not None:
        connection.agent = redactor.key(_HELLO, connection.agent)
    if connection.mechanism is not None:
        connection.mechanism = redactor.key(_SASL, connection.mechanism)
    for control in connection.controls.values():
        control.key, control.value = redactor.key(_CONTROL, control.key), redactor.value(_CONTROL, control.value)
    for named in (*connection.collections.values(), *connection.scopes.values()):
        named.name = redactor.key(_SYSTEM_EVENT, named.name)
    connection.src, connection.dst = (hidden_end(end, redactor) for end in (connection.src, connection.dst))


def hide_request(request: Request, redactor: Redactor) -> None:
    """Hash what a stream request asks for by name, and drop what the server said of it. Twice is as good as once."""
    request.context = ""
    if request.collections is not None:
        request.collections = tuple(redactor.identifier(each) for each in request.collections)
    if request.scope is not None:
        request.scope = redactor.identifier(request.scope)


def hidden_end(end: str, redactor: Redactor) -> str:
    """Hash an address and a port."""
    host, _, port = end.rpartition(":")
    return f"{redactor.text(host, Holds.SYSTEM)}:{redactor.text(port, Holds.SYSTEM)}" if end else ""
