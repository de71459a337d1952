"""Dissection that keeps hold of the bytes of TCP, for what the receivers acknowledged."""

from socket import AF_INET, AF_INET6, inet_pton

from dcpdump.batch.dissection import Dissection
from dcpdump.conversation import Conversation
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.endpoints import Endpoint, Flow
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.split import FrameSplitter


class AckDissection(Dissection):
    """A dissection that keeps the directions of connections which carry frames outside of TLS."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self.sent: dict[int, ByteStream] = {}  #: by place: twice the number of the connection, plus 0 or 1

    def _splitter(self, conversation: Conversation, direction: int, *, late: bool) -> FrameSplitter:
        connection = conversation.connection
        found = self.connections.find(_key_of(connection.toward(direction)))
        if found is not None and found[0] is connection and conversation.tls is None:
            self.sent[2 * connection.number + direction] = found[2]
        return super()._splitter(conversation, direction, late=late)


def _key_of(flow: Flow) -> bytes:
    """Return the key that a flow has in headers."""
    return _packed(flow.src) + _packed(flow.dst) + b"".join(end.port.to_bytes(2, "big") for end in flow)


def _packed(end: Endpoint) -> bytes:
    return inet_pton(AF_INET6 if ":" in end.host else AF_INET, end.host)
