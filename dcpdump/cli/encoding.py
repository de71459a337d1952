"""Replace characters that the encoding of a terminal, or of a locale, does not have.

This is an error handler of Python's codecs, so that output, notes and help all replace them alike.
"""

import codecs
import json

#: The name under which ``encode`` and text streams know it.
PLAIN = "dcpdump.plain"

#: Our own characters. Replacements of bars have the same width: they are in columns.
_OURS = {
    "→": "->",
    "…": "...",
    "−": "-",
    "·": "|",
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
    **dict(zip("░▒▓", ".:+", strict=True)),
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement: for our own characters similar ones, for a document's characters JSON escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_OURS.get(char) or json.dumps(char)[1:-1] for char in lacking), error.end


codecs.register_error(PLAIN, _plain)
