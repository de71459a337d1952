r"""Read a paste that is numbers and separators and nothing else: hexadecimal in all its spellings, or decimal.

Where every byte is spelled alike (0x80, \x80, %80 …) there is nothing to decide; bare digits are read in bare.py.
"""

import re

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.bare import read_bare
from dcpdump.paste.pasted import CUT, Pasted, has_header, left_out
from dcpdump.plural import counted
from dcpdump.spec.header import HEADER_LENGTH

_ELLIPSIS = lazy_pattern(r"(?<!\.)\.{3}(?!\.)|…")  # more dots are a text column
_MORE = lazy_pattern(r"(?<!\d)\d{1,9} more (?:bytes|items|elements)[ \t\])>]{0,9}")
_WRAP = " \t\n'\"<>[](){},;"
_HEX_ONLY = lazy_pattern(r"[\[<({\s]{0,9}[0-9A-Fa-fxXhH$#%&\\:,_\s-]+")
_DIGIT_LINE = lazy_pattern(r"[0-9A-Fa-fxXhH$#%&\\:.,;_/|+~\s-]+")

# One spelling of a byte: the name to show, and the pattern of one token (its digits in group 1).
_SPELLINGS: tuple[tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, lazy_pattern(pattern))
    for name, pattern in (
        ("0x bytes", r"0[xX]([0-9a-fA-F]{1,2})[uU]?\b"),
        ("\\x escapes", r"\\{1,2}[xX]\{?([0-9a-fA-F]{1,2})\}?"),
        ("percent-encoded", r"%([0-9a-fA-F]{2})"),
        ("hex with an h", r"([0-9a-fA-F]{2,3})[hH]\b"),
        ("hex after $", r"#?\$([0-9a-fA-F]{1,2})\b"),
        ("hex after #", r"#[xX]?([0-9a-fA-F]{1,2})\b"),
        ("hex after &H", r"&[hH]([0-9a-fA-F]{1,2})\b"),
        ("hex after 16#", r"16#([0-9a-fA-F]{1,2})#?"),
        ("hex after x", r"[xX]([0-9a-fA-F]{2})\b"),
        ("\\u escapes", r"\\{1,2}u00([0-9a-fA-F]{2})"),
        ("\\u escapes", r"\\{1,2}u\{([0-9a-fA-F]{1,2})\}"),
        ("hex character references", r"&#x([0-9a-fA-F]{1,2});"),
    )
)
_BINARY = lazy_pattern(r"0[bB][01_]+(?:[\s,;]+(?:0[bB][01_]+|[01]{8}))*[\s,;]*")
_PARAGRAPH = lazy_pattern(r"\n[ \t]*\n")
_BETWEEN = lazy_pattern(r"[\s,;:|_/+-]*")


def read_digits(text: str) -> Pasted | None:
    """Return the bytes of a paste made of digits and separators, or None when there is anything else in it."""
    body, notes = _without_ellipsis(text.strip())
    if body is None:
        return None
    return _read(body, notes)


def bytes_of_digits(text: str) -> bytes | None:
    """Return the bytes of one run of digits inside something else (a string, a log line), or None."""
    try:
        pasted = _read(text.strip(), ())
    except PasteError:
        if sum(c in "0123456789abcdefABCDEF" for c in text) < 2 * HEADER_LENGTH - 8:
            return None  # a short word made of hex letters, such as "bad"
        raise
    return b"".join(pasted.parts) if pasted else None


def _read(text: str, notes: tuple[str, ...]) -> Pasted | None:
    if not text:
        return None
    paragraphs = [p for p in _PARAGRAPH.split(text) if p.strip()]
    if len(paragraphs) > 1:
        read = [_read(p.strip(), ()) for p in paragraphs[:1000]]
        parts = tuple(part for r in read if r for part in r.parts)
        if len(paragraphs) <= 1000 and all(read) and all(map(has_header, parts)):
            return Pasted(read[0].dialect if read[0] else "", parts, notes)
    for name, token in _SPELLINGS:
        data = _spelled(text, token)
        if data:
            return Pasted(name, (data,), notes)
    if not _DIGIT_LINE.fullmatch(text):
        return None
    if _BINARY.fullmatch(text) and (data := _of_binary(re.findall(r"[01_bB]+", text))):
        return Pasted("0b binary", (data,), notes)
    return read_bare(text, notes)


def _without_ellipsis(text: str) -> tuple[str | None, tuple[str, ...]]:
    more = _MORE.search(text)
    cut = more or _ELLIPSIS.search(text)
    if not cut:
        return text, ()
    before, after = text[: cut.start()].rstrip(" \t\n.…[(<"), text[cut.end() :].strip(_WRAP)
    if not _HEX_ONLY.fullmatch(before):
        return None, ()
    if after:
        if not _HEX_ONLY.fullmatch(after) or not any(
            text[at : at + 1] in " \t\n," for at in (cut.start() - 1, cut.end())
        ):
            return None, ()
        raise left_out(f"after {before[-24:]!r}")
    return before, (CUT,)


def _of_binary(tokens: list[str]) -> bytes | None:
    """Return the bytes of numbers in binary, of which the first has its 0b; None where it may be hexadecimal."""
    data = bytearray()
    for token in tokens:
        bits = token.replace("_", "").lower().removeprefix("0b")
        if bits and len(bits) % 8 and all(one[:2] in ("0b", "0B") for one in tokens):
            what = f"{token[:24]} is binary, and {counted(len(bits), 'bit')} make no whole bytes; or it is hexadecimal"
            raise PasteError(what, "", "write all eight bits of each byte, or 0x before hexadecimal")
        if not bits or len(bits) % 8:
            return None
        data += int(bits, 2).to_bytes(len(bits) // 8, "big")
    return bytes(data)


def _spelled(text: str, token: "re.Pattern[str]") -> bytes | None:
    if not token.match(text):
        return None
    data, position = bytearray(), 0
    while position < len(text):
        found = token.match(text, position)
        if not found:
            return None
        value = int(found[1], 16)
        if value > 255:
            return None
        data.append(value)
        gap = _BETWEEN.match(text, found.end())
        position = gap.end() if gap else found.end()
    return bytes(data)
