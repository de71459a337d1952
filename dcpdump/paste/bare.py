"""Read bare digits: bytes, groups or words of hexadecimal, one run or many lines of it, and lists of decimals.

What is half a byte, and what may be byte-swapped, is refused with the place where it stands.
"""

import re
from collections.abc import Sequence

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.numbers import bytes_of_decimals, number_list
from dcpdump.paste.pasted import Pasted, begins_frame, has_header, is_whole, odd_digits
from dcpdump.spec.header import HEADER_LENGTH

_BREAKS = lazy_pattern(r"[\s,;:._/|+~-]+")
_SIGNED = lazy_pattern(r"[-+]?\d{1,3}(?:[\s,;]+[-+]?\d{1,3})*[\s,;]*")
_BITS = lazy_pattern(r"[01]{8}")
_HEX_TOKEN = lazy_pattern(r"(?:0[xX])?[0-9a-fA-F]+")


def read_bare(text: str, notes: tuple[str, ...]) -> Pasted | None:
    """Return the bytes of digits and separators without any prefix that says their base, or None."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if re.search(r"(?<![0-9A-Fa-f])-\d", text) and _SIGNED.fullmatch(text):
        data = bytes_of_decimals([t for t in re.split(r"[\s,;]+", text) if t])
        return Pasted("decimal list", (data,), notes) if data else None
    split = [[t for t in _BREAKS.split(line) if t] for line in lines]
    tokens = [t for line in split for t in line]
    if len(tokens) >= HEADER_LENGTH and all(map(_BITS.fullmatch, tokens)):
        bits = bytes(int(t, 2) for t in tokens)
        if begins_frame(bits):
            return Pasted("bits", (bits,), notes)
    if not tokens or not all(_HEX_TOKEN.fullmatch(t) for t in tokens):
        return None
    numbered = _numbered(split)
    if numbered is not None:
        split, notes = numbered, (*notes, "line numbers dropped")
        tokens = [t for line in split for t in line]
    prefixed = [t for t in tokens if t[:2] in ("0x", "0X")]
    if len(prefixed) > 1 and len(prefixed) == len(tokens) and max(map(len, tokens)) > 4:
        return Pasted("0x words", (_words(tokens),), (*notes, "the words are read in the order that they are written"))
    bare = [[t[2:] if t[:2] in ("0x", "0X") else t for t in line] for line in split]
    if not prefixed and len(tokens) > 1 and "".join(tokens).isdecimal():
        decided = number_list(tokens, bracketed="," in text)
        if decided is not None:
            data, name, note = decided
            return Pasted(name, (data,), (*notes, *note))
    parts = _lines_of_hex(bare, lines)
    return Pasted(_hex_name(text, tokens), parts, notes)


def _numbered(split: list[list[str]]) -> list[list[str]] | None:
    """Return the lines without their numbers, when each begins with the number after the line above's; or None."""
    longest = 6 if len(split) > 1 else 1  # digits: alone, two of them are a byte
    if not all(len(line) > 1 and line[0].isdecimal() and len(line[0]) <= longest for line in split):
        return None
    first = int(split[0][0])
    if [int(line[0]) for line in split] != list(range(first, first + len(split))):
        return None
    if begins_frame(_leading(split[0])) or not begins_frame(_leading(split[0][1:])):
        return None
    return [line[1:] for line in split]


def _leading(tokens: Sequence[str]) -> bytes:
    digits = tokens[0].removeprefix("0x")
    return bytes([int(digits[:2], 16)])


def _lines_of_hex(split: list[list[str]], lines: list[str]) -> tuple[bytes, ...]:
    if len(split) > 1 and all(len(line) > 1 for line in split):
        firsts, others = {len(line[0]) for line in split}, {len(t) for line in split for t in line[1:]}
        if len(firsts) == 1 and others == {2} and min(firsts) > 2:
            raise PasteError(
                "the first column looks like offsets, but they do not follow one another",
                f"line 1: {lines[0][:40]!r}",
                "paste the dump whole, or without the column",
            )
    contiguous = all(len(line) == 1 for line in split)
    rows: list[str] = []
    for line, shown in zip(split, lines, strict=True):
        odd = [t for t in line if len(t) % 2]
        if odd and not contiguous:
            if max(map(len, line)) > 2:
                raise odd_digits(odd[0], f"line {lines.index(shown) + 1}: {shown[:40]!r}")
            line = [t.zfill(2) for t in line]  # single digits stand alone: "80 57 0 5"
        rows.append("".join(line))
    joined = "".join(rows)
    if len(joined) % 2:
        where = next((i for i, r in enumerate(rows) if len(r) % 2), 0)
        raise odd_digits(rows[where][-24:], f"{len(joined)} digits in all; line {where + 1} ends so")
    data = bytes.fromhex(joined)
    first_words = split[0]
    if len(first_words) > 3 and len({len(t) for t in first_words[:-1]}) == 1 and len(first_words[0]) in (4, 8, 16):
        swapped = bytes.fromhex(first_words[0])[::-1]
        if begins_frame(swapped) and not begins_frame(data):
            raise PasteError(
                f"these {4 * len(first_words[0])}-bit words look byte-swapped: {first_words[0]} would begin a frame "
                "the other way round",
                "line 1",
                "paste single bytes: hexdump -C FILE, or xxd FILE",
            )
    if any(len(r) % 2 for r in rows):
        return (data,)
    return _separate_frames([bytes.fromhex(r) for r in rows])


def _separate_frames(rows: list[bytes]) -> tuple[bytes, ...]:
    """Return lines as parts: one each when every line is a frame, else one run that was wrapped."""
    if len(rows) > 1 and all(map(has_header, rows)):
        wrapped = len({len(r) for r in rows[:-1]}) == 1 and len(rows[-1]) <= len(rows[0])
        if not wrapped or is_whole(rows[0]):
            return tuple(rows)
    return (b"".join(rows),)


def _words(tokens: list[str]) -> bytes:
    digits = [t[2:] for t in tokens]
    odd = next((t for t in digits if len(t) % 2), None)
    if odd:
        raise odd_digits(odd, f"in 0x{odd}")
    plain = bytes.fromhex("".join(digits))
    if begins_frame(bytes.fromhex(digits[0])[::-1]) or not begins_frame(plain):
        raise PasteError(
            f"{tokens[0]} is wider than a byte: these words may be byte-swapped, and the paste does not say",
            "",
            "print single bytes: hexdump -C FILE, or gdb's x/64xb",
        )
    return plain


def _hex_name(text: str, tokens: list[str]) -> str:
    if len(tokens) == 1:
        return "hex" if tokens[0][:2].lower() != "0x" else "0x hex"
    for separator, name in ((":", "colon"), ("-", "dash"), (".", "dot"), ("_", "underscore"), (",", "comma")):
        if separator in text:
            return f"{name}-separated hex"
    if all(len(t) <= 2 for t in tokens):
        return "hex pairs"
    return "hex" if text.count("\n") >= len(tokens) - 1 else "hex groups"
