"""Annotate pasted bytes: return frames with all that can be said of them. Knows no text and no capture.

A run of bytes is cut into frames as its headers say. Where they contradict the bytes, the frame is shown as the bytes
say, with what is left over, and with the smallest edit that would make it consistent.
"""

from collections.abc import Callable
from dataclasses import replace

from dcpdump.record import Record
from dcpdump.spec.header import HEADER_LENGTH, MAGICS, WORD_END
from dcpdump.startup import dataclass
from dcpdump.wire.collection_names import NAMING, ConnectionNames, ServerNames, said_by
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import Fault, Frame, RawFrame, unpack_header
from dcpdump.wire.mend import Edit, mend
from dcpdump.wire.resync import Judgement, find_frame, fits_table, framed, known
from dcpdump.wire.session import Session

#: What another length in the header may put right.
_OF_LENGTHS = frozenset(
    {
        Fault.UNKNOWN_LAYOUT,
        Fault.LENGTHS_CONTRADICT,
        Fault.TOO_LARGE,
        Fault.MUST_BE_EMPTY,
        Fault.MUST_BE_PRESENT,
        Fault.WRONG_LENGTH,
        Fault.LEFT_OVER,
        Fault.CUT,
    }
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a contradictory frame probably was meant to be."""

    edits: tuple[Edit, ...]
    record: Record


@dataclass(frozen=True, slots=True)
class Annotated:
    """A frame as its bytes say, and a consistent reading where they contradict themselves."""

    record: Record
    suggestion: Suggestion | None = None
    frame_at: int | None = None  #: the offset in its run of the next frame, if these bytes are not one


#: Whether a frame breaks a rule of the protocol, whatever other frames there are.
Breaks = Callable[[Record], bool]


def annotate(parts: tuple[bytes, ...], *, show_secrets: bool = False, breaks: Breaks | None = None) -> list[Annotated]:
    """Annotate every byte of each run; the runs are taken as one connection. What ``breaks`` is not suggested."""
    session, names, server = Session(), ConnectionNames(), ServerNames()
    out: list[Annotated] = []
    for part in parts:
        at = 0
        while at < len(part):
            end = _end(part, at, session)
            one = _annotate(part[at:end], len(out) + 1, session, show_secrets, breaks)
            record = one.record
            if record.frame.header.opcode in NAMING and (said := said_by(record.frame, record.meaning.document, "")):
                names.take(said, server, record.number)
            one = replace(one, record=replace(record, names=names))
            stray = part[at] not in MAGICS and end < len(part) and end - at != one.record.frame.raw.length
            out.append(replace(one, frame_at=end) if stray else one)
            at = end
    return out


def _end(part: bytes, at: int, session: Session) -> int:
    """Return the end of the frame at ``at``: where its header says, if another frame or nothing follows there."""
    if len(part) - at < HEADER_LENGTH:
        return len(part)
    header = unpack_header(part, at)
    end = at + header.frame_length
    if end == len(part) or (end + HEADER_LENGTH <= len(part) and _begins(part, end)):
        return end
    # Bytes before a frame may be few; a frame with a damaged header may hold copies of frames in its document.
    stray = part[at] not in MAGICS
    found = find_frame(part, at + (1 if stray else HEADER_LENGTH), session, final=True)
    return found.at if found.verdict is Judgement.FRAME or (stray and found.verdict is Judgement.WEAK) else len(part)


def _begins(part: bytes, at: int) -> bool:
    header = unpack_header(part, at)
    return known(header) or framed(header)


def _annotate(data: bytes, number: int, session: Session, show_secrets: bool, breaks: Breaks | None) -> Annotated:
    padded = data if len(data) >= HEADER_LENGTH else data.ljust(HEADER_LENGTH, b"\0")
    frame = decode(RawFrame(data, unpack_header(padded)), show_secrets=show_secrets)
    record = _record(frame, number, session)
    if not _contradicts(frame, data):
        return Annotated(record)
    if frame.raw.data != data and not frame.message.secret:
        return Annotated(record)  # it may be a credential, which another reading would show
    mended = mend(frame, data, breaks and (lambda reading: breaks(_record(reading, number, Session()))))
    if mended is None:
        return Annotated(record)
    meant = decode(RawFrame.of(mended.data), show_secrets=show_secrets)
    return Annotated(record, Suggestion(mended.edits, _record(meant, number, Session())))


def _contradicts(frame: Frame, data: bytes) -> bool:
    """Return whether lengths contradict the bytes; a frame that is merely cut short does not."""
    if len(data) < HEADER_LENGTH or not frame.message.known:
        return False
    if len(data) < frame.raw.length and known(frame.header) and fits_table(frame.header):
        return False
    wrong = any(problem.code in _OF_LENGTHS for problem in frame.problems)
    return wrong or len(data) != frame.raw.length or not framed(frame.header)


def _record(frame: Frame, number: int, session: Session) -> Record:
    understood = session.understand(frame, number)
    vbucket = understood.vbucket if len(frame.raw.data) >= WORD_END else None
    return Record(number, frame, understood.meaning, vbucket, understood.request)
