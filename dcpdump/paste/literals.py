"""Read bytes as programs write and print them: lists of numbers, strings and objects, in any language's brackets.

The text is cut into tokens once; then lists are read, then strings.
"""

import re

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.lists import read_lists
from dcpdump.paste.pasted import CUT, Pasted, begins_frame, left_out
from dcpdump.paste.strings import bare_escapes, read_strings
from dcpdump.paste.tokens import Token, tokens_of

PROSE = 32  # words beside the bytes: more than any declaration or call around them has
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
    if bare := bare_escapes(text):
        return bare
    tokens = tokens_of(text)
    pasted = read_lists(tokens) or read_strings(tokens)
    if pasted is None:
        _refuse_words(tokens)
        return None
    # In a page of prose or of other numbers, what a bracket or a quote holds is hardly a frame.
    words = sum(t.kind == "word" for t in tokens)
    beside = sum(t.kind == "number" for t in tokens) - sum(map(len, pasted.parts))
    doubtful = words > PROSE or beside > PROSE or (words + beside > 8 and max(map(len, pasted.parts)) < 8)
    return None if doubtful and not any(begins_frame(part) for part in pasted.parts) else pasted


def _refuse_words(tokens: list[Token]) -> None:
    """Raise PasteError when the text is a list of hex numbers that are wider than a byte."""
    numbers = [t.text for t in tokens if t.kind == "number"]
    wide = [n for n in numbers if n[:2] in ("0x", "0X") and len(n.rstrip("uUlLyY")) > 4]
    if len(wide) >= 3 and len(wide) * 2 > len(numbers) and sum(t.kind == "word" for t in tokens) <= PROSE:
        raise PasteError(
            f"{wide[0][:20]} is wider than a byte: these words may be byte-swapped, and the list does not say",
            "",
            "print single bytes, as xxd -i FILE does",
        )


_ANGLED = lazy_pattern(
    r"<(?:Buffer |SlowBuffer )?(?P<hex>[0-9a-fA-F]{2}(?:[ \n]?[0-9a-fA-F]{2}){3,})"
    r"(?P<cut>[ ]?(?:\.{3}|…)(?:[ ]\d+ more bytes)?)?>"
)
_NSDATA = lazy_pattern(
    r"\{ ?length = (\d{1,9}), bytes = 0x(?:(?=[0-9a-fA-F ]{1,400}\.\.\.)(\S+)|((?:[0-9a-fA-F]{2}[ ]?)+)\})"
)


def read_angled(text: str) -> Pasted | None:
    """Return the bytes of ``<80 57 …>``, as Node prints a Buffer and Foundation an NSData; or None."""
    data = list(_NSDATA.finditer(text))
    if data:
        if any(m[2] for m in data):
            raise left_out(f"of {data[0][1]} bytes")
        return Pasted("NSData", tuple(bytes.fromhex("".join(m[3].split())) for m in data))
    found = list(_ANGLED.finditer(text))
    if not found:
        return None
    notes = (CUT,) if any(m["cut"] for m in found) else ()
    parts = tuple(bytes.fromhex("".join(m["hex"].split())) for m in found)
    return Pasted("<Buffer …>" if "Buffer" in text else "<hex>", parts, notes)
