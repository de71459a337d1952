"""Decide whose data each byte of a frame is, and so at which level of redaction it is hidden.

What is not a number of a known layout, nor a word of the protocol's own, is user data until the protocol table says
whose it is. So new and unknown fields are hidden by default.
"""

import re
from functools import cache

from dcpdump.spec.field import Field, FlatTable, Holds, Message
from dcpdump.spec.header import MAGICS
from dcpdump.startup import lazy_pattern
from dcpdump.wire.flat import structure
from dcpdump.wire.frame import FieldValue, Frame, Problem, Section
from dcpdump.wire.json_text import parse_json

PARTIAL = frozenset({Holds.USER, Holds.BUCKET})
FULL = PARTIAL | {Holds.META, Holds.SYSTEM}
#: Numbers in what a decoder says that may be four bytes or more of a key or a value, or two of its letters; and all.
LARGE_NUMBER = lazy_pattern(r"0x[0-9a-f]{8,}|[0-9]{8,}")
MIDDLE_NUMBER = lazy_pattern(r"0x[0-9a-f]{4,}|[0-9]{4,}")
ANY_NUMBER = lazy_pattern(r"0x[0-9a-f]+|[0-9]+")


def is_damaged(frame: Frame) -> bool:
    """Return whether lengths contradict each other or the table: then a key may stand where a number is expected."""
    return frame.layout.version == "?" or any(map(_contradicts, frame.problems))


def _contradicts(problem: Problem) -> bool:
    """Return whether a problem is bytes that are too many or too few."""
    return problem.needs is not None and (problem.end > problem.start or problem.has == 0)


def has_known_bug(frame: Frame) -> bool:
    """Return whether all that is wrong is the framing extras' length, which some servers forget to count."""
    return frame.layout.version != "?" and all(
        (problem.start, problem.end, problem.needs, problem.has) == (2, 3, 3, 0)
        for problem in filter(_contradicts, frame.problems)
    )


def hides_numbers(frame: Frame) -> bool:
    """Return whether what stands where numbers are expected may be bytes of a key or a value."""
    return is_stray(frame) or (is_damaged(frame) and not has_known_bug(frame))


def is_stray(frame: Frame) -> bool:
    """Return whether the bytes are not a frame: then not even their first 24 are numbers."""
    return frame.header.magic not in MAGICS


def hidden_numbers(frame: Frame) -> re.Pattern[str]:
    """Return which numbers in what is said of a frame's bytes may be bytes that are hidden."""
    if is_stray(frame):
        return ANY_NUMBER
    return MIDDLE_NUMBER if is_damaged(frame) else LARGE_NUMBER


def holds(frame: Frame, field: FieldValue) -> Holds:
    """Return whose data a field is. Not for damaged frames."""
    part = field.field
    if isinstance(part, Field) or field.group == "secret":
        return Holds.NOTHING
    wire = frame.raw.data[field.start : field.end]
    if field.section is Section.KEY:
        return key_holds(frame.message, wire)
    if field.section is Section.VALUE and part.name == "value" and not field.group:
        return value_holds(frame, wire)
    return part.holds


def key_holds(message: Message, key: bytes) -> Holds:
    """Return whose data a key is."""
    return Holds.NOTHING if _matches(message.key_words, key) else message.key_holds


def prefix(message: Message, key: bytes) -> int:
    """Return how many bytes of a key are the protocol's own words, before the data."""
    return max((len(word) for word in message.key_prefixes if key.startswith(word.encode())), default=0)


def value_holds(frame: Frame, value: bytes) -> Holds:
    """Return whose data a value without structure is. That of an error may quote its subject."""
    if frame.layout.version == "error" or isinstance(frame.layout.value, tuple):
        return Holds.USER
    whose = text_holds(frame.message, value)
    # What should be JSON of known names, but is not JSON, may be anything.
    broken = whose is not Holds.NOTHING and frame.message.json and not frame.magic.response and not is_json(value)
    return Holds.USER if broken else whose


def text_holds(message: Message, value: bytes) -> Holds:
    """Return whose data the value of a request is."""
    return Holds.NOTHING if _matches(message.value_words, value) else message.value_holds


def without_gaps(frame: Frame, field: FieldValue) -> bytes:
    """Return what stands between the slots of a FlatBuffers table, zeros for all that does not lead to a slot."""
    out = bytearray(field.end - field.start)
    tables = [part for part in frame.layout.parts if isinstance(part, FlatTable)]
    first = min((each.start for each in frame.fields if each.section is Section.VALUE), default=field.start)
    for table in tables:
        for start, end in structure(frame.raw.data[first:], table):
            start, end = max(first + start, field.start), min(first + end, field.end)
            if start < end:
                out[start - field.start : end - field.start] = frame.raw.data[start:end]
    return bytes(out)


def is_json(value: bytes) -> bool:
    """Return whether a value is JSON."""
    try:
        parse_json(value)
    except ValueError:
        return False
    return True


def _matches(words: str, text: bytes) -> bool:
    return bool(words) and _compiled(words).fullmatch(text) is not None


@cache
def _compiled(words: str) -> re.Pattern[bytes]:
    return re.compile(words.encode())
