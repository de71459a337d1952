"""Read the bytes in what people copy out of terminals, logs, debuggers, source code and documents.

Begin with ``read_paste``: each form in ``FORMATS`` reads the complete text or declines. Before that, ``clipboard``
removes quotes, prompts, line numbers and markup around the text. ``dumps`` reads rows behind offsets, ``packet_dumps``
what has TCP/IP headers around it, ``encodings`` numbers, base64 and percent encoding, ``literals`` lists and strings of
source code; ``logs`` searches for bytes in lines of other text. ``pasted`` has the result, and the refusals.

Nothing is guessed: a text that can be read in two ways is refused with the reason and a way out; bytes are never added,
moved or dropped silently. Imports ``net``, for the packets, and ``wire`` for headers that are printed as fields.
"""

from collections.abc import Callable
from itertools import tee

from dcpdump.errors import PasteError
from dcpdump.paste.clipboard import cleaned, decoded, views
from dcpdump.paste.dumps import read_characters, read_dump, read_grid, read_table, read_text_column
from dcpdump.paste.encodings import read_base64, read_digits, read_percent, read_quoted_printable
from dcpdump.paste.literals import read_angled, read_literal
from dcpdump.paste.logs import read_fields, read_log, read_prefixed
from dcpdump.paste.packet_dumps import TCPDUMP, read_packet_json, without_packets
from dcpdump.paste.pasted import EXAMPLE, LIMIT, NAME, Pasted, refuse_files, refuse_odd

Format = Callable[[str], Pasted | None]

#: Those that read the complete text or decline with None, most specific first: the first that reads it wins. One that
#: recognises a form which cannot be read without guessing raises PasteError, and no later format is asked.
FORMATS: dict[str, Format] = {
    "fields": read_fields,
    "grid": read_grid,
    "table": read_table,
    "packets": read_packet_json,
    "dump": read_dump,
    "characters": read_characters,
    "columns": read_text_column,
    "hex": read_digits,
    "base64": read_base64,
    "url": read_percent,
    "quoted-printable": read_quoted_printable,
    "angled": read_angled,
    "literal": read_literal,
}

#: Those that search for bytes among other text: tried when none above reads the text in any wrapping.
SEARCHES: dict[str, Format] = {"prefixed": read_prefixed, "log": read_log}

__all__ = ["DIALECTS", "LIMIT", "NAME", "Pasted", "read_paste"]

RAW = "raw"

#: The names that ``dialect`` may take.
DIALECTS: tuple[str, ...] = (*FORMATS, *SEARCHES, RAW)


def read_paste(text: str | bytes, dialect: str | None = None) -> Pasted:
    """Return the bytes of a paste, in any form or in that of ``dialect``; raise PasteError."""
    if dialect is not None and dialect not in DIALECTS:
        raise PasteError(f"no such form: {dialect!r}", hint=f"one of {', '.join(DIALECTS)}")
    if isinstance(text, bytes):
        if dialect is None:
            refuse_files(text)
        if len(text) > LIMIT:
            raise PasteError(f"more than {LIMIT >> 20} MiB are not a paste", "", f"head -c 1M {NAME} | dcpdump explain")
    elif dialect == RAW:
        text = text.encode("latin-1", "replace")
    if isinstance(text, bytes):
        plain = None if dialect == RAW else decoded(text)
        if text and plain is None:
            return without_packets(Pasted("raw bytes", (text,)))
        text = plain or ""
    page = cleaned(text)
    if not page.strip():
        raise PasteError("there is nothing to read: the paste is empty", hint=EXAMPLE)
    once, again = tee(views(page))
    for forms, wrapped in ((FORMATS, once), (SEARCHES, again)):
        asked = [read for name, read in forms.items() if dialect in (None, name)]
        for view, notes in wrapped:
            for read in asked:
                if pasted := read(view):
                    return without_packets(pasted.noted(*notes), heading=view)
    if dialect is None:
        refuse_odd(page)
    raise PasteError(*_nothing(page, dialect))


def _nothing(page: str, dialect: str | None) -> tuple[str, str, str]:
    """Return what, where and hint for a text that holds no bytes."""
    first = next(line.strip() for line in page.split("\n") if line.strip())
    where = f"it begins {first[:48]!r}"
    if dialect is not None:
        return f"this cannot be read as {dialect}", where, "leave the form out, and it is found"
    if "[B@" in page or "[object " in page or "ByteBuf(" in page or "HeapByteBuffer[" in page:
        return (
            "this is the name of an object, not its bytes",
            where,
            "print the content: Arrays.toString(bytes), ByteBufUtil.hexDump(buf)",
        )
    if TCPDUMP.search(page):
        what = "tcpdump printed these packets without their bytes: -A shows as dots what is no text"
        return what, where, "print them with tcpdump -X, or save them with -w and use dcpdump read"
    return "no bytes found in this text", where, EXAMPLE
