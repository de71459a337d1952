r"""Decode the inside of a string literal to bytes. Knows how each family of languages spells a byte.

The families agree on ``\x80``, ``\n`` and quotes. They differ in digits after a backslash: octal in C, Go, Python, Perl
and gdb; decimal in Lua and Haskell; and in Rust and JavaScript ``\0`` is NUL whatever follows.
"""

import re
from enum import Enum

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.pasted import begins_frame, is_whole

_ASCII_NAMES = """NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI
    DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US SP""".split()
_NAMED = {name: value for value, name in enumerate(_ASCII_NAMES)} | {"DEL": 127}
_NAME = "|".join(sorted(_NAMED, key=len, reverse=True))  # SOH before SO: Haskell writes the latter as SO\&H

_ESCAPE = lazy_pattern(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|x\{(?P<braced>[0-9a-fA-F]{1,6})\}|u\{(?P<point>[0-9a-fA-F]{1,6})\}"
    r"|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<digits>[0-9]{1,3})|(?P<name>" + _NAME + r")"
    r"|(?P<newline>\n[ \t]*)|(?P<one>.))",
    re.DOTALL,
)
_SIMPLE = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "e": 27, "s": 32, "E": 27}
#: Escapes of bytes that a printer of one character for each byte would print as letters.
_ABOVE = lazy_pattern(r"\\x(?:[aA][1-9a-ce-fA-CE-F]|[b-fB-F][0-9a-fA-F])")
_NUMERIC = lazy_pattern(r"\\(?:[xX][0-9a-fA-F{]|[0-9]|u[0-9a-fA-F{]|" + _NAME + ")")


class Digits(Enum):
    r"""What ``\123`` means."""

    OCTAL = "octal"
    DECIMAL = "decimal"
    NUL = "NUL"  # \0 alone is an escape; the digits after it are text


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
    for escape in _ESCAPE.finditer(body):
        data += _text(body[position : escape.start()], single)
        position = escape.end()
        if escape["newline"] is not None:
            continue
        number = escape["hex"] or escape["braced"]
        point = escape["u4"] or escape["u8"] or escape["point"]
        if number:
            if int(number, 16) > 255:
                return None
            data.append(int(number, 16))
        elif point:
            data += _point(int(point, 16), points_are_bytes)
        elif escape["digits"]:
            text = escape["digits"]
            if digits is Digits.DECIMAL:
                if int(text) > 255:
                    return None
                data.append(int(text))
            else:
                taken = text[:1] if digits is Digits.NUL else (re.match(r"[0-7]*", text) or [""])[0]
                if not taken or (value := int(taken, 8)) > 255:
                    return None
                data.append(value)
                data += text[len(taken) :].encode()
        elif escape["name"]:
            data.append(_NAMED[escape["name"]])
        else:
            one = escape["one"]
            if one in _SIMPLE:
                data.append(_SIMPLE[one])
            elif one == "&":
                continue  # Haskell's empty escape, between a number and a digit
            elif one.isascii() and not one.isalnum():
                data += one.encode()
            else:
                return None
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
    if body.isascii() or is_whole(data) or any(ord(c) > 255 for c in body):
        return data
    other = unescape(body, single=True)
    if other is None or is_whole(other):
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
