"""Read base64 and base64url, with and without padding, wrapped, in PEM armour or a data: URI.

Almost any word is valid base64, so it counts only when it is not hexadecimal and decodes to the beginning of a frame.
"""

import base64
import binascii
import re

from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.pasted import Pasted, has_header, is_whole

_ARMOUR = lazy_pattern(r"^-----(?:BEGIN|END)[^\n]*$|^[A-Z][\w-]*:[^\n]*$", re.M)
_DATA_URI = lazy_pattern(r"^data:[^,\n]{0,200};base64,", re.I)
_TOKEN = lazy_pattern(r"[A-Za-z0-9+/_-]+={0,2}")
_WRAPPED = lazy_pattern(r"^[ \t>|]*(?:[A-Za-z0-9+/]{60,76}[ \t]*\n[ \t>|]*)+[A-Za-z0-9+/]{1,76}={0,2}(?=[ \t]*$)", re.M)
_HEX = lazy_pattern(r"[0-9a-fA-F]+")


def read_base64_token(text: str) -> bytes | None:
    """Return the frame that one base64 word holds, or None."""
    if len(text) < 32 or not _TOKEN.fullmatch(text) or _HEX.fullmatch(text):
        return None
    body = text.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:
        return None
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except binascii.Error:
        return None
    return data if has_header(data) else None


def with_base64_joined(text: str) -> str:
    """Return ``text`` with wrapped base64 in one line; without it where its lines hold no frame, as those of a key."""
    return _WRAPPED.sub(_joined, text)


def _joined(wrapped: re.Match[str]) -> str:
    lines = re.findall(r"[^\s>|]+", wrapped[0])
    whole = read_base64_token("".join(lines))
    if _HEX.fullmatch(lines[0]):
        return wrapped[0]  # which is of these letters too
    if all(read_base64_token(line) for line in lines) and not (whole and is_whole(whole)):
        return wrapped[0]
    return "".join(lines) if whole else ""


def read_base64(text: str) -> Pasted | None:
    """Return the frame or frames that base64 text holds, or None."""
    body = _ARMOUR.sub("", text) if "-----BEGIN" in text or ": " in text[:200] else text
    body = _DATA_URI.sub("", body.strip())
    lines = body.split("\n")
    first = next((i for i in range(len(lines), 0, -1) if not _TOKEN.fullmatch(lines[i - 1].strip())), 0)
    if 0 < first < len(lines) - 1:
        body = "\n".join(lines[first:])  # a heading stands above the wrapped lines
    words = body.split()
    if not words or not all(_TOKEN.fullmatch(w) for w in words):
        return None
    url = any("-" in w or "_" in w for w in words)
    name = "base64url" if url else "base64"
    each = [read_base64_token(w) for w in words]
    whole = read_base64_token("".join(words))
    parts = tuple(data for data in each if data is not None)
    if len(words) > 1 and len(parts) == len(words):
        wrapped = len({len(w) for w in words[:-1]}) == 1 and len(words[-1]) <= len(words[0])
        if whole is None or not wrapped:
            return Pasted(name, parts)
    return Pasted(name, (whole,)) if whole is not None else None
