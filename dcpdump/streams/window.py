"""Window: one connection's flow control: what the protocol counts, what was acknowledged, when it was full.

The size that counts is the frame's own but for two kinds: a PREPARE counts two bytes more than it has on the
wire, a CACHE_TRANSFER_END 24 whatever it has. Responses, NOOP, CONTROL and acknowledgements do not count.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.spec.field import PRODUCER

PREPARE, CACHE_TRANSFER_END = 0x60, 0x67
FIRST, LAST = 0x50, 0x67  #: DCP's own opcodes
_END_SIZE = 24
#: Blocked intervals and acknowledgements are kept up to so many; then every second one is dropped, or the rest.
_INTERVALS = 10_000
_MARKS = 2_048


def _counts(opcode: int) -> bool:
    message = find(opcode)
    return message.streamed and message.sender is PRODUCER and opcode != 0x61


#: By opcode: whether flow control counts the message.
COUNTED: list[bool] = [_counts(opcode) for opcode in range(256)]


class Blocked(NamedTuple):
    """A time in which the producer had to wait: ``end_ns`` None where it still did at the end."""

    start_ns: int | None
    end_ns: int | None
    outstanding: int


class Mark(NamedTuple):
    """The books at an acknowledgement, after it."""

    ts_ns: int | None
    outstanding: int  #: may be negative: more acknowledged than sent
    kinds: tuple[int, ...]  #: bytes sent by opcode, from FIRST on, as the wire has them
    frames: tuple[int, ...]  #: and their frames
    with_ids: int  #: frames with a stream id
    noops: int  #: bytes that do not count: of NOOPs,
    answers: int  #: and of answers to stream requests


@dataclass(slots=True)
class Window:
    """Flow control of one direction of a connection."""

    size: int | None = None  #: as the producer accepted it; None: not witnessed, or off
    asked: int | None = None  #: as the consumer wanted it, whatever the answer
    off: bool = False  #: it was set to 0
    enabled_ns: int | None = None
    sent: int = 0  #: counted bytes
    acked: int = 0
    acks: int = 0
    overacked: int = 0  #: acknowledged beyond what was sent
    outstanding: int = 0  #: as the producer keeps it: never below zero
    peak: int = 0
    complete: bool = False  #: nothing was lost since the connection was opened, and that was witnessed
    blocked_since: int | None = None
    is_blocked: bool = False
    blocked: list[Blocked] = field(default_factory=list)
    last_ack_ns: int | None = None
    bytes: list[int] = field(default_factory=lambda: [0] * (LAST - FIRST + 1))
    frames: list[int] = field(default_factory=lambda: [0] * (LAST - FIRST + 1))
    with_ids: int = 0
    noops: int = 0
    answers: int = 0
    marks: list[Mark] = field(default_factory=list)
    _step: int = 1

    def sends(self, opcode: int, length: int, stream_id: int, ts_ns: int | None) -> None:
        """It counts a message of a stream."""
        at = opcode - FIRST
        self.bytes[at] += length
        self.frames[at] += 1
        if stream_id:
            self.with_ids += 1
        if opcode == PREPARE:
            length += 2
        elif opcode == CACHE_TRANSFER_END:
            length = _END_SIZE
        self.sent += length
        outstanding = self.outstanding = self.outstanding + length
        if outstanding > self.peak:
            self.peak = outstanding
        if self.size is not None and outstanding >= self.size and not self.is_blocked:
            self.is_blocked, self.blocked_since = True, ts_ns

    def would_fill(self, size: int) -> bool:
        """It says whether so many more bytes would fill it."""
        return self.size is not None and not self.is_blocked and self.outstanding + size >= self.size

    def sends_burst(self, kinds: Iterable[tuple[int, int, int]], with_ids: int) -> None:
        """It counts documents that do not fill it: opcodes, frames, bytes. ``with_ids``: frames with a stream id."""
        for opcode, frames, size in kinds:
            self.bytes[opcode - FIRST] += size
            self.frames[opcode - FIRST] += frames
            self.sent += size
            self.outstanding += size
        self.with_ids += with_ids
        self.peak = max(self.peak, self.outstanding)

    def acknowledges(self, count: int, ts_ns: int | None) -> None:
        """It counts an acknowledgement."""
        self.acks += 1
        self.acked += count
        self.last_ack_ns = ts_ns
        if count > self.outstanding:
            self.overacked += count - self.outstanding
        before = self.outstanding
        self.outstanding = max(0, before - count)
        if self.is_blocked and (self.size is None or self.outstanding < self.size):
            self._unblock(before, ts_ns)
        if self.acks % self._step == 0:
            books = tuple(self.bytes), tuple(self.frames), self.with_ids, self.noops, self.answers
            self.marks.append(Mark(ts_ns, self.sent - self.acked, *books))
            if len(self.marks) > _MARKS:
                del self.marks[::2]
                self._step *= 2

    def resize(self, size: int, ts_ns: int | None) -> None:
        """The producer accepted a size; 0 switches flow control off."""
        self.off = size == 0
        self.size = size or None
        if self.enabled_ns is None:
            self.enabled_ns = ts_ns
        if self.is_blocked and (self.size is None or self.outstanding < self.size):
            self._unblock(self.outstanding, ts_ns)
        if not size:
            self.outstanding = 0

    def blocked_ns(self, until_ns: int | None) -> int:
        """It gives how long it was full, up to a time."""
        ended = [(each.start_ns, each.end_ns) for each in self.blocked]
        if self.is_blocked:
            ended.append((self.blocked_since, until_ns))
        return sum(end - start for start, end in ended if start is not None and end is not None)

    def _unblock(self, outstanding: int, ts_ns: int | None) -> None:
        if len(self.blocked) < _INTERVALS:
            self.blocked.append(Blocked(self.blocked_since, ts_ns, outstanding))
        self.is_blocked, self.blocked_since = False, None
