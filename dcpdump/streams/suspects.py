"""Suspects: ways to acknowledge something else than what was sent, and what each leaves over at an acknowledgement."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from dcpdump.spec import find
from dcpdump.spec.field import Field
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.streams.counted import COUNTED, FIRST, LAST, MARKER_SIZES, STREAM_ID_SIZE
from dcpdump.streams.facts import Mark
from dcpdump.streams.opcode_kinds import CACHED_END, DELETION, DOCUMENTS, MARKER, PREPARE, SEQUENCED, WITH_VALUES

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
    """One way, and what it leaves over. Two of one ``group`` are about the same bytes."""

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
    for opcode, (frames, size) in enumerate(zip(mark.frames, mark.kinds, strict=True), FIRST):
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
    if mark.with_ids:
        how = "the 3 bytes of stream ids not acknowledged"
        yield Suspect("stream id", "stream id", mark.with_ids, STREAM_ID_SIZE * mark.with_ids, how)
    for size, behind in ((mark.closed, "closed"), (mark.closing, "to be closed")):
        if size:
            how = f"messages of streams that were {behind} not acknowledged"
            yield Suspect("closed streams", "closed streams", 0, size, how)
    if mark.noops:
        how = "NOOPs acknowledged, which do not count"
        yield Suspect("DCP_NOOP", "DCP_NOOP", mark.noops // HEADER_LENGTH, -mark.noops, how)
    if mark.answers:
        how = "answers to stream requests acknowledged, which do not count"
        yield Suspect("DCP_STREAM_REQ", "DCP_STREAM_REQ", 0, -mark.answers, how)


def versions(mark: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if one version of a message were counted as another."""
    present = [at for at, frames in enumerate(mark.markers) if frames]
    for at in present:
        for other in range(len(_VERSIONS)):
            if other != at:
                frames, more = mark.markers[at], MARKER_SIZES[at] - MARKER_SIZES[other]
                how = _counts(f"{_MARKER} {_VERSIONS[at]} as {_VERSIONS[other]}", more)
                yield Suspect(MARKER, _MARKER, frames, more * frames, how)
    frames = mark.frames[DELETION - FIRST]
    if frames:
        for before, after, more in (("V2", "V1", _DELETE_TIME), ("V1", "V2", -_DELETE_TIME)):
            how = _counts(f"DCP_DELETION {before} as {after}", more)
            yield Suspect(DELETION, "DCP_DELETION", frames, more * frames, how)


def partly(mark: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if only a part of each message of a kind, or of all, were counted."""
    present = [at for at, frames in enumerate(mark.markers) if frames]
    for at, version in enumerate(_VERSIONS):
        if len([each for each in present if each != at]) > 1:
            left = sum((MARKER_SIZES[each] - MARKER_SIZES[at]) * mark.markers[each] for each in present)
            how = f"counts each {_MARKER} as {version}"
            yield Suspect(MARKER, _MARKER, mark.frames[MARKER - FIRST], left, how)
    values = sum(frames * value for frames, value in zip(mark.markers, _MARKER_VALUES, strict=True))
    if values:
        frames = sum(mark.markers[1:])
        yield Suspect(MARKER, _MARKER, frames, values, f"counts {_MARKER} V2 without its value")
    for opcode, (frames, size) in enumerate(zip(mark.frames, mark.kinds, strict=True), FIRST):
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
    frames, sent = sum(mark.frames), mark.sent
    yield Suspect("", "header", frames, HEADER_LENGTH * frames, _counts("messages without their headers", 24))
    yield Suspect("", "header", frames, sent - HEADER_LENGTH * frames, "counts headers alone")
    for what, kinds in (("messages", tuple(_EXTRAS)), ("documents", DOCUMENTS)):
        for version, more in (("V1", 0), ("V2", _DELETE_TIME)):
            frames = sum(mark.frames[opcode - FIRST] for opcode in kinds)
            size = sum(_EXTRAS[opcode] * mark.frames[opcode - FIRST] for opcode in kinds)
            size += more * mark.frames[DELETION - FIRST]
            size -= (_EXTRAS[MARKER] - 1) * sum(mark.markers[1:]) * (MARKER in kinds)
            kind = f"extras {version}"  # of deletions
            yield Suspect("", kind, frames, size, f"counts {what} without their extras")
            yield Suspect("", kind, frames, size + HEADER_LENGTH * frames, f"counts of {what} key and value alone")
    whole = [each for each in forgotten(mark) if not each.how]
    for what, kinds in _ALONE.items():
        others = [each for each in whole if each.group not in kinds]
        if others and any(mark.frames[opcode - FIRST] for opcode in kinds):
            left = sum(each.bytes for each in others)
            yield Suspect("", "others", sum(each.frames for each in others), left, f"acknowledges {what} alone")
    if mark.received:
        how = "acknowledges all that was received, NOOPs and responses too, which do not count"
        yield Suspect("", "all", 0, sent - mark.received, how)


def derived(mark: Mark, anchor: Mark) -> Iterator[Suspect]:
    """Yield what would be left over if as much of each message were forgotten, or not, as is so at ``anchor``."""
    left = anchor.outstanding
    for opcode, frames in enumerate(anchor.frames, FIRST):
        if not frames:
            continue
        name, now, size = find(opcode).name, mark.frames[opcode - FIRST], anchor.kinds[opcode - FIRST]
        part, rest = left // frames, (size - left) // frames
        if part * frames == left:
            how = f"{part:,} bytes of each {name} not acknowledged"
            how = how if part > 0 else f"{-part:,} bytes too many acknowledged for each {name}"
            yield Suspect(opcode, f"{name} part", now, part * now, how, True)
        if rest * frames == size - left and 0 < rest < size:
            how = f"acknowledges {rest:,} bytes of each {name}, however long it is"
            yield Suspect(opcode, f"{name} rest", now, mark.kinds[opcode - FIRST] - rest * now, how, True)
    base = left - anchor.sent + anchor.received
    if anchor.received and base > 0:
        how = f"acknowledges all that was received, NOOPs and responses too, which do not count, after {base:,} bytes"
        yield Suspect("", "all", 0, mark.sent - mark.received + base, how, True)


def sums(found: Sequence[Suspect], left: int, count: int) -> Iterator[tuple[Suspect, ...]]:
    """Yield so many of different groups, two or three, that come to what is left over."""
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
