"""Conceal a frame's bytes: lengths and numbers stay, texts are replaced by others of the same length.

Bytes that a layout explains are kept or replaced, by the class of their data (``Holds``); all others become zeros.
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from itertools import compress
from typing import NamedTuple

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.plans import PLANS
from dcpdump.batch.scan import INFERRED, UNDERLYING, UNKNOWN
from dcpdump.record import Record
from dcpdump.redact import (
    FULL,
    PARTIAL,
    Pseudonyms,
    digits,
    has_known_bug,
    holds,
    is_damaged,
    is_json,
    letters,
    prefix,
    without_gaps,
)
from dcpdump.spec.field import Blob, Field, Holds, Message
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import JSON, MEMBERS, SNAPPY, XATTR
from dcpdump.wire.frame import FieldValue, Frame, Section
from dcpdump.wire.json_text import json_fault
from dcpdump.wire.value import SEPARATOR, Body, Content, decompress, leb128, open_value, read_prefix, split_xattrs

# -- values -------------------------------------------------------------------------------------------
# The replacement has the same length and decodes to the same structure. In a document, the length words of xattrs stay,
# and JSON becomes a JSON string. A Snappy block stays valid: only the bytes of its literals change, so its copy
# elements still copy valid data. Where xattrs and JSON are compressed together, the punctuation of the JSON stays, and
# so do ``true``, ``false`` and ``null``.

# -- literals of a Snappy block that the bytes of its text come from ----------------------------------

_VARINT = 5  #: the most bytes of the length before a block


def origins(block: bytes) -> "array[int]":
    """Return, for each byte of a valid block's text, the offset of the literal byte from which it is copied."""
    at = next(size for size, byte in enumerate(block[:_VARINT], 1) if not byte & 0x80)
    out: array[int] = array("I")
    while at < len(block):
        tag = block[at]
        at += 1
        kind, size = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if size > 60:
                extra = size - 60
                size = int.from_bytes(block[at : at + extra], "little") + 1
                at += extra
            out.extend(range(at, at + size))
            at += size
            continue
        if kind == 1:
            size, back, at = 4 + (tag >> 2 & 7), tag >> 5 << 8 | block[at], at + 1
        else:
            width = 2 if kind == 2 else 4
            back, at = int.from_bytes(block[at : at + width], "little"), at + width
        piece = out[len(out) - back :]
        out.extend((piece * (size // back + 1))[:size])
    return out


def literals(text: bytes, size: int) -> bytes | None:
    """Return a block of ``size`` bytes with as much of a text as fits; None if there is none of this size."""
    for ones in range(4):  # a literal of one byte makes the block one byte shorter
        for length in range(size - 2, max(0, size - 16), -1):
            claim = leb128(length)
            rest = length - ones
            if rest <= 0 or length > len(text):
                continue
            tag = _tag(rest)
            if len(claim) + 2 * ones + len(tag) + rest == size:
                first = b"".join(b"\0" + text[at : at + 1] for at in range(ones))
                return claim + first + tag + text[ones:length]
    return None


def _tag(length: int) -> bytes:
    if length <= 60:
        return bytes((length - 1 << 2,))
    width = ((length - 1).bit_length() + 7) // 8
    return bytes((59 + width << 2,)) + (length - 1).to_bytes(width, "little")


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|\d+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)


def conceal_value(words: Pseudonyms, value: bytes, datatype: int) -> bytes:
    """Return another value of the same length, for which the datatype is as right as before."""
    if not value:
        return value
    if datatype & SNAPPY:
        plain, _ = decompress(value)
        if plain is None:  # letters could be a block by chance, but no length begins with five such bytes
            return (b"\xff" * 5 + words.letters(value)[5:])[: len(value)]
        return _compressed(words, value, plain, datatype)
    if not datatype & XATTR:
        return _body(words, value, datatype)
    pairs, body, _, fault = split_xattrs(value)
    if fault or pairs is None:
        return words.letters(value)
    out = bytearray(value)
    for start, end in _texts(pairs):
        out[start:end] = words.text(value[start:end])
    if body:
        out[len(value) - len(body) :] = _body(words, body, datatype)
    return bytes(out)


def conceal_strings(words: Pseudonyms, text: bytes) -> bytes:
    """Return JSON text with other strings; numbers and the protocol's member names stay."""

    def other(found: re.Match[bytes]) -> bytes:
        if found[2] and found[1].decode("utf-8", "replace") in MEMBERS:
            return found[0]
        return b'"' + words.text(found[1]) + b'"' + (found[2] or b"")

    return _STRING.sub(other, text)


def _hidden_texts(value: bytes, datatype: int) -> list[bytes]:
    """Return the texts of a value that must not be found: itself, decompressed, its xattrs, its body."""
    if not datatype & (SNAPPY | XATTR):
        return [value]
    body = open_value(value, datatype & ~JSON)
    return [value, body.value, body.unread, *(text for pair in body.xattrs or () for text in pair)]


def _body(words: Pseudonyms, body: bytes, datatype: int) -> bytes:
    if not datatype & JSON:
        return words.text(body)
    return words.letters(body) if json_fault(body) else words.json(body)


def _texts(pairs: tuple[tuple[bytes, bytes], ...]) -> list[tuple[int, int]]:
    """Return the ranges of xattrs' names and values within their value."""
    spans: list[tuple[int, int]] = []
    at = 4
    for name, text in pairs:
        at += 4
        spans.append((at, at + len(name)))
        at += len(name) + 1
        spans.append((at, at + len(text)))
        at += len(text) + 1
    return spans


def _compressed(words: Pseudonyms, block: bytes, plain: bytes, datatype: int) -> bytes:
    """Replace the literals of a Snappy block. A literal byte stays if any copy of it is structure.

    JSON without xattrs becomes one JSON string, as long as possible without copy elements.
    """
    held, judged = _structure(plain, datatype)
    if judged and not datatype & XATTR:
        found = _as_literals(words.json(block), len(block))
        if found is not None:
            return found
    sources = origins(block)
    kept = set(compress(sources, held))
    noise = words.noise(block, len(block))
    some_letters, some_digits = letters(noise), digits(noise)
    out = bytearray(block)
    for at in set(sources) - kept:
        digit = judged and 0x30 <= block[at] <= 0x39  # it may be part of a number
        out[at] = some_digits[at] if digit else some_letters[at]
    return bytes(out)


def _as_literals(text: bytes, size: int) -> bytes | None:
    for length in range(len(text), 0, -1):
        cut = text[: length - 1] + text[-1:] if length > 1 else b"0"
        found = literals(cut, size)
        if found is not None and decompress(found)[0] == cut:
            return found
    return None


def _structure(plain: bytes, datatype: int) -> tuple[bytes, bool]:
    """Return a mask of the bytes that must stay (1), and whether the text is valid JSON."""
    held = bytearray(len(plain))
    start = 0
    if datatype & XATTR:
        pairs, body, _, fault = split_xattrs(plain)
        if fault or pairs is None:
            return bytes(b"\1" * len(plain[:8])).ljust(len(plain), b"\0"), False
        start = len(plain) - len(body)
        held[:start] = b"\1" * start
        for first, end in _texts(pairs):
            held[first:end] = bytes(end - first)
    judged = bool(datatype & JSON) and not json_fault(plain[start:])
    if judged:
        held[start:] = b"\1" * (len(plain) - start)
        for token in _TOKEN.finditer(plain, start):
            at, end = token.span()
            if plain[at] == 0x22:
                at, end = at + 1, end - 1
            held[at:end] = bytes(end - at)
            if b"\\" in token[0]:
                for escape in _ESCAPE.finditer(plain, at, end):
                    held[escape.start() : escape.end()] = b"\1" * len(escape[0])
    return bytes(held), judged


# -- frames that are no more than numbers, a key and a value, found in columns ------------------------


class Plain(NamedTuple):
    """A frame with the offsets of its key and value, counted from its first byte."""

    data: bytes
    message: Message
    key: int
    name: int  #: offset of the key after its collection id
    value: int
    datatype: int
    guess: bool  #: it is unknown whether the key begins with such an id

    @property
    def body(self) -> Body | None:
        """Return the decoded value; None if its datatype is plain bytes."""
        value = self.data[self.value :]
        return open_value(value, self.datatype) if value and self.datatype and self.message.document else None


def plain_frames(batch: FrameBatch) -> Iterator[Plain | None]:
    """Yield each frame of a batch; None for one that has to be decoded as a record."""
    header = batch.header
    which = batch.plan.copy()
    for group in batch.groups:
        plan = group.plan
        message = plan.message  # frames with words of the protocol are decoded as records
        if plan.value_fields or message.value_holds is not Holds.USER or message.key_words or message.value_words:
            which[group.rows] = -1
        elif plan.layout.tail:
            which[group.rows[group.column(plan.layout.tail) > 0]] = -1
    which[batch.knows(UNDERLYING) & (header.value > 0)] = -1  # their datatypes may describe bytes that were not sent
    keys = batch.keys
    which[~keys.sound] = -1
    key = header.key_at
    starts, ends = batch.start.tolist(), (batch.start + batch.length).tolist()
    data, guess = batch.data, batch.knows(INFERRED | UNKNOWN)
    columns = (key, keys.logical - batch.start, key + header.key, header.datatype, guess)
    facts = zip(*(column.tolist() for column in columns), strict=True)
    for number, start, end, known in zip(which.tolist(), starts, ends, facts, strict=True):
        yield Plain(data[start:end], PLANS[number].message, *known) if number >= 0 else None


#: Texts shorter than this occur everywhere by chance.
_LEAST_SECRET = 8


class Concealed(NamedTuple):
    """The bytes of a concealed frame, and the texts that were replaced."""

    data: bytes
    secrets: list[bytes]  #: texts that must not occur in the result


class Concealer:
    """A concealer of frames. ``full``: also names of buckets, collections, connections, agents and hosts."""

    def __init__(self, words: Pseudonyms, *, full: bool = False) -> None:
        self._words = words
        self._classes = FULL if full else PARTIAL

    def conceal(self, record: Record) -> Concealed:
        """Return the concealed bytes of a frame, at equal length, and the texts that were replaced."""
        frame = record.frame
        data = bytearray(frame.raw.data)
        secrets: list[bytes] = []
        datatypes = _item_datatypes(frame)
        damaged, kept = is_damaged(frame) and not has_known_bug(frame), 0
        if damaged:
            kept = _end_of_numbers(frame)
            data[kept:] = bytes(max(0, len(data) - kept))
        for field in frame.fields:
            if isinstance(field.field, Blob):
                wire = frame.raw.data[field.start : field.end]
                other = None if damaged and field.start >= kept else self._blob(record, field, wire, datatypes)
                if other is not None:
                    data[field.start : field.end] = other
                if bytes(data[field.start : field.end]) != wire:
                    secrets += _hidden(record, field, wire, datatypes)
            elif damaged and _is_of_a_faulty_info(frame, field):
                data[field.start : field.end] = bytes(field.end - field.start)
        for start, end in frame.raw.holes:
            data[start:end] = bytes(end - start)
        return Concealed(bytes(data), [text for text in secrets if len(text) >= _LEAST_SECRET])

    def conceal_plain(self, plain: Plain) -> Concealed:
        """Return for a plain frame the same as ``conceal`` for its record."""
        message, key, value = plain.message, plain.data[plain.key : plain.value], plain.data[plain.value :]
        other_key, other_value = key, value
        secrets: list[bytes] = []
        if key and self._hides(message.key_holds):
            other_key = self._named_key(message, key, plain.name - plain.key, plain.guess)
        if value and message.value_holds is Holds.USER:
            other_value = conceal_value(self._words, value, plain.datatype)
        if other_key != key:
            secrets.append(plain.data[plain.name : plain.value])
        if other_value != value:
            secrets += _hidden_texts(value, plain.datatype)
        data = plain.data[: plain.key] + other_key + other_value
        return Concealed(data, [text for text in secrets if len(text) >= _LEAST_SECRET])

    def _hides(self, holds: Holds) -> bool:
        return holds in self._classes

    def _blob(self, record: Record, field: FieldValue, wire: bytes, datatypes: Mapping[int, int]) -> bytes | None:
        """Return the replacement for a field's bytes, or None to keep them."""
        frame, name = record.frame, field.field.name
        if name == "flatbuffers":
            return without_gaps(frame, field)
        if name == "frame_info_data":
            size = _tag_size(frame, field, wire)
            return wire[:size] + bytes(len(wire) - size)
        if field.section not in (Section.FRAMING, Section.KEY, Section.VALUE):
            return bytes(len(wire))
        if not self._hides(holds(frame, field)):
            return None
        if field.section is Section.KEY:
            return self._key(frame, record.content, wire)
        if field.group == "items":
            return self._item(field, wire, datatypes.get(field.item, frame.header.datatype))
        if field.section is Section.VALUE and name == "value":
            return self._value(frame, record.content, wire)
        return self._words.text(wire)

    # -- keys ---------------------------------------------------------------------------------------------

    def _key(self, frame: Frame, content: Content, wire: bytes) -> bytes:
        name = content.collection_name
        if name is not None:
            return self._preview(wire, len(name))
        size = len(wire) - len(content.key) if content.key is not None else 0
        size += prefix(frame.message, wire)
        return self._named_key(frame.message, wire, size, content.collection_inferred)

    def _named_key(self, message: Message, wire: bytes, size: int, guess: bool) -> bytes:
        """Conceal a key behind its collection id of ``size`` bytes; ``guess``: it is unknown whether there is an id."""
        if not size and message.collection_key and (guess or read_prefix(wire) is None):
            return self._unsure(wire)
        return wire[:size] + self._words.text(wire[size:])

    def _preview(self, wire: bytes, size: int) -> bytes:
        """Conceal a key that begins with the name of its collection."""
        name, rest = wire[:size], wire[size:]
        separator = SEPARATOR if rest.startswith(SEPARATOR) else b""
        name = self._words.text(name) if self._hides(Holds.META) else name
        return name + separator + self._words.text(rest[len(separator) :])

    def _unsure(self, wire: bytes) -> bytes:
        """Conceal a key that may or may not begin with a collection id.

        Later keys are interpreted by the possible readings of this one, so its replacement keeps these.
        """
        if 0x20 <= wire[0] <= 0x7E:
            return self._words.text(wire)
        prefix = read_prefix(wire)
        if prefix is None or prefix.size > 1:
            size = len(wire) if prefix is None else prefix.size - 1
            high = bytes(byte | 0x80 for byte in self._words.noise(wire, size))
            if prefix is not None and not prefix.fault:
                high = wire[:size]  # a plausible id of several bytes
            return high + wire[size : size + 1] + self._words.text(wire[size + 1 :])
        return wire[:1] + self._words.text(wire[1:])

    def _item(self, field: FieldValue, wire: bytes, datatype: int) -> bytes:
        """Conceal the key or the value of one record of a cache transfer."""
        if field.field.name == "key":  # it always begins with a collection's id
            prefix = read_prefix(wire)
            if prefix is None:
                return self._unsure(wire) if wire else wire
            return wire[: prefix.size] + self._words.text(wire[prefix.size :])
        return conceal_value(self._words, wire, datatype)

    # -- values -------------------------------------------------------------------------------------------

    def _value(self, frame: Frame, content: Content, wire: bytes) -> bytes:
        message, words, datatype = frame.message, self._words, frame.header.datatype
        if isinstance(frame.layout.value, tuple):
            return bytes(len(wire))  # its structure is damaged
        if message.secret:
            return words.json(bytes(len(wire))) if is_json(wire) else words.credential(len(wire))
        if frame.value is None or (message.json and content.document is None and not frame.magic.response):
            return words.letters(wire)  # bytes of it were lost, or it should be JSON and is not
        if message.value_holds is not Holds.USER and frame.layout.version != "error":
            if datatype & SNAPPY:
                return conceal_value(words, wire, datatype)
            return conceal_strings(words, wire) if is_json(wire) else words.text(wire)
        if content.document is not None and not datatype & SNAPPY:
            return words.json(wire)
        judged = message.document and not frame.magic.response
        if judged and content.body is not None and content.body.value == wire and content.hints:
            return words.text(wire)  # the datatype describes bytes that are not in the frame
        return conceal_value(words, wire, datatype)


def _tag_size(frame: Frame, field: FieldValue, wire: bytes) -> int:
    """Return how many bytes at the start of a field are the tag of an incomplete frame info; else 0."""
    broken = any((problem.start, problem.end) == (field.start, field.end) for problem in frame.problems)
    return min(len(wire), 1 + (wire[0] >> 4 == 15) + (wire[0] & 15 == 15)) if broken else 0


def _end_of_numbers(frame: Frame) -> int:
    """Return the offset up to which a damaged frame certainly has no key: the end of extras of the expected length."""
    extras = [field for field in frame.fields if field.section is Section.EXTRAS]
    fits = frame.layout.version != "?" and all(isinstance(field.field, Field) for field in extras)
    if not fits or sum(field.end - field.start for field in extras) != frame.header.extras_length:
        return HEADER_LENGTH
    return min(len(frame.raw.data), frame.header.key_at)


def _is_of_a_faulty_info(frame: Frame, field: FieldValue) -> bool:
    """Return whether a number belongs to a frame info of the wrong length; false for the info's tag."""
    return (
        field.section is Section.FRAMING
        and field.field.name != "frame_info"
        and any(each.needs is not None and each.start < field.start < each.end for each in frame.problems)
    )


def _hidden(record: Record, field: FieldValue, wire: bytes, datatypes: Mapping[int, int]) -> Iterator[bytes]:
    """Yield the texts of a field that were replaced."""
    key = record.content.key
    if field.section is Section.KEY and key is not None and wire.endswith(key):
        yield key[prefix(record.frame.message, key) :]
    elif field.section is Section.VALUE and field.field.name == "value":
        datatype = record.frame.header.datatype
        yield from _hidden_texts(wire, datatypes.get(field.item, datatype) if field.group == "items" else datatype)
    else:
        yield wire


def _item_datatypes(frame: Frame) -> dict[int, int]:
    """Return the datatype of each item of a frame, by the item's place."""
    found: dict[int, int] = {}
    for field in frame.fields:
        if field.group == "items" and field.field.name == "datatype":
            found.setdefault(field.item, field.value if isinstance(field.value, int) else 0)
    return found
