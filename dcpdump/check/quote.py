"""Quotes: what sentences of rules repeat of texts and numbers in frames, marked so that it can be hidden."""

import re

from dcpdump.disclosure import LARGE_NUMBER
from dcpdump.escape import safe
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.redact import Redactor
from dcpdump.spec import MESSAGES
from dcpdump.spec.opcodes import DCP_CONTROL

_BEGIN, _END = "\x02", "\x03"  # no text that is safe to print has them
_QUOTE = lazy_pattern(f"{_BEGIN}([^{_END}]*){_END}")
_NUMBER_BEGIN, _NUMBER_END = "\x04", "\x05"
_NUMBER = lazy_pattern(f"{_NUMBER_BEGIN}([^{_NUMBER_END}]*){_NUMBER_END}")


def quoted(text: str | bytes) -> str:
    """Return a text out of a frame as a sentence may have it. Whatever is not marked so is shown at every level."""
    return f"{_BEGIN}{safe(text)}{_END}"


def repeated(problem: str, numbers: re.Pattern[str] = LARGE_NUMBER) -> str:
    """Return what a decoder says of a key or a value as a sentence may have it: its numbers may be bytes of those."""
    return numbers.sub(lambda number: f"{_NUMBER_BEGIN}{number[0]}{_NUMBER_END}", problem)


def unmarked(sentence: str) -> str:
    """Return a sentence as it is shown."""
    if _NUMBER_BEGIN in sentence:
        sentence = _NUMBER.sub(r"\1", sentence)
    return _QUOTE.sub(r"\1", sentence) if _BEGIN in sentence else sentence


def hidden(sentence: str, redactor: Redactor) -> str:
    """Return a sentence with what it quotes hashed, but for the words and numbers that controls are set to.

    Numbers that it repeats are left out, as they are where records are redacted.
    """
    sentence = _NUMBER.sub("…", sentence)
    return _QUOTE.sub(lambda quote: redactor.value(MESSAGES[DCP_CONTROL], quote[1]), sentence)
