r"""Spell bytes: as numbers, in one table for all languages and tools, and as the escapes of strings."""

import re
from collections.abc import Sequence
from enum import Enum

from dcpdump.errors import PasteError
from dcpdump.paste.pasted import begins_frame, is_complete
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


def spelled(text: str) -> tuple[str, bytes] | None:
    """Return the bytes of a text in which each is spelled alike, and how; or None."""
    for token, base, name in _BYTES:
        digits = _digits_of(text, token)
        data = _of_bits(digits, text) if base == 2 else bytes_of(digits, base)
        if data:
            return name, data
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


# -- escapes: the inside of a string ------------------------------------------------------------------
# Languages agree on ``\x80``, ``\n`` and quotes. They differ in digits after a backslash: octal in C, Go, Python,
# Perl and gdb; decimal in Lua and Haskell; and in Rust and JavaScript ``\0`` is NUL whatever follows.

_ASCII_NAMES = """NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI
    DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US SP""".split()
_LETTERS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "e": 27, "s": 32, "E": 27}
_NAMED = {name: value for value, name in enumerate(_ASCII_NAMES)} | {"DEL": 127} | _LETTERS
_NAMES = sorted(_NAMED, key=len, reverse=True)  # SOH before SO: Haskell writes the latter as SO\&H
_NAME = "|".join(name for name in _NAMES if name not in _LETTERS)


class Digits(Enum):
    r"""What ``\123`` means, as the pattern of its digits."""

    OCTAL = "(?P<octal>[0-7]{1,3})"
    DECIMAL = "(?P<decimal>[0-9]{1,3})"
    NUL = "(?P<octal>[0-7])"  # \0 alone is an escape; the digits after it are text


_ESCAPES = {
    digits: lazy_pattern(
        r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2}|\{[0-9a-fA-F]{1,6}\})"
        r"|[uU](?P<point>(?<=u)\{[0-9a-fA-F]{1,6}\}|(?<=u)[0-9a-fA-F]{4}|(?<=U)[0-9a-fA-F]{8})"
        rf"|{digits.value}|(?P<name>{'|'.join(_NAMES)})|(?P<empty>&|\n[ \t]*)|(?P<one>.))",
        re.DOTALL,
    )
    for digits in Digits
}
_BASES = {"hex": 16, "octal": 8, "decimal": 10}
#: Escapes of bytes that a printer of one character for each byte would print as letters.
_ABOVE = lazy_pattern(r"\\x(?:[aA][1-9a-ce-fA-CE-F]|[b-fB-F][0-9a-fA-F])")
_NUMERIC = lazy_pattern(r"\\(?:[xX][0-9a-fA-F{]|[0-9]|u[0-9a-fA-F{]|" + _NAME + ")")


def numeric_escapes(body: str) -> int:
    """Return how many bytes of ``body`` are spelled in numbers: these distinguish bytes from prose."""
    return sum(1 for _ in _NUMERIC.finditer(body))


def unescape(body: str, *, single: bool = False, rust: bool = False, digits: Digits | None = None) -> bytes | None:
    """Return the bytes of a literal's inside, or None when an escape in it is not known.

    ``single``: single quotes, in which JavaScript and Python print one character for each byte; in double quotes text
    that is not ASCII is UTF-8, as Go, Ruby and Rust print it.
    """
    if "\\" not in body:
        return _text(body, single)
    return _unescape(body, digits or meaning_of_digits(body, rust=rust), single)


def meaning_of_digits(body: str, *, rust: bool = False) -> Digits:
    """Return what digits after a backslash mean in a literal that begins with ``body``."""
    if re.search(r"\\(?:" + _NAME + ")", body):
        return Digits.DECIMAL
    found = re.findall(r"(?<!\\)(?:\\\\)*\\([0-9]{1,3})", body)
    if rust and all(f[0] == "0" and (len(f) == 1 or f[1:] != "00") for f in found):
        return Digits.NUL
    if any("8" in f or "9" in f for f in found):
        # Octal has no 8, but text may follow an octal escape: the reading that begins a frame decides.
        decimal = _unescape(body, Digits.DECIMAL, False)
        octal = _unescape(body, Digits.OCTAL, False)
        if octal is not None and begins_frame(octal) and not (decimal is not None and begins_frame(decimal)):
            return Digits.OCTAL
        return Digits.DECIMAL
    first = re.match(r"\\([0-9]{1,3})", body)
    if first and not begins_frame(bytes([int(first[1], 8) & 0xFF])):
        value = int(first[1])
        if value < 256 and begins_frame(bytes([value])):
            return Digits.DECIMAL
    return Digits.OCTAL


def _unescape(body: str, digits: Digits, single: bool) -> bytes | None:
    data, position = bytearray(), 0
    # A string that has raw bytes in it is a byte string, whose \u escapes are text; in one without, \u0080
    # is how JSON and Java print the byte.
    points_are_bytes = single or not re.search(r"(?<!\\)(?:\\\\)*\\x[89a-fA-F]", body)
    for escape in _ESCAPES[digits].finditer(body):
        data += _text(body[position : escape.start()], single)
        position = escape.end()
        kind = escape.lastgroup or ""
        shown = escape[kind].strip("{}") or escape[kind]
        if kind in _BASES:
            if (value := int(shown, _BASES[kind])) > 255:
                return None
            data.append(value)
        elif kind == "point":
            data += _point(int(shown, 16), points_are_bytes)
        elif kind == "name":
            data.append(_NAMED[shown])
        elif kind == "one":
            if not shown.isascii() or shown.isalnum():
                return None
            data += shown.encode()
    if body.endswith("\\") and position < len(body):
        return None
    return bytes(data + _text(body[position:], single))


def _point(point: int, is_byte: bool) -> bytes:
    if point == 0xFFFD:
        raise _lost()
    if point < 0x80 or (is_byte and point < 0x100):
        return bytes([point])
    if point > 0x10FFFF:
        raise PasteError(f"U+{point:X} is not a character", "in a string", "paste the bytes as hex")
    return chr(point).encode("utf-8", "surrogatepass")


def _text(text: str, single: bool) -> bytes:
    if text.isascii():
        return text.encode()
    if "\ufffd" in text:
        raise _lost()
    if single and all(ord(c) < 256 for c in text):
        return text.encode("latin-1")
    return text.encode("utf-8", "surrogatepass")


def in_latin_1(body: str, data: bytes) -> bytes:
    """Return ``data``, or ``body`` read with one byte for each character when only that is a whole frame.

    Python and Node fall back to double quotes for a string that has a single quote in it.
    """
    if body.isascii() or is_complete(data) or any(ord(c) > 255 for c in body):
        return data
    other = unescape(body, single=True)
    if other is None or is_complete(other):
        return data if other is None else other
    if "'" in body and '\\"' not in body and not _ABOVE.search(body) and _NUMERIC.search(body):
        raise PasteError(
            "in these double quotes the letters that are not ASCII can be UTF-8 or one byte each",
            f"at {next(c for c in body if not c.isascii())!r}",
            "print the bytes as hex",
        )
    return data


def _lost() -> PasteError:
    return PasteError(
        "the text holds U+FFFD, the mark of bytes that were already lost when it was printed",
        "in a string",
        "print the bytes as hex where they still are bytes",
    )
