"""Read bytes as programs write and print them: lists of numbers, strings and objects, in any language's brackets.

The text is cut into tokens once; then lists are read, then strings.
"""

import re
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.paste.encodings import (
    BARE,
    NUMBER,
    begins_in_digits,
    bytes_of_digits,
    number,
    number_list,
    read_base64_token,
)
from dcpdump.paste.pasted import (
    CUT,
    LIMIT,
    Pasted,
    begins_frame,
    has_header,
    is_complete,
    joined,
    left_out,
    odd_digits,
    refuse_odd,
    too_wide,
)
from dcpdump.startup import lazy_pattern
from dcpdump.text import counted

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


# -- tokens -------------------------------------------------------------------------------------------
# Comments, casts, indexes and the wrappers around single bytes are language and not bytes: they are removed.


class _Token(NamedTuple):
    """A token, with the name of its kind, and how often it repeats, as gdb prints that."""

    kind: str
    text: str
    prefix: str = ""  # of a string: what stands before its quotes, in small letters
    times: int = 1

    @property
    def body(self) -> str:
        """Return the inside of a string."""
        return self.text[len(self.prefix) + 1 : -1]

    @property
    def is_single(self) -> bool:
        """Return whether its escapes are those of single quotes, which many languages do not interpret."""
        return self.text[len(self.prefix)] == "'" and "b" not in self.prefix


_COMMENT_LINE = lazy_pattern(r"/\*(?!.*/\*).*\*/[ \t]*$", re.M)  # a text column in a comment may itself hold "*/"
_CAST = lazy_pattern(
    r"\((?:(?:un)?signed[ ]+)?(?:char|byte|Byte|u?int8_t|u?int8|sbyte|std::byte|u8|UInt8|uchar)\)"
    r"|::(?:8|integer|binary|bytea|int|unsigned|big|bytes)\b(?:-[a-z]+)*|/(?:utf8|binary|integer|bytes)\b"
)
_WRAPPED = lazy_pattern(
    r"\b(?:std::byte|byte|uint8_t|uint8|u8|char|int|UInt8|Byte|sbyte|chr|Chr|CHR)[ ]?[({][ ]?"
    r"([-+]?(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3})|'[^'\n]{1,6}')[ ]?[)}]"
)
_INDEX = lazy_pattern(r"(?:([^\s,{(\[])\s+)?(?<![\w$])\[(\d{1,9})\]\s*=>?(?=[\s\w'-])")
_TOKEN = lazy_pattern(
    r"""
    \s*(?:(?P<comment>//[^\n]*|/\*.*?\*/|[#%](?=[ \t!])[^\n]*)
  | (?P<string>(?P<prefix>[A-Za-z]{0,2}\$?)(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'))
  | <repeats[ ](?P<repeats>\d+)[ ]times>
  | (?P<number>"""
    + NUMBER
    + r""")
  | (?P<ellipsis>\.{3,}|…)
  | (?P<arrow>=>|->)
  | (?P<open><<|[\[({])
  | (?P<close>>>|[\])}])
  | (?P<word>[A-Za-z_]\w*)
  | (?P<other>\\.|\S))
    """,
    re.X | re.DOTALL,
)


def _tokens_of(text: str) -> list[_Token]:
    """Return ``text`` as tokens, without blanks, comments, casts and indexes that count up by one."""
    text = _COMMENT_LINE.sub("", text)
    indexes = [int(index[2]) for index in _INDEX.finditer(text)]
    if all(there in (before + 1, 0) for before, there in pairwise([0, *indexes])):
        text = _INDEX.sub(lambda index: f"{index[1]}," if index[1] else "", text)
    text = _WRAPPED.sub(r"\1", _CAST.sub("", text))
    found: list[_Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "repeats" and found:
            found[-1] = found[-1]._replace(times=int(match[kind][:9]))
        elif kind != "comment":
            found.append(_Token(kind, match[kind], (match["prefix"] or "").lower()))
    return found


_LANGUAGES = {
    "Go literal": lazy_pattern(r"\[ ?\d*(?:\.\.\.)? ?\] ?(?:byte|uint8)\b"),
    "gdb print": lazy_pattern(r"^\$ ?\d+ ="),
    "Rust literal": lazy_pattern(r"\bvec !|\b0x[0-9a-f]{2}u8|& ?\[|\[ ?u8"),
    "Java literal": lazy_pattern(r"new byte \["),
    "C# literal": lazy_pattern(r"new byte ?\[ ?\] ?\{"),
    "Kotlin literal": lazy_pattern(r"u?byteArrayOf|ubyteArrayOf"),
    "Scala literal": lazy_pattern(r"Array \[ Byte|Array \( -?\d+ ,"),
    "PHP array": lazy_pattern(r"[aA]rray \( (?:\[ )?\d+ (?:\] )?=>|array \( \d+ \) \{ \["),
    "JavaScript literal": lazy_pattern(r"Uint8Array|Buffer"),
    "Erlang binary": lazy_pattern(r"<<"),
    "Python literal": lazy_pattern(r"bytes ?\(|bytearray"),
    "C literal": lazy_pattern(r"(?:char|uint8_t|u8|uchar|byte)\b.{0,60}="),
}


def _language(tokens: list[_Token], otherwise: str) -> str:
    """Return the language that a list is written in, by the tokens before it; else ``otherwise``."""
    lead = " ".join(t.text for t in tokens[:24])
    return next((name for name, shape in _LANGUAGES.items() if shape.search(lead)), otherwise)


def _string_name(tokens: list[_Token], prefix: str, count: int) -> str:
    """Return the name of a string of ``count`` pieces, of which the first has ``prefix``."""
    if prefix in ("b", "br", "rb"):
        return "bytes literal"
    if any(t.times > 1 for t in tokens):
        return "gdb string"
    if any(t.text in ("byte", "uint8") for t in tokens[:8]):
        return "Go literal"
    return "escaped string" if count == 1 else "adjacent strings"


# -- lists of numbers, characters or one-byte strings -------------------------------------------------


def _read_lists(tokens: list[_Token]) -> Pasted | None:
    """Return the bytes of the lists among ``tokens``: those that begin as frames do, else the long or the only."""
    found: list[Pasted] = []
    opened = None  # where the last bracket opened, if none has closed since
    for index, token in enumerate(tokens):
        if token.kind == "open":
            opened = index
        elif token.kind == "close":
            if opened is not None and index - opened > 3:
                numbers = _list_of(tokens[opened + 1 : index], binary=tokens[opened].text == "<<")
                found += [numbers] if numbers is not None else []
            opened = None
    large = [f for f in found if has_header(f.parts[0])] or [f for f in found if len(f.parts[0]) >= 8]
    chosen = large or (found if len(found) == 1 else [])
    return joined(chosen, _language(tokens, chosen[0].dialect)) if chosen else None


_PAIR = lazy_pattern(r"[0-9a-fA-F]{2}")


def _list_of(inside: list[_Token], binary: bool) -> Pasted | None:
    """Return the bytes of one bracket's content, or None when it is not a list of bytes."""
    inside, notes = _without_cut(inside)
    elements = _elements(inside)
    if elements is None or len(elements) < 2:
        return None
    if all(len(e) == 1 and e[0].kind in ("number", "word") for e in elements):
        plain = _plain_numbers([e[0].text for e in elements])
        if plain is not None:
            return plain.noted(*notes)
    texts = [e[0].body for e in elements if e[0].kind == "string"] if all(elements) else []
    if len({len(text) for text in texts if text[:2] != "0x"}) > 1 and any(map(_PAIR.fullmatch, texts)):
        return None  # pairs of digits, and something else
    data = bytearray()
    for element in elements:
        value = _element(element)
        if value is None or (element[0].kind == "string" and len(value) != 1 and not binary and len(element) == 1):
            return None
        data += value
        if len(data) > LIMIT:
            return None
    return Pasted("byte list", (bytes(data),), notes)


def _without_cut(inside: list[_Token]) -> tuple[list[_Token], tuple[str, ...]]:
    """Return the tokens before an ellipsis, and a note on it; all of them where it is the language's own."""
    at = next((i for i, t in enumerate(inside) if t.kind == "ellipsis"), None)
    if at is None:
        return inside, ()
    rest = [t for t in inside[at + 1 :] if t.text != ","]
    if any(t.kind == "number" for t in rest) and not any(t.text == "more" for t in rest):
        if any(t.kind not in ("number", "ellipsis") and t.text != "," for t in inside):
            return inside, ()
        raise left_out(f"after {counted(sum(t.kind == 'number' for t in inside[:at]), 'number')}")
    return inside[:at], (CUT,)


def _elements(inside: list[_Token]) -> list[list[_Token]] | None:
    """Return the tokens of each element: separated by commas, or by blanks where there are no commas."""
    commas = any(t.text in (",", ";") for t in inside)
    if not commas and any(t.kind not in ("number", "word", "string") for t in inside):
        return None
    elements: list[list[_Token]] = [[]]
    for token in inside:
        last = elements[-1]
        follows = token.kind == "string" and last and last[-1].kind == "number"  # gdb prints 128 '\200'
        if token.text in (",", ";"):
            elements.append([])
        elif commas or not last or follows:
            last.append(token)
        else:
            elements.append([token])
    if not elements[-1]:
        elements.pop()
    keyed = [e for e in elements if len(e) > 2 and e[1].text in (":", "=>", "->")]
    keys = [int(key[:9]) for e in keyed if (key := e[0].text.strip("\"'")).isdecimal()]
    if keys and keys[0] in (0, 1) and keys == [*range(keys[0], keys[0] + len(elements))]:
        return [e[2:] for e in elements] if len(keys) > 3 or elements[0][0].kind == "string" else elements
    return elements


def _plain_numbers(texts: list[str]) -> Pasted | None:
    """Read numbers without a prefix, which may be decimal or, as Rust prints them, hexadecimal; or return None."""
    if all(t.isdecimal() for t in texts):
        return number_list(texts, bracketed=True)
    if all(BARE[16].fullmatch(t) for t in texts) and sum(t[0].isdecimal() for t in texts) * 4 >= len(texts):
        return Pasted("hex list", (bytes(int(t, 16) for t in texts),))
    return None


def _element(element: list[_Token]) -> bytes | None:
    """Return the bytes of one element of a list, or None."""
    if not element:
        return None
    head, rest, times = element[0], element[1:], element[-1].times
    if times > LIMIT:
        return None
    if head.kind == "string":
        body, rust = head.body, head.prefix == "b"
        if rest or len(body) * times > LIMIT:
            return None
        if BARE[16].fullmatch(body.removeprefix("0x")) and (len(body) == 2 or body[:2] == "0x"):
            return bytes([int(body, 16)]) * times
        data = unescape(body, single=head.is_single, rust=rust, digits=None if rust else Digits.OCTAL)
        return None if data is None else data * times
    if head.kind != "number":
        return None
    if len(rest) == 1 and rest[0].kind == "string":
        rest = []
    value = number(head.text)
    if value is None:
        return None
    if len(rest) == 2 and rest[0].text == ":" and rest[1].text.isdecimal():
        bits = int(rest[1].text[:6])  # Erlang's 5:16
        if bits % 8 or not 0 < bits <= 4096 or value < 0 or value >> bits:
            return None
        return value.to_bytes(bits // 8, "big")
    if rest or not -128 <= value <= 255:
        return None
    return bytes([value & 0xFF]) * times


# -- strings: their escapes, or the hex, base64 or escapes that their text is -------------------------

_GLUE = frozenset({"+", ".", "..", "&", "++", "<>", "<", ">", "<<", ">>"})  # and a backslash before whatever it is


def _read_strings(tokens: list[_Token]) -> Pasted | None:
    """Return the bytes of the strings among ``tokens``: those that begin as frames do, or those in texts, or any."""
    binary: list[Pasted] = []
    texts: list[Pasted] = []
    for strings, notes in _groups(tokens):
        if sum(len(s.prefix) + len(s.body) + 2 for s in strings) < 8:
            continue
        if sum(len(s.body) * s.times for s in strings) > LIMIT:
            return None
        first = strings[0]
        data = _join(strings)
        if data is None:
            continue
        if len(strings) == 1 and not first.is_single:
            data = in_latin_1(first.body, data)
        if all(0x20 <= b < 0x7F or b in b"\n\t\r" for b in data):
            texts += [inner.noted(*notes)] if (inner := _text_of_bytes(data.decode("ascii"))) else []
        elif begins_frame(data) or sum(numeric_escapes(s.body) for s in strings) >= 4:
            binary.append(Pasted(_string_name(tokens, first.prefix, len(strings)), (data,), notes))
    frames = [each for each in binary if begins_frame(each.parts[0])]
    if 0 < len(frames) < len(binary) and not all(is_complete(each.parts[0]) for each in frames):
        return None  # others may continue them, behind something that is not known here
    chosen = frames or texts or binary
    return joined(chosen) if chosen else None


def _groups(tokens: list[_Token]) -> list[tuple[list[_Token], tuple[str, ...]]]:
    """Return strings that stand together, adjacent or joined by an operator, each with a note on an ellipsis behind."""
    groups: list[tuple[list[_Token], tuple[str, ...]]] = []
    printed_by_gdb = any(t.times > 1 for t in tokens)
    is_open = False
    for token in tokens:
        if token.kind == "string":
            if not is_open:
                groups.append(([], ()))
            groups[-1][0].append(token)
            is_open = True
        elif token.kind == "ellipsis" and groups and is_open:
            groups[-1] = (groups[-1][0], (CUT,))
        elif token.text not in _GLUE and token.text[0] != "\\" and not (token.text == "," and printed_by_gdb):
            is_open = False
    return groups


def _join(strings: list[_Token]) -> bytes | None:
    first = strings[0]
    digits = meaning_of_digits(first.body, rust=first.text[:2].lower() == 'b"')
    alike = all(s.times == 1 for s in strings) and len({(s.is_single, "r" in s.prefix) for s in strings}) == 1
    # Each piece ends its own escapes, so that "\x0" "1" is two characters.
    decoded = [(_decode(string, string.is_single and alike, digits), string.times) for string in strings]
    parts = [data * times for data, times in decoded if data is not None]
    return b"".join(parts) if len(parts) == len(strings) else None


def _decode(string: _Token, single: bool, digits: Digits) -> bytes | None:
    if bytea := _of_bytea(string.body):
        return bytea
    if "r" in string.prefix:
        return string.body.encode("utf-8", "surrogatepass")
    return unescape(string.body, single=single, digits=digits)


def _text_of_bytes(text: str) -> Pasted | None:
    """Return the bytes that a printable string spells in hex, base64 or escapes, or None."""
    stripped = text.strip().strip("<>").strip()
    if len(stripped) < 8:
        return None
    if stripped[:2] == "\\x" and not re.match(r"\\x[0-9a-fA-F]{3}", stripped):
        data = unescape(stripped)
        if data is not None and begins_frame(data):
            return Pasted("escaped string", (data,))
    digits = stripped.removeprefix("\\\\").removeprefix("\\").removeprefix("x")
    if len(digits) >= 16 or begins_in_digits(digits[:4]):
        data = bytes_of_digits(digits)
        if data is not None and (len(data) >= 8 or begins_frame(data)):
            return Pasted("hex string", (data,))
    data = read_base64_token(stripped)
    return Pasted("base64 string", (data,)) if data is not None else None


_BARE = lazy_pattern(r"\s*\\(?:[xX][0-9a-fA-F]{2}|[0-7]{3}|u00[0-9a-fA-F]{2}|\d{1,3})")
_BEGINS_BYTEA = lazy_pattern(r"\s*\\{1,2}x[0-9a-fA-F]{16}")  # an escape has two digits, and then no byte in hex
_BYTEA = lazy_pattern(r"\s*\\{1,2}x((?:[0-9a-fA-F]{2}){8,}[0-9a-fA-F]?)\s*$")


def _of_bytea(text: str) -> bytes | None:
    r"""Return the bytes of a database's bytea, as in \x80570005, or None; raise PasteError for what is nearly one."""
    if bytea := _BYTEA.match(text):
        if len(bytea[1]) % 2:
            raise odd_digits(bytea[1][-24:], f"{len(bytea[1])} digits after \\x")
        return bytes.fromhex(bytea[1])
    if _BEGINS_BYTEA.match(text):
        refuse_odd(text)
    return None


def _bare_escapes(text: str) -> Pasted | None:
    """Return the bytes of escapes without quotes around them (a bytea, a string's inside), or None."""
    if bytea := _of_bytea(text):
        return Pasted("bytea hex", (bytea,))
    if not _BARE.match(text):
        return None
    body = text.strip("\n")
    body = body if body[:1] == "\\" else body.strip()
    data = unescape(body.replace("\\\n", "").replace("\n", ""))
    if data is None or (numeric_escapes(body) < 2 and not has_header(data)):
        return None
    return Pasted("escaped bytes", (data,))


# -- whole texts --------------------------------------------------------------------------------------

_PROSE = 32  # words beside the bytes: more than any declaration or call around them has
#: The first line of a hex dump, behind what a log, a mail or a web page puts before it.
_DUMP = lazy_pattern(
    r"^[^\"'\n]{0,120}?(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{4,16}:|[0-9A-Fa-f]{8}\b)[^\S\n]+"
    r"(?:[0-9A-Fa-f]{2,4}(?:[^\S\n]+[0-9A-Fa-f]{2,4}){3}|[0-9A-Fa-f]{8,64})[^\S\n]",
    re.M,
)


def read_literal(text: str) -> Pasted | None:
    """Return the bytes of the lists or strings in ``text``, or None when it has none."""
    dump = _DUMP.search(text)
    if dump and not any(quote in text[: dump.start()] for quote in "\"'"):
        return None  # quotes in its column of text are bytes, and what is between them is not
    if not any(c in text for c in "\"'[{(<\\") or not any(c in text for c in "0123456789\\"):
        return None
    if bare := _bare_escapes(text):
        return bare
    tokens = _tokens_of(text)
    pasted = _read_lists(tokens) or _read_strings(tokens)
    if pasted is None:
        _refuse_words(tokens)
        return None
    # In a page of prose or of other numbers, what a bracket or a quote holds is hardly a frame.
    words = sum(t.kind == "word" for t in tokens)
    beside = sum(t.kind == "number" for t in tokens) - sum(map(len, pasted.parts))
    doubtful = words > _PROSE or beside > _PROSE or (words + beside > 8 and max(map(len, pasted.parts)) < 8)
    return None if doubtful and not any(begins_frame(part) for part in pasted.parts) else pasted


def _refuse_words(tokens: list[_Token]) -> None:
    """Raise PasteError when the text is a list of hex numbers that are wider than a byte."""
    numbers = [t.text for t in tokens if t.kind == "number"]
    wide = [n for n in numbers if n[:2] in ("0x", "0X") and len(n.rstrip("uUlLyY")) > 4]
    if len(wide) >= 3 and len(wide) * 2 > len(numbers) and sum(t.kind == "word" for t in tokens) <= _PROSE:
        raise too_wide(wide[0][:20])


_ANGLED = lazy_pattern(
    r"<(?:Buffer |SlowBuffer )?(?P<hex>[0-9a-fA-F]{2}(?:[ \n]?[0-9a-fA-F]{2}){3,})"
    r"(?P<cut>[ ]?(?:\.{3}|…)(?:[ ]\d+ more bytes)?)?>"
)
_NSDATA = lazy_pattern(
    r"\{ ?length = (\d{1,9}), bytes = 0x(?:(?=[0-9a-fA-F ]{1,400}\.\.\.)(\S+)|((?:[0-9a-fA-F]{2}[ ]?)+)\})"
)


def read_angled(text: str) -> Pasted | None:
    """Return the bytes of ``<80 57 …>``, as Node prints a Buffer and Foundation an NSData; or None."""
    if data := list(_NSDATA.finditer(text)):
        if any(m[2] for m in data):
            raise left_out(f"of {data[0][1]} bytes")
        return Pasted("NSData", tuple(bytes.fromhex(m[3]) for m in data))
    found = list(_ANGLED.finditer(text))
    if not found:
        return None
    notes = (CUT,) if any(m["cut"] for m in found) else ()
    parts = tuple(bytes.fromhex(m["hex"]) for m in found)
    return Pasted("<Buffer …>" if "Buffer" in text else "<hex>", parts, notes)
