"""SenderState: what a sender shows beside its bytes: its receive window, and that it gets no answer."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

ZERO_WINDOW: Final = "zero-window"  #: an end takes no more bytes: its receive window is zero
NO_ANSWER: Final = "no-answer"  #: an end sends nothing, not even acknowledgements, while bytes are sent to it again
AHEAD: Final = "ahead"  #: an end acknowledges bytes before they are captured: the directions are out of order

#: Senders wait for longer before they send bytes again for want of an acknowledgement (RFC 6298, Linux: 200 ms).
_APART_NS: Final = 100_000_000
#: So many repeats over so long show that no answer comes.
_MANY: Final = 3
_LONG_NS: Final = 1_000_000_000

#: Whether its window is zero (as below), how often it repeated bytes, and when for the first time and the last.
SenderValues = tuple[int, int, int, int]


class SenderState:
    """What is known of a sender."""

    __slots__ = ("first_ns", "last_ns", "repeats", "shut")

    def __init__(self) -> None:
        self.shut: i64 = -1  #: 1: it advertised a receive window of zero; 0: another; -1: none yet
        self.repeats: i64 = 0  #: of bytes, since it sent others, or the other end something
        self.first_ns: i64 = 0
        self.last_ns: i64 = 0

    def state(self) -> SenderValues:
        """Return it as plain values, for ``restore``."""
        return self.shut, self.repeats, self.first_ns, self.last_ns

    def restore(self, state: SenderValues) -> None:
        """Restore a state."""
        self.shut, self.repeats, self.first_ns, self.last_ns = state

    @property
    def in_vain(self) -> bool:
        """Whether it repeats bytes, and no answer comes."""
        return self.repeats >= _MANY and self.last_ns - self.first_ns >= _LONG_NS

    def repeat(self, ts_ns: int) -> bool:
        """Take a segment without anything new, and return whether it is the one that shows that no answer comes."""
        if not self.repeats:
            self.first_ns = ts_ns
        elif ts_ns - self.last_ns < _APART_NS:
            return False  # captured twice, or sent again for another reason
        before = self.in_vain
        self.repeats += 1
        self.last_ns = ts_ns
        return not before and self.in_vain

    def answer(self) -> bool:
        """Take it that the other end sent something, or must have, and return whether no answer had come."""
        before = self.in_vain
        self.repeats = 0
        return before
