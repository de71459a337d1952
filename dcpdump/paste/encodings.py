"""Read bytes that are encoded as text: escapes of strings, base64, percent encoding and quoted-printable."""

import base64
import binascii
import re
from enum import Enum
from quopri import decodestring
from urllib.parse import unquote_to_bytes

from dcpdump.errors import PasteError
from dcpdump.paste.pasted import Pasted, begins_frame, has_header, is_complete, unwrapped
from dcpdump.startup import lazy_pattern

# -- the inside of a string literal -------------------------------------------------------------------
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
