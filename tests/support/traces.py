"""Search outputs for a text that must not be in them, in any spelling."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache

_CELLS = re.compile(r"\b0x([0-9a-fA-F]{2})\b")
_NUMBERS = re.compile(r"\d+")


@cache
def spellings(text: bytes) -> tuple[str, ...]:
    """Return bytes in every way that an output might write them."""
    return tuple(dict.fromkeys(_spelled(text)))


def _spelled(text: bytes) -> Iterator[str]:
    """Yield bytes in hex, base64 (at any of its three phases), UTF-16 and escapes."""
    plain = text.decode("latin-1")
    yield plain
    yield text.hex()
    yield text.hex(" ")
    yield "".join(f"\\x{byte:02x}" for byte in text)
    yield "".join(f"\\{byte:03o}" for byte in text)
    for wide in (text.decode("latin-1").encode("utf-16-le"), text.decode("latin-1").encode("utf-16-be")):
        yield wide.hex()
        yield wide.decode("latin-1")
        yield wide.decode("latin-1").replace("\0", "\\x00")
    for phase in range(3):
        cut = b64encode(bytes(phase) + text)[-(-8 * phase // 6) :].rstrip(b"=")[:-1]
        if len(cut) >= 4:
            yield cut.decode()


def traces(output: str, secrets: Iterable[bytes], *, window: int = 4) -> set[str]:
    """Return the pieces of ``secrets``, of ``window`` bytes, that are in an output in some spelling."""
    lower = output.lower()
    cells = "".join(_CELLS.findall(output)).lower()
    numbers = set(_NUMBERS.findall(output))
    found: set[str] = set()
    for secret in secrets:
        for at in range(len(secret) - window + 1):
            piece = secret[at : at + window]
            for spelling in spellings(piece):
                # Short base64 and hex digits occur by chance in other case; those are compared as they are printed.
                if spelling in output or (spelling == piece.hex() and (spelling in lower or spelling in cells)):
                    found.add(f"{piece!r} as {spelling}")
            for width in (4, 8):
                number = secret[at : at + width]
                if len(number) == width and str(int.from_bytes(number, "big")) in numbers:
                    found.add(f"{number!r} as a number")
    return found
