"""Take from events of damaged frames the numbers that may be bytes of a key or a value.

Redacted records do not show them, so what is learnt for an output that is redacted has to do without them.
"""

from dataclasses import replace

from dcpdump.disclosure import hides_numbers, is_stray
from dcpdump.streams.frame_event import HIDDEN, FrameEvent
from dcpdump.wire.frame import Section
from dcpdump.wire.value import Meaning


def without_numbers(event: FrameEvent) -> FrameEvent:
    """Return an event without the numbers that are hidden where its frame is redacted: as if they were lost."""
    record = event.record
    if record is None:
        return event
    frame = record.frame
    if not hides_numbers(frame):
        return event
    stray = is_stray(frame)
    if not stray and all(field.section is Section.HEADER or isinstance(field.value, bytes) for field in frame.fields):
        return event
    header = tuple(field for field in frame.fields if field.section is Section.HEADER and not stray)
    hidden = replace(frame, fields=header, lookup={}, key=None, value=None)
    meaning = Meaning(problems=record.meaning.problems)
    event = event._replace(
        record=replace(record, frame=hidden, meaning=meaning), seqno=None, shape=HIDDEN, fields=(), whole=False
    )
    if stray:
        return event._replace(opcode=0, word=0, opaque=0, cas=0, datatype=0, stream_id=0, length=len(frame.raw.data))
    return event
