"""Dissect a capture, and remember up to which offset receivers acknowledged bytes."""

from collections import deque
from socket import AF_INET, AF_INET6, inet_pton

from dcpdump.batch.dissector import Dissection
from dcpdump.conversation import Conversation
from dcpdump.net.bytestream import ByteStream
from dcpdump.net.endpoints import Endpoint, Flow
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.split import FrameSplitter

#: How many ended connections are still watched, since the last bytes are acknowledged after the end.
_MOST_ENDED = 1_024


class AckDissection(Dissection):
    """A dissection that keeps the acknowledgements of connections with frames outside of TLS.

    A direction's place is twice the number of its connection, plus 0 or 1.
    """

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        super().__init__(limits, show_secrets=show_secrets, secrets=secrets)
        self._sent: dict[int, ByteStream] = {}  # by place
        self._ended: deque[int] = deque()  # connections
        self._known: dict[int, int] = {}  # by place, of directions no longer watched

    def acknowledged(self, place: int) -> int | None:
        """Return the offset up to which the receiver acknowledged a direction; None without a captured ACK."""
        stream = self._sent.get(place)
        if stream is None:
            return self._known.get(place)
        return stream.offset_of(int(stream.last_ack)) if stream.last_ack >= 0 and stream.begun else None

    def _leave(self, conversation: Conversation) -> list[Record]:
        self._ended.append(conversation.connection.number)
        if len(self._ended) > _MOST_ENDED:
            first = 2 * self._ended.popleft()
            for place in (first, first + 1):
                known = self.acknowledged(place)
                if known is not None:
                    self._known[place] = known
                self._sent.pop(place, None)
        return super()._leave(conversation)

    def _splitter(self, conversation: Conversation, direction: int, *, late: bool) -> FrameSplitter:
        connection = conversation.connection
        found = self.connections.find(_key_of(connection.toward(direction)))
        if found is not None and found[0] is connection and conversation.tls is None:
            self._sent[2 * connection.number + direction] = found[2]
        return super()._splitter(conversation, direction, late=late)


def _key_of(flow: Flow) -> bytes:
    """Return the key of a flow, as in headers."""
    return _packed(flow.src) + _packed(flow.dst) + b"".join(end.port.to_bytes(2, "big") for end in flow)


def _packed(end: Endpoint) -> bytes:
    return inet_pton(AF_INET6 if ":" in end.host else AF_INET, end.host)
