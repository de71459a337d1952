"""Messages that travel the wrong way."""

from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import ADD_STREAM, CLOSE_STREAM, FLUSH, NOOP, OPEN, STREAMED, WANTED
from dcpdump.streams.state import ConnectionState


def is_astray(frame: FrameEvent, connection: ConnectionState) -> bool:
    """Return whether a DCP request travels against the roles of the ends, as far as those are known."""
    opcode = frame.opcode
    if connection.feeder is None or opcode in (OPEN, ADD_STREAM, CLOSE_STREAM):
        return connection.produces is True and opcode == ADD_STREAM
    if opcode in WANTED:
        return frame.direction == connection.feeder
    if opcode in STREAMED or opcode in (NOOP, FLUSH):
        return frame.direction != connection.feeder
    return False
