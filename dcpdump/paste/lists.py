"""Read bytes as numbers, characters or one-byte strings in brackets, as any language writes or prints them."""

import re
from typing import NamedTuple

from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.escapes import Digits, unescape
from dcpdump.paste.numbers import number_list
from dcpdump.paste.pasted import CUT, LIMIT, Pasted, has_header, left_out
from dcpdump.paste.tokens import Token, language, quoted
from dcpdump.plural import counted


class _List(NamedTuple):
    data: bytes
    name: str
    notes: tuple[str, ...]


def read_lists(tokens: list[Token]) -> Pasted | None:
    """Return the bytes of the lists among ``tokens``: those that begin as frames do, else the long ones, or the only
    one.
    """
    found: list[_List] = []
    stack: list[tuple[int, bool]] = []  # where a bracket opened, and whether it holds more than indexes
    for index, token in enumerate(tokens):
        if token.kind == "open":
            stack.append((index, False))
        elif token.kind == "close" and stack:
            start, nested = stack.pop()
            if index - start > 3:
                numbers = None if nested else _list_of(tokens[start + 1 : index], binary=tokens[start].text == "<<")
                if numbers is not None:
                    found.append(numbers)
                if stack:
                    stack[-1] = (stack[-1][0], True)
            elif nested and stack:
                stack[-1] = (stack[-1][0], True)
    large = [f for f in found if has_header(f.data)]
    large = large or [f for f in found if len(f.data) >= 8]
    chosen = large or (found if len(found) == 1 else [])
    if not chosen:
        return None
    notes = tuple(dict.fromkeys(note for f in chosen for note in f.notes))
    return Pasted(language(tokens, chosen[0].name), tuple(f.data for f in chosen), notes)


_NUMBER = lazy_pattern(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F_]+?)|0[bB](?P<bits>[01_]+)|0o(?P<octal>[0-7_]+)|16\#(?P<radix>[0-9a-fA-F]+)"
    r"|2\#(?P<radix2>[01]+)|(?:&[hH]|\#?\$|\#[xX])(?P<basic>[0-9a-fA-F]+)|(?P<suffixed>[0-9][0-9a-fA-F]*)[hH]|(?P<plain>[0-9]+)|(?P<bare>[0-9a-fA-F]+))"
    r"#?(?:\.toU?Byte(?:\(\))?|_?[ui](?:8|16|32|64|128|size)|uy|[uU]?[lLyY]{0,2})"
)
_BASES = (("hex", 16), ("bits", 2), ("octal", 8), ("radix", 16), ("radix2", 2), ("basic", 16), ("suffixed", 16))
_HEX_WORD = lazy_pattern(r"[0-9a-fA-F]{1,2}")
_PAIR = lazy_pattern(r"[0-9a-fA-F]{2}")


def _list_of(inside: list[Token], binary: bool) -> _List | None:
    """Return the bytes of one bracket's content, or None when it is not a list of bytes."""
    if any(t.kind in ("open", "close") for t in inside):
        inside = _without_indexes(inside)
        if any(t.kind in ("open", "close") for t in inside):
            return None
    inside, notes, cut = _without_cut(inside)
    elements = _elements(inside)
    if elements is None or len(elements) < 2 or cut is None:
        return None
    if all(len(e) == 1 and e[0].kind in ("number", "word") for e in elements):
        plain = _plain_numbers([e[0].text for e in elements])
        if plain is not None:
            return _List(plain.data, plain.name, (*notes, *plain.notes))
    texts = [quoted(e[0].text).body for e in elements if e[0].kind == "string"] if all(elements) else []
    if len({len(text) for text in texts if text[:2] != "0x"}) > 1 and any(map(_PAIR.fullmatch, texts)):
        return None  # pairs of digits, and something else
    data = bytearray()
    for element in elements:
        value = _element(element)
        if value is None or (element[0].kind == "string" and len(value) != 1 and not binary and len(element) == 1):
            return None
        data += value
        if len(data) > LIMIT:
            return None
    return _List(bytes(data), "byte list", notes)


def _without_cut(inside: list[Token]) -> tuple[list[Token], tuple[str, ...], bool | None]:
    """Return the tokens before an ellipsis, notes, and whether there was one (None: it is the language's own)."""
    at = next((i for i, t in enumerate(inside) if t.kind == "ellipsis"), None)
    if at is None:
        return inside, (), False
    rest = [t for t in inside[at + 1 :] if t.text != ","]
    if any(t.kind == "number" for t in rest) and not any(t.text == "more" for t in rest):
        if any(t.kind not in ("number", "ellipsis") and t.text != "," for t in inside):
            return inside, (), None
        raise left_out(f"after {counted(sum(t.kind == 'number' for t in inside[:at]), 'number')}")
    return inside[:at], (CUT,), True


def _without_indexes(inside: list[Token]) -> list[Token]:
    """Return ``[0] = 128, [1] = 87`` as ``128, 87``: the indexes must count up by one."""
    kept: list[Token] = []
    expected: int | None = None
    position = 0
    while position < len(inside):
        window = [t.text for t in inside[position : position + 4]]
        if (
            len(window) == 4
            and window[0] == "["
            and window[2] == "]"
            and window[3] in ("=", "=>")
            and window[1].isdecimal()
        ):
            index = int(window[1])
            if expected is not None and index != expected:
                return inside
            expected = index + 1
            if kept and kept[-1].text != ",":
                kept.append(Token("other", ","))
            position += 4
            continue
        kept.append(inside[position])
        position += 1
    # var_dump's int(128)
    plain = [t for t in kept if not (t.kind in ("open", "close") and t.text in "()") and t.text != "int"]
    return plain if expected is not None else kept


def _elements(inside: list[Token]) -> list[list[Token]] | None:
    """Return the tokens of each element: separated by commas, or by blanks where there are no commas."""
    if not any(t.text in (",", ";") for t in inside):
        if any(t.kind not in ("number", "word", "string", "repeats") for t in inside):
            return None
        elements: list[list[Token]] = []
        for token in inside:
            if token.kind == "repeats" or (token.kind == "string" and elements and elements[-1][-1].kind == "number"):
                if not elements:
                    return None
                elements[-1].append(token)
            else:
                elements.append([token])
        return elements
    elements = [[]]
    for token in inside:
        if token.text in (",", ";"):
            elements.append([])
        else:
            elements[-1].append(token)
    if not elements[-1]:
        elements.pop()
    keyed = [
        e for e in elements if len(e) >= 3 and e[1].text in (":", "=>", "->") and e[0].text.strip("\"'").isdecimal()
    ]
    if keyed and len(keyed) == len(elements) and elements[0][0].text.strip("\"'") in ("0", "1"):
        keys = [int(e[0].text.strip("\"'")[:9]) for e in elements]
        if keys == list(range(keys[0], keys[0] + len(keys))) and (keyed[0][0].kind == "string" or len(keys) > 3):
            return [e[2:] for e in elements]
    return elements


def _plain_numbers(texts: list[str]) -> _List | None:
    """Read numbers without a prefix, which may be decimal or, as Rust prints them, hexadecimal; or return None."""
    if all(t.isdecimal() for t in texts):
        if max(map(len, texts)) > 3:
            return None
        decided = number_list(texts, bracketed=True)
        return _List(*decided) if decided else None
    if all(_HEX_WORD.fullmatch(t) for t in texts) and sum(t[0].isdecimal() for t in texts) * 4 >= len(texts):
        return _List(bytes(int(t, 16) for t in texts), "hex list", ())
    return None


def _element(element: list[Token]) -> bytes | None:
    """Return the bytes of one element of a list, or None."""
    if not element:
        return None
    head, rest = element[0], element[1:]
    times = 1
    if rest and rest[-1].kind == "repeats":
        times = int(re.sub(r"\D", "", rest[-1].text)[:9])
        if times > LIMIT:
            return None
        rest = rest[:-1]
    if head.kind == "string":
        if rest:
            return None
        string = quoted(head.text)
        body = string.body
        if _HEX_WORD.fullmatch(body.removeprefix("0x")) and (len(body) == 2 or body[:2] == "0x"):
            return bytes([int(body, 16)]) * times
        if len(body) * times > LIMIT:
            return None
        rust = string.prefix == "b"
        data = unescape(body, single=string.single, rust=rust, digits=None if rust else Digits.OCTAL)
        return None if data is None else data * times
    if head.kind != "number":
        return None
    if rest and rest[0].kind == "string" and len(rest) == 1:
        rest = []  # gdb prints 128 '\200'
    value = _number(head.text)
    if value is None:
        return None
    if len(rest) == 2 and rest[0].text == ":" and rest[1].text.isdecimal():
        bits = int(rest[1].text[:6])  # Erlang's 5:16
        if bits % 8 or not 0 < bits <= 4096 or value < 0 or value >> bits:
            return None
        return value.to_bytes(bits // 8, "big")
    if rest or not -128 <= value <= 255:
        return None
    return bytes([value & 0xFF]) * times


def _number(text: str) -> int | None:
    """Return the value of a number in any language's spelling; None where its base is not known."""
    shape = _NUMBER.fullmatch(text)
    if not shape:
        return None
    sign = -1 if shape["sign"] == "-" else 1
    for group, base in _BASES:
        if shape[group]:
            return sign * int(shape[group][:4400].replace("_", "") or "0", base)
    return sign * int(shape["plain"]) if shape["plain"] and len(shape["plain"]) < 40 else None
