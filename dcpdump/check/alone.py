"""Alone: what the rules say of one frame of which nothing else is known. It reads no capture, and starts fast."""

from collections.abc import Iterator

from dcpdump.check.finding import Finding
from dcpdump.check.rule import DECODED, MARKED, PACKED, PUSH, RESPONSE, ZERO
from dcpdump.check.rules import RULES
from dcpdump.check.runner import RuleRunner
from dcpdump.record import Record
from dcpdump.spec.names import JSON
from dcpdump.streams.frame_event import FrameEvent, sight_of
from dcpdump.streams.messages import snapshot_of
from dcpdump.streams.opcode_kinds import MARKER
from dcpdump.streams.state import ConnectionState
from dcpdump.wire.frame import Fault

#: Where bytes are missing or lengths contradict them, fields are not where a rule reads them.
_UNREADABLE = frozenset({Fault.LENGTHS_CONTRADICT, Fault.CUT, Fault.LOST})


def judge(record: Record) -> list[Finding]:
    """Return the verdicts on a frame that need no other: what would take context is left out."""
    frame = record.frame
    if len(frame.raw.data) != frame.header.frame_length or any(each.code in _UNREADABLE for each in frame.problems):
        return []
    sight = sight_of(record)
    panel, connection = RuleRunner(RULES), ConnectionState(0, closely=True)
    if sight.opcode == MARKER and not sight.response:
        connection.incoming = snapshot_of(sight)
    for event in _events(sight):
        panel.ask(event, sight, connection, connection.no_stream)
    return list(dict.fromkeys(finding for finding in panel.taken() if not finding.reason))


def _events(sight: FrameEvent) -> Iterator[int]:
    """Yield the events that a frame by itself is."""
    yield DECODED
    if sight.server:
        yield PUSH
    elif sight.response:
        yield sight.opcode | RESPONSE
    else:
        yield sight.opcode
        if sight.seqno is not None:
            yield from (MARKED,) * bool(sight.datatype)
            yield from (PACKED,) * (sight.datatype not in (0, JSON))
            yield from (ZERO,) * (not sight.seqno)
