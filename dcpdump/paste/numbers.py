"""Read a list of digits-only tokens, which may be decimal, octal or hexadecimal.

The reading that begins as a frame does is taken and noted; where that does not decide, the list is refused.
"""

from collections.abc import Sequence

from dcpdump.errors import PasteError
from dcpdump.paste.pasted import begins_frame, is_whole
from dcpdump.spec.header import HEADER_LENGTH


def number_list(tokens: Sequence[str], bracketed: bool) -> tuple[bytes, str, tuple[str, ...]] | None:
    """Return bytes, name and notes of digits-only tokens, or None for plain hex that nothing else explains.

    ``bracketed``: they stand in a list as programs print them, where decimal is usual.
    """
    longest = max(map(len, tokens))
    decimal = bytes_of_decimals(tokens) if longest <= 3 else None
    if longest == 3 and decimal is not None:
        if all(len(t) == 3 for t in tokens) and all(set(t) <= set("01234567") and t < "400" for t in tokens):
            octal = bytes(int(t, 8) for t in tokens)
            if begins_frame(octal) and not begins_frame(decimal):
                return octal, "octal bytes", ()
            if begins_frame(octal) == begins_frame(decimal):
                raise _undecided("octal or decimal", tokens)
        return decimal, "decimal list", ()
    if longest == 3 and all(len(t) == 3 and set(t) <= set("01234567") and t < "400" for t in tokens):
        return bytes(int(t, 8) for t in tokens), "octal bytes", ()
    if longest > 2 or decimal is None:
        return None
    as_hex = bytes(int(t, 16) for t in tokens)
    padded = all(len(t) == 2 for t in tokens)
    if as_hex == decimal:
        return decimal, "decimal list", ()
    if padded and (not bracketed or any(t[0] == "0" for t in tokens)):
        return (
            as_hex,
            "hex pairs" if not bracketed else "hex list",
            (),
        )  # programs do not pad decimals with zeros
    if begins_frame(as_hex) and not begins_frame(decimal):
        return as_hex, "hex list", ("read as hexadecimal: as decimals they would not begin a frame",)
    if begins_frame(decimal) and not begins_frame(as_hex):
        return (
            decimal,
            "decimal list",
            () if not padded else ("read as decimal: as hex it would not begin a frame",),
        )
    if is_whole(decimal) != is_whole(as_hex):
        return (decimal, "decimal list", ()) if is_whole(decimal) else (as_hex, "hex list", ())
    if not padded and begins_frame(decimal) and len(tokens) >= HEADER_LENGTH:
        return decimal, "decimal list", ("read as decimal: programs print unpadded lists so",)
    raise _undecided("decimal or hexadecimal", tokens)


def _undecided(between: str, tokens: Sequence[str]) -> PasteError:
    return PasteError(
        f"these numbers can be {between}, and either way gives other bytes",
        " ".join(tokens[:8]),
        "write hexadecimal with 0x, or paste a hexdump -C",
    )


def bytes_of_decimals(tokens: Sequence[str]) -> bytes | None:
    """Return decimal tokens as bytes, negative ones as signed bytes; None when one is not a byte."""
    values = [int(t) for t in tokens]
    if not all(-128 <= v <= 255 for v in values):
        return None
    return bytes(v & 0xFF for v in values)
