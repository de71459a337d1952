"""Cut source text and what programs print into numbers, strings, brackets and words; name the language of a literal.

Comments, casts and the wrappers around single bytes are language and not bytes: they are removed.
"""

import re
from typing import NamedTuple

from dcpdump.lazy_pattern import lazy_pattern


class Token(NamedTuple):
    """A token, with the name of its kind."""

    kind: str
    text: str


_token = tuple.__new__  # what a NamedTuple's own constructor calls, at half the cost
_COMMENT_LINE = lazy_pattern(r"/\*(?!.*/\*).*\*/[ \t]*$", re.M)  # a text column in a comment may itself hold "*/"
_CAST = lazy_pattern(
    r"\((?:(?:un)?signed[ ]+)?(?:char|byte|Byte|u?int8_t|u?int8|sbyte|std::byte|u8|UInt8|uchar)\)"
    r"|::(?:8|integer|binary|bytea|int|unsigned|big|bytes)\b(?:-[a-z]+)*|/(?:utf8|binary|integer|bytes)\b"
)
_WRAPPED = lazy_pattern(
    r"\b(?:std::byte|byte|uint8_t|uint8|u8|char|UInt8|Byte|sbyte|chr|Chr|CHR)[ ]?[({][ ]?"
    r"([-+]?(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3})|'[^'\n]{1,6}')[ ]?[)}]"
)
_TOKEN = lazy_pattern(
    r"""
    \s*(?:(?P<comment>//[^\n]*|/\*.*?\*/|[#%](?=[ \t!])[^\n]*)
  | (?P<string>[A-Za-z]{0,2}\$?(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'))
  | (?P<repeats><repeats[ ](?:\d+)[ ]times>)
  | (?P<number>[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+(?![0-9a-fA-F])|0o[0-7_]+|16\#[0-9a-fA-F]+\#?|2\#[01]+\#?
      |&[hH][0-9a-fA-F]+|\#?\$[0-9a-fA-F]+|\#[xX][0-9a-fA-F]+|[0-9][0-9a-fA-F]*[hH]?)
      (?:\.toU?Byte(?:\(\))?|_?[ui](?:8|16|32|64|128|size)\b|uy\b|[uU]?[lLyY]{0,2}\b))
  | (?P<ellipsis>\.{3,}|…)
  | (?P<arrow>=>|->)
  | (?P<open><<|[\[({])
  | (?P<close>>>|[\])}])
  | (?P<word>[A-Za-z_]\w*)
  | (?P<other>\\.|\S))
    """,
    re.X | re.DOTALL,
)


def tokens_of(text: str) -> list[Token]:
    """Return ``text`` as tokens, without blanks, comments and casts."""
    text = _COMMENT_LINE.sub("", text)
    text = _WRAPPED.sub(r"\1", _CAST.sub("", text))
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind != "comment":
            found.append(_token(Token, (kind, match[kind])))
    return found


class Quoted(NamedTuple):
    """A string token in its parts: what stands before its quotes, in small letters, the quote, and the inside."""

    prefix: str
    quote: str
    body: str

    @property
    def single(self) -> bool:
        """Return whether its escapes are those of single quotes, which many languages do not interpret."""
        return self.quote == "'" and "b" not in self.prefix


def quoted(literal: str) -> Quoted:
    """Return a string token in its parts."""
    at = min((i for i in (literal.find('"'), literal.find("'")) if i >= 0), default=0)
    return Quoted(literal[:at].lower(), literal[at], literal[at + 1 : -1])


_LANGUAGES: tuple[tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, lazy_pattern(pattern))
    for name, pattern in (
        ("Go literal", r"\[ ?\d*(?:\.\.\.)? ?\] ?(?:byte|uint8)\b"),
        ("gdb print", r"^\$ ?\d+ ="),
        ("Rust literal", r"\bvec !|\b0x[0-9a-f]{2}u8|& ?\[|\[ ?u8"),
        ("Java literal", r"new byte \["),
        ("C# literal", r"new byte ?\[ ?\] ?\{"),
        ("Kotlin literal", r"u?byteArrayOf|ubyteArrayOf"),
        ("Scala literal", r"Array \[ Byte|Array \( -?\d+ ,"),
        ("PHP array", r"[aA]rray \( (?:\[ )?\d+ (?:\] )?=>|array \( \d+ \) \{ \["),
        ("JavaScript literal", r"Uint8Array|Buffer"),
        ("Erlang binary", r"<<"),
        ("Python literal", r"bytes ?\(|bytearray"),
        ("C literal", r"(?:char|uint8_t|u8|uchar|byte)\b.{0,60}="),
    )
)


def language(tokens: list[Token], otherwise: str) -> str:
    """Return the language that a list is written in, by the tokens before it; else ``otherwise``."""
    lead = " ".join(t.text for t in tokens[:24])
    for name, shape in _LANGUAGES:
        if shape.search(lead):
            return name
    return otherwise


def string_name(tokens: list[Token], prefix: str, count: int) -> str:
    """Return the name of a string of ``count`` pieces, of which the first has ``prefix``."""
    if prefix in ("b", "br", "rb"):
        return "bytes literal"
    if any(t.kind == "repeats" for t in tokens):
        return "gdb string"
    if any(t.text in ("byte", "uint8") for t in tokens[:8]):
        return "Go literal"
    return "escaped string" if count == 1 else "adjacent strings"
