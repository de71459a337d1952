"""Recognise the connections that are TLS, and count what they hold.

TLS is recognised by its bytes. Of a direction that was joined late the first byte may stand anywhere: there an
Unsealer reads beside the splitter, until that has found a frame, or this has found records.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dcpdump.conversation import Conversation, Tally
from dcpdump.net.event import Bytes, Event, Events, Gap
from dcpdump.tls.report import TlsReport
from dcpdump.tls.secrets import Secrets

if TYPE_CHECKING:
    from dcpdump.tls.side import Places
    from dcpdump.tls.unsealer import Unsealer

#: How a TLS connection begins: with a hello, or with an alert that refuses the other side's.
_BEGINNINGS: Final = (b"\x16\x03", b"\x15\x03")
#: Connections of which it is kept what became of them.
_KEPT: Final = 65_536

#: The number of a connection, the states of what opens it and of what might, and what is counted of it already.
TlsState = tuple[int, bytes | None, bytes | None, tuple[int, int]]


class Unsealing:
    """The TLS connections of one dissection. ``tls_reports`` has those that are over, by their numbers."""

    def __init__(self, secrets: Secrets, tally: Tally) -> None:
        self.secrets = secrets
        self.tls_reports: dict[int, TlsReport] = {}
        self.any = False  #: whether there is any TLS connection
        self.enabled = True  #: else all is taken as it is
        self.places: dict[int, Places] | None = None  #: of records, by twice the connection's number plus the direction
        self._tally = tally
        self._growth = secrets.growth

    def state(self, conversation: Conversation) -> TlsState | None:
        """Return the state of what is inside a connection, for ``restore``; None where it is no TLS."""
        if conversation.tls is None and conversation.suspect is None:
            return None
        tls, suspect = (None if each is None else each.state() for each in (conversation.tls, conversation.suspect))
        return conversation.connection.number, tls, suspect, conversation.counted

    def restore(self, conversation: Conversation, state: TlsState) -> None:
        """Continue a connection from a state, under the same secrets, which have to be there."""
        from dcpdump.tls.unsealer import Unsealer

        _, tls, suspect, conversation.counted = state
        self._growth = self.secrets.growth
        if tls is not None:
            conversation.tls, self.any = Unsealer.restored(tls, self.secrets), True
        if suspect is not None:
            conversation.suspect = Unsealer.restored(suspect, self.secrets)

    def take(self, conversation: Conversation, direction: int, event: Event) -> Events | None:
        """Return the events of the text inside; None where the event is to be taken as it is."""
        tls = conversation.tls
        if tls is None:
            if not self.enabled:
                return None
            tls = self._recognise(conversation, direction, event)
            if tls is None:
                return None
        if conversation.tls is None:
            tls.take_gaps(direction)  # they were counted as they were sent
        events = tls.feed(direction, event)
        if conversation.tls is None:
            if not (tls.opened or tls.certain):
                return None
            self._adopt(conversation, tls)
        self.count(conversation)
        return events

    def open_waiting(self, conversations: list[Conversation]) -> list[tuple[Conversation, Events]]:
        """Return what new secrets make known of connections that waited for them."""
        if self.any and self.secrets.poll is not None:
            self.secrets.poll()
        if not self.any or self._growth == self.secrets.growth:
            return []
        self._growth = self.secrets.growth
        out = []
        for conversation in conversations:
            if conversation.tls is not None:
                events = conversation.tls.open_waiting()
                self.count(conversation)
                if events:
                    out.append((conversation, events))
        return out

    def give_up(self, conversation: Conversation) -> Events:
        """Have a connection give its memory back."""
        events = conversation.tls.give_up() if conversation.tls is not None else []
        self.count(conversation)
        return events

    def close(self, conversation: Conversation) -> Events:
        """End a connection: return what waited, and keep what became of it."""
        suspect = conversation.suspect
        if suspect is not None and conversation.tls is None and not any(conversation.framed) and suspect.likely:
            self._adopt(conversation, suspect)
            for direction in (0, 1):
                suspect.take_gaps(direction)
        conversation.suspect = None
        if conversation.tls is None:
            return []
        events = conversation.tls.close()
        self.count(conversation)
        for direction in (0, 1):
            places = conversation.tls.places(direction)
            if places is not None and self.places is not None:
                self.places[2 * conversation.connection.number + direction] = places
        if len(self.tls_reports) < _KEPT:
            self.tls_reports[conversation.connection.number] = _named(conversation, conversation.tls)
        return events

    def count(self, conversation: Conversation) -> None:
        """Count what became of a connection's bytes."""
        if conversation.tls is not None:
            _, tls, encrypted = conversation.tls.account
            before = conversation.counted
            conversation.counted = tls, encrypted
            self._tally.tls_bytes += tls - before[0]
            self._tally.encrypted_bytes += encrypted - before[1]

    def _recognise(self, conversation: Conversation, direction: int, event: Event) -> "Unsealer | None":
        """Return what may open a connection that is not known to be TLS."""
        suspect = conversation.suspect
        if suspect is not None:
            if any(conversation.framed):
                conversation.suspect = suspect = None
            return suspect
        if conversation.splitters[direction] is not None or any(conversation.framed):
            return None
        late = not isinstance(event, Bytes) or event.joined_late
        if (
            isinstance(event, Bytes)
            and not late
            and not any(event.data[:2] == x[: len(event.data)] for x in _BEGINNINGS)
        ):
            return None
        if not isinstance(event, (Bytes, Gap)):
            return None
        # Only now: most captures hold no TLS.
        from dcpdump.tls.unsealer import Unsealer

        found = Unsealer(self.secrets, late=late, traces=self.places is not None)
        if late:
            conversation.suspect = found
        else:
            conversation.tls, self.any = found, True
        return found

    def _adopt(self, conversation: Conversation, tls: "Unsealer") -> None:
        """Take a connection for TLS after all: what splitters made of it is forgotten."""
        conversation.tls, conversation.suspect, self.any = tls, None, True
        conversation.splitters = [None, None]
        conversation.before, conversation.begun = [0, 0], [0, 0]
        conversation.protocol = ""


def _named(conversation: Conversation, tls: "Unsealer") -> TlsReport:
    flow = conversation.connection.flow
    inside = "" if any(conversation.framed) else conversation.protocol
    src, dst = conversation.ends[0]
    return replace(tls.report(), inside=inside, src=src, dst=dst, port=min(flow.src.port, flow.dst.port))
