r"""Make wire text safe to show: the one place where bytes of a document become text for a terminal or a file.

A key may hold anything: escape sequences, bell, right-to-left marks, invalid UTF-8. What is not plain printable text is
written as the ``\xNN`` of its bytes, so that no output ever carries a control character.
"""

import json
from unicodedata import category

#: Unicode categories that are escaped: control, format (bidi, zero width, tags), surrogate, private, unassigned; line
#: and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class _Shown(dict[int, int | str]):
    """How characters are shown, by their numbers: computed once, for as many as a text usually has."""

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        shown = code if category(char) not in _UNSAFE else _escaped(char)
        if len(self) < _REMEMBERED:
            self[code] = shown
        return shown


_SHOWN = _Shown()
_REMEMBERED = 4096
#: Bytes of a name, a key or a value that are kept.
LONGEST = 1024


def safe(wire: bytes | str) -> str:
    r"""Return text that shows as itself: UTF-8 decoded, everything unprintable as ``\xNN`` of its bytes."""
    text = wire if isinstance(wire, str) else wire.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else text.translate(_SHOWN)


def safe_text(data: bytes) -> str:
    """Return bytes as text, cut where they are more than any name or value that a server takes."""
    return safe(data[:LONGEST]) + "…" * (len(data) > LONGEST)


def bytes_of(argument: str) -> bytes:
    """Return the bytes of an argument, which need not be UTF-8, as they were given."""
    return argument.encode("utf-8", "surrogateescape")


def safe_json(text: str) -> str:
    r"""Return JSON text with everything unprintable as ``\uNNNN``: the same JSON, safe to show."""
    if text.isprintable():
        return text
    return "".join(char if category(char) not in _UNSAFE else json.dumps(char)[1:-1] for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8, as surrogateescape keeps it
        return f"\\x{ord(char) - 0xDC00:02x}"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
