"""Dissect packets to records: the complete pipeline.

    Packet → net.Connections → Bytes | Gap → (Unsealer →) FrameSplitter → RawFrame → decode → Session → Record

Bytes that are in no frame are counted too: skipped bytes, other protocols, encrypted TLS.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dcpdump.conversation import Conversation, Tally
from dcpdump.net.connections import Connections, Delivery
from dcpdump.net.event import CARVED, SNAPLEN, Bytes, Conflict, End, Event, Events, Gap
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.reassembly import Counters
from dcpdump.record import Record
from dcpdump.tls.outcome import TlsReport
from dcpdump.tls.secrets import Secrets
from dcpdump.wire.collection_names import NAME, NAMING, Said, ServerNames, said_by
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame, Where
from dcpdump.wire.session import Session
from dcpdump.wire.split import Cut, FrameSplitter, Skipped, Why

if TYPE_CHECKING:
    from dcpdump.tls.side import TextOffsets
    from dcpdump.tls.unsealer import Unsealer


# -- connections that are TLS -------------------------------------------------------------------------
# TLS is recognised by its bytes. The first byte of a direction captured from its middle may be anywhere in a record:
# there an Unsealer and the splitter read in parallel, until one of them finds records or a frame.

#: The first bytes of TLS: a hello, or an alert that refuses the other side's hello.
_OF_TLS: Final = (b"\x16\x03", b"\x15\x03")
#: How many reports of TLS connections are kept.
_KEPT: Final = 65_536

#: A connection's number, the states of its certain and its possible Unsealer, and the bytes counted already.
TlsState = tuple[int, bytes | None, bytes | None, tuple[int, int]]


class _Unsealing:
    """The TLS connections of one dissection. ``tls_reports``: of those that ended, by number."""

    def __init__(self, secrets: Secrets, tally: Tally) -> None:
        self.secrets = secrets
        self.tls_reports: dict[int, TlsReport] = {}
        self.any = False  #: whether there is any TLS connection
        self.text_offsets: dict[int, TextOffsets] | None = None  #: of records, by 2 × connection + direction
        self._tally = tally
        self._growth = secrets.growth

    def state(self, conversation: Conversation) -> TlsState | None:
        """Return the TLS state of a connection, for ``restore``; None if it is not TLS."""
        if conversation.tls is None and conversation.suspect is None:
            return None
        tls, suspect = (None if each is None else each.state() for each in (conversation.tls, conversation.suspect))
        return conversation.connection.number, tls, suspect, conversation.counted

    def restore(self, conversation: Conversation, state: TlsState) -> None:
        """Continue a connection from a state; the same secrets must have been added."""
        from dcpdump.tls.unsealer import Unsealer

        _, tls, suspect, conversation.counted = state
        self._growth = self.secrets.growth
        if tls is not None:
            conversation.tls, self.any = Unsealer.restored(tls, self.secrets), True
        if suspect is not None:
            conversation.suspect = Unsealer.restored(suspect, self.secrets)

    def decrypt(self, conversation: Conversation, direction: int, event: Event) -> Events | None:
        """Return the events of the text inside; None to use the event as it is."""
        tls = conversation.tls
        if tls is None:
            tls = self._recognise(conversation, direction, event)
            if tls is None:
                return None
        if conversation.tls is None:
            tls.pop_gaps(direction)  # losses were counted as sent
        events = tls.feed(direction, event)
        if conversation.tls is None:
            if not (tls.opened or tls.certain):
                return None
            self._adopt(conversation, tls)
        self.count(conversation)
        return events

    def open_waiting(self, conversations: list[Conversation]) -> list[tuple[Conversation, Events]]:
        """Return the events that new secrets make possible for connections that waited for them."""
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
        """Release the memory of a connection."""
        events = conversation.tls.give_up() if conversation.tls is not None else []
        self.count(conversation)
        return events

    def close(self, conversation: Conversation) -> Events:
        """End a connection: return the events of waiting records, and keep its report."""
        suspect = conversation.suspect
        if suspect is not None and conversation.tls is None and not any(conversation.framed) and suspect.likely:
            self._adopt(conversation, suspect)
            for direction in (0, 1):
                suspect.pop_gaps(direction)
        conversation.suspect = None
        if conversation.tls is None:
            return []
        events = conversation.tls.close()
        self.count(conversation)
        for direction in (0, 1):
            text_offsets = conversation.tls.text_offsets(direction)
            if text_offsets is not None and self.text_offsets is not None:
                self.text_offsets[2 * conversation.connection.number + direction] = text_offsets
        if len(self.tls_reports) < _KEPT:
            self.tls_reports[conversation.connection.number] = _named(conversation, conversation.tls)
        return events

    def count(self, conversation: Conversation) -> None:
        """Count a connection's bytes by their fate."""
        if conversation.tls is not None:
            _, tls, encrypted = conversation.tls.account
            before = conversation.counted
            conversation.counted = tls, encrypted
            self._tally.tls_bytes += tls - before[0]
            self._tally.encrypted_bytes += encrypted - before[1]

    def _recognise(self, conversation: Conversation, direction: int, event: Event) -> "Unsealer | None":
        """Return the Unsealer of a connection that is, or may be, TLS; else None."""
        suspect = conversation.suspect
        if suspect is not None:
            if any(conversation.framed):
                conversation.suspect = suspect = None
            return suspect
        if conversation.splitters[direction] is not None or any(conversation.framed):
            return None
        joined_late = not isinstance(event, Bytes) or event.joined_late
        if (
            isinstance(event, Bytes)
            and not joined_late
            and not any(event.data[:2] == x[: len(event.data)] for x in _OF_TLS)
        ):
            return None
        if not isinstance(event, (Bytes, Gap)):
            return None
        # here: most captures have no TLS
        from dcpdump.tls.unsealer import Unsealer

        found = Unsealer(self.secrets, joined_late=joined_late, traces=self.text_offsets is not None)
        if joined_late:
            conversation.suspect = found
        else:
            conversation.tls, self.any = found, True
        return found

    def _adopt(self, conversation: Conversation, tls: "Unsealer") -> None:
        """Treat a connection as TLS from now on: the splitters' results are dropped."""
        conversation.tls, conversation.suspect, self.any = tls, None, True
        conversation.splitters = [None, None]
        conversation.before, conversation.begun = [0, 0], [0, 0]
        conversation.protocol = ""


def _named(conversation: Conversation, tls: "Unsealer") -> TlsReport:
    flow = conversation.connection.flow
    inside = "" if any(conversation.framed) else conversation.protocol
    src, dst = conversation.ends[0]
    return replace(tls.report(), inside=inside, src=src, dst=dst, port=min(flow.src.port, flow.dst.port))


# -- the pipe -----------------------------------------------------------------------------------------

TLS = "TLS"
#: The first bytes of other common protocols, only to name them in messages.
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x16\x03", TLS),
    (b"GET ", "HTTP or memcached text"),
    (b"POST ", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"HTTP/", "HTTP"),
    (b"SSH-", "SSH"),
    (b"get ", "memcached text"),
    (b"gets ", "memcached text"),
    (b"set ", "memcached text"),
    (b"stats", "memcached text"),
    (b"VALUE ", "memcached text"),
    (b"STORED", "memcached text"),
    (b"STAT ", "memcached text"),
)
_BOTH = 0b11
#: How many pairs of protocol and port are counted; a capture full of scans could have half a million.
_NAMED = 4_096
#: How many names of collections are always remembered; beyond that they may take an eighth of the memory.
_NAMES = 4_096
#: The most bytes of state that a record adds to its connection.
_RECORD = 512
#: Bytes of memory of an empty conversation.
_CONVERSATION = 2_048


class Dissector:
    """A dissector that is fed packets in order, and returns the records that they complete."""

    def __init__(self, limits: Limits = DEFAULT, *, show_secrets: bool = False, secrets: Secrets | None = None) -> None:
        # Half of the memory is for waiting segments, half for incomplete frames.
        self._limit = limits.memory // 2
        self.connections = Connections(replace(limits, memory=self._limit))
        self._unweighed = 0
        self.conversations: dict[int, Conversation] = {}  #: of connections with payload, by number
        self._show_secrets = show_secrets
        self.balance = self.connections.counts
        self.tally = Tally()
        self.names = ServerNames(max(_NAMES, limits.memory // 8 // NAME))  #: of collections, by server and bucket
        self.secrets = Secrets() if secrets is None else secrets  #: of TLS
        self._unsealing = _Unsealing(self.secrets, self.tally)
        self.tls_reports = self._unsealing.tls_reports  #: of TLS connections that ended, by number

    def feed(self, packet: Packet) -> list[Record]:
        """Dissect the next packet, and return the records that it completes."""
        records = self.open_waiting() if self._unsealing.any else []
        deliveries = self.connections.feed(packet)
        if not deliveries:
            return records
        records += self._records_of(deliveries)
        self._unweighed += len(packet.data) + _RECORD * len(records)
        if self._unweighed > self._limit // 16:
            records += self._weigh()
        return records

    def close(self) -> list[Record]:
        """End the input, and return the records of frames still open."""
        return list(self.drain())

    def drain(self) -> Iterator[Record]:
        """End the input, and yield the records of frames still open, of which there may be 65,536."""
        yield from self.open_waiting()
        yield from self._records_of(self.connections.close())
        for conversation in list(self.conversations.values()):
            yield from self._leave(conversation)

    def open_waiting(self) -> list[Record]:
        """Return the records that new secrets make possible."""
        records: list[Record] = []
        for conversation, events in self._unsealing.open_waiting(list(self.conversations.values())):
            for direction, event in events:
                records += self._follow(conversation, direction, event)
        return records

    def _records_of(self, deliveries: list[Delivery]) -> Iterator[Record]:
        for connection, direction, event in deliveries:
            conversation = self.conversations.get(connection.number)
            if conversation is None:
                if not isinstance(event, (Bytes, Gap)):
                    continue
                conversation = self.conversations[connection.number] = Conversation(connection, Session())
            events = self._unsealing.decrypt(conversation, direction, event)
            if isinstance(event, Gap) and conversation.tls is not None:
                gap = conversation.tls.untold(direction, event)
                if gap is not None:
                    self._lose(conversation, direction, gap)
            if events is None:
                yield from self._follow(conversation, direction, event)
            else:
                for way, inner in events:
                    yield from self._follow(conversation, way, inner)

    def _follow(self, conversation: Conversation, direction: int, event: Event) -> list[Record]:
        """Handle an event of a direction, as sent or from inside TLS."""
        cuts = self._split(conversation, direction, event)
        records = self._records(conversation, direction, cuts) if cuts else []
        if isinstance(event, End):
            conversation.ended |= 1 << direction
            if conversation.ended == _BOTH:
                records += self._leave(conversation)
        return records

    def _split(self, conversation: Conversation, direction: int, event: Event) -> list[Cut]:
        """Cut the bytes of a direction into frames."""
        splitter = conversation.splitters[direction]
        if isinstance(event, (Bytes, Conflict)):
            conversation.note_source(event.seen.file)
        if isinstance(event, Conflict):
            conversation.disagrees = True
        if isinstance(event, Bytes):
            if splitter is None:
                splitter = self._splitter(conversation, direction, joined_late=event.joined_late)
                splitter.begin(event.offset)
                conversation.protocol = conversation.protocol or _protocol(event.data)
            seen = event.seen
            return splitter.feed(event.data, Where(seen.number, seen.ts_ns, seen.file))
        if isinstance(event, Gap):
            if splitter is None:
                splitter = self._splitter(conversation, direction, joined_late=True)
                splitter.begin(event.offset)
            self._lose(conversation, direction, event)
            before = splitter.weight
            cuts = splitter.gap(event.length, joins=event.reason == CARVED)
            self._unweighed += max(0, splitter.weight - before)  # zeros stand for a hole inside a frame
            return cuts
        return splitter.close() if isinstance(event, End) and splitter else []

    def _lose(self, conversation: Conversation, direction: int, gap: Gap) -> tuple[Gap, ...]:
        """Count the bytes lost at a gap, and return them: of TLS the bytes as sent, which are more than the text."""
        sent = (gap,) if conversation.tls is None else conversation.tls.pop_gaps(direction)
        missing = self.tally.lost if any(conversation.framed) else conversation.lost[direction]
        for each in sent:
            if each.reason == CARVED:
                self.tally.carved_bytes += each.length or 0
            else:
                missing.add(each.reason, each.length)
        return sent

    def _skip(self, conversation: Conversation, direction: int, skipped: Skipped) -> None:
        """Handle bytes of a direction that belong to no frame."""

    def _weigh(self) -> list[Record]:
        """Add up the memory of all conversations; if it is too much, release that of the largest.

        Adding up costs a step for each conversation, so it is done once in a number of bytes.
        """
        self._unweighed = 0
        held = {number: conversation.held for number, conversation in self.conversations.items()}
        total = sum(held.values())
        memory = max(self._limit // 8, self._limit - _CONVERSATION * len(held))
        if total <= memory:
            return []
        records: list[Record] = []
        for number in sorted(held, key=held.__getitem__, reverse=True):
            conversation = self.conversations[number]
            for direction, event in self._unsealing.give_up(conversation):
                records += self._follow(conversation, direction, event)
            for direction, splitter in enumerate(conversation.splitters):
                if splitter is not None and splitter.held:
                    records += self._records(conversation, direction, splitter.give_up())
            if 2 * conversation.session.held > held[number]:
                conversation.session.forget()
            self.balance.evictions += 1
            total -= held[number]
            if total <= memory * 3 // 4:
                break
        return records

    def _leave(self, conversation: Conversation) -> list[Record]:
        """End a conversation, and classify the bytes that came before any frame."""
        records: list[Record] = []
        for direction, event in self._unsealing.close(conversation):
            records += self._records(conversation, direction, self._split(conversation, direction, event))
        for direction, splitter in enumerate(conversation.splitters):
            if splitter is not None:
                records += self._records(conversation, direction, splitter.close())
        for direction in (0, 1):
            gap = None if conversation.tls is None else conversation.tls.untold(direction)
            if gap is not None:
                self._lose(conversation, direction, gap)
        framed = any(conversation.framed)
        for missing in conversation.lost:
            (self.tally.lost if framed else self.tally.lost_elsewhere).merge(missing)
        if framed:
            self.tally.joined_bytes += sum(conversation.begun)
            self.tally.skipped_bytes += sum(conversation.before) - sum(conversation.begun)
        else:
            self.tally.foreign_bytes += sum(conversation.before)
            if not any(conversation.before) and conversation.tls is None:
                self._count_unseen(conversation)
            if conversation.tls is not None:
                conversation.protocol = f"{conversation.protocol} inside {TLS}" if conversation.protocol else TLS
            if conversation.protocol:
                port = min(conversation.connection.flow.src.port, conversation.connection.flow.dst.port)
                named = conversation.protocol, port
                if named not in self.tally.foreign and len(self.tally.foreign) >= _NAMED:
                    named = conversation.protocol, 0
                self.tally.foreign[named] += 1
        if conversation.mixed is not None and len(self.tally.mixed) < _NAMED:
            self.tally.mixed.append((*conversation.ends[0], conversation.mixed))
        self.names.leave(conversation.names)
        conversation.splitters = [None, None]  # splitters refer to it: without this cycle the memory is free at once
        del self.conversations[conversation.connection.number]
        return records

    def _count_unseen(self, conversation: Conversation) -> None:
        """Count the bytes sent on a connection without captured payload."""
        flow, unseen = conversation.connection.flow, self.tally.unseen
        ports = flow.src.port, flow.dst.port
        port = min(ports)
        for direction, missing in enumerate(conversation.lost):
            size = missing.bytes - missing.by_reason.get(SNAPLEN, 0) + missing.unknown
            where = port, ports[1 - direction] == port
            if where not in unseen and len(unseen) >= _NAMED:
                where = 0, where[1]
            if size:
                unseen[where] += size

    def _splitter(self, conversation: Conversation, direction: int, *, joined_late: bool) -> FrameSplitter:
        splitter = FrameSplitter(lambda: conversation.session, joined_late=joined_late)
        conversation.splitters[direction] = splitter
        return splitter

    def _records(self, conversation: Conversation, direction: int, cuts: list[Cut]) -> list[Record]:
        records: list[Record] = []
        tally = self.tally
        for cut in cuts:
            if isinstance(cut, RawFrame):
                tally.frames += 1
                tally.frame_bytes += len(cut.data) - sum(end - start for start, end in cut.holes)
                conversation.framed[direction] = True
                records += self._framed(conversation, direction, cut)
                continue
            carved = conversation.connection.carved > 0
            begun = carved or cut.why is Why.BEGUN_BEFORE
            if not begun:
                self._skip(conversation, direction, cut)
            if conversation.framed[direction] and not carved:
                tally.skipped_bytes += cut.length
            else:
                conversation.before[direction] += cut.length
                conversation.begun[direction] += begun * cut.length
        return records

    def _framed(self, conversation: Conversation, direction: int, raw: RawFrame) -> list[Record]:
        """Handle a frame, and return the records that it completes."""
        return [self._record(conversation, direction, raw, self.tally.frames)]

    def _record(self, conversation: Conversation, direction: int, raw: RawFrame, number: int) -> Record:
        frame = decode(raw, show_secrets=self._show_secrets)
        if frame.message.dcp:
            self.tally.dcp_frames += 1
        interpretation = conversation.session.understand(frame, number, direction)
        src, dst = conversation.ends[direction]
        if frame.header.opcode in NAMING and (said := said_by(frame, interpretation.content.document, dst)) is not None:
            self._name(conversation, said, number)
        return Record(
            number,
            frame,
            interpretation.content,
            interpretation.vbucket,
            interpretation.request,
            conversation.connection.number,
            direction,
            src,
            dst,
            conversation.names,
        )

    def _name(self, conversation: Conversation, said: Said, number: int) -> bool:
        """Store the names of collections in a frame; return whether any may be new."""
        return conversation.names.learn(said, self.names, number)


def _protocol(data: bytes) -> str:
    """Return the name of another protocol by its first bytes; "" if it is not a common one."""
    return next((name for beginning, name in _BEGINNINGS if data.startswith(beginning)), "")


#: The fate of bytes of payload → how it is said, where that is not its name.
PAYLOAD_WORDS = {
    "frames": "in frames",
    "begun_before": "of frames begun before the capture",
    "tls": "of TLS around frames",
    "encrypted": "of TLS not opened",
    "foreign": "of other protocols",
    "duplicate": "captured twice",
    "keepalive": "of keep-alives",
    "late": "too late",
}


def payload(tally: Tally, counters: Counters) -> dict[str, int]:
    """Return the payload bytes by their fate: their sum is all payload that was captured."""
    used = {
        "frames": tally.frame_bytes,
        "begun_before": tally.joined_bytes,
        "skipped": tally.skipped_bytes,
        "tls": tally.tls_bytes,
        "encrypted": tally.encrypted_bytes,
        "foreign": tally.foreign_bytes,
        "retransmitted": counters.retransmitted_bytes,
        "duplicate": counters.duplicate_bytes,
        "keepalive": counters.keepalive_bytes,
        "late": counters.late_bytes,
        "stray": counters.stray_bytes,
    }
    return used | {"pending": counters.payload_bytes - sum(used.values())}
