"""hide: what a ledger says of names, addresses and texts becomes hashes, once it is closed."""

from dcpdump.redact import Redactor
from dcpdump.spec.field import Holds
from dcpdump.streams.ledger import Ledger


def hide(ledger: Ledger, redactor: Redactor) -> None:
    """It hashes what a ledger holds of names, addresses and texts."""
    for connection in ledger.connections.values():
        if connection.bucket is not None:
            connection.bucket = redactor.text(connection.bucket, Holds.BUCKET)
        if connection.name is not None:
            connection.name = redactor.text(connection.name, Holds.BUCKET)
        if connection.agent is not None:
            connection.agent = redactor.text(connection.agent, Holds.META)
        for control in connection.controls.values():
            if control.key == "consumer_name":
                control.value = redactor.text(control.value, Holds.META)
        for named in (*connection.collections.values(), *connection.scopes.values()):
            named.name = redactor.text(named.name, Holds.META)
        connection.src, connection.dst = (hidden_end(end, redactor) for end in (connection.src, connection.dst))
        for stream in connection.streams:
            for request in stream.requests:
                request.context = ""


def hidden_end(end: str, redactor: Redactor) -> str:
    """It hashes an address and a port."""
    host, _, port = end.rpartition(":")
    return f"{redactor.text(host, Holds.SYSTEM)}:{redactor.text(port, Holds.SYSTEM)}" if end else ""
