"""Name the language of a literal, to report how it was read. No byte depends on it."""

import re

from dcpdump.paste.tokens import Token

_LANGUAGES: tuple[tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
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
