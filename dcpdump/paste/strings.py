"""Read bytes from a string's escapes, or from a string whose text is hex, base64 or escapes itself."""

import re
from typing import NamedTuple

from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.base64_text import read_base64_token
from dcpdump.paste.digits import bytes_of_digits
from dcpdump.paste.escapes import Digits, in_latin_1, meaning_of_digits, numeric_escapes, unescape
from dcpdump.paste.odd import refuse_odd
from dcpdump.paste.pasted import CUT, LIMIT, Pasted, begins_frame, has_header, is_whole, odd_digits
from dcpdump.paste.tokens import Quoted, Token, quoted, string_name
from dcpdump.spec.header import MAGICS

_GLUE = frozenset({"+", ".", "..", "&", "++", "<>", "<", ">", "<<", ">>"})  # and a backslash before whatever it is


class _StringPiece(NamedTuple):
    """A string, and how often it repeats."""

    string: Quoted
    times: int = 1


class _Group(NamedTuple):
    """Strings that stand together, as pieces of one; ``cut``: an ellipsis follows them."""

    pieces: list[_StringPiece]
    cut: bool = False


class _Reading(NamedTuple):
    data: bytes
    cut: bool
    name: str


def read_strings(tokens: list[Token]) -> Pasted | None:
    """Return the bytes of the strings among ``tokens``: those that begin as frames do, or those in texts, or any."""
    binary: list[_Reading] = []
    texts: list[_Reading] = []
    for pieces, cut in _groups(tokens):
        if sum(len(s.prefix) + len(s.body) + 2 for s, _ in pieces) < 8:
            continue
        if sum(len(s.body) * times for s, times in pieces) > LIMIT:
            return None
        first = pieces[0].string
        data = _join(pieces)
        if data is None:
            continue
        if len(pieces) == 1 and not first.single:
            data = in_latin_1(first.body, data)
        if all(0x20 <= b < 0x7F or b in b"\n\t\r" for b in data):
            inner = _text_of_bytes(data.decode("ascii"))
            if inner is not None:
                texts.append(_Reading(inner[0], cut, inner[1]))
        elif begins_frame(data) or sum(numeric_escapes(s.body) for s, _ in pieces) >= 4:
            binary.append(_Reading(data, cut, string_name(tokens, first.prefix, len(pieces))))
    frames = [reading for reading in binary if begins_frame(reading.data)]
    if 0 < len(frames) < len(binary) and not all(is_whole(reading.data) for reading in frames):
        return None  # others may continue them, behind something that is not known here
    chosen = frames or texts or binary
    if not chosen:
        return None
    notes = (CUT,) if any(reading.cut for reading in chosen) else ()
    return Pasted(chosen[0].name, tuple(reading.data for reading in chosen), notes)


def _groups(tokens: list[Token]) -> list[_Group]:
    """Return strings that stand together: adjacent, or joined by an operator."""
    groups: list[_Group] = []
    printed_by_gdb = any(t.kind == "repeats" for t in tokens)
    open_group = False
    for token in tokens:
        if token.kind == "string":
            if not open_group:
                groups.append(_Group([]))
            groups[-1].pieces.append(_StringPiece(quoted(token.text)))
            open_group = True
        elif token.kind == "repeats" and groups:
            times = int(re.sub(r"\D", "", token.text)[:9])
            groups[-1].pieces[-1] = groups[-1].pieces[-1]._replace(times=times)
        elif token.kind == "ellipsis" and groups and open_group:
            groups[-1] = groups[-1]._replace(cut=True)
        elif token.text not in _GLUE and token.text[0] != "\\" and not (token.text == "," and printed_by_gdb):
            open_group = False
    return groups


def _join(pieces: list[_StringPiece]) -> bytes | None:
    first = pieces[0].string
    digits = meaning_of_digits(first.body, rust=first.prefix == "b" and first.quote == '"')
    alike = all(times == 1 for _, times in pieces) and len({(s.single, "r" in s.prefix) for s, _ in pieces}) == 1
    # Each piece ends its own escapes, so that "\x0" "1" is two characters.
    decoded = [(_decode(string, string.single and alike, digits), times) for string, times in pieces]
    parts = [data * times for data, times in decoded if data is not None]
    return b"".join(parts) if len(parts) == len(pieces) else None


def _decode(string: Quoted, single: bool, digits: Digits) -> bytes | None:
    if bytea := _BYTEA.match(string.body):
        return None if len(bytea[1]) % 2 else bytes.fromhex(bytea[1])
    if _BEGINS_BYTEA.match(string.body):
        refuse_odd(string.body)
    if "r" in string.prefix:
        return string.body.encode("utf-8", "surrogatepass")
    return unescape(string.body, single=single, digits=digits)


def _text_of_bytes(text: str) -> tuple[bytes, str] | None:
    """Return the bytes that a printable string spells in hex, base64 or escapes, and the form's name; or None."""
    stripped = text.strip().strip("<>").strip()
    if len(stripped) < 8:
        return None
    if stripped[:2] == "\\x" and not re.match(r"\\x[0-9a-fA-F]{3}", stripped):
        data = unescape(stripped)
        if data is not None and begins_frame(data):
            return data, "escaped string"
    digits = stripped.removeprefix("\\\\").removeprefix("\\").removeprefix("x")
    if len(digits) >= 16 or _begins_frame_in_hex(digits):
        data = bytes_of_digits(digits)
        if data is not None and (len(data) >= 8 or begins_frame(data)):
            return data, "hex string"
    data = read_base64_token(stripped)
    return (data, "base64 string") if data is not None else None


def _begins_frame_in_hex(digits: str) -> bool:
    """Return whether hex digits start as a frame does."""
    head = digits.removeprefix("0x")[:2]
    return bool(re.fullmatch("[0-9a-fA-F]{2}", head)) and int(head, 16) in MAGICS


_BARE = lazy_pattern(r"\s*\\(?:[xX][0-9a-fA-F]{2}|[0-7]{3}|u00[0-9a-fA-F]{2}|\d{1,3})")
_BEGINS_BYTEA = lazy_pattern(r"\s*\\{1,2}x[0-9a-fA-F]{16}")  # an escape has two digits, and then no byte in hex
_BYTEA = lazy_pattern(r"\s*\\{1,2}x((?:[0-9a-fA-F]{2}){8,}[0-9a-fA-F]?)\s*$")


def bare_escapes(text: str) -> Pasted | None:
    """Return the bytes of escapes without quotes around them (a database's bytea, a string's inside), or None."""
    bytea = _BYTEA.match(text)
    if bytea:
        if len(bytea[1]) % 2:
            raise odd_digits(bytea[1][-24:], f"{len(bytea[1])} digits after \\x")
        return Pasted("bytea hex", (bytes.fromhex(bytea[1]),))
    if _BEGINS_BYTEA.match(text):
        refuse_odd(text)
    if not _BARE.match(text):
        return None
    body = text.strip("\n")
    body = body if body[:1] == "\\" else body.strip()
    data = unescape(body.replace("\\\n", "").replace("\n", ""))
    if data is None or (numeric_escapes(body) < 2 and not has_header(data)):
        return None
    return Pasted("escaped bytes", (data,))
