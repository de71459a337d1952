"""Recognise plain JSON by a scan that builds no values: most documents are plain.

The scan is fast when compiled; interpreted it is slower than a parser. The parser judges the bytes that this scan
cannot.
"""

from typing import TYPE_CHECKING, Final

from dcpdump.big_endian import be32

if TYPE_CHECKING:
    from mypy_extensions import i64

#: The judgements. Plain JSON is printable ASCII.
IN_DOUBT: Final = 0
IS_JSON: Final = 1
IS_PLAIN_JSON: Final = 2
DEEPEST: Final = 60  #: deeper nesting is left to the parser
_VALUE: Final = 0  #: a value has to follow
_VALUE_OR_END: Final = 1  #: a value or the end of an array
_NAME: Final = 2  #: a name of an object
_NAME_OR_END: Final = 3
_COLON: Final = 4
_NEXT: Final = 5  #: a value is over: a comma or the end of what it is in

_SPACE: Final = 32
_QUOTE: Final = 34
_PLUS: Final = 43
_COMMA: Final = 44
_MINUS: Final = 45
_POINT: Final = 46
_ZERO: Final = 48
_NINE: Final = 57
_COLON_SIGN: Final = 58
_OPENS_ARRAY: Final = 91
_BACKSLASH: Final = 92
_ENDS_ARRAY: Final = 93
_CAPITAL_E: Final = 69
_E: Final = 101
_U: Final = 117
_OPENS_OBJECT: Final = 123
_ENDS_OBJECT: Final = 125
_DELETE: Final = 127
_SPACES: Final = b" \t\n\r"
_ESCAPES: Final = b'"\\/bfnrt'
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
#: Words, as numbers of four bytes.
_TRUE: Final = 0x74727565
_NULL: Final = 0x6E756C6C
_FALS: Final = 0x66616C73


def doubtful(data: bytes, starts: list[int], ends: list[int]) -> list[int]:
    """Return the indexes of the pieces of ``data`` that the scan does not recognise as JSON."""
    return [row for row in range(len(starts)) if not judge(data[starts[row] : ends[row]])]


def judge(data: bytes) -> "i64":
    """Judge whether bytes are JSON (RFC 8259). IN_DOUBT: not plain, or over 60 levels deep; a parser must decide."""
    found = _scanned(data)
    if data.isascii() or not found:
        return IS_JSON if found and _DELETE in data else found
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return IN_DOUBT
    return IS_JSON


def _scanned(data: bytes) -> "i64":
    """Judge bytes as ``judge`` does; bytes beyond ASCII are in doubt."""
    at: i64 = 0
    size: i64 = len(data)
    spaced = False  # other than by spaces
    depth: i64 = 0
    objects: i64 = 0  # a bit for each level: 1 for an object, 0 for an array
    state: i64 = _VALUE
    while at < size:
        byte: i64 = data[at]
        if byte <= _SPACE and byte in _SPACES:
            spaced = spaced or byte != _SPACE
            at += 1
        elif state == _NEXT:
            if not depth:
                return IN_DOUBT
            if byte == _COMMA:
                state = _NAME if objects & 1 else _VALUE
            elif byte == (_ENDS_OBJECT if objects & 1 else _ENDS_ARRAY):
                depth, objects = depth - 1, objects >> 1
            else:
                return IN_DOUBT
            at += 1
        elif state == _COLON:
            if byte != _COLON_SIGN:
                return IN_DOUBT
            state = _VALUE
            at += 1
        elif byte == _QUOTE:
            at = _string(data, at + 1, size)
            if at < 0:
                return IN_DOUBT
            state = _NEXT if state in (_VALUE, _VALUE_OR_END) else _COLON
        elif state in (_NAME, _NAME_OR_END):
            if state == _NAME or byte != _ENDS_OBJECT:
                return IN_DOUBT
            depth, objects, state = depth - 1, objects >> 1, _NEXT
            at += 1
        elif byte in (_OPENS_OBJECT, _OPENS_ARRAY):
            if depth == DEEPEST:
                return IN_DOUBT
            depth, objects = depth + 1, objects << 1 | (byte == _OPENS_OBJECT)
            state = _NAME_OR_END if byte == _OPENS_OBJECT else _VALUE_OR_END
            at += 1
        elif byte == _ENDS_ARRAY and state == _VALUE_OR_END:
            depth, objects, state = depth - 1, objects >> 1, _NEXT
            at += 1
        else:
            is_number = byte == _MINUS or _ZERO <= byte <= _NINE
            at = _number(data, at, size) if is_number else _word(data, at, size)
            if at < 0:
                return IN_DOUBT
            state = _NEXT
    if state != _NEXT or depth:
        return IN_DOUBT
    return IS_JSON if spaced else IS_PLAIN_JSON


def _string(data: bytes, at: "i64", size: "i64") -> "i64":
    """Return the offset after a string whose first character is at ``at``; -1 where there is no valid string."""
    while at < size:
        byte: i64 = data[at]
        at += 1
        if byte > _BACKSLASH:  # as nearly all letters are
            continue
        if byte == _QUOTE:
            return at
        if byte < _SPACE:
            return -1
        if byte == _BACKSLASH:
            if at >= size:
                return -1
            escape: i64 = data[at]
            at += 1
            if escape == _U:
                if at + 4 > size:
                    return -1
                for digit in range(at, at + 4):
                    if data[digit] not in _HEX_DIGITS:
                        return -1
                at += 4
            elif escape not in _ESCAPES:
                return -1
    return -1


def _word(data: bytes, at: "i64", size: "i64") -> "i64":
    """Return the offset after true, false or null; -1 where there is none of these."""
    if at + 4 > size:
        return -1
    word = be32(data, at)
    if word in (_TRUE, _NULL):
        return at + 4
    return at + 5 if word == _FALS and at + 5 <= size and data[at + 4] == _E else -1


def _number(data: bytes, at: "i64", size: "i64") -> "i64":
    """Return the offset after a number; -1 where there is no valid number."""
    if data[at] == _MINUS:
        at += 1
    begun = at
    at = _digits(data, at, size)
    if at == begun or (data[begun] == _ZERO and at > begun + 1):
        return -1
    if at < size and data[at] == _POINT:
        begun = at + 1
        at = _digits(data, begun, size)
        if at == begun:
            return -1
    if at < size and data[at] in (_E, _CAPITAL_E):
        at += 1
        if at < size and data[at] in (_PLUS, _MINUS):
            at += 1
        begun = at
        at = _digits(data, begun, size)
        if at == begun:
            return -1
    return at


def _digits(data: bytes, at: "i64", size: "i64") -> "i64":
    while at < size and _ZERO <= data[at] <= _NINE:
        at += 1
    return at
