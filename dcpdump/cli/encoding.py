"""Plain: what stands in for characters that the encoding of a terminal, or of a locale, does not have.

It is an error handler of Python's codecs, so that output, notes and help all say it alike.
"""

import codecs
import json

#: The name under which ``encode`` and text streams know it.
PLAIN = "dcpdump.plain"

#: Our own characters. Bars are as wide as what they stand for: they are in columns.
_OURS = {
    "→": "->",
    "…": "...",
    "−": "-",
    "·": "|",
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
    **dict(zip("░▒▓", ".:+", strict=True)),
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """It gives what to write instead: of ours a likeness, of a document's characters the escapes that JSON has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_OURS.get(char) or json.dumps(char)[1:-1] for char in lacking), error.end


codecs.register_error(PLAIN, _plain)
