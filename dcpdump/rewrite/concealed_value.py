"""Replace a value by other bytes of the same length that decode to the same structure.

Of a document the xattrs' length words stay, JSON becomes a JSON string, and a Snappy block stays one: only the bytes of
its literals change, so its copy elements still copy valid data. Where xattrs and JSON are compressed together, the
punctuation of the JSON stays, and so do ``true``, ``false`` and ``null``.
"""

import re
from array import array
from itertools import compress

from dcpdump.pseudonymize import Pseudonyms, digits, letters
from dcpdump.spec.names import JSON, MEMBERS, SNAPPY, XATTR
from dcpdump.wire.json_text import json_fault
from dcpdump.wire.key_prefix import leb128
from dcpdump.wire.value import decompress, open_value, split_xattrs

# -- literals of a Snappy block that the bytes of its text come from ----------------------------------

_VARINT = 5  #: bytes that the length before a block may have


def origins(block: bytes) -> "array[int]":
    """Return, for each byte of a valid block's text, the offset of the literal byte that it is a copy of."""
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
    """Return a block of ``size`` bytes that holds as much of a text as fits; None where none does."""
    for ones in range(4):  # a literal of one byte, to be one byte shorter in all
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
    """Return another value of the same length, for which the datatype holds exactly as before."""
    if not value:
        return value
    if datatype & SNAPPY:
        plain, _ = decompress(value)
        if plain is None:  # letters alone may by chance be a block: no length begins with five such bytes
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
    """Return JSON text with other strings; numbers stay, and so do member names that the protocol defines."""

    def other(found: re.Match[bytes]) -> bytes:
        if found[2] and found[1].decode("utf-8", "replace") in MEMBERS:
            return found[0]
        return b'"' + words.text(found[1]) + b'"' + (found[2] or b"")

    return _STRING.sub(other, text)


def hidden_texts(value: bytes, datatype: int) -> list[bytes]:
    """Return the texts in a value that must not be found: itself, what it decompresses to, its xattrs, its body."""
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
    """Replace the literals of a Snappy block. A literal stays if any byte that is copied from it holds structure.

    JSON without xattrs becomes one JSON string, as long as it can be without copy elements.
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
    for place in set(sources) - kept:
        digit = judged and 0x30 <= block[place] <= 0x39  # it may be of a number
        out[place] = some_digits[place] if digit else some_letters[place]
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
