"""Say beside a value what it is: JSON, valid or not and why, binary; and how large it is where it is compressed."""

import re

from dcpdump.spec.names import DATATYPE, JSON, SNAPPY, XATTR
from dcpdump.wire.json_text import MARKED_JSON

_TEXT = re.compile(rb"[\t\n\r -~]*\Z").match
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search
_NAMES = ["|".join(DATATYPE.describe(value & ~XATTR)) for value in range(256)]


def value_note(datatype: int, whole: int, wire: int, state: str) -> str:
    """Return what stands in parentheses behind a value; nothing for plain text.

    ``whole``: its bytes, decompressed; ``wire``: as they were sent; ``state``: what ``state_of`` says.
    """
    words = [word for word in (_NAMES[datatype], state) if word]
    if datatype & SNAPPY:
        words += [f"{whole:,} bytes", f"{wire:,} on the wire"]
    return f"({', '.join(words)})" if words else ""


def state_of(datatype: int, head: bytes, fault: str, *, cut: bool, sure: bool) -> str:
    """Return whether a value is JSON, where it is marked so, or else whether it is binary.

    ``head``: its beginning; ``cut``: there is more of it; ``fault``: why it is not JSON; ``sure``: it was judged.
    """
    if datatype & JSON:
        if fault:
            return f"not valid: {fault.removeprefix(MARKED_JSON)}"
        return "valid" if sure else ""
    return "binary" if is_binary(head, cut=cut) else ""


def is_binary(head: bytes, *, cut: bool) -> bool:
    """Return whether the beginning of a value is no text in UTF-8, or has control characters."""
    if _TEXT(head):
        return False
    if _CONTROL_BYTE(head):  # no part of a character that is cut off
        return True
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if not (cut and len(head) - error.start < 4 and error.reason == "unexpected end of data"):
            return True
        text = head[: error.start].decode()
    return _CONTROL(text) is not None
