"""The text of a row of the list: from the index's columns at once, and from the frame itself once it was decoded."""

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple

from dcpdump.browse.pieces import Piece
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

_SECOND = 1_000_000_000
#: Narrower lists leave out seqno and length, which the text has too, and shorten times.
_WIDE = 120
_MESSAGE, _SHORT_MESSAGE = 24, 20
MARKED, PROBLEM, REFUSED, LOST = "●", "!", "✗", "▼"
_COLOURS = {
    DCP_SNAPSHOT_MARKER: "cyan",
    DCP_DELETION: "magenta",
    DCP_EXPIRATION: "magenta",
    DCP_ABORT: "magenta",
    DCP_NOOP: "dim",
    DCP_MUTATION: "",
}


class TimeColumn(Enum):
    """What the column of times shows."""

    CLOCK = "clock"
    START = "since the start"
    ABOVE = "since the row above"
    MARKED = "since the marked row"


class RowFacts(NamedTuple):
    """What the index knows of a frame."""

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
    """What a decoded frame says, as ``read -f line`` has it; empty as long as it was not decoded."""

    words: str = ""
    problem: bool = False


class RowShape(NamedTuple):
    """How rows are laid out."""

    width: int
    digits: int  #: of the largest frame number, with its separators
    times: TimeColumn


def time_text(times: TimeColumn, ts_ns: int, before_ns: int | None, *, wide: bool) -> str:
    """Return a time; ``before_ns``: what it counts from, where it is not the clock's."""
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
    text = f"{sign}{seconds}.{rest // 1000:06d}" if wide else f"{sign}{seconds}.{rest // 1_000_000:03d}"
    return f"{text:>{width}}"


def row(facts: RowFacts, shape: RowShape, before_ns: int | None, text: RowText, *, marked: bool) -> Sequence[Piece]:
    """Return a row."""
    wide = shape.width >= _WIDE
    message = name_of(facts.opcode, facts.server, facts.response)
    space = _MESSAGE if wide else _SHORT_MESSAGE
    sign, colour = _sign(facts, problem=facts.problem or text.problem)
    vbucket = f"vb {facts.vbucket}" if facts.vbucket is not None and has_vbucket(facts.opcode, facts.server) else ""
    seqno = "" if facts.seqno is None else str(facts.seqno)
    pieces: list[Piece] = [
        (MARKED if marked else " ", "bold magenta"),
        (sign, "bold red"),
        (f"{facts.number:>{shape.digits},} ", "bold magenta" if marked else "dim"),
        (time_text(shape.times, facts.ts_ns, before_ns, wide=wide) + " ", "dim"),
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
        return PROBLEM, "bold red"
    if facts.response and (facts.status not in NOT_ERRORS or facts.status == ROLLBACK):
        return REFUSED, "bold red"
    if facts.response:
        return " ", "yellow"
    if facts.opcode == DCP_STREAM_END:
        return " ", "bold magenta"
    return " ", _COLOURS.get(facts.opcode, "yellow")


@cache
def name_of(opcode: int, server: bool, response: bool) -> str:
    """Return what the dialogues call a message."""
    return message_name(find(opcode, server=server), opcode, response=response)


@cache
def has_vbucket(opcode: int, server: bool) -> bool:
    """Return whether a message is of a vbucket; of others that field of the header says nothing."""
    message = find(opcode, server=server)
    return message.streamed or message.vbucket


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


@cache
def _status(status: int) -> str:
    name = STATUS.names.get(status)
    return name.lower() if name else f"status=0x{status:04x}"


def text_of(record: Record) -> RowText:
    """Return what a frame says: its words in braces, what it answers, its problems."""
    text = f"{{{', '.join(message_words(record, vbucket=False))}}}"
    if record.request is not None:
        after = "" if record.latency_ns is None else f" after {record.latency_ns / 1000:,.0f} us"
        text += f" answers #{record.request.frame:,}{after}"
    if record.problems:
        text += " ! " + "; ".join(safe(problem.text) for problem in record.problems)
    return RowText(text, bool(record.problems))


def gap_row(facts: RowFacts, lost: int) -> Sequence[Piece]:
    """Return the row for bytes that were lost or skipped before a frame."""
    return [(f"  {LOST} {counted(lost, 'byte')} of c{facts.connection} lost or skipped", "bold red")]
