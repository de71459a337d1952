"""Hold the result of reading a paste, and the one fact about frames that reading may use: how one begins.

The fact only ranks two readings of the same text (is ``10 57`` hexadecimal or decimal?) or decides whether two lines
are two frames or one that was wrapped. No byte is ever made up, moved or dropped because of it.
"""

from dcpdump.errors import PasteError
from dcpdump.quick_dataclass import dataclass
from dcpdump.spec.header import HEADER_LENGTH, MAGICS

#: The longest paste, and how many bytes the repetitions in one may stand for: more is a damaged number, not a frame.
LIMIT = 64 << 20

#: The note on a paste that ends in an ellipsis, and so is read up to there.
CUT = "the paste ends in '…': bytes after it are missing"

#: The hint where nothing in the text resembles bytes.
EXAMPLE = "dcpdump explain '80 57 00 05 1f 00 02 10 …', or paste an xxd or hexdump -C dump"


@dataclass(frozen=True, slots=True)
class Pasted:
    """The bytes of a paste: in what form they came, one entry for each separate run, and what was assumed."""

    dialect: str
    parts: tuple[bytes, ...]
    notes: tuple[str, ...] = ()


def begins_frame(data: bytes) -> bool:
    """Return whether ``data`` starts as a frame does."""
    return bool(data) and data[0] in MAGICS


def has_header(data: bytes) -> bool:
    """Return whether ``data`` starts as a frame does, and has a whole header."""
    return begins_frame(data) and len(data) >= HEADER_LENGTH


def is_whole(data: bytes) -> bool:
    """Return whether ``data`` is exactly as long as its own header says."""
    return has_header(data) and HEADER_LENGTH + int.from_bytes(data[8:12], "big") == len(data)


def left_out(where: str) -> PasteError:
    """Return the error for a paste with an ellipsis in its middle."""
    return PasteError("bytes are left out in the middle ('…')", where, "print all of the bytes and paste again")


def odd_digits(digits: str, where: str) -> PasteError:
    """Return the error for half a byte."""
    return PasteError(
        f"an odd number of hex digits: {digits!r}", where, "each byte takes two digits; paste all of them"
    )
