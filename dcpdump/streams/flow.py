"""Judge flow control: whether it blocks a producer, and what a consumer forgets to acknowledge."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import combinations, pairwise
from operator import attrgetter
from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.streams.causes import CARVED, ONE_DIRECTION
from dcpdump.streams.frame_event import between
from dcpdump.streams.opcode_kinds import CACHED_END, DELETION, DOCUMENTS, MARKER, PREPARE, SEQUENCED, WITH_VALUES
from dcpdump.streams.silence import held_until
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import COUNTED, FIRST, LAST, MARKER_SIZES, PROMPT, STREAM_ID_SIZE, Mark, Window
from dcpdump.streams.wording import clock, span
from dcpdump.text import counted

# -- whether flow control holds a producer back at the end, and how that is known ---------------------
# Of an exact account it is seen. Of a relative one, or where the buffer's size was not captured, it is inferred from
# what the producer did before: where it waited for acknowledgements, again and again at the same number of outstanding
# bytes, that number is what the window holds. Nothing is inferred from silence alone.

#: How many acknowledgements, and of how many latest ones, must show a producer that waits for them.
_WAITS = 3
_LATEST = 8


class FlowState(Enum):
    """The effect of flow control on a producer. The values are codes."""

    OFF = "off"
    NOT_ACCEPTED = "not_accepted"  #: or no answer was captured
    OPEN = "open"
    BLOCKED = "blocked"
    EXCEEDED = "exceeded"
    UNKNOWN = "unknown"


class FlowEvidence(Enum):
    """How a fact is known. The values are codes."""

    SEEN = "seen"
    INFERRED = "inferred"
    NOT_CAPTURED = "not_captured"


class FlowStatus(NamedTuple):
    """The state of a window, the evidence, and since when the producer is blocked."""

    state: FlowState
    evidence: FlowEvidence = FlowEvidence.SEEN
    since_ns: int | None = None


def flow_status(connection: ConnectionState, now_ns: int | None) -> FlowStatus:
    """Return the state of a connection's window."""
    window = connection.window
    if window.off or (window.complete and window.size is None and window.asked is None):
        return FlowStatus(FlowState.OFF)
    if window.is_exceeded:
        return FlowStatus(FlowState.EXCEEDED)
    if window.full is not None:
        return FlowStatus(FlowState.BLOCKED, since_ns=window.full.sent_ns)
    if window.complete:
        return FlowStatus(FlowState.OPEN if window.size is not None else FlowState.NOT_ACCEPTED)
    if not connection.has_both_sides:
        return FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    direction = connection.producer_direction
    controls_lost = direction is None or connection.sides[1 - direction].losses
    never_asked = connection.setup.opened_by is not None and window.asked is None and not window.acks
    if never_asked and not controls_lost:
        return FlowStatus(FlowState.OFF, FlowEvidence.INFERRED)
    size, most = window.size, window.max_unknown
    if size is not None and most is not None and window.outstanding + most < size:
        return FlowStatus(FlowState.OPEN)
    return _inferred(window, now_ns)


def stalled_since(connection: ConnectionState, now_ns: int | None, least_ns: int) -> int | None:
    """Return since when a connection's window is full without an acknowledgement; None if for less than ``least_ns``.

    Where the producer does not read, TCP lets no acknowledgement through.
    """
    window = connection.window
    silent_ns = max(window.last_ack_ns or 0, window.last_sent_ns or 0)
    if now_ns is None or not silent_ns or now_ns - silent_ns < least_ns:
        return None
    found = flow_status(connection, now_ns)
    if found.state not in (FlowState.BLOCKED, FlowState.EXCEEDED) or connection.producer_direction is None:
        return None
    since_ns = max(silent_ns, found.since_ns or 0, held_until(connection, connection.producer_direction, now_ns))
    return since_ns if now_ns - since_ns >= least_ns else None


def stands_still(connection: ConnectionState, now_ns: int | None, least_ns: int) -> bool:
    """Return whether a producer is blocked at a time, with nothing acknowledged for so long at least.

    A consumer that is slower than its producer fills the window again and again: it stands still only if the producer
    waits for more than twice as long as ever before.
    """
    now_ns = connection.until(now_ns)
    since_ns, window = stalled_since(connection, now_ns, least_ns), connection.window
    if since_ns is None or now_ns is None or window.is_exceeded:
        return False
    inferred_ns = 0 if window.complete else window.longest_wait_ns
    return now_ns - since_ns > 2 * max([inferred_ns, *(each.lasting_ns for each in window.blocked.kept)])


def why_blocked(window: Window, found: FlowStatus) -> str:
    """Return why a producer is taken to be blocked, in words."""
    least = "" if window.complete else "at least "
    of = "" if window.size is None else f" of {window.size:,}"
    text = f"{least}{window.outstanding:,}{of} bytes not acknowledged since {clock(found.since_ns)}"
    if found.evidence is FlowEvidence.SEEN:
        return text
    size = "" if window.size is not None else "; the buffer size was not captured"
    return f"inferred: {text}, and it waited for acknowledgements at this level before{size}"


def why_unknown(connection: ConnectionState) -> str:
    """Return why it is not known whether a producer is blocked, in words."""
    window = connection.window
    if connection.carved:
        return CARVED
    if not connection.has_both_sides:
        return ONE_DIRECTION
    if window.size is None:
        return "the buffer size was not captured"
    waiting = f"{window.outstanding:,} of {window.size:,} bytes"
    return f"acknowledgements may be missing, and {waiting} or more are outstanding"


def _inferred(window: Window, now_ns: int | None) -> FlowStatus:
    """Return what follows from the producer's waits for a relative account."""
    marks = window.marks
    latest = marks[-_LATEST:]
    waits = [mark for mark in latest if mark.waits]
    largest = max((_before(mark) for mark in marks), default=0)
    least = largest - 2 * _message(window)
    repeated = [mark for mark in waits if _before(mark) >= least]
    lowest = min((mark.outstanding for mark in marks), default=0)  # if that is no less, each level would be this one
    if len(waits) * 4 < len(latest) * 3 or len(repeated) < _WAITS or least <= lowest:
        return FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    silent = between(window.last_sent_ns, now_ns) or 0
    if window.counted.sent - window.acked < least:
        return FlowStatus(FlowState.OPEN, FlowEvidence.INFERRED)
    if silent <= PROMPT * max(mark.resumed_ns or 0 for mark in waits):
        return FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    return FlowStatus(FlowState.BLOCKED, FlowEvidence.INFERRED, window.last_sent_ns)


def _before(mark: Mark) -> int:
    """Return what was outstanding before an acknowledgement."""
    return mark.outstanding + mark.acked


def _message(window: Window) -> int:
    """Return the size of the largest kind of message."""
    sizes = zip(window.counted.bytes, window.counted.frames, strict=True)
    return max((-(-size // frames) for size, frames in sizes if frames), default=0)


# -- leaks: acknowledgements that do not come to what was sent, and what explains it ------------------
# A consumer that forgets a kind of message, or counts one differently from the producer, leaves a residue that only
# grows. Bytes on their way make the residue go up and down; its floor is the leak. An explanation equals the residue
# exactly, at several acknowledgements.

# -- suspects -----------------------------------------------------------------------------------------
# Suspects are ways to acknowledge something other than what was sent, each with its residue at an acknowledgement.

_VERSIONS = ("V1", "V2.0", "V2.1", "V2.2")
_MARKER = "DCP_SNAPSHOT_MARKER"
#: Bytes of a value, by version of a marker: those of a version are in its extras.
_MARKER_VALUES = (0, *(size - HEADER_LENGTH - 1 for size in MARKER_SIZES[1:]))
#: What one version of a deletion has more than the other.
_DELETE_TIME = 3
#: By opcode: bytes of the extras of its usual layout; of markers and deletions there are others.
_EXTRAS = {
    opcode: sum(part.width for part in find(opcode).request[0].extras if isinstance(part, Field))
    for opcode in range(FIRST, LAST + 1)
    if COUNTED[opcode]
}
#: What a consumer may acknowledge alone.
_ALONE: dict[str, tuple[int, ...]] = {
    "documents": DOCUMENTS,
    "documents and prepares": (*DOCUMENTS, PREPARE),
    "messages with a seqno": SEQUENCED,
}


#: What a suspect has in common with itself at other acknowledgements.
Key = tuple[str, str]


class Suspect(NamedTuple):
    """One way to miscount, and its residue. Two of one ``group`` concern the same bytes."""

    group: int | str
    kind: str
    frames: int
    bytes: int  #: negative: acknowledged too much
    how: str  #: in words; empty: none of the kind is acknowledged
    derived: bool = False  #: a number of it is taken from the residue itself

    @property
    def text(self) -> str:
        """Return it in words."""
        return self.how or f"{self.kind} x {self.frames:,} not acknowledged"

    @property
    def key(self) -> Key:
        """Return what it has in common with itself at other acknowledgements: kind and way."""
        return self.kind, self.how


def forgotten(mark: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if a kind of message were forgotten, or counted as the wire has it."""
    counted = mark.counted
    for opcode, (frames, size) in enumerate(zip(counted.frames, counted.bytes, strict=True), FIRST):
        if not frames:
            continue
        name = find(opcode).name
        if opcode == PREPARE:
            size += 2 * frames
            how = "counts PREPARE as on the wire, without the 2 bytes more"
            yield Suspect(opcode, f"{name} size", frames, 2 * frames, how)
        elif opcode == CACHED_END:
            how = "counts CACHE_TRANSFER_END as on the wire"
            yield Suspect(opcode, f"{name} size", frames, HEADER_LENGTH * frames - size, how)
            size = HEADER_LENGTH * frames
        yield Suspect(opcode, name, frames, size, "")
    if counted.with_ids:
        how = "the 3 bytes of stream ids not acknowledged"
        yield Suspect("stream id", "stream id", counted.with_ids, STREAM_ID_SIZE * counted.with_ids, how)
    for size, behind in ((counted.closed, "closed"), (counted.closing, "to be closed")):
        if size:
            how = f"messages of streams that were {behind} not acknowledged"
            yield Suspect("closed streams", "closed streams", 0, size, how)
    if counted.noops:
        how = "NOOPs acknowledged, which do not count"
        yield Suspect("DCP_NOOP", "DCP_NOOP", counted.noops // HEADER_LENGTH, -counted.noops, how)
    if counted.answers:
        how = "answers to stream requests acknowledged, which do not count"
        yield Suspect("DCP_STREAM_REQ", "DCP_STREAM_REQ", 0, -counted.answers, how)


def versions(mark: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if one version of a message were counted as another."""
    counted = mark.counted
    present = [at for at, frames in enumerate(counted.markers) if frames]
    for at in present:
        for other in range(len(_VERSIONS)):
            if other != at:
                frames, more = counted.markers[at], MARKER_SIZES[at] - MARKER_SIZES[other]
                how = _counts(f"{_MARKER} {_VERSIONS[at]} as {_VERSIONS[other]}", more)
                yield Suspect(MARKER, _MARKER, frames, more * frames, how)
    frames = counted.frames[DELETION - FIRST]
    if frames:
        for before, after, more in (("V2", "V1", _DELETE_TIME), ("V1", "V2", -_DELETE_TIME)):
            how = _counts(f"DCP_DELETION {before} as {after}", more)
            yield Suspect(DELETION, "DCP_DELETION", frames, more * frames, how)


def partly(mark: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if only a part of each message of a kind, or of all, were counted."""
    counted = mark.counted
    present = [at for at, frames in enumerate(counted.markers) if frames]
    for at, version in enumerate(_VERSIONS):
        if len([each for each in present if each != at]) > 1:
            left = sum((MARKER_SIZES[each] - MARKER_SIZES[at]) * counted.markers[each] for each in present)
            how = f"counts each {_MARKER} as {version}"
            yield Suspect(MARKER, _MARKER, counted.frames[MARKER - FIRST], left, how)
    values = sum(frames * value for frames, value in zip(counted.markers, _MARKER_VALUES, strict=True))
    if values:
        frames = sum(counted.markers[1:])
        yield Suspect(MARKER, _MARKER, frames, values, f"counts {_MARKER} V2 without its value")
    for opcode, (frames, size) in enumerate(zip(counted.frames, counted.bytes, strict=True), FIRST):
        if not frames or opcode == CACHED_END:
            continue
        name = find(opcode).name
        yield Suspect(opcode, name, frames, HEADER_LENGTH * frames, _counts(f"{name} without its header", 24))
        for extras in (_EXTRAS[opcode], _EXTRAS[opcode] + _DELETE_TIME * (opcode == DELETION)):
            if opcode in WITH_VALUES:
                both = HEADER_LENGTH + extras
                yield Suspect(opcode, name, frames, extras * frames, _counts(f"{name} without its extras", extras))
                yield Suspect(opcode, name, frames, both * frames, _counts(f"of {name} key and value alone", both))
        yield Suspect(opcode, name, frames, size - HEADER_LENGTH * frames, f"counts of {name} the header alone")


def everything(mark: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if all messages were counted otherwise, or others too."""
    counted, frames, sent = mark.counted, sum(mark.counted.frames), mark.counted.sent
    yield Suspect("", "header", frames, HEADER_LENGTH * frames, _counts("messages without their headers", 24))
    yield Suspect("", "header", frames, sent - HEADER_LENGTH * frames, "counts headers alone")
    for what, kinds in (("messages", tuple(_EXTRAS)), ("documents", DOCUMENTS)):
        for version, more in (("V1", 0), ("V2", _DELETE_TIME)):
            frames = sum(counted.frames[opcode - FIRST] for opcode in kinds)
            size = sum(_EXTRAS[opcode] * counted.frames[opcode - FIRST] for opcode in kinds)
            size += more * counted.frames[DELETION - FIRST]
            size -= (_EXTRAS[MARKER] - 1) * sum(counted.markers[1:]) * (MARKER in kinds)
            kind = f"extras {version}"  # of deletions
            yield Suspect("", kind, frames, size, f"counts {what} without their extras")
            yield Suspect("", kind, frames, size + HEADER_LENGTH * frames, f"counts of {what} key and value alone")
    whole = [each for each in forgotten(mark) if not each.how]
    for what, kinds in _ALONE.items():
        others = [each for each in whole if each.group not in kinds]
        if others and any(counted.frames[opcode - FIRST] for opcode in kinds):
            left = sum(each.bytes for each in others)
            yield Suspect("", "others", sum(each.frames for each in others), left, f"acknowledges {what} alone")
    if mark.received:
        how = "acknowledges all that was received, NOOPs and responses too, which do not count"
        yield Suspect("", "all", 0, sent - mark.received, how)


def derived(mark: Mark, anchor: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if as much of each message were forgotten, or not, as is so at ``anchor``."""
    left = anchor.outstanding
    for opcode, frames in enumerate(anchor.counted.frames, FIRST):
        if not frames:
            continue
        name, now, size = find(opcode).name, mark.counted.frames[opcode - FIRST], anchor.counted.bytes[opcode - FIRST]
        part, rest = left // frames, (size - left) // frames
        alike = " or of another that comes as often" * (anchor.counted.frames.count(frames) > 1)
        if part * frames == left < size:
            how = f"{counted(part, 'byte')} of each {name}{alike} not acknowledged"
            how = how if part > 0 else f"{counted(-part, 'byte')} too many acknowledged for each {name}{alike}"
            yield Suspect(opcode, f"{name} part", now, part * now, how, True)
        if rest * frames == size - left and 0 < rest < size:
            how = f"acknowledges {rest:,} bytes of each {name}, however long it is"
            yield Suspect(opcode, f"{name} rest", now, mark.counted.bytes[opcode - FIRST] - rest * now, how, True)
    base = left - anchor.counted.sent + anchor.received
    if anchor.received and base > 0:
        how = f"acknowledges all that was received, NOOPs and responses too, which do not count, after {base:,} bytes"
        yield Suspect("", "all", 0, mark.counted.sent - mark.received + base, how, True)


def sums(found: Sequence[Suspect], left: int, count: int) -> Iterator[tuple[Suspect, ...]]:
    """Yield sums of two or three different groups that equal the residue."""
    last: dict[int, list[Suspect]] = {}
    for each in found:
        last.setdefault(each.bytes, []).append(each)
    order = {each.key: at for at, each in enumerate(found)}
    for first in combinations(found, count - 1):
        for each in last.get(left - sum(one.bytes for one in first), ()):
            later = order[each.key] > order[first[-1].key]
            if later and len({each.group, *(one.group for one in first)}) == count:
                yield *first, each


def _counts(what: str, more: int) -> str:
    return f"counts {what}, {abs(more)} bytes {'less' if more > 0 else 'more'} each"


_outstanding = attrgetter("outstanding")
#: A floor is the minimum of a quarter of the acknowledgements, which must be at least so many.
_ENOUGH = 8
#: With fewer acknowledgements, but at least so many, each must leave a larger residue than the one before.
_FEW = 4
#: How far a kind's bytes may be from the leak that they may explain.
_TOLERANCE = 0.05
#: At how many acknowledgements, spread evenly, an explanation is tried.
_TRIED = 128
#: How many different residues it must equal: for one suspect, and one more for each further suspect.
_DIFFERENT = 3
UNEXPLAINED = "no kind of message explains it"
_HIDDEN = "what explains it does not show, as the two directions are captured out of order"


class Leak(NamedTuple):
    """How many bytes were acknowledged too little, or (negative) too much. ``kind``: empty without an explanation."""

    bytes: int
    kind: str = ""
    frames: int = 0
    text: str = ""
    explained: bool = False  #: exactly, at several acknowledgements
    by_ns: int | None = None  #: the time of the acknowledgement at which it was as much; None: it is to the end
    fills_ns: int | None = None  #: how long it takes, as it grew so far, until it is as large as the window

    @property
    def certain(self) -> bool:
        """Return whether it is certain that the consumer acknowledges wrongly."""
        return self.explained and (self.bytes < 0 or self.fills_ns is not None)

    @property
    def in_words(self) -> str:
        """Return it as a sentence about the side that acknowledges."""
        by = "" if self.by_ns is None else f" by {clock(self.by_ns)}"
        how = f"less than was sent{by}" if self.bytes > 0 else "more than was sent by then"
        fills = f"; at this rate it fills the window in {span(self.fills_ns)}" if self.fills_ns else ""
        return f"acknowledged {abs(self.bytes):,} B {how}: {self.text or UNEXPLAINED}{fills}"


class _Fit(NamedTuple):
    """One way to explain a leak, and where it comes to the residue."""

    parts: tuple[Suspect, ...]  #: that are added up, as they are at the last of those acknowledgements
    tried: Sequence[int]  #: what they come to at each acknowledgement at which it was tried
    first: Mark  #: of the acknowledgements at which that is the residue the first,
    first_left: int
    last: Mark  #: and the last
    left: int
    proven: bool


def leak(window: Window) -> Leak | None:
    """Return the leak of a window; None if the counters agree.

    Of a relative account, what was outstanding when it began is unknown: only what the residue grew by counts.
    """
    marks: Sequence[Mark] = window.marks
    if window.off or (window.complete and window.size is None and window.asked is None):
        return None
    if not window.complete:
        marks = [_since(marks[0], mark) for mark in marks]
    grows = _grows(marks)
    fit = _fit(marks, fully=grows or window.overacked > 0)
    if fit is not None and window.out_of_order and any(part.derived for part in fit.parts):
        fit = None
    if fit is not None and fit.proven:
        return _explained(window, fit)
    found = next(_repeated(marks), None)
    if found is not None and window.complete:
        return _dated(window, marks[-1], found)
    if grows and marks[-1].outstanding >= 0 and len(marks) >= _ENOUGH and (window.complete or fit is not None):
        return _growing(window, marks, fit)
    return _excess(window, marks, fit) if window.complete else None


# -- what comes to it exactly -------------------------------------------------------------------------------


def _fit(marks: Sequence[Mark], *, fully: bool) -> _Fit | None:
    """Return the simplest explanation of the residue at several acknowledgements, a proven one first.

    ``fully``: also sums, and explanations that need a growing residue.
    """
    chosen, near = marks[:: -max(1, -(-len(marks) // _TRIED))][::-1], None
    for anchor in (marks[-1], min(marks[-(len(marks) // 4) - 1 :], key=_outstanding)) if marks else ():
        if not anchor.outstanding:
            continue
        tables: list[Mapping[Key, Suspect]] = []
        for parts in _ways(anchor, fully=fully):
            tables = tables or [
                {each.key: each for each in (*_singles(mark), *derived(mark, anchor))} for mark in chosen
            ]
            fit = _fitted(parts, chosen, tables)
            if fit is not None and fit.proven:
                return fit
            near = near or fit
    return near


def _ways(mark: Mark, *, fully: bool) -> Iterator[tuple[Suspect, ...]]:
    """Yield what comes to the residue at an acknowledgement, the simplest first."""
    left, kinds = mark.outstanding, [*forgotten(mark), *versions(mark)]
    yield from ((each,) for each in kinds if each.bytes == left)
    if fully:
        yield from ((each,) for each in (*partly(mark), *everything(mark)) if each.bytes == left)
        yield from sums(kinds, left, 2)
        yield from ((each,) for each in derived(mark, mark))
        yield from sums([*forgotten(mark)], left, 3)  # with versions, almost anything comes to it


def _singles(mark: Mark) -> Iterator[Suspect]:
    """Yield the suspects that may explain a residue alone."""
    yield from (*forgotten(mark), *versions(mark), *partly(mark), *everything(mark))


def _fitted(parts: tuple[Suspect, ...], marks: Sequence[Mark], tables: Sequence[Mapping[Key, Suspect]]) -> _Fit | None:
    """Return one way, if it comes to the residue at half of the acknowledgements; ``tables``: the suspects of each."""
    tried = [sum(table[part.key].bytes for part in parts if part.key in table) for table in tables]
    same = [at for at, (mark, left) in enumerate(zip(marks, tried, strict=True)) if left == mark.outstanding]
    if 2 * len(same) < len(marks):
        return None
    different = len({tried[at] for at in same} - {0})
    free = sum(part.derived for part in parts)
    if different < len(parts) + 2 * free:
        return None
    first, last = same[0], same[-1]
    there = tuple(tables[last].get(part.key, part) for part in parts)
    proven = different >= _DIFFERENT + len(parts) - 1 + free
    return _Fit(there, tried, marks[first], tried[first], marks[last], tried[last], proven)


def _explained(window: Window, fit: _Fit) -> Leak:
    """Return a leak that one way explains, as it was at the last acknowledgement that shows it."""
    found = _said(fit)._replace(explained=True)
    grows = fit.tried[len(fit.tried) // 2] < fit.left
    return _dated(window, fit.last, found, fit.first, fit.left - fit.first_left if grows else 0)


def _said(fit: _Fit, perhaps: str = "") -> Leak:
    """Return a leak that one explanation fits, in words; ``perhaps``: it fits, but at too few acknowledgements."""
    kind, text = " + ".join(each.kind for each in fit.parts), "; and ".join(each.text for each in fit.parts)
    if len(fit.parts) > 1 and not any(each.how for each in fit.parts):
        text = ", ".join(f"{each.kind} x {each.frames:,}" for each in fit.parts) + " not acknowledged"
    return Leak(fit.left, kind, sum(each.frames for each in fit.parts), perhaps + text)


def _repeated(marks: Sequence[Mark]) -> Iterator[Leak]:
    """Yield kinds that come to the residue at the last acknowledgements, whether it grew or not."""
    before = marks[-_ENOUGH:-1]
    for suspect in forgotten(marks[-1]) if before else ():
        if suspect.bytes == marks[-1].outstanding and _comes_to(before[-1], suspect.kind):
            # What is merely on its way may come to the same once, but hardly twice.
            sure = len(before) > 1 and all(_comes_to(mark, suspect.kind) for mark in before)
            yield Leak(suspect.bytes, suspect.kind, suspect.frames, suspect.text, explained=sure)


def _comes_to(mark: Mark, kind: str) -> bool:
    return any((each.kind, each.bytes) == (kind, mark.outstanding) for each in forgotten(mark))


# -- what is near to it -------------------------------------------------------------------------------------


def _growing(window: Window, marks: Sequence[Mark], fit: _Fit | None) -> Leak:
    """Return a leak that makes the floor of the residue rise, and what may explain it."""
    head, tail = (min(few, key=_outstanding) for few in _quarters(marks))
    if fit is not None:
        return _dated(window, fit.last, _said(fit, "perhaps "), fit.first, fit.left - fit.first_left)
    found = _near(marks) or _unexplained(window)
    return _dated(window, tail, found._replace(bytes=tail.outstanding), head, tail.outstanding - head.outstanding)


def _excess(window: Window, marks: Sequence[Mark], fit: _Fit | None) -> Leak | None:
    """Return what was acknowledged too much, and what may explain it."""
    overacked = window.overacked
    if not overacked:
        return None
    nearest = min(marks, key=lambda mark: abs(mark.outstanding + overacked), default=None)
    alike = [each for each in forgotten(nearest) if each.bytes == -overacked] if nearest is not None else []
    if alike:
        return Leak(-overacked, alike[0].kind, alike[0].frames, alike[0].text)
    if fit is not None and fit.left == -overacked:
        return _said(fit, "perhaps ")
    return (_near(marks) or _unexplained(window))._replace(bytes=-overacked)


def _unexplained(window: Window) -> Leak:
    """Return a leak that nothing is near to."""
    return Leak(0, text=_HIDDEN if window.out_of_order else "")


def _near(marks: Sequence[Mark]) -> Leak | None:
    """Return what comes nearest to what the floor of the residue rose or fell by, if it is near.

    What is on its way lies above the floor, and hides what it would be exactly.
    """
    if len(marks) < _ENOUGH:
        return None
    few = [
        [(mark.outstanding, {each.key: each for each in _singles(mark)}) for mark in each] for each in _quarters(marks)
    ]
    before, after = (min(left for left, _ in each) for each in few)
    apart: dict[Key, int] = {}
    for key in few[1][-1][1]:
        floors = [min(left - (table[key].bytes if key in table else 0) for left, table in each) for each in few]
        apart[key] = abs(floors[1] - floors[0])
    nearest = min(apart, key=apart.__getitem__, default=None)
    if nearest is None or apart[nearest] > abs(after - before) * _TOLERANCE:
        return None
    found = few[1][-1][1][nearest]
    return Leak(0, found.kind, found.frames, f"perhaps {found.text}")


def _quarters(marks: Sequence[Mark]) -> tuple[Sequence[Mark], Sequence[Mark]]:
    """Return the first and the last quarter of acknowledgements, of each some that are spread evenly."""
    quarter = len(marks) // 4
    step = -(-quarter // _TRIED)
    return marks[:quarter:step], marks[-quarter:][::step]


def _grows(marks: Sequence[Mark]) -> bool:
    """Return whether the floor rises steadily, and is not just the window filling up once."""
    if len(marks) < _ENOUGH:
        left = [mark.outstanding for mark in marks]
        return len(marks) >= _FEW and all(before < after for before, after in pairwise((0, *left)))
    quarter = len(marks) // 4
    floors = [min(mark.outstanding for mark in marks[at * quarter : (at + 1) * quarter]) for at in range(4)]
    floors[-1] = min(floors[-1], *[mark.outstanding for mark in marks[-quarter:]])
    rises = [later - sooner for sooner, later in pairwise(floors)]
    return all(rise > 0 for rise in rises) and max(rises) < floors[-1] - floors[0]


# -- when, and until when -----------------------------------------------------------------------------------


def _dated(window: Window, mark: Mark, found: Leak, first: Mark | None = None, growth: int = 0) -> Leak:
    """Return a leak with the time of its acknowledgement, and when it will fill the window.

    ``first``: an acknowledgement since which it grew by ``growth``.
    """
    if window.complete and found.bytes > 0 and found.bytes != window.outstanding:
        found = found._replace(by_ns=mark.ts_ns)
    lasting = None if first is None else between(first.ts_ns, mark.ts_ns)
    if not (lasting and growth > 0 and window.size):
        return found
    return found._replace(fills_ns=max(0, window.size - found.bytes) * lasting // growth)


def _since(first: Mark, mark: Mark) -> Mark:
    """Return the counters at a mark, less those at the first one."""
    return mark._replace(
        outstanding=mark.outstanding - first.outstanding,
        counted=mark.counted.minus(first.counted),
        received=mark.received - first.received,
    )
