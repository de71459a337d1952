"""hide: what a ledger says of names, addresses and texts becomes hashes, once it is closed.

Nothing of what frames said by name stays in it as it was: who reads the ledger afterwards cannot show it by mistake.
"""

from copy import copy
from typing import Any

from dcpdump.redact import Redactor, text_holds
from dcpdump.spec import MESSAGES, find
from dcpdump.spec.field import Holds
from dcpdump.spec.opcodes import DCP_CONTROL, DCP_OPEN, DCP_STREAM_REQ, HELLO, SASL_AUTH, SELECT_BUCKET
from dcpdump.streams.identity import Identity
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.request import Request
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream


def hide(ledger: Ledger, redactor: Redactor) -> None:
    """Hash what a ledger that is closed holds of names, addresses and texts."""
    ledger.memory.names.clear()  # needed only while connections are opened, and streams granted
    ledger.memory.producing.clear()
    for connection in ledger.connections.values():
        _hide(connection, redactor)
        for stream in connection.streams:
            for request in stream.requests:
                hide_request(request, redactor)
            stream.forget_keys()  # they are compared only while frames come
            stream.prepares.hide_keys()


def _key(redactor: Redactor, opcode: int, text: str | None) -> str | None:
    return None if text is None else redactor.key(MESSAGES[opcode], text)


def _hide(connection: ConnectionState, redactor: Redactor) -> None:
    """Hash the names of a connection, and of what was set and created on it."""
    message, setup = MESSAGES[DCP_CONTROL], connection.setup
    setup.client_key = None
    setup.bucket = _key(redactor, SELECT_BUCKET, setup.bucket)
    setup.name = _key(redactor, DCP_OPEN, setup.name)
    setup.agent = _key(redactor, HELLO, setup.agent)
    setup.mechanism = _key(redactor, SASL_AUTH, setup.mechanism)
    connection.identity = _hidden_identity(connection.identity, redactor)
    for refusal in setup.refusals.values():
        refusal.asked = redactor.key(MESSAGES[SELECT_BUCKET], refusal.asked) if refusal.asked else ""
        refusal.said = ""
    for control in setup.controls.values():
        control.key, control.value = redactor.key(message, control.key), redactor.value(message, control.value)
        control.said = ""
    setup.controls = {control.key: control for control in setup.controls.values()}
    setup.agreed = {redactor.key(message, key): redactor.value(message, value) for key, value in setup.agreed.items()}
    connection.collection_names = redactor.settled_names(connection.collection_names)
    for queue in connection.exchanges.by_key.values():
        for waiting in queue:
            asked = find(waiting.frame.opcode)
            waiting.key, waiting.value = redactor.key(asked, waiting.key), redactor.value(asked, waiting.value)
    connection.exchanges.earlier.clear()  # whole answers, which wait for requests
    connection.src, connection.dst = (redactor.endpoint(end) for end in (connection.src, connection.dst))


def _hidden_identity(identity: Identity, redactor: Redactor) -> Identity:
    """Return hashes that are equal where what a connection says of its consumer was."""

    def hidden(said: Any) -> Any:
        if isinstance(said, tuple):
            return tuple(map(hidden, said))
        return None if said is None else redactor.text(said, Holds.BUCKET)

    return Identity._make(map(hidden, identity))


def hide_requests(ledger: Ledger, redactor: Redactor) -> None:
    """Hash what stream requests ask for by name, of a ledger that learns more."""
    for stream in ledger.streams:
        for request in stream.requests:
            hide_request(request, redactor)


def hidden_stream(stream: Stream, redactor: Redactor) -> Stream:
    """Return a copy of a stream, and of its connection, that has hashes for the names and addresses of its row."""
    hidden, connection = copy(stream), copy(stream.connection)
    connection.setup = copy(connection.setup)
    connection.setup.name = _key(redactor, DCP_OPEN, connection.setup.name)
    connection.collection_names = redactor.settled_names(connection.collection_names)
    connection.src, connection.dst = (redactor.endpoint(end) for end in (connection.src, connection.dst))
    hidden.connection = connection
    return hidden


def hide_request(request: Request, redactor: Redactor) -> None:
    """Hash what a stream request asks for by name, and drop what the server said of it. Twice is as good as once."""
    request.said = ""
    if request.fault is not None:
        request.fault = request.fault._replace(value=_hidden_value(request.fault.value))
    if request.collections is not None:
        request.collections = tuple(redactor.identifier(each) for each in request.collections)
    if request.scope is not None:
        request.scope = redactor.identifier(request.scope)


def _hidden_value(text: str) -> str:
    """Return what a request has for one of its members, if that is nothing but ids and the protocol's own words."""
    shown = text_holds(MESSAGES[DCP_STREAM_REQ], text.encode("utf-8", "surrogatepass")) is Holds.NOTHING
    return text if shown else "*" * len(text)
