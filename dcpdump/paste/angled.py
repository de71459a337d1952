"""Read bytes as an object prints them, ``<80 57 …>`` or ``{length = 24, bytes = 0x8057…}``."""

import re

from dcpdump.paste.pasted import CUT, Pasted, left_out

_ANGLED = re.compile(
    r"<(?:Buffer |SlowBuffer )?(?P<hex>[0-9a-fA-F]{2}(?:[ \n]?[0-9a-fA-F]{2}){3,})"
    r"(?P<cut>[ ]?(?:\.{3}|…)(?:[ ]\d+ more bytes)?)?>"
)
_NSDATA = re.compile(
    r"\{ ?length = (\d{1,9}), bytes = 0x(?:(?=[0-9a-fA-F ]{1,400}\.\.\.)(\S+)|((?:[0-9a-fA-F]{2}[ ]?)+)\})"
)


def read_angled(text: str) -> Pasted | None:
    """Return the bytes of ``<80 57 …>``, as Node prints a Buffer and Foundation an NSData; or None."""
    data = list(_NSDATA.finditer(text))
    if data:
        if any(m[2] for m in data):
            raise left_out(f"of {data[0][1]} bytes")
        return Pasted("NSData", tuple(bytes.fromhex("".join(m[3].split())) for m in data))
    found = list(_ANGLED.finditer(text))
    if not found:
        return None
    notes = (CUT,) if any(m["cut"] for m in found) else ()
    parts = tuple(bytes.fromhex("".join(m["hex"].split())) for m in found)
    return Pasted("<Buffer …>" if "Buffer" in text else "<hex>", parts, notes)
