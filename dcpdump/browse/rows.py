"""Make the rows of the list: which frames it shows, and the text of each."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Record
from dcpdump.render.line import message_name, message_words
from dcpdump.spec import find
from dcpdump.spec.opcodes import (
    DCP_ABORT,
    DCP_DELETION,
    DCP_EXPIRATION,
    DCP_MUTATION,
    DCP_NOOP,
    DCP_SNAPSHOT_MARKER,
    DCP_STREAM_END,
)
from dcpdump.spec.statuses import NOT_ERRORS, ROLLBACK, STATUS
from dcpdump.text import counted, iso_time

if TYPE_CHECKING:
    from dcpdump.browse.pane import Styled

    #: Numbers of frames.
    Numbers = range | array[int]

# -- the text of a row of the list --------------------------------------------------------------------
# A row is made from the index's columns at once, and completed when the frame is decoded.

_SECOND = 1_000_000_000
#: Narrower lists omit seqno and length, which are in the text too, and shorten times.
WIDE = 120
_MESSAGE, _SHORT_MESSAGE = 24, 20
_MARKED, _PROBLEM, _REFUSED, _LOST = "●", "!", "✗", "▼"
_COLOURS = {
    DCP_SNAPSHOT_MARKER: "cyan",
    DCP_DELETION: "magenta",
    DCP_EXPIRATION: "magenta",
    DCP_ABORT: "magenta",
    DCP_NOOP: "dim",
    DCP_MUTATION: "",
}


class TimeColumn(Enum):
    """The reference of the column of times."""

    CLOCK = "clock"
    START = "since the start"
    ABOVE = "since the row above"
    MARKED = "since the marked row"


class RowFacts(NamedTuple):
    """The facts of a frame in the index."""

    number: int
    ts_ns: int
    connection: int
    direction: int
    opcode: int
    server: bool
    response: bool
    vbucket: int | None
    stream_id: int
    status: int
    seqno: int | None
    length: int
    problem: bool


class RowText(NamedTuple):
    """The text of a decoded frame, as in ``read -f line``; empty until it is decoded."""

    words: str = ""
    problem: bool = False


def time_text(times: TimeColumn, ts_ns: int, before_ns: int | None, *, wide: bool) -> str:
    """Return a time; ``before_ns``: the reference, unless it is the clock."""
    width = 15 if wide else 12
    if ts_ns == NO_TIME:
        return " " * width
    if times is TimeColumn.CLOCK:
        text = iso_time(clock_in_use().zone.shown(ts_ns))
        return text[11 : 11 + width] if "T" in text else text[:width]
    if before_ns is None or before_ns == NO_TIME:
        return f"{'-':>{width}}"
    passed = ts_ns - before_ns
    sign = "-" if passed < 0 else "+"
    seconds, rest = divmod(abs(passed), _SECOND)
    text = f"{sign}{seconds}.{rest:09d}"[: -3 if wide else -6]
    return f"{text:>{width}}"


def row(facts: RowFacts, width: int, digits: int, when: str, text: RowText, *, marked: bool) -> "Sequence[Styled]":
    """Return a row. ``digits``: the width of the largest frame number, with separators; ``when``: the time."""
    wide = width >= WIDE
    message = name_of(facts.opcode, facts.server, facts.response)
    space = _MESSAGE if wide else _SHORT_MESSAGE
    sign, colour = _sign(facts, problem=facts.problem or text.problem)
    vbucket = f"vb {facts.vbucket}" if facts.vbucket is not None and has_vbucket(facts.opcode, facts.server) else ""
    seqno = "" if facts.seqno is None else str(facts.seqno)
    pieces: list[Styled] = [
        (_MARKED if marked else " ", "bold magenta"),
        (sign, "bold red"),
        (f"{facts.number:>{digits},} ", "bold magenta" if marked else "dim"),
        (f"{when} ", "dim"),
        (f"{f'c{facts.connection}':>3}{'▸◂'[facts.direction]} ", ""),
        (f"{_cut(message, space - 1):<{space}}", colour),
        (f"{vbucket:<8}", ""),
    ]
    if wide:
        pieces += [(f"{seqno:>12} ", ""), (f"{facts.length:>9,} B  ", "dim")]
    pieces.append((text.words or _known(facts, wide), "bold red" if text.problem else ""))
    return pieces


def _known(facts: RowFacts, wide: bool) -> str:
    if facts.response:
        return f"{{{_status(facts.status)}"
    return "" if wide or facts.seqno is None else f"{{seqno={facts.seqno}"


def _sign(facts: RowFacts, *, problem: bool) -> tuple[str, str]:
    if problem:
        return _PROBLEM, "bold red"
    if facts.response and (facts.status not in NOT_ERRORS or facts.status == ROLLBACK):
        return _REFUSED, "bold red"
    if facts.response:
        return " ", "yellow"
    if facts.opcode == DCP_STREAM_END:
        return " ", "bold magenta"
    return " ", _COLOURS.get(facts.opcode, "yellow")


@cache
def name_of(opcode: int, server: bool, response: bool) -> str:
    """Return the name of a message in dialogues."""
    return message_name(find(opcode, server=server), opcode, response=response)


@cache
def has_vbucket(opcode: int, server: bool) -> bool:
    """Return whether the vbucket field is used by a message."""
    message = find(opcode, server=server)
    return message.streamed or message.vbucket


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


@cache
def _status(status: int) -> str:
    name = STATUS.names.get(status)
    return name.lower() if name else f"status=0x{status:04x}"


def text_of(record: Record) -> RowText:
    """Return the text of a frame: its fields in braces, its request, its problems."""
    text = f"{{{', '.join(message_words(record, vbucket=False))}}}"
    if record.request is not None:
        text += f" {answers(record)}"
    if record.problems:
        text += " ! " + "; ".join(safe(problem.text) for problem in record.problems)
    return RowText(text, bool(record.problems))


def answers(record: Record) -> str:
    """Return which request a response answers, and after how long."""
    assert record.request is not None
    after = "" if record.latency_ns is None else f" after {record.latency_ns / 1000:,.0f} us"
    return f"answers #{record.request.frame:,}{after}"


def gap_row(facts: RowFacts, lost: int) -> "Sequence[Styled]":
    """Return the row for bytes that were lost or skipped before a frame."""
    return [(f"  {_LOST} {counted(lost, 'byte')} of c{facts.connection} lost or skipped", "bold red")]


# -- the frames that the list shows, and their rows ---------------------------------------------------
# Lost bytes have their own row.


class ListedFrames:
    """The rows of a list: frames by their rising numbers, and lost bytes before some of them."""

    def __init__(self) -> None:
        self.numbers: Numbers = range(1, 1)
        #: The positions, rising and counted from 1, of frames before which bytes were lost.
        self.gaps: Sequence[int] | memoryview = ()

    @property
    def everything(self) -> bool:
        """Return whether it shows all frames."""
        return isinstance(self.numbers, range)

    def grow(self, frames: int, gaps: Sequence[int] | memoryview) -> None:
        """Show all frames, which are ``frames``; ``gaps``: those before which bytes were lost."""
        self.numbers, self.gaps = range(1, frames + 1), gaps

    @property
    def frames(self) -> int:
        """Return how many frames it shows."""
        return len(self.numbers)

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.frames + len(self.gaps)

    def has(self, number: int) -> bool:
        """Return whether a frame is listed."""
        return bool(self.between(number, number))

    def near(self, number: int, step: int, most: int) -> "Numbers":
        """Return at most ``most`` frames after one, or (``step`` -1) before it, the nearest first."""
        if step > 0:
            at = bisect_right(self.numbers, number)
            return self.numbers[at : at + most]
        at = bisect_left(self.numbers, number)
        return self.numbers[max(0, at - most) : at][::-1]

    def between(self, first: int, last: int) -> "Numbers":
        """Return the listed frames from one to another."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]

    def at(self, row: int) -> tuple[int, bool]:
        """Return a row's frame, and whether the row is for bytes lost before it."""
        gaps = self.gaps
        # The gap with index k is in row gaps[k] - 1 + k.
        gap = bisect_left(range(len(gaps)), row, key=lambda k: gaps[k] - 1 + k)
        return self.numbers[row - gap], gap < len(gaps) and gaps[gap] - 1 + gap == row

    def row_of(self, number: int) -> int:
        """Return the row of a frame, or of the first one after it."""
        position = max(0, min(bisect_left(self.numbers, number), self.frames - 1))
        return position + bisect_right(self.gaps, position + 1)
