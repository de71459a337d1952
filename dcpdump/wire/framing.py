"""Decode framing extras: the list of FrameInfo objects that flexible frames carry before their extras.

Each object starts with a byte of id (high half) and length (low half). 15 in either half means that the next byte is to
be added to it, the id's first.
"""

from collections.abc import Iterator, Mapping

from dcpdump.spec.field import Blob, Field, Holds, u8, u16
from dcpdump.spec.header import FrameInfo
from dcpdump.wire.frame import Fault, FieldValue, Problem, Section
from dcpdump.wire.tiles import without_name

_ESCAPE = 15


def frame_infos(
    data: bytes, start: int, end: int, kinds: Mapping[int, FrameInfo]
) -> tuple[list[FieldValue], list[Problem]]:
    """Tile ``data[start:end]`` with the fields of its frame infos, and return them with what does not fit."""
    fields: list[FieldValue] = []
    problems: list[Problem] = []
    at, number = start, 0
    while at < end:
        lead, identity, length = _tag(data, at, end)
        body = at + lead
        if body > end or body + length > end:
            has = max(0, end - body)
            fields.append(FieldValue(_REST, at, end, data[at:end], Section.FRAMING))
            text = f"frame info {identity} needs {length} bytes, {has} are left"
            problems.append(Problem(Fault.WRONG_LENGTH, text, at, end, length, has))
            break
        kind = kinds.get(identity)
        name = kind.name if kind else "unknown"
        fields.append(_tag_value(data, at, body, name, number))
        if kind is None:
            text = f"frame info id {identity} is not known"
            problems.append(Problem(Fault.UNKNOWN_FRAME_INFO, text, at, body + length))
        elif kind.lengths and length not in kind.lengths:
            needs = " or ".join(map(str, kind.lengths))
            text = f"{name} has {length} bytes, needs {needs}"
            problems.append(Problem(Fault.WRONG_LENGTH, text, at, body + length, kind.lengths[0], length))
        elif length < kind.least:
            text = f"{name} has {length} bytes, needs {kind.least} or more"
            problems.append(Problem(Fault.WRONG_LENGTH, text, at, body + length, kind.least, length))
        parts = _parts(data, body, body + length, kind, number)
        fields += parts
        for each in parts:
            if isinstance(each.field, Field) and isinstance(each.value, int):
                problem = without_name(each.field, each.value, each.start)
                problems += () if problem is None else (problem,)
        at, number = body + length, number + 1
    return fields, problems


def bare_infos(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the data of each frame info in framing extras, up to one that is longer than the rest."""
    at, end = 0, len(data)
    while at < end:
        lead, identity, length = _tag(data, at, end)
        at += lead + length
        if at <= end:
            yield identity, data[at - length : at]


_REST = Blob("frame_info_data", "frame info data")


def _tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return (bytes of tag, id, length) of the frame info at ``at``; bytes past the end count as zero."""
    identity, length = data[at] >> 4, data[at] & 15
    lead = 1
    if identity == _ESCAPE:
        identity += data[at + lead] if at + lead < end else 0
        lead += 1
    if length == _ESCAPE:
        length += data[at + lead] if at + lead < end else 0
        lead += 1
    return lead, identity, length


def _tag_value(data: bytes, at: int, body: int, name: str, number: int) -> FieldValue:
    if body - at > 2:
        return FieldValue(
            Blob("frame_info", f"{name} frame", holds=Holds.NOTHING), at, body, data[at:body], Section.FRAMING
        )
    label = f"{name} frame"
    tag = u8("frame_info", label) if body - at == 1 else u16("frame_info", label)
    return FieldValue(tag, at, body, int.from_bytes(data[at:body], "big"), Section.FRAMING, item=number)


def _parts(data: bytes, at: int, end: int, kind: FrameInfo | None, number: int) -> list[FieldValue]:
    fields: list[FieldValue] = []
    for part in kind.parts if kind else ():
        if isinstance(part, Field) and at + part.width <= end:
            value = int.from_bytes(data[at : at + part.width], "big")
            fields.append(FieldValue(part, at, at + part.width, value, Section.FRAMING, item=number))
            at += part.width
        elif isinstance(part, Blob) and at < end:
            fields.append(FieldValue(part, at, end, data[at:end], Section.FRAMING, item=number))
            at = end
    if at < end:
        fields.append(FieldValue(_REST, at, end, data[at:end], Section.FRAMING, item=number))
    return fields
