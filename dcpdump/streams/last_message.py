"""The latest message of a stream, as far as it is remembered."""

from dcpdump.streams.frame_event import NO_FRAME, FrameEvent
from dcpdump.streams.stream import Stream


def last_message(stream: Stream) -> FrameEvent:
    """Return the place of a stream's latest message."""
    connection = stream.connection
    return NO_FRAME._replace(
        number=stream.last_frame,
        ts_ns=stream.last_ns,
        connection=connection.number,
        word=max(stream.vbucket, 0),
        opaque=stream.opaque or 0,
        direction=connection.feeder or 0,
        stream_id=stream.stream_id,
    )
