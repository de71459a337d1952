"""Clean text that came through the clipboard. Knows encodings and editors' habits, not the forms of bytes."""

import codecs
import re
from collections.abc import Callable, Iterator
from html import unescape

from dcpdump.startup import lazy_pattern

_ANSI = lazy_pattern(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|\x1b[()][0-9A-Z]")
_BYTES_LITERAL = lazy_pattern(r"(?<![A-Za-z0-9_])b['\"]")
_INVISIBLE = dict.fromkeys([0xFEFF, 0x200B, 0x200C, 0x200D, 0x2060, 0xAD, 0x200E, 0x200F])
_SPACES = dict.fromkeys([160, 5760, *range(8192, 8203), 8239, 8287, 12288], " ")
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("“”„‟″«»＂", '"'),
        **dict.fromkeys("‘’‚‛′‹›＇", "'"),
        **dict.fromkeys("‐‑‒–—−─━┄┅┈┉═", "-"),
        **dict.fromkeys("│┃┆┇┊┋║¦｜", "|"),
        **dict.fromkeys("┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬╭╮╰╯", "+"),
        "：": ":",
        "，": ",",
    }
)


_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decoded(data: bytes) -> str | None:
    """Return the text that ``data`` is, or None when it is not text but the bytes themselves."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    # Text has no NULs and few other control characters; frames and packets are full of them.
    if b"\0" in data or len(data.translate(None, _TEXT_BYTES)) > len(data) // 10:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # A dump's text column may hold another code page; the columns that matter are ASCII.
        return data.decode("latin-1")


_TEXT_BYTES = bytes([7, 8, 9, 10, 11, 12, 13, 27, *range(32, 127), *range(128, 256)])


def cleaned(text: str) -> str:
    """Return ``text`` without what terminals and editors add: colours, carriage returns, odd spaces."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    # In a string with escapes an odd space may be one of the bytes; elsewhere it is the page's.
    # A literal of bytes has none that is not ASCII.
    quoted = ('"' in text or "'" in text) and not _BYTES_LITERAL.search(text)
    escaped = quoted and ("\\x" in text or "\\u" in text or "\\0" in text)
    return text if escaped else _with_plain_spaces(text)


# -- wrappings: each function removes one, or returns the text as it is -------------------------------

_ENTITY = lazy_pattern(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);")
_TAG = lazy_pattern(r"</?(?:pre|code|p|div|span|br|samp|tt|body|html|blockquote|td|tr|table)\b[^<>\n]{0,300}/?>", re.I)
_FENCE = lazy_pattern(r"^[ \t>|*]*(?:(```+|~~~+)[^`\n]*|\{(?:code|noformat)(?::[^}\n]*)?\})[ \t]*$", re.M)
_TICKS = lazy_pattern(r"`{1,2}([^`\n]{8,})`{1,2}")
_PROMPT = lazy_pattern(
    r"^[ \t]*(?:[\w.@~:/\\-]*[$#%] |\[[\w.@~:/ -]{1,80}\][$#%] "
    r"|\$ |PS [^>\n]{0,200}> |[A-Z]:\\[^>\n]{0,200}> ?|\([gl]ldb\) |\(gdb\) |\(rr\) |>>> "
    r"|\.\.\. |In \[\d+\]: |iex\(\d+\)> |irb\([^)\n]{0,40}\)[^>\n]{0,20}[>*] |scala> |jshell> |\d+> |\d+: kd> |kd> )"
)
_ANSWER = lazy_pattern(r"^[ \t]*(?:Out\[\d+\]: |=> |\$\d+ ==> |res\d+: [^=\n]{0,60}= |\$\d+ = )", re.M)
_MARK = lazy_pattern(
    r"[ \t]*(?:>|//[/!]?|\*(?!\*)|#(?![0-9A-Fa-fx$])|;+|--(?=[ \t]|$)|\+(?![-\d]*-)|-(?=[ \t])|!|REM\b)[ \t]?"
)
_ASSEMBLER = lazy_pattern(
    r"^[ \t]*(?:[A-Za-z_]\w*:?[ \t]+)?(?:\.byte|\.db|db|dc\.b|defb|fcb|byte)[ \t]+(?=[-\d$'&%0])", re.I | re.M
)
_NUMBERED = lazy_pattern(r"[ \t]*(\d{1,7})(?:[ \t]*[:.|)│]|\t|(?=[ \t]))[ \t]*")
_BIN_LOG = lazy_pattern(r"^[<>]\d+:? +(?=0x[0-9a-fA-F]{2}\b)|^[<>]\d+:? [A-Z][^\n]{0,200}:$", re.M)


def _with_plain_spaces(text: str) -> str:
    """Return ``text`` with every kind of space as a space, and without invisible marks."""
    return text if text.isascii() else text.translate(_INVISIBLE).translate(_SPACES)


def _without_markup(text: str) -> str:
    """Return ``text`` without HTML tags and entities."""
    if "<" in text:
        text = _TAG.sub("\n", text)
    return _ENTITY.sub(lambda entity: unescape(entity[0]).replace("\xa0", " "), text)


def _without_fences(text: str) -> str:
    """Return what stands inside the code fences of ``text``; the prose around them is dropped."""
    edges = [m.span() for m in _FENCE.finditer(text)]
    if edges:
        ends = [*(start for start, _ in edges[1::2]), len(text)]
        return "\n\n".join(text[after:end].strip("\n") for (_, after), end in zip(edges[::2], ends, strict=False))
    return text


def _without_ticks(text: str) -> str:
    """Return what ``text`` has in inline code."""
    inline = _TICKS.findall(text)
    return "\n".join(inline) if inline else text


def _without_commands(text: str) -> str:
    """Return ``text`` without the command lines above their output, or without the prompts if there is no output."""
    lines = text.split("\n")
    if not any(_PROMPT.match(line) or _ANSWER.match(line) for line in lines):
        return text
    outputs = [_ANSWER.sub("", line) for line in lines if not _PROMPT.match(line)]
    if any(line.strip() for line in outputs):
        return "\n".join(outputs)
    return "\n".join(_PROMPT.sub("", line) for line in lines)


def _without_quotation(text: str) -> str:
    """Return ``text`` without the mark that comments, mail and diffs put before every line."""
    lines = [line for line in text.split("\n") if line.strip() not in ("/*", "/**", "*/", '"""', "'''", "--[[", "]]")]
    marked = [_MARK.match(line) for line in lines]
    if sum(m is not None for m in marked) * 2 <= sum(bool(line.strip()) for line in lines):
        return text
    return "\n".join(line[m.end() :] if m else line for line, m in zip(lines, marked, strict=True))


def without_line_numbers(text: str) -> str:
    """Return ``text`` without line numbers, when every line has the number after the line above's.

    Alone, a line has a number of one digit: two of them may be a byte.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    numbers = [_NUMBERED.match(line) for line in lines]
    if not all(numbers) or (len(lines) == 1 and numbers[0] and len(numbers[0][1]) > 1):
        return text
    values = [int(m[1]) for m in numbers if m]
    if values != [*range(values[0], values[0] + len(values))]:
        return text
    return "\n".join(line[m.end() :] for line, m in zip(lines, numbers, strict=True) if m)


_WRAPPINGS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", _with_plain_spaces),
    ("", lambda text: _BIN_LOG.sub("", text)),  # the ``>28`` that each of memcached's ``-vv`` lines starts with
    ("prose outside the code fence ignored", _without_fences),
    ("HTML removed", _without_markup),
    ("typographic characters read as ASCII", lambda text: text if text.isascii() else text.translate(_CHARACTERS)),
    ("command lines and prompts dropped", _without_commands),
    ("quotation or comment marks dropped", _without_quotation),
    ("assembler directives dropped", lambda text: _ASSEMBLER.sub("", text)),
    ("line numbers dropped", without_line_numbers),
    ("", lambda text: text.replace("\\\n", "\n")),  # a backslash at the end of a line, as a shell does
    ("text outside the inline code ignored", _without_ticks),
)


_LARGE = 1 << 17  # characters: a text this long is not wrapped twice


def views(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the text as it is, then with one wrapping after another removed, and the notes on what was removed."""
    notes: tuple[str, ...] = ()
    yield text, notes
    for _ in range(3 if len(text) < _LARGE else 1):  # a quoted comment in a fence, and no deeper
        before = text
        for note, unwrap in _WRAPPINGS:
            unwrapped = unwrap(text)
            if unwrapped != text and unwrapped.strip():
                text = unwrapped
                notes = notes if not note or note in notes else (*notes, note)
                yield text, notes
        if text == before:
            return
