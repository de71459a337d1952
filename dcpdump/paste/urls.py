"""Read percent encoding and quoted-printable: text in which most bytes stand for themselves."""

import re

from dcpdump.paste.pasted import Pasted, begins_frame

_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2}|[A-Za-z0-9_.~!*'()+$,;:@&=/?-])+")
_QUOTED = re.compile(r"(?:=[0-9A-Fa-f]{2}|=\n|[!-<>-~ \t])+")


def read_percent(text: str) -> Pasted | None:
    """Return the frame in a percent-encoded value, or None."""
    body = "".join(text.split())
    if body[:1] != "%" or not _PERCENT.fullmatch(body):
        return None
    plus = "+" in body and "%20" not in body and "%2B" in body.upper()
    data = _decoded(body.replace("+", " ") if plus else body, "%")
    return Pasted("percent-encoded", (data,)) if begins_frame(data) else None


def read_quoted_printable(text: str) -> Pasted | None:
    """Return the frame in quoted-printable text, or None."""
    body = text.strip()
    if body[:1] != "=" or not _QUOTED.fullmatch(body):
        return None
    data = _decoded(body.replace("=\n", ""), "=")
    return Pasted("quoted-printable", (data,)) if begins_frame(data) else None


def _decoded(body: str, mark: str) -> bytes:
    first, *rest = body.split(mark)
    return first.encode() + b"".join(bytes([int(r[:2], 16)]) + r[2:].encode() for r in rest)
