"""Annotate pasted bytes: cut them into frames, and suggest repairs. Knows no text and no capture.

Bytes are cut into frames by the lengths in their headers. Where a header contradicts the bytes, the frame is shown as
it is, with the bytes left over, and with the smallest edit that would make it consistent.
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

#: The problems that another length in the header may solve.
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
    """The consistent frame that the writer of a contradictory one probably meant."""

    edits: tuple[Edit, ...]
    record: Record


@dataclass(frozen=True, slots=True)
class Annotated:
    """A frame as its bytes are, and a suggestion if they contradict themselves."""

    record: Record
    suggestion: Suggestion | None = None
    frame_at: int | None = None  #: the offset of the next frame in the run, if these bytes are no frame


#: Returns whether a frame alone breaks a rule of the protocol.
Breaks = Callable[[Record], bool]


def annotate(parts: tuple[bytes, ...], *, show_secrets: bool = False, breaks: Breaks | None = None) -> list[Annotated]:
    """Annotate every byte of each run; all runs count as one connection. No frame that ``breaks`` is suggested."""
    session, names, server = Session(), ConnectionNames(), ServerNames()
    out: list[Annotated] = []
    for part in parts:
        at = 0
        while at < len(part):
            end = _end(part, at, session)
            one = _annotate(part[at:end], len(out) + 1, session, show_secrets, breaks)
            record = one.record
            if record.frame.header.opcode in NAMING and (said := said_by(record.frame, record.content.document, "")):
                names.learn(said, server, record.number)
            one = replace(one, record=replace(record, names=names))
            stray = part[at] not in MAGICS and end < len(part) and end - at != one.record.frame.raw.length
            out.append(replace(one, frame_at=end) if stray else one)
            at = end
    return out


def _end(part: bytes, at: int, session: Session) -> int:
    """Return the end of the frame at ``at``: by its header, if a frame or nothing follows there."""
    if len(part) - at < HEADER_LENGTH:
        return len(part)
    header = unpack_header(part, at)
    end = at + header.frame_length
    if end == len(part) or (end + HEADER_LENGTH <= len(part) and _begins(part, end)):
        return end
    # A search passes few bytes: the document of a frame with a damaged header may hold copies of frames.
    stray = part[at] not in MAGICS
    found = find_frame(part, at + (1 if stray else HEADER_LENGTH), lambda: session, final=True)
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
        return Annotated(record)  # another reading might show a credential
    mended = mend(frame, data, breaks and (lambda reading: breaks(_record(reading, number, Session()))))
    if mended is None:
        return Annotated(record)
    meant = decode(RawFrame.of(mended.data), show_secrets=show_secrets)
    return Annotated(record, Suggestion(mended.edits, _record(meant, number, Session())))


def _contradicts(frame: Frame, data: bytes) -> bool:
    """Return whether a frame's lengths contradict its bytes; one that is only cut short does not."""
    if len(data) < HEADER_LENGTH or not frame.message.known:
        return False
    if len(data) < frame.raw.length and known(frame.header) and fits_table(frame.header):
        return False
    wrong = any(problem.code in _OF_LENGTHS for problem in frame.problems)
    return wrong or len(data) != frame.raw.length or not framed(frame.header)


def _record(frame: Frame, number: int, session: Session) -> Record:
    interpretation = session.understand(frame, number)
    vbucket = interpretation.vbucket if len(frame.raw.data) >= WORD_END else None
    return Record(number, frame, interpretation.content, vbucket, interpretation.request)
