"""Quotes: what sentences of rules repeat of texts in frames, marked so that it can be hidden."""

import re

from dcpdump.escape import safe
from dcpdump.redact import Redactor
from dcpdump.spec import MESSAGES
from dcpdump.spec.opcodes import DCP_CONTROL

_BEGIN, _END = "\x02", "\x03"  # no text that is safe to print has them
_QUOTE = re.compile(f"{_BEGIN}([^{_END}]*){_END}")


def quoted(text: str | bytes) -> str:
    """Return a text out of a frame as a sentence may have it. Whatever is not marked so is shown at every level."""
    return f"{_BEGIN}{safe(text)}{_END}"


def unmarked(sentence: str) -> str:
    """Return a sentence as it is shown."""
    return _QUOTE.sub(r"\1", sentence) if _BEGIN in sentence else sentence


def hidden(sentence: str, redactor: Redactor) -> str:
    """Return a sentence with what it quotes hashed, but for the words and numbers that controls are set to."""
    return _QUOTE.sub(lambda quote: redactor.value(MESSAGES[DCP_CONTROL], quote[1]), sentence)
