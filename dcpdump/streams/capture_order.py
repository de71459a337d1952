"""How far the two directions of a connection may be captured out of order.

Queues of a network card, ports of a tap and captures that were merged keep their own order each, not that of all. So
an acknowledgement of more than was captured by then waits: either the messages that it acknowledges are captured a
little later, or they were never sent. Which of both shows when the messages came, or did not come in time.
"""

from typing import NamedTuple

from dcpdump.streams.frame_event import FrameEvent

#: Frames of both directions this near to each other in time may have been sent in the other order.
OUT_OF_ORDER_NS = 50_000_000
#: And as many frames of a connection, where time does not tell: a segment may hold thousands that have one time.
GRACE = 64
#: The same where TCP shows that the two directions are out of order: packets of many messages changed places.
FAR = 1_024
#: A producer lets one message go over the window's size, and none follow it. So few more, within a second of the
#: first, do not show that it continues: their acknowledgement may be captured a little later.
_MANY = 32
_LONG_NS = 1_000_000_000
#: So many acknowledgements wait, at most. Of more, the last two wait as one, as long as the later of them.
_MOST = 64


def is_settled(frames: int, then_ns: int | None, now_ns: int | None, grace: int = GRACE) -> bool:
    """Return whether nothing is captured any more that was sent before what was captured ``then_ns``.

    ``frames``: how many of the connection were captured since. A packet may hold many: many frames and little time
    are not enough.
    """
    return frames >= grace and (then_ns is None or now_ns is None or abs(now_ns - then_ns) > OUT_OF_ORDER_NS)


def continues(messages: int, lasting_ns: int, *, out_of_order: bool) -> bool:
    """Return whether so many messages beyond a full window show that its producer ignores it.

    ``out_of_order``: TCP shows that the two directions are.
    """
    if out_of_order:
        return messages >= FAR
    return messages >= _MANY or (messages > 1 and lasting_ns >= _LONG_NS)


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
