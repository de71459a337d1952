"""Read what is bytes and nothing else: numbers and separators, base64, percent encoding, quoted-printable.

One table has the spellings of numbers in all languages and tools. Where every byte is spelled alike (0x80, 200#, %80 …)
there is nothing to decide. Bare digits may be hexadecimal, decimal or octal: the reading that begins as a frame does is
taken and noted; where that does not decide, the paste is refused. So is half a byte, and a word whose bytes may be
swapped.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from quopri import decodestring
from urllib.parse import unquote_to_bytes

from dcpdump.errors import PasteError
from dcpdump.paste.clipboard import without_line_numbers
from dcpdump.paste.pasted import (
    CUT,
    PREFIXES,
    Pasted,
    begins_frame,
    has_header,
    is_complete,
    left_out,
    maybe_swapped,
    odd_digits,
    too_wide,
    unprefixed,
    unwrapped,
)
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted

# -- numbers ------------------------------------------------------------------------------------------

#: Bytes that do not say their base: what stands around them has to.
BARE = {
    base: lazy_pattern(pattern)
    for base, pattern in ((2, "[01]{8}"), (8, "[0-3][0-7]{2}"), (10, r"-?\d{1,3}"), (16, "[0-9a-fA-F]{1,2}"))
}
_DIGITS = {2: "[01_]+", 8: "[0-7_]+", 16: "[0-9a-fA-F_]+"}
#: Numbers in source code: what stands before the digits, their base, and what a paste of such bytes is called.
_IN_CODE = (
    ("0[xX]", 16, "0x bytes"),
    ("0[bB]", 2, "0b binary"),
    ("0o", 8, "octal after 0o"),
    (r"16\#", 16, "hex after 16#"),
    (r"2\#", 2, "binary after 2#"),
    ("&[hH]", 16, "hex after &H"),
    (r"\#?\$", 16, "hex after $"),
    (r"\#[xX]", 16, "hex after #"),
)
_CODE_BYTE = {2: r"([01_]+)\#?(?!\w)", 8: r"([0-7]{1,3})(?!\w)", 16: r"([0-9a-fA-F]{1,2})[uU#]?(?!\w)"}
#: Bytes that are all spelled alike: a pattern of one, with its digits; their base; and what such a paste is called.
_BYTES = [
    (lazy_pattern(pattern), base, name)
    for pattern, base, name in (
        *((before + _CODE_BYTE[base], base, name) for before, base, name in _IN_CODE),
        (r"(?:0[bB]|(?<=[\s,;])(?=[01]{8}\b))([01_]+)", 2, "0b binary"),  # what follows the first may be without
        (r"#([0-9a-fA-F]{1,2})\b", 16, "hex after #"),
        (r"([0-9a-fA-F]{2,3})[hH]\b", 16, "hex with an h"),
        (r"[xX]([0-9a-fA-F]{2})\b", 16, "hex after x"),
        ("%([0-9a-fA-F]{2})", 16, "percent-encoded"),
        (r"\\{1,2}[xX]\{?([0-9a-fA-F]{1,2})\}?", 16, "\\x escapes"),
        (r"\\{1,2}u00([0-9a-fA-F]{2})", 16, "\\u escapes"),
        (r"\\{1,2}u\{([0-9a-fA-F]{1,2})\}", 16, "\\u escapes"),
        ("&#x([0-9a-fA-F]{1,2});", 16, "hex character references"),
    )
]
_BETWEEN = lazy_pattern(r"[\s,;:|_/+-]*")
_SUFFIX = r"\#?(?:\.toU?Byte(?:\(\))?|_?[ui](?:8|16|32|64|128|size)\b|uy\b|[uU]?[lLyY]{0,2}\b)"
_PREFIXED = "|".join(before + _DIGITS[base] + "(?![0-9a-fA-F])" * (base == 2) for before, base, _ in _IN_CODE)
#: A number in source code.
NUMBER = rf"[-+]?(?:{_PREFIXED}|[0-9][0-9a-fA-F]*[hH]?){_SUFFIX}"
_GROUPS = "|".join(f"{before}(?P<n{at}>{_DIGITS[base]}?)" for at, (before, base, _) in enumerate(_IN_CODE))
_VALUE = lazy_pattern(rf"(?P<sign>[-+]?)(?:{_GROUPS}|(?P<h>[0-9][0-9a-fA-F]*)[hH]|(?P<plain>[0-9]+)){_SUFFIX}")


def number(text: str) -> int | None:
    """Return the value of a number in any language's spelling; None where its base is not known."""
    shape = _VALUE.fullmatch(text)
    if not shape:
        return None
    sign = -1 if shape["sign"] == "-" else 1
    if plain := shape["plain"]:
        return sign * int(plain) if len(plain) < 40 else None
    of_base = ((shape[f"n{at}"], base) for at, (_, base, _) in enumerate(_IN_CODE))
    digits, base = next((each for each in of_base if each[0]), (shape["h"], 16))
    return sign * int(digits[:4400].replace("_", "") or "0", base)


def bytes_of(tokens: Sequence[str], base: int = 10) -> bytes | None:
    """Return numbers as bytes, negative ones as signed bytes; None when one is not a byte."""
    values = [int(token, base) for token in tokens]
    return bytes(value & 0xFF for value in values) if all(-128 <= value <= 255 for value in values) else None


def _spelled(text: str) -> Pasted | None:
    """Return the bytes of a text in which each is spelled alike, or None."""
    for token, base, name in _BYTES:
        digits = _digits_of(text, token)
        data = _of_bits(digits, text) if base == 2 else bytes_of(digits, base)
        if data:
            return Pasted(name, (data,))
    return None


def _digits_of(text: str, token: "re.Pattern[str]") -> list[str]:
    """Return the digits of a text in which each byte is one ``token``; nothing of another one."""
    digits, position = list[str](), 0
    while position < len(text):
        found = token.match(text, position)
        if not found:
            return []
        digits.append(found[1])
        gap = _BETWEEN.match(text, found.end())
        position = gap.end() if gap else found.end()
    return digits


def _of_bits(tokens: Sequence[str], text: str) -> bytes | None:
    """Return the bytes of numbers in binary, each of whole bytes; None where they may be hexadecimal."""
    data = bytearray()
    for token in tokens:
        bits = token.replace("_", "")
        if bits and len(bits) % 8 and len(re.findall("0[bB]", text)) == len(tokens):
            what = (
                f"0b{token[:22]} is binary, and {counted(len(bits), 'bit')} make no whole bytes; or it is hexadecimal"
            )
            raise PasteError(what, "", "write all eight bits of each byte, or 0x before hexadecimal")
        if not bits or len(bits) % 8:
            return None
        data += int(bits, 2).to_bytes(len(bits) // 8, "big")
    return bytes(data)


def begins_in_digits(text: str) -> bool:
    """Return whether the first digits of a text begin a frame in hex."""
    first = re.search(r"(?:0[xX])?([0-9a-fA-F]{1,2})", text)
    return first is not None and begins_frame(bytes([int(first[1], 16)]))


# -- bare numbers ---------------------------------------------------------------------------------------


def number_list(tokens: Sequence[str], bracketed: bool) -> Pasted | None:
    """Return the bytes of digits-only tokens, or None for plain hex that nothing else explains.

    ``bracketed``: they stand in a list as programs print them, where decimal is usual.
    """
    longest = max(map(len, tokens))
    decimal = bytes_of(tokens) if longest <= 3 else None
    if longest == 3 and all(map(BARE[8].fullmatch, tokens)):
        octal = bytes(int(t, 8) for t in tokens)
        if decimal is not None and begins_frame(octal) == begins_frame(decimal):
            raise _undecided("octal or decimal", tokens)
        if decimal is None or begins_frame(octal):
            return Pasted("octal bytes", (octal,))
    if decimal is None:
        return None
    if longest == 3:
        return Pasted("decimal list", (decimal,))
    as_hex = bytes(int(t, 16) for t in tokens)
    padded = all(len(t) == 2 for t in tokens)
    if as_hex == decimal:
        return Pasted("decimal list", (decimal,))
    if padded and (not bracketed or any(t[0] == "0" for t in tokens)):  # programs do not pad decimals with zeros
        return Pasted("hex list" if bracketed else "hex pairs", (as_hex,))
    if begins_frame(as_hex) != begins_frame(decimal):
        if begins_frame(as_hex):
            return Pasted("hex list", (as_hex,), ("read as hexadecimal: as decimals they would not begin a frame",))
        return Pasted("decimal list", (decimal,), ("read as decimal: as hex it would not begin a frame",) * padded)
    if is_complete(decimal) != is_complete(as_hex):
        return Pasted("decimal list", (decimal,)) if is_complete(decimal) else Pasted("hex list", (as_hex,))
    if not padded and begins_frame(decimal) and len(tokens) >= HEADER_LENGTH:
        return Pasted("decimal list", (decimal,), ("read as decimal: programs print unpadded lists so",))
    raise _undecided("decimal or hexadecimal", tokens)


def _undecided(between: str, tokens: Sequence[str]) -> PasteError:
    return PasteError(
        f"these numbers can be {between}, and either way gives other bytes",
        " ".join(tokens[:8]),
        "write hexadecimal with 0x, or paste a hexdump -C",
    )


# -- pastes that are numbers and nothing else ---------------------------------------------------------

_ELLIPSIS = lazy_pattern(r"(?<!\.)\.{3}(?!\.)|…")  # more dots are a text column
_MORE = lazy_pattern(r"(?<!\d)\d{1,9} more (?:bytes|items|elements)[ \t\])>]{0,9}")
_WRAP = " \t\n'\"<>[](){},;"
_HEX_ONLY = lazy_pattern(r"[\[<({\s]{0,9}[0-9A-Fa-fxXhH$#%&\\:,_\s-]+")
_DIGIT_LINE = lazy_pattern(r"[0-9A-Fa-fxXhH$#%&\\:.,;_/|+~\s-]+")
_PARAGRAPH = lazy_pattern(r"\n[ \t]*\n")
_SEPARATORS = " \t,;:._/|+~-"
_BREAKS = lazy_pattern(r"[\s,;:._/|+~-]+")
_SIGNED = lazy_pattern(r"[-+]?\d{1,3}(?:[\s,;]+[-+]?\d{1,3})*[\s,;]*")
_HEX_TOKEN = lazy_pattern(r"(?:0[xX])?[0-9a-fA-F]+")


def read_digits(text: str) -> Pasted | None:
    """Return the bytes of a paste made of digits and separators, or None when there is anything else in it."""
    body, notes = _without_ellipsis(text.strip())
    pasted = None if body is None else _read(body)
    return pasted and pasted.noted(*notes)


def bytes_of_digits(text: str) -> bytes | None:
    """Return the bytes of one run of digits inside something else (a string, a log line), or None."""
    try:
        pasted = _read(text.strip())
    except PasteError:
        if sum(c in "0123456789abcdefABCDEF" for c in text) < 2 * HEADER_LENGTH - 8:
            return None  # a short word made of hex letters, such as "bad"
        raise
    return b"".join(pasted.parts) if pasted else None


def _read(text: str) -> Pasted | None:
    paragraphs = [p for p in _PARAGRAPH.split(text) if p.strip()]
    if len(paragraphs) > 1:
        read = [_read(p.strip()) for p in paragraphs[:1000]]
        parts = tuple(part for r in read if r for part in r.parts)
        if len(paragraphs) <= 1000 and all(read) and all(map(has_header, parts)):
            return Pasted(read[0].dialect if read[0] else "", parts)
    return _spelled(text) or (_read_bare(text) if _DIGIT_LINE.fullmatch(text) else None)


def _without_ellipsis(text: str) -> tuple[str | None, tuple[str, ...]]:
    cut = _MORE.search(text) or _ELLIPSIS.search(text)
    if not cut:
        return text, ()
    before, after = text[: cut.start()].rstrip(" \t\n.…[(<"), text[cut.end() :].strip(_WRAP)
    if not _HEX_ONLY.fullmatch(before):
        return None, ()
    if not after:
        return before, (CUT,)
    apart = any(text[at : at + 1] in " \t\n," for at in (cut.start() - 1, cut.end()))
    if apart and _HEX_ONLY.fullmatch(after):
        raise left_out(f"after {before[-24:]!r}")
    return None, ()


def _read_bare(text: str) -> Pasted | None:
    """Return the bytes of digits and separators that are not all spelled alike with their base, or None."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if re.search(r"(?<![0-9A-Fa-f])-\d", text) and _SIGNED.fullmatch(text):
        data = bytes_of([t for t in re.split(r"[\s,;]+", text) if t])
        return Pasted("decimal list", (data,)) if data else None
    split = [[t for t in _BREAKS.split(line) if t] for line in lines]
    tokens = [t for line in split for t in line]
    if len(tokens) >= HEADER_LENGTH and all(map(BARE[2].fullmatch, tokens)) and int(tokens[0], 2) in MAGICS:
        return Pasted("bits", (bytes(int(t, 2) for t in tokens),))
    if not tokens or not all(_HEX_TOKEN.fullmatch(t) for t in tokens):
        return None
    unnumbered = without_line_numbers("\n".join(line.lstrip(_SEPARATORS) for line in lines))
    if begins_in_digits(unnumbered) and not begins_in_digits(text):
        pasted = _read_bare(unnumbered)
        return pasted and pasted.noted("line numbers dropped")
    if len(tokens) > 1 and all(t[:2] in PREFIXES for t in tokens) and max(map(len, tokens)) > 4:
        return Pasted("0x words", (_words(tokens),), ("the words are read in the order that they are written",))
    if len(tokens) > 1 and "".join(tokens).isdecimal():
        decided = number_list(tokens, bracketed="," in text)
        if decided is not None:
            return decided
    return Pasted(_hex_name(text, tokens), _lines_of_hex([[unprefixed(t) for t in line] for line in split], lines))


def _lines_of_hex(split: list[list[str]], lines: list[str]) -> tuple[bytes, ...]:
    """Return the bytes of lines of hex digits: a part for each line that is a frame, else one that was wrapped."""
    if len(split) > 1 and all(len(line) > 1 for line in split):
        firsts, others = {len(line[0]) for line in split}, {len(t) for line in split for t in line[1:]}
        if len(firsts) == 1 and others == {2} and min(firsts) > 2:
            raise PasteError(
                "the first column looks like offsets, but they do not follow one another",
                f"line 1: {lines[0][:40]!r}",
                "paste the dump whole, or without the column",
            )
    contiguous = all(len(line) == 1 for line in split)
    rows: list[str] = []
    for at, line in enumerate(split):
        odd = [t for t in line if len(t) % 2]
        if odd and not contiguous:
            if max(map(len, line)) > 2:
                raise odd_digits(odd[0], f"line {at + 1}: {lines[at][:40]!r}")
            line = [t.zfill(2) for t in line]  # single digits stand alone: "80 57 0 5"
        rows.append("".join(line))
    joined = "".join(rows)
    uneven = next((at for at, row in enumerate(rows) if len(row) % 2), None)
    if len(joined) % 2:
        at = uneven or 0
        raise odd_digits(rows[at][-24:], f"{len(joined)} digits in all; line {at + 1} ends so")
    data = bytes.fromhex(joined)
    words = split[0]
    alike = len(words) > 3 and len({len(t) for t in words[:-1]}) == 1 and len(words[0]) in (4, 8, 16)
    if alike and begins_frame(bytes.fromhex(words[0])[::-1]) and not begins_frame(data):
        what = f"these {4 * len(words[0])}-bit words look byte-swapped: {words[0]} would begin a frame"
        raise maybe_swapped(f"{what} the other way round", "line 1")
    return (data,) if uneven is not None else unwrapped([bytes.fromhex(r) for r in rows])


def _words(tokens: list[str]) -> bytes:
    """Return the bytes of numbers in hex that are wider than a byte, in the order that is printed; or raise."""
    odd = next((t for t in tokens if len(t) % 2), None)
    if odd:
        raise odd_digits(odd[2:], f"in {odd}")
    plain = bytes.fromhex("".join(map(unprefixed, tokens)))
    if begins_frame(bytes.fromhex(tokens[0][2:])[::-1]) or not begins_frame(plain):
        raise too_wide(tokens[0])
    return plain


def _hex_name(text: str, tokens: list[str]) -> str:
    if len(tokens) == 1:
        return "hex" if tokens[0][:2].lower() != "0x" else "0x hex"
    for separator, name in ((":", "colon"), ("-", "dash"), (".", "dot"), ("_", "underscore"), (",", "comma")):
        if separator in text:
            return f"{name}-separated hex"
    if all(len(t) <= 2 for t in tokens):
        return "hex pairs"
    return "hex" if text.count("\n") >= len(tokens) - 1 else "hex groups"


# -- base64, with and without padding, wrapped, in PEM armour or a data: URI --------------------------
# Almost any word is valid base64, so it counts only when it is not hexadecimal and decodes to the beginning of a frame.

_ARMOUR = lazy_pattern(r"^-----(?:BEGIN|END)[^\n]*$|^[A-Z][\w-]*:[^\n]*$", re.M)
_DATA_URI = lazy_pattern(r"^data:[^,\n]{0,200};base64,", re.I)
_TOKEN = lazy_pattern(r"[A-Za-z0-9+/_-]+={0,2}")
_WRAPPED = lazy_pattern(r"^[ \t>|]*(?:[A-Za-z0-9+/]{60,76}[ \t]*\n[ \t>|]*)+[A-Za-z0-9+/]{1,76}={0,2}(?=[ \t]*$)", re.M)
_HEX = lazy_pattern(r"[0-9a-fA-F]+")


def read_base64_token(text: str) -> bytes | None:
    """Return the frame that one base64 word holds, or None."""
    if len(text) < 32 or not _TOKEN.fullmatch(text) or _HEX.fullmatch(text):
        return None
    body = text.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:
        return None
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except binascii.Error:
        return None
    return data if has_header(data) else None


def with_base64_joined(text: str) -> str:
    """Return ``text`` with wrapped base64 in one line; without it where its lines hold no frame, as those of a key."""
    return _WRAPPED.sub(_joined, text)


def _joined(wrapped: re.Match[str]) -> str:
    lines = re.findall(r"[^\s>|]+", wrapped[0])
    frames = _frames(lines)
    if _HEX.fullmatch(lines[0]) or len(frames) > 1:  # hex is of these letters too
        return wrapped[0]
    return "".join(lines) if frames else ""


def _frames(words: list[str]) -> tuple[bytes, ...]:
    """Return the frame of each word, or the one that is wrapped in them; nothing where they hold none."""
    joined = read_base64_token("".join(words))
    each = [data for word in words if (data := read_base64_token(word)) is not None]
    if len(each) == len(words) > 1 and (joined is None or len(unwrapped(each)) > 1):
        return tuple(each)
    return () if joined is None else (joined,)


def read_base64(text: str) -> Pasted | None:
    """Return the frame or frames that base64 text holds, or None."""
    body = _ARMOUR.sub("", text) if "-----BEGIN" in text or ": " in text[:200] else text
    body = _DATA_URI.sub("", body.strip())
    lines = body.split("\n")
    first = next((i for i in range(len(lines), 0, -1) if not _TOKEN.fullmatch(lines[i - 1].strip())), 0)
    if 0 < first < len(lines) - 1:
        body = "\n".join(lines[first:])  # a heading stands above the wrapped lines
    words = body.split()
    if not words or not all(_TOKEN.fullmatch(w) for w in words):
        return None
    frames = _frames(words)
    return Pasted("base64url" if any(c in body for c in "-_") else "base64", frames) if frames else None


# -- percent encoding and quoted-printable, in which most bytes stand for themselves ------------------

_PERCENT = lazy_pattern(r"(?:%[0-9a-fA-F]{2}|[A-Za-z0-9_.~!*'()+$,;:@&=/?-])+")
_QUOTED = lazy_pattern(r"(?:=[0-9A-Fa-f]{2}|=\n|[!-<>-~ \t])+")


def read_percent(text: str) -> Pasted | None:
    """Return the frame in a percent-encoded value, or None."""
    body = "".join(text.split())
    if body[:1] != "%" or not _PERCENT.fullmatch(body):
        return None
    plus = "+" in body and "%20" not in body and "%2B" in body.upper()
    data = unquote_to_bytes(body.replace("+", " ") if plus else body)
    return Pasted("percent-encoded", (data,)) if begins_frame(data) else None


def read_quoted_printable(text: str) -> Pasted | None:
    """Return the frame in quoted-printable text, or None."""
    body = text.strip()
    if body[:1] != "=" or not _QUOTED.fullmatch(body):
        return None
    data = decodestring(body)
    return Pasted("quoted-printable", (data,)) if begins_frame(data) else None
