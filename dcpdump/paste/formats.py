"""List the formats of pasted bytes, most specific first.

A format reads the text wholly or declines with None; the first that reads it wins. One that recognises a form which
cannot be read without guessing raises PasteError, and no later format is asked.
"""

from collections.abc import Callable
from typing import NamedTuple

from dcpdump.paste.base64_text import read_base64
from dcpdump.paste.characters import read_characters, read_text_column
from dcpdump.paste.digits import read_digits
from dcpdump.paste.dumps import read_dump
from dcpdump.paste.grids import read_grid, read_table
from dcpdump.paste.literals import read_angled, read_literal
from dcpdump.paste.logs import read_log, read_prefixed
from dcpdump.paste.packets import read_packet_json
from dcpdump.paste.pasted import Pasted
from dcpdump.paste.urls import read_percent, read_quoted_printable


class Format(NamedTuple):
    """A format of pasted bytes, and the function that reads it."""

    name: str  # what --form takes
    read: Callable[[str], Pasted | None]


#: Those that read the whole text.
FORMATS: tuple[Format, ...] = (
    Format("grid", read_grid),
    Format("table", read_table),
    Format("packets", read_packet_json),
    Format("dump", read_dump),
    Format("characters", read_characters),
    Format("columns", read_text_column),
    Format("hex", read_digits),
    Format("base64", read_base64),
    Format("url", read_percent),
    Format("quoted-printable", read_quoted_printable),
    Format("angled", read_angled),
    Format("literal", read_literal),
)

#: Those that search for bytes among other text: tried when none above reads the text in any wrapping.
SEARCHES: tuple[Format, ...] = (
    Format("prefixed", read_prefixed),
    Format("log", read_log),
)
