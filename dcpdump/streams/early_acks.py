"""Early acknowledgements: those of more than was captured by then.

Either the messages that they acknowledge were captured a little later, as the two directions may be out of order; or
they acknowledge what was never sent. Which of both shows when the messages came, or did not come in time.
"""

from typing import NamedTuple

from dcpdump.streams.capture_order import FAR, GRACE, OUT_OF_ORDER_NS
from dcpdump.streams.frame_event import FrameEvent

#: So many wait, at most. Of more, the last two wait as one, as long as the later of them.
_MOST = 64


class EarlyAck(NamedTuple):
    """An acknowledgement that waits for the messages that it acknowledges."""

    ts_ns: int | None
    messages: int  #: captured before it
    size: int  #: what it acknowledges
    missing: int  #: how much of that had not been captured
    frame: FrameEvent | None

    def is_over(self, now_ns: int | None, messages: int, *, out_of_order: bool) -> bool:
        """Return whether a message that is captured at a time, or as the next of so many, is too late for it.

        ``out_of_order``: TCP shows that the two directions are out of order.
        """
        if out_of_order and messages - self.messages <= FAR:
            return False
        if self.ts_ns is None or now_ns is None:
            return messages - self.messages > GRACE
        return abs(now_ns - self.ts_ns) > OUT_OF_ORDER_NS


class OverAck(NamedTuple):
    """Acknowledgements of what was not sent, not even a little later."""

    frame: FrameEvent  #: the first of them
    excess: int  #: bytes
    sent: int  #: that were sent until it was too late


def hold(waiting: list[EarlyAck], ack: EarlyAck) -> None:
    """Have one more wait, behind those that do."""
    if len(waiting) >= _MOST:
        last = waiting.pop()
        ack = ack._replace(size=max(last.size, ack.size), missing=last.missing + ack.missing)
    waiting.append(ack)
