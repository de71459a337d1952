"""JSON beyond doubt: most documents are plain, and seen to be JSON without making anything of them.

This is for the compiler: interpreted it takes longer than the parser, which is asked about whatever is in doubt here.
"""

from typing import Final

_DEEPEST: Final = 60
_VALUE: Final = 0  #: a value has to follow
_VALUE_OR_END: Final = 1  #: a value or the end of an array
_NAME: Final = 2  #: a name of an object
_NAME_OR_END: Final = 3
_COLON: Final = 4
_NEXT: Final = 5  #: a value is over: a comma or the end of what it is in


def doubtful(data: bytes, starts: list[int], ends: list[int]) -> list[int]:
    """Return which of the pieces of ``data`` are not surely JSON, by their places in the lists."""
    return [place for place in range(len(starts)) if not is_surely_json(data, starts[place], ends[place])]


def is_surely_json(data: bytes, at: int, size: int) -> bool:
    """Return whether the bytes ``at`` … ``size``-1 are JSON (RFC 8259), at most 60 levels deep. False says nothing."""
    begun = at
    depth, objects = 0, 0  # a bit for each level: 1 for an object, 0 for an array
    state = _VALUE
    while at < size:
        byte = data[at]
        if byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09:
            at += 1
        elif state == _NEXT:
            if not depth:
                return False
            if byte == 0x2C:
                state = _NAME if objects & 1 else _VALUE
            elif byte == (0x7D if objects & 1 else 0x5D):
                depth, objects = depth - 1, objects >> 1
            else:
                return False
            at += 1
        elif state == _COLON:
            if byte != 0x3A:
                return False
            state = _VALUE
            at += 1
        elif byte == 0x22:
            at = _string(data, at + 1, size)
            if at < 0:
                return False
            state = _NEXT if state in (_VALUE, _VALUE_OR_END) else _COLON
        elif state in (_NAME, _NAME_OR_END):
            if state == _NAME or byte != 0x7D:
                return False
            depth, objects, state = depth - 1, objects >> 1, _NEXT
            at += 1
        elif byte == 0x7B or byte == 0x5B:
            if depth == _DEEPEST:
                return False
            depth, objects = depth + 1, objects << 1 | (byte == 0x7B)
            state = _NAME_OR_END if byte == 0x7B else _VALUE_OR_END
            at += 1
        elif byte == 0x5D and state == _VALUE_OR_END:
            depth, objects, state = depth - 1, objects >> 1, _NEXT
            at += 1
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            at = _number(data, at, size)
            if at < 0:
                return False
            state = _NEXT
        else:
            word = data[at : min(at + 5, size)]
            if word[:4] == b"true" or word[:4] == b"null":
                at += 4
            elif word == b"false":
                at += 5
            else:
                return False
            state = _NEXT
    return state == _NEXT and not depth and _is_text(data[begun:size])


def _is_text(piece: bytes) -> bool:
    if piece.isascii():
        return True
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _string(data: bytes, at: int, size: int) -> int:
    """Return the place behind a string whose first character is at ``at``; -1 where it is none."""
    while at < size:
        byte = data[at]
        at += 1
        if byte == 0x22:
            return at
        if byte < 0x20:
            return -1
        if byte == 0x5C:
            if at >= size:
                return -1
            escape = data[at]
            at += 1
            if escape == 0x75:
                if at + 4 > size:
                    return -1
                for place in range(at, at + 4):
                    digit = data[place]
                    if not (0x30 <= digit <= 0x39 or 0x41 <= digit <= 0x46 or 0x61 <= digit <= 0x66):
                        return -1
                at += 4
            elif escape not in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
                return -1
    return -1


def _number(data: bytes, at: int, size: int) -> int:
    """Return the place behind a number; -1 where it is none."""
    if data[at] == 0x2D:
        at += 1
    begun = at
    at = _digits(data, at, size)
    if at == begun or (data[begun] == 0x30 and at > begun + 1):
        return -1
    if at < size and data[at] == 0x2E:
        begun = at + 1
        at = _digits(data, begun, size)
        if at == begun:
            return -1
    if at < size and (data[at] == 0x45 or data[at] == 0x65):
        at += 1
        if at < size and (data[at] == 0x2B or data[at] == 0x2D):
            at += 1
        begun = at
        at = _digits(data, begun, size)
        if at == begun:
            return -1
    return at


def _digits(data: bytes, at: int, size: int) -> int:
    while at < size and 0x30 <= data[at] <= 0x39:
        at += 1
    return at
