"""Alone: what the rules say of one frame of which nothing else is known. It reads no capture, and starts fast."""

from collections.abc import Iterator

from dcpdump.check.finding import Finding
from dcpdump.check.rule import RESPONSE, Event
from dcpdump.check.rules import RULES
from dcpdump.check.runner import RuleRunner
from dcpdump.record import Record
from dcpdump.spec.header import ALT_CLIENT_REQUEST
from dcpdump.spec.names import JSON
from dcpdump.streams.frame_event import FrameEvent, event_of
from dcpdump.streams.messages import snapshot_of
from dcpdump.streams.opcode_kinds import MARKER
from dcpdump.streams.state import ConnectionState
from dcpdump.wire.frame import Fault

#: Where bytes are missing or lengths contradict them, fields are not where a rule reads them.
_UNREADABLE = frozenset({Fault.LENGTHS_CONTRADICT, Fault.CUT, Fault.LOST})


def judge(record: Record) -> list[Finding]:
    """Return the verdicts on a frame that need no other: what would take context is left out."""
    understood = record.frame
    if len(understood.raw.data) != understood.header.frame_length or any(
        each.code in _UNREADABLE for each in understood.problems
    ):
        return []
    frame = event_of(record)
    runner, connection = RuleRunner(RULES), ConnectionState(0, closely=True)
    if frame.opcode == MARKER and not frame.response:
        connection.incoming = snapshot_of(frame)
    for event in _events(frame):
        runner.ask(event, frame, connection, connection.no_stream)
    return list(dict.fromkeys(finding for finding in runner.taken() if not finding.reason))


def _events(frame: FrameEvent) -> Iterator[int]:
    """Yield the events that a frame by itself is."""
    yield Event.DECODED
    yield from (Event.FRAMED,) * (frame.magic == ALT_CLIENT_REQUEST)
    if frame.server:
        yield Event.PUSH
    elif frame.response:
        yield frame.opcode | RESPONSE
    else:
        yield frame.opcode
        if frame.seqno is not None:
            yield from (Event.MARKED,) * bool(frame.datatype)
            yield from (Event.PACKED,) * (frame.datatype not in (0, JSON))
            yield from (Event.ZERO,) * (not frame.seqno)
