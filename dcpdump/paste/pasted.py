"""Hold the result of reading a paste, and the one fact about frames that reading may use: how one begins.

The fact only ranks two readings of the same text (is ``10 57`` hexadecimal or decimal?) or decides whether two lines
are two frames or one that was wrapped. No byte is ever made up, moved or dropped because of it.
"""

import re
from collections.abc import Sequence

from dcpdump.errors import PasteError
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.startup import dataclass, lazy_pattern

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

    def noted(self, *notes: str) -> "Pasted":
        """Return this with more notes before its own."""
        return Pasted(self.dialect, self.parts, (*notes, *self.notes))


def joined(all_of: Sequence[Pasted], dialect: str = "") -> Pasted:
    """Return several as one: all parts, each note once, and the first's form where none is given."""
    parts = tuple(part for each in all_of for part in each.parts)
    return Pasted(dialect or all_of[0].dialect, parts, tuple(dict.fromkeys(n for each in all_of for n in each.notes)))


PREFIXES = ("0x", "0X")


def unprefixed(digits: str) -> str:
    """Return hex digits without their 0x."""
    return digits[2:] if digits[:2] in PREFIXES else digits


def begins_frame(data: bytes) -> bool:
    """Return whether ``data`` starts as a frame does."""
    return bool(data) and data[0] in MAGICS


def has_header(data: bytes) -> bool:
    """Return whether ``data`` starts as a frame does, and has a whole header."""
    return begins_frame(data) and len(data) >= HEADER_LENGTH


def is_complete(data: bytes) -> bool:
    """Return whether ``data`` is exactly as long as its own header says."""
    return has_header(data) and HEADER_LENGTH + int.from_bytes(data[8:12], "big") == len(data)


def unwrapped(lines: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return lines as parts: one each when every line is a frame, else one run that was wrapped."""
    if len(lines) > 1 and all(map(has_header, lines)):
        *others, last = map(len, lines)
        if len({*others}) > 1 or last > others[0] or is_complete(lines[0]):
            return tuple(lines)
    return (b"".join(lines),)


def maybe_swapped(what: str, where: str = "") -> PasteError:
    """Return the error for words of several bytes whose order is not known."""
    return PasteError(what, where, "print single bytes: hexdump -C FILE, xxd FILE, or gdb's x/64xb")


def left_out(where: str) -> PasteError:
    """Return the error for a paste with an ellipsis in its middle."""
    return PasteError("bytes are left out in the middle ('…')", where, "print all of the bytes and paste again")


def odd_digits(digits: str, where: str) -> PasteError:
    """Return the error for half a byte."""
    return PasteError(
        f"an odd number of hex digits: {digits!r}", where, "each byte takes two digits; paste all of them"
    )


def too_wide(number: str) -> PasteError:
    """Return the error for a list of numbers that are wider than a byte."""
    return maybe_swapped(f"{number} is wider than a byte: its bytes may be swapped, and the paste does not say")


# -- tokens among bytes that are not bytes: where they stand, so that no byte is lost silently --------

_BLANKS = lazy_pattern(r"[\s,;]+")
_MARKS = lazy_pattern(r"[\s,;:|_-]+")  # between bytes that may have no blank between them
_BYTES = lazy_pattern(r"(?:0[xX]|\\x)?(?:[0-9a-fA-F]{2})+")
_QUOTES = "[](){}<>\"'`"
_CLOSED = tuple("\"'`])}>|")  # what ends a run of bytes as it should
_GLUED = lazy_pattern(r"\s*([^\w\s,;:|&.…\"'`\])}>\\-]{1,2})[0-9a-fA-F]{4}")
_ESCAPE = lazy_pattern(r"\\x[^\s\\]{0,2}")
_LONG = lazy_pattern(r"[0-9a-fA-F]{8}")
_HALF = lazy_pattern(r"[?*]|[0-9a-fA-FO?*]\w|\w[0-9a-fA-FO?*]")
_PLAIN = lazy_pattern(r"[0-9A-Za-z?*#~!]+")
_WORD = lazy_pattern(r"[0-9A-Za-z?*#~!]{40,}")
_NO_DIGIT = lazy_pattern(r"[^0-9a-fA-F]")
_LETTERS = str.maketrans("OolI", "0011")
_FEW = 8  # bytes: a line with fewer is not one of bytes, unless others are


def refuse_odd(text: str, *, line: int = 1, few: int = _FEW) -> None:
    """Raise for the first line of ``text`` that is bytes but for one token; ``line``: the number of its first line."""
    for number, one in enumerate(text.split("\n"), line):
        for separator in (_BLANKS, _MARKS):
            tokens = [token for part in separator.split(one) if (token := part.strip(_QUOTES))]
            at = _odd_token(tokens, few)
            if at is not None:
                raise odd_byte(tokens[at], number, " ".join(tokens[max(0, at - 3) : at]))
        for word in _WORD.findall(one):
            word = re.sub("^0?[xX]", "", word)
            wrong = _NO_DIGIT.findall(word)
            if wrong and len(wrong) * 8 <= len(word):
                raise _odd_digit(wrong[0], number, word[: word.index(wrong[0])])


def _odd_token(tokens: Sequence[str], few: int) -> int | None:
    """Return the index of the token in a byte's place: one between bytes, or else one beside them; or None."""
    are_bytes = [_BYTES.fullmatch(token) is not None for token in tokens]
    if sum(len(token) // 2 for token, is_bytes in zip(tokens, are_bytes, strict=True) if is_bytes) < few:
        return None
    if sum(are_bytes) * 4 < len(tokens) * 3:
        return None
    beside = []
    for at in (at for at, is_bytes in enumerate(are_bytes) if not is_bytes):
        around = [near for near in (at - 1, at + 1) if 0 <= near < len(are_bytes)]
        if all(are_bytes[near] and len(tokens[at]) <= len(tokens[near]) + 2 for near in around):
            if len(around) == 2:
                return at
            if _PLAIN.fullmatch(tokens[at]) and len(tokens[at]) <= len(tokens[around[0]]):
                beside.append(at)  # a longer token is a name of the bytes
    return beside[0] if beside else None


def refuse_behind(run: str, rest: str, line: int) -> None:
    """Raise when a run of bytes is interrupted, and the ``rest`` of its line continues with bytes."""
    if found := _ESCAPE.match(rest):
        raise odd_byte(found[0], line, run)
    if found := _GLUED.match(rest):
        raise _odd_digit(found[1], line, run)
    if rest.strip().startswith(_CLOSED):
        return
    separator = _MARKS if ":" in run or "-" in run else _BLANKS
    odd, *behind = [token for token in separator.split(rest) if token] or [""]
    are_bytes = [bool(_BYTES.fullmatch(token.strip(_QUOTES)) or _LONG.match(token)) for token in behind]
    count = (*are_bytes, False).index(False)
    size = sum(len(token) // 2 for token in behind[:count])
    is_short = len(odd.removeprefix("0x")) <= 2
    is_last = count == len(behind)  # behind it there are bytes alone
    if count >= 4 or (is_short and (size > 1 or (is_last and (size or _HALF.fullmatch(odd))))):
        raise odd_byte(odd, line, run)


def odd_byte(token: str, line: int, before: str) -> PasteError:
    """Return the error for a token that should be a byte."""
    meant = token.translate(_LETTERS)
    is_meant = meant != token and _BYTES.fullmatch(meant)
    hint = f"did you mean {meant}?" if is_meant else "put the byte there, or take it out"
    return _odd(f"{token[:24]!r} is not a byte", line, before, hint)


def _odd_digit(characters: str, line: int, before: str) -> PasteError:
    return _odd(f"{characters!r} is not a hex digit", line, before, "each byte takes two hex digits")


def _odd(what: str, line: int, before: str, hint: str) -> PasteError:
    return PasteError(what, f"line {line}" + (f", after {before[-8:].strip()!r}" if before.strip() else ""), hint)


# -- captures and packed files, known by their first bytes --------------------------------------------

#: The placeholder for the file's name in a hint: a paste does not know where it came from.
NAME = "CAPTURE"

_READ = f"dcpdump read {NAME}"
#: First bytes, what begins so, and what shows what is inside.
_KINDS = [
    (lazy_pattern(begins, re.DOTALL), what, hints)
    for begins, what, *hints in (
        (rb"\xa1\xb2(?:\xc3\xd4|\x3c\x4d|\xcd\x34)|(?:\xd4\xc3|\x4d\x3c|\x34\xcd)\xb2\xa1", "a pcap capture", _READ),
        (rb"\n\r\r\n.{4}(?:\x1a\x2b\x3c\x4d|\x4d\x3c\x2b\x1a)", "a pcapng capture", _READ),
        (rb"\x1f\x8b\x08", "gzip data", _READ, f"gzip -dc {NAME} | dcpdump explain"),
        (rb"\x28\xb5\x2f\xfd", "zstd data", _READ, f"zstd -dc {NAME} | dcpdump explain"),
        (rb"\xfd7zXZ\x00", "xz data", _READ, f"xz -dc {NAME} | dcpdump explain"),
        (rb"BZh[1-9]1AY&SY", "bzip2 data", _READ, f"bzip2 -dc {NAME} | dcpdump explain"),
        (rb"\x04\x22\x4d\x18", "lz4 data", _READ, f"lz4 -dc {NAME} | dcpdump explain"),
        (rb"PK\x03\x04", "a ZIP archive", f"unzip -p {NAME} | dcpdump explain"),  # which other commands do not read
    )
]


def refuse_files(data: bytes) -> None:
    """Raise PasteError where ``data`` is a capture or a packed file: as a frame it could only be nonsense."""
    for begins, what, (hint, *more) in _KINDS:
        if begins.match(data):
            raise PasteError(f"this is {what}, not a paste", "", hint, tuple(more))
