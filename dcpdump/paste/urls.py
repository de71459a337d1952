"""Read percent encoding and quoted-printable: text in which most bytes stand for themselves."""

from quopri import decodestring
from urllib.parse import unquote_to_bytes

from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.pasted import Pasted, begins_frame

_PERCENT = lazy_pattern(r"(?:%[0-9a-fA-F]{2}|[A-Za-z0-9_.~!*'()+$,;:@&=/?-])+")
_QUOTED = lazy_pattern(r"(?:=[0-9A-Fa-f]{2}|=\n|[!-<>-~ \t])+")


def read_percent(text: str) -> Pasted | None:
    """Return the frame in a percent-encoded value, or None."""
    body = "".join(text.split())
    if body[:1] != "%" or not _PERCENT.fullmatch(body):
        return None
    plus = "+" in body and "%20" not in body and "%2B" in body.upper()
    data = unquote_to_bytes(body.replace("+", " ") if plus else body)
    return Pasted("percent-encoded", (data,)) if begins_frame(data) else None


def read_quoted_printable(text: str) -> Pasted | None:
    """Return the frame in quoted-printable text, or None."""
    body = text.strip()
    if body[:1] != "=" or not _QUOTED.fullmatch(body):
        return None
    data = decodestring(body)
    return Pasted("quoted-printable", (data,)) if begins_frame(data) else None
