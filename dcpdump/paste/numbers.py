"""Read a list of digits-only tokens, which may be decimal, octal or hexadecimal.

The reading that begins as a frame does is taken and noted; where that does not decide, the list is refused.
"""

import re
from collections.abc import Sequence

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.pasted import CUT, Pasted, begins_frame, has_header, is_whole, left_out, odd_digits
from dcpdump.plural import counted
from dcpdump.spec.header import HEADER_LENGTH


def number_list(tokens: Sequence[str], bracketed: bool) -> tuple[bytes, str, tuple[str, ...]] | None:
    """Return bytes, name and notes of digits-only tokens, or None for plain hex that nothing else explains.

    ``bracketed``: they stand in a list as programs print them, where decimal is usual.
    """
    longest = max(map(len, tokens))
    decimal = bytes_of_decimals(tokens) if longest <= 3 else None
    if longest == 3 and decimal is not None:
        if all(len(t) == 3 for t in tokens) and all(set(t) <= set("01234567") and t < "400" for t in tokens):
            octal = bytes(int(t, 8) for t in tokens)
            if begins_frame(octal) and not begins_frame(decimal):
                return octal, "octal bytes", ()
            if begins_frame(octal) == begins_frame(decimal):
                raise _undecided("octal or decimal", tokens)
        return decimal, "decimal list", ()
    if longest == 3 and all(len(t) == 3 and set(t) <= set("01234567") and t < "400" for t in tokens):
        return bytes(int(t, 8) for t in tokens), "octal bytes", ()
    if longest > 2 or decimal is None:
        return None
    as_hex = bytes(int(t, 16) for t in tokens)
    padded = all(len(t) == 2 for t in tokens)
    if as_hex == decimal:
        return decimal, "decimal list", ()
    if padded and (not bracketed or any(t[0] == "0" for t in tokens)):
        return (
            as_hex,
            "hex pairs" if not bracketed else "hex list",
            (),
        )  # programs do not pad decimals with zeros
    if begins_frame(as_hex) and not begins_frame(decimal):
        return as_hex, "hex list", ("read as hexadecimal: as decimals they would not begin a frame",)
    if begins_frame(decimal) and not begins_frame(as_hex):
        return (
            decimal,
            "decimal list",
            () if not padded else ("read as decimal: as hex it would not begin a frame",),
        )
    if is_whole(decimal) != is_whole(as_hex):
        return (decimal, "decimal list", ()) if is_whole(decimal) else (as_hex, "hex list", ())
    if not padded and begins_frame(decimal) and len(tokens) >= HEADER_LENGTH:
        return decimal, "decimal list", ("read as decimal: programs print unpadded lists so",)
    raise _undecided("decimal or hexadecimal", tokens)


def _undecided(between: str, tokens: Sequence[str]) -> PasteError:
    return PasteError(
        f"these numbers can be {between}, and either way gives other bytes",
        " ".join(tokens[:8]),
        "write hexadecimal with 0x, or paste a hexdump -C",
    )


def bytes_of_decimals(tokens: Sequence[str]) -> bytes | None:
    """Return decimal tokens as bytes, negative ones as signed bytes; None when one is not a byte."""
    values = [int(t) for t in tokens]
    if not all(-128 <= v <= 255 for v in values):
        return None
    return bytes(v & 0xFF for v in values)


# -- read bare digits ---------------------------------------------------------------------------------
# Bytes, groups or words of hexadecimal, one run or many lines of it, and lists of decimals.
#
# What is half a byte, and what may be byte-swapped, is refused with the place where it stands.

_BREAKS = lazy_pattern(r"[\s,;:._/|+~-]+")
_SIGNED = lazy_pattern(r"[-+]?\d{1,3}(?:[\s,;]+[-+]?\d{1,3})*[\s,;]*")
_BITS = lazy_pattern(r"[01]{8}")
_HEX_TOKEN = lazy_pattern(r"(?:0[xX])?[0-9a-fA-F]+")


def read_bare(text: str, notes: tuple[str, ...]) -> Pasted | None:
    """Return the bytes of digits and separators without any prefix that says their base, or None."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if re.search(r"(?<![0-9A-Fa-f])-\d", text) and _SIGNED.fullmatch(text):
        data = bytes_of_decimals([t for t in re.split(r"[\s,;]+", text) if t])
        return Pasted("decimal list", (data,), notes) if data else None
    split = [[t for t in _BREAKS.split(line) if t] for line in lines]
    tokens = [t for line in split for t in line]
    if len(tokens) >= HEADER_LENGTH and all(map(_BITS.fullmatch, tokens)):
        bits = bytes(int(t, 2) for t in tokens)
        if begins_frame(bits):
            return Pasted("bits", (bits,), notes)
    if not tokens or not all(_HEX_TOKEN.fullmatch(t) for t in tokens):
        return None
    numbered = _numbered(split)
    if numbered is not None:
        split, notes = numbered, (*notes, "line numbers dropped")
        tokens = [t for line in split for t in line]
    prefixed = [t for t in tokens if t[:2] in ("0x", "0X")]
    if len(prefixed) > 1 and len(prefixed) == len(tokens) and max(map(len, tokens)) > 4:
        return Pasted("0x words", (_words(tokens),), (*notes, "the words are read in the order that they are written"))
    bare = [[t[2:] if t[:2] in ("0x", "0X") else t for t in line] for line in split]
    if not prefixed and len(tokens) > 1 and "".join(tokens).isdecimal():
        decided = number_list(tokens, bracketed="," in text)
        if decided is not None:
            data, name, note = decided
            return Pasted(name, (data,), (*notes, *note))
    parts = _lines_of_hex(bare, lines)
    return Pasted(_hex_name(text, tokens), parts, notes)


def _numbered(split: list[list[str]]) -> list[list[str]] | None:
    """Return the lines without their numbers, when each begins with the number after the line above's; or None."""
    longest = 6 if len(split) > 1 else 1  # digits: alone, two of them are a byte
    if not all(len(line) > 1 and line[0].isdecimal() and len(line[0]) <= longest for line in split):
        return None
    first = int(split[0][0])
    if [int(line[0]) for line in split] != list(range(first, first + len(split))):
        return None
    if begins_frame(_leading(split[0])) or not begins_frame(_leading(split[0][1:])):
        return None
    return [line[1:] for line in split]


def _leading(tokens: Sequence[str]) -> bytes:
    digits = tokens[0].removeprefix("0x")
    return bytes([int(digits[:2], 16)])


def _lines_of_hex(split: list[list[str]], lines: list[str]) -> tuple[bytes, ...]:
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
    for line, shown in zip(split, lines, strict=True):
        odd = [t for t in line if len(t) % 2]
        if odd and not contiguous:
            if max(map(len, line)) > 2:
                raise odd_digits(odd[0], f"line {lines.index(shown) + 1}: {shown[:40]!r}")
            line = [t.zfill(2) for t in line]  # single digits stand alone: "80 57 0 5"
        rows.append("".join(line))
    joined = "".join(rows)
    if len(joined) % 2:
        where = next((i for i, r in enumerate(rows) if len(r) % 2), 0)
        raise odd_digits(rows[where][-24:], f"{len(joined)} digits in all; line {where + 1} ends so")
    data = bytes.fromhex(joined)
    first_words = split[0]
    if len(first_words) > 3 and len({len(t) for t in first_words[:-1]}) == 1 and len(first_words[0]) in (4, 8, 16):
        swapped = bytes.fromhex(first_words[0])[::-1]
        if begins_frame(swapped) and not begins_frame(data):
            raise PasteError(
                f"these {4 * len(first_words[0])}-bit words look byte-swapped: {first_words[0]} would begin a frame "
                "the other way round",
                "line 1",
                "paste single bytes: hexdump -C FILE, or xxd FILE",
            )
    if any(len(r) % 2 for r in rows):
        return (data,)
    return _separate_frames([bytes.fromhex(r) for r in rows])


def _separate_frames(rows: list[bytes]) -> tuple[bytes, ...]:
    """Return lines as parts: one each when every line is a frame, else one run that was wrapped."""
    if len(rows) > 1 and all(map(has_header, rows)):
        wrapped = len({len(r) for r in rows[:-1]}) == 1 and len(rows[-1]) <= len(rows[0])
        if not wrapped or is_whole(rows[0]):
            return tuple(rows)
    return (b"".join(rows),)


def _words(tokens: list[str]) -> bytes:
    digits = [t[2:] for t in tokens]
    odd = next((t for t in digits if len(t) % 2), None)
    if odd:
        raise odd_digits(odd, f"in 0x{odd}")
    plain = bytes.fromhex("".join(digits))
    if begins_frame(bytes.fromhex(digits[0])[::-1]) or not begins_frame(plain):
        raise PasteError(
            f"{tokens[0]} is wider than a byte: these words may be byte-swapped, and the paste does not say",
            "",
            "print single bytes: hexdump -C FILE, or gdb's x/64xb",
        )
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


# Read a paste that is numbers and separators and nothing else: hexadecimal in all its spellings, or decimal.
#
# Where every byte is spelled alike (0x80, \x80, %80 …) there is nothing to decide; bare digits are read in bare.py.

_ELLIPSIS = lazy_pattern(r"(?<!\.)\.{3}(?!\.)|…")  # more dots are a text column
_MORE = lazy_pattern(r"(?<!\d)\d{1,9} more (?:bytes|items|elements)[ \t\])>]{0,9}")
_WRAP = " \t\n'\"<>[](){},;"
_HEX_ONLY = lazy_pattern(r"[\[<({\s]{0,9}[0-9A-Fa-fxXhH$#%&\\:,_\s-]+")
_DIGIT_LINE = lazy_pattern(r"[0-9A-Fa-fxXhH$#%&\\:.,;_/|+~\s-]+")

# -- one spelling of a byte: the name to show, and the pattern of one token (its digits in group 1) ---
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
